//! Answers to the questions of the response in progress: messages `antwort:input`, which do not wait for their turn.

use std::sync::Arc;

use serde::Serialize;

use super::turn::{QueuedMessage, TurnContext, authorize, read};
use antwort_protocol::error::{ApiError, ErrorBody, ErrorKind};
use antwort_protocol::request::MessageContent;

/// What becomes of an answer. No message of type `error`, which would end the request in progress.
#[derive(Serialize)]
struct Answered<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    call_id: Option<&'a str>,
    /// The status that an HTTP answer would have.
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a ErrorBody>,
}

/// Stores an answer. Returns what is sent for it.
pub(super) async fn answer(context: Arc<TurnContext>, message: QueuedMessage) -> String {
    let mut call_id = None;
    let stored = store(&context, message, &mut call_id).await;
    let (kind, status, error) = match &stored {
        Ok(()) => ("antwort:input_accepted", 202, None),
        Err(error) => ("antwort:input_refused", error.kind.status(), Some(&error.body)),
    };
    let answered = Answered { kind, call_id: call_id.as_deref(), status, error };
    // Writing to memory cannot fail.
    serde_json::to_string(&answered).unwrap_or_default()
}

async fn store(
    context: &TurnContext,
    message: QueuedMessage,
    call_id: &mut Option<String>,
) -> Result<(), ApiError> {
    let app = (context.host.current)();
    let caller = authorize(&app, &context.headers).await?;
    let (message, _reserved) = read(&app, &caller, message, Arc::from([])).await?;
    let input = match message.content? {
        MessageContent::Input(input) => input,
        MessageContent::Create { .. } | MessageContent::Processed => return Err(ApiError::internal()),
    };
    *call_id = Some(input.call_id.clone());
    let response = context.response.lock().clone();
    let owner = &caller.0.owner;
    let answered = match &response {
        Some(id) => app.engine.answer_input(caller.requester(), owner, id.as_str(), input).await?,
        None => None,
    };
    answered.ok_or_else(|| {
        ApiError::new(ErrorKind::Conflict, "No response of this connection waits for an answer.")
            .with_code("input_not_pending")
    })
}
