//! The response that follows the result of a tool whose work has gone on: in the same conversation, with the result as its
//! input.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::spec::JobSpec;
use crate::engine::Engine;
use crate::engine::context::RunContext;
use crate::engine::prepare::PreparedRun;
use crate::identity::Owner;
use crate::protocol::error::{ApiError, ErrorKind};
use crate::protocol::request::CreateResponse;
use crate::response::seal::SealKeys;
use crate::store::IdempotencyKey;
use crate::util::digest::sha256;

/// What it takes to make it, sealed: the request without its input, and who sent the one before.
pub(in crate::engine) fn spec(
    keys: &SealKeys,
    prepared: &PreparedRun,
    caller: &RunContext,
) -> Option<Arc<[u8]>> {
    let echo = &prepared.response.echo;
    let mut request = Map::new();
    request.insert("model".to_owned(), echo.model.clone().into());
    request.insert("background".to_owned(), true.into());
    match &echo.conversation {
        Some(conversation) => request.insert("conversation".to_owned(), conversation.id.clone().into()),
        None => {
            request.insert("previous_response_id".to_owned(), prepared.response.id.as_str().to_owned().into())
        }
    };
    for (name, value) in [
        ("tools", serde_json::from_str(echo.tools.get()).ok()),
        ("metadata", serde_json::from_str(echo.metadata.get()).ok()),
        ("instructions", echo.instructions.clone().map(Value::from)),
        ("agent", echo.agent.clone().map(Value::from)),
        ("prompt", serde_json::to_value(&echo.prompt).ok()),
        ("user", echo.user.clone().map(Value::from)),
        ("safety_identifier", echo.safety_identifier.clone().map(Value::from)),
        ("parallel_tool_calls", Some(echo.parallel_tool_calls.into())),
        ("truncation", serde_json::to_value(echo.truncation).ok()),
    ] {
        request.extend(value.filter(|value| !value.is_null()).map(|value| (name.to_owned(), value)));
    }
    JobSpec::new(Value::Object(request).to_string(), caller).seal(keys, &prepared.owner.tenant)
}

/// A result of a tool whose work has gone on, as the model is told of it.
pub(in crate::engine) struct Announced {
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

impl Engine {
    /// Queues the response that follows a result, once for each key. `is_paused`: the response of the call waits for its
    /// client, so that whoever answers continues it, and another response beside that would be read by nobody.
    ///
    /// # Errors
    /// `response_awaits_client` if that is so, or why the request is refused.
    pub(in crate::engine) async fn submit_follow_up(
        self: &Arc<Self>,
        sealed: &[u8],
        owner: &Owner,
        key: String,
        (result, is_paused): (Announced, bool),
    ) -> Result<(), ApiError> {
        let spec = JobSpec::open(&self.parts.seal, &owner.tenant, sealed).ok_or_else(ApiError::internal)?;
        let mut request: Map<String, Value> =
            serde_json::from_str(spec.text()).map_err(|_| ApiError::internal())?;
        // Its client may have answered in the conversation meanwhile.
        let is_in_conversation = request.contains_key("conversation");
        if is_paused && !is_in_conversation {
            return Err(awaits_client());
        }
        request.insert("input".to_owned(), result.input(is_in_conversation));
        let text = Value::Object(request).to_string();
        // Of the call alone: what else is told depends on when.
        let fingerprint = sha256(key.as_bytes());
        let key = IdempotencyKey { key: key.into(), fingerprint };
        let request = CreateResponse::parse(text.as_bytes())?;
        match self.submit(request, text, spec.caller(owner.clone()), Some(key)).await {
            Err(error) if matches!(error.code(), "tool_output_not_found" | "approval_response_not_found") => {
                Err(awaits_client())
            }
            submitted => submitted.map(drop),
        }
    }
}

/// The code of a response that cannot be followed, as its calls wait for the client.
pub(in crate::engine) const AWAITS_CLIENT: &str = "response_awaits_client";

fn awaits_client() -> ApiError {
    ApiError::new(ErrorKind::InvalidRequest, "The response has calls that wait for its client.")
        .with_code(AWAITS_CLIENT)
}
