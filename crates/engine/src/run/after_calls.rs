//! What follows the calls of a turn: the end of the response, a wait for the client, or another turn.

use super::live::{Run, RunError};
use super::{inputs, limits};
use crate::resume_point::OpenCalls;
use antwort_response::machine::{Termination, TurnOutput};

/// What follows the calls of a turn.
pub(super) enum AfterCalls {
    Ends(Termination),
    /// Another turn, behind these items.
    GoesOn(TurnOutput),
}

/// What follows the calls that the gateway has made in a turn, whose results are shown. `have_failed`: whether all have, if
/// there were any.
pub(super) async fn after_calls(
    run: &mut Run,
    have_failed: Option<bool>,
    open: OpenCalls,
) -> Result<AfterCalls, RunError> {
    if let Some(timeout) = run.spec.client.input_timeout.filter(|_| open.client) {
        // Counted with those that the client makes.
        run.state.have_server_calls_failed = have_failed;
        return Err(Box::pin(inputs::ask_client(run, timeout)).await);
    }
    if let Some(have_failed) = have_failed {
        limits::count_failed_turn(run, have_failed)?;
    }
    close_turn(run, open)
}

/// Closes a turn whose calls have their results, but for these.
pub(super) fn close_turn(run: &mut Run, open: OpenCalls) -> Result<AfterCalls, RunError> {
    let output = run.machine.close_turn(run.sink.events())?;
    limits::check_size(run)?;
    Ok(match open {
        OpenCalls { client: true, .. } => AfterCalls::Ends(run.spec.client.awaiting_status.clone()),
        // An approval request is visible as an item; `requires_action` is only for functions of the client.
        OpenCalls { approval: true, .. } => AfterCalls::Ends(Termination::Completed),
        OpenCalls { .. } => AfterCalls::GoesOn(output),
    })
}
