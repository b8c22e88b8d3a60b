//! Whether a run goes on when its client disconnects.

use super::context::{EngineParts, EventReader, RunContext};
use antwort_protocol::error::ApiError;
use antwort_protocol::request::{CreateResponse, OnDisconnect};

/// The request field.
const PARAM: &str = "antwort.on_disconnect";

/// What happens to the run of this request, whose store policy is applied, when its client disconnects.
pub(super) fn policy(
    parts: &EngineParts,
    request: &CreateResponse,
    caller: &RunContext,
) -> Result<OnDisconnect, ApiError> {
    match asked(request) {
        Some(OnDisconnect::Continue) if !request.store => Err(ApiError::invalid(
            "unsupported_value",
            PARAM,
            "A response that goes on without its client must be stored, or nobody could read it: send 'store': true with \
             'on_disconnect': 'continue', which a key whose responses are never stored does not allow.",
        )),
        Some(asked) => Ok(asked),
        // The setting is for what can be read later.
        None if request.store && !matches!(caller.events, EventReader::Process | EventReader::Watcher) => {
            Ok(parts.options.engine.on_disconnect)
        }
        None => Ok(OnDisconnect::Cancel),
    }
}

/// Refuses a request that asks for `cancel` where a run always goes on. `message` says why, and what to send instead.
pub(super) fn refuse_cancel(request: &CreateResponse, message: &str) -> Result<(), ApiError> {
    match asked(request) {
        Some(OnDisconnect::Cancel) => Err(ApiError::invalid("unsupported_value", PARAM, message)),
        Some(OnDisconnect::Continue) | None => Ok(()),
    }
}

fn asked(request: &CreateResponse) -> Option<OnDisconnect> {
    request.antwort.as_ref().and_then(|options| options.on_disconnect)
}
