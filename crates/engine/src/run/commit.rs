//! The commit of a turn: whoever claims the run continues it from there. A run that waits for a result from outside commits its
//! turn, and leaves its driver.

use super::live::{Run, RunError};
use super::trace::WaitKind;
use crate::tool_executor::TurnCalls;

/// Commits the turn with its calls, before anything that follows from it is done.
pub(super) async fn commit_turn(run: &mut Run, calls: TurnCalls<'_>) -> Result<(), RunError> {
    // The log of events must not end before the state that is committed with the turn.
    run.sink.settle_log().await;
    run.state.note_active(run.clock.started);
    run.state.has_exceeded_calls |= run.call_filter.limit_exceeded();
    run.executor.commit(&run.spec, &run.machine, &mut run.state, calls, &run.parts.seal).await?;
    Ok(())
}

/// Commits a turn whose calls have their results from outside: the run is to wait for them ([`RunError::Waits`]).
pub(super) async fn commit_wait(run: &mut Run, kind: WaitKind, calls: TurnCalls<'_>) -> Result<(), RunError> {
    run.state.trace.begin_wait(kind);
    commit_turn(run, calls).await
}
