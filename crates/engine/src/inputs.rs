//! The answers of clients to the calls that a run waits for.

use std::sync::Arc;

use crate::background::submit;
use crate::context::EngineParts;
use antwort_identity::{Owner, Requester};
use antwort_protocol::elicitation::is_question_id;
use antwort_protocol::error::{ApiError, ErrorKind};
use antwort_protocol::id::Id;
use antwort_protocol::json;
use antwort_protocol::parse::truncate_for_display;
use antwort_protocol::request::{InputResult, ResponseInput};
use antwort_store::{InputAnswer, InputOutcome, StoreError};

/// Bytes of an answer to a form of an MCP server, as many as the form may have.
const MAX_ELICITATION_ANSWER: usize = 64 << 10;
/// The code of a call that failed at the client.
const CLIENT_TOOL_ERROR: &str = "client_tool_error";

/// [`Engine::answer_input`](crate::Engine::answer_input).
pub(crate) async fn answer_input(
    parts: &Arc<EngineParts>,
    requester: Requester,
    owner: &Owner,
    id: &str,
    input: ResponseInput,
) -> Result<Option<()>, ApiError> {
    let ResponseInput { call_id, result } = input;
    let (output, error) = match &result {
        InputResult::Output(output) => (json::to_text(output), None),
        InputResult::Answer(answer) => (json::to_text(answer), None),
        // The model reads it as it reads an output.
        InputResult::Error(message) => (json::to_text(message), Some(CLIENT_TOOL_ERROR)),
    };
    let is_question = is_question_id(&call_id);
    let limits = &parts.options.engine;
    match is_question {
        true => check_size(output.len(), MAX_ELICITATION_ANSWER, "an answer to a form")?,
        false => check_output_size(output.len(), limits.max_item_bytes)?,
    }
    let answer = InputAnswer {
        owner: owner.clone(),
        response: Id::from(id),
        call_id: call_id.clone(),
        output: output.to_string(),
        error,
        max_response_bytes: limits.max_response_bytes as u64,
    };
    let (parts, counted) = (Arc::clone(parts), parts.in_flight.count_job());
    // Whoever has answered may disconnect: the run goes on.
    #[expect(clippy::disallowed_methods, reason = "ends with the run, which a shutdown waits for")]
    let stored = tokio::spawn(async move {
        let (owner, id) = (answer.owner.clone(), answer.response.clone());
        let outcome = parts.store.answer_input(answer).await?;
        if matches!(outcome, InputOutcome::Accepted { .. } | InputOutcome::Repeated) && is_question {
            // The process that makes the call may wait for the answer.
            parts.in_flight.bus().run_answered(&id);
        }
        // Of a repetition the first may have been told of to nobody.
        if matches!(outcome, InputOutcome::Accepted { is_last: true } | InputOutcome::Repeated) {
            submit::go_on(&parts, requester, owner, id);
        }
        drop(counted);
        Ok::<_, StoreError>(outcome)
    });
    match stored.await.map_err(|_| ApiError::internal())?? {
        InputOutcome::Accepted { .. } | InputOutcome::Repeated => {}
        InputOutcome::NotPending => return Err(not_pending(&call_id)),
        InputOutcome::Expired => return Err(expired(&call_id)),
        InputOutcome::TooLarge => return Err(response_too_large()),
        InputOutcome::NotFound => return Ok(None),
    }
    Ok(Some(()))
}

/// Refuses an answer that is larger than an item of a response may be.
pub(super) fn check_output_size(bytes: usize, max: usize) -> Result<(), ApiError> {
    check_size(bytes, max, "engine.max_item_bytes")
}

fn check_size(bytes: usize, max: usize, limit: &str) -> Result<(), ApiError> {
    match bytes <= max {
        true => Ok(()),
        false => {
            Err(output_too_large(format!("The output has {bytes} bytes; the limit of {limit} is {max}.")))
        }
    }
}

fn response_too_large() -> ApiError {
    output_too_large(
        "With this output the response would be larger than engine.max_response_bytes. The call can still be answered: send a \
         shorter output, or an error.",
    )
}

fn output_too_large(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorKind::RequestTooLarge, message).with_code("output_too_large").with_param("output")
}

fn not_pending(call_id: &str) -> ApiError {
    let message = format!(
        "No answer is waited for with call_id '{}': the response has made no such call, it was answered before, or the \
         response has ended.",
        truncate_for_display(call_id)
    );
    let error =
        ApiError::new(ErrorKind::Conflict, message).with_code("input_not_pending").with_param("call_id");
    ApiError { should_retry: Some(false), ..error }
}

fn expired(call_id: &str) -> ApiError {
    let message = format!(
        "The answer with call_id '{}' comes too late: the response has gone on without it.",
        truncate_for_display(call_id)
    );
    ApiError::new(ErrorKind::Gone, message).with_code("input_expired").with_param("call_id")
}
