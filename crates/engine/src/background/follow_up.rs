//! The response that follows the result of a tool whose work has gone on: in the same conversation, with the result as its
//! input.

use std::sync::Arc;

use serde_json::{Value, json};

use super::spec::JobSpec;
use super::{asker, submit};
use crate::chain::{Chain, Step};
use crate::context::{EngineParts, RunContext};
use crate::follow::RESPONSE_DELETED;
use antwort_identity::Owner;
use antwort_limits::run_on_bytes;
use antwort_protocol::error::{ApiError, ErrorKind};
use antwort_protocol::request::{Continuation, CreateResponse, RequestSizeLimits};
use antwort_store::IdempotencyKey;
use antwort_util::digest::sha256;

/// A result of a tool whose work has gone on, as the model is told of it.
pub(crate) struct Announced {
    /// The result.
    pub text: String,
    /// Those of the same response that are there already.
    pub others: Vec<String>,
}

impl Announced {
    /// The input of the response that follows. In a conversation the other results are told by the responses that follow
    /// these; a response that continues the first one reads nothing of its siblings.
    fn input(self, is_in_conversation: bool) -> Value {
        let Self { text, others } = self;
        if is_in_conversation || others.is_empty() {
            return json!([{"role": "user", "content": text}]);
        }
        let part = |text: String| json!({"type": "input_text", "text": text});
        let parts: Vec<_> = others.into_iter().chain([text]).map(part).collect();
        json!([{"role": "user", "content": parts}])
    }
}

/// Queues the response that follows a result, once for each key. `step`: the response of the call. `is_paused`: it waits for
/// its client, so that whoever answers continues it, and another response beside that would be read by nobody.
///
/// # Errors
/// `response_awaits_client` if that is so, or why the request is refused.
pub(crate) async fn submit_follow_up(
    parts: &Arc<EngineParts>,
    (sealed, step): (&[u8], Step),
    owner: &Owner,
    key: String,
    (result, is_paused): (Announced, bool),
) -> Result<(), ApiError> {
    let spec = run_on_bytes(sealed.len(), || JobSpec::open(&parts.seal, &owner.tenant, sealed));
    let spec = spec.ok_or_else(ApiError::internal)?;
    // Its client may have answered in the conversation meanwhile.
    let request = Continuation::read(spec.text())?;
    let is_in_conversation = request.is_in_conversation();
    if is_paused && !is_in_conversation {
        return Err(awaits_client());
    }
    asker::check_asker(parts, &spec, owner)?;
    let text = request.with_input(&result.input(is_in_conversation));
    // Of the call alone: what else is told depends on when.
    let fingerprint = sha256(key.as_bytes());
    let key = IdempotencyKey { key: key.into(), fingerprint };
    let parse = || CreateResponse::parse_with_limits(text.as_bytes(), RequestSizeLimits::UNLIMITED);
    let request = run_on_bytes(text.len(), parse)?;
    let chain = Some(Arc::new(Chain::then(spec.chain(), step)));
    let caller = RunContext { chain, ..spec.caller(owner.clone()) };
    match submit::submit(parts, request, text, caller, Some(key)).await {
        Err(error) if matches!(error.code(), "tool_output_not_found" | "approval_response_not_found") => {
            Err(awaits_client())
        }
        // It was made before, and its owner has deleted it.
        Err(error) if error.code() == RESPONSE_DELETED => Ok(()),
        submitted => submitted.map(drop),
    }
}

/// The code of a response that cannot be followed, as its calls wait for the client.
pub(crate) const AWAITS_CLIENT: &str = "response_awaits_client";

fn awaits_client() -> ApiError {
    ApiError::new(ErrorKind::InvalidRequest, "The response has calls that wait for its client.")
        .with_code(AWAITS_CLIENT)
}
