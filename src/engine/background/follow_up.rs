//! The response that follows the result of a tool whose work has gone on: in the same conversation, with the result as its
//! input.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::spec::JobSpec;
use crate::engine::Engine;
use crate::engine::context::RunContext;
use crate::engine::prepare::PreparedRun;
use crate::identity::Owner;
use crate::protocol::error::ApiError;
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

impl Engine {
    /// Queues the response that follows a result, once for each key.
    pub(in crate::engine) async fn submit_follow_up(
        self: &Arc<Self>,
        sealed: &[u8],
        owner: &Owner,
        key: String,
        input: &str,
    ) -> Result<(), ApiError> {
        let spec = JobSpec::open(&self.parts.seal, &owner.tenant, sealed).ok_or_else(ApiError::internal)?;
        let mut request: Map<String, Value> =
            serde_json::from_str(spec.text()).map_err(|_| ApiError::internal())?;
        request.insert("input".to_owned(), json!([{"role": "user", "content": input}]));
        let text = Value::Object(request).to_string();
        let key = IdempotencyKey { key: key.into(), fingerprint: sha256(text.as_bytes()) };
        let request = CreateResponse::parse(text.as_bytes())?;
        self.submit(request, text, spec.caller(owner.clone()), Some(key)).await.map(drop)
    }
}
