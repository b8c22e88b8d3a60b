//! The limits of a run beside its deadline: sizes, tokens, cost, identical calls, and turns in a row that came to nothing.

use super::live::{Run, RunError};
use antwort_protocol::error::{ApiError, ErrorKind};
use antwort_response::machine::ServerCall;

/// After this many turns in a row with only forbidden calls the run fails.
const MAX_DENIED_TURNS: u32 = 3;

pub(super) fn check_size(run: &Run) -> Result<(), RunError> {
    let limits = &run.parts.options.engine;
    let output = &run.machine.response().output;
    if run.machine.bytes() + run.call_filter.bytes() > limits.max_response_bytes
        || run.machine.largest_item() > limits.max_item_bytes
        || output.len() > limits.max_output_items
    {
        return Err(RunError::LimitReached("max_response_size"));
    }
    Ok(())
}

/// Counts the calls against the limits of the run, before they are made.
pub(super) fn check_limits(run: &mut Run, calls: &[ServerCall]) -> Result<(), RunError> {
    let limits = &run.spec.limits;
    if let Some(limit) = limits.reached_by(&run.machine.usage()) {
        return Err(RunError::LimitReached(limit));
    }
    if run.state.exceeds_repeat_limit(calls, limits.run.max_identical_calls) {
        return Err(RunError::LimitReached("max_identical_calls"));
    }
    Ok(())
}

pub(super) fn count_failed_turn(run: &mut Run, failed: bool) -> Result<(), RunError> {
    run.state.failed_turns = if failed { run.state.failed_turns + 1 } else { 0 };
    if run.state.failed_turns < run.spec.limits.run.max_consecutive_failures {
        return Ok(());
    }
    Err(RunError::Failed(
        ApiError::new(
            ErrorKind::Internal,
            format!("Every tool call of {} turns in a row failed.", run.state.failed_turns),
        )
        .with_code("tool_failures_exceeded"),
    ))
}

pub(super) fn count_denied_turn(run: &mut Run) -> Result<(), RunError> {
    run.state.denied_turns += 1;
    if run.spec.executes_tools && run.state.denied_turns <= MAX_DENIED_TURNS {
        return Ok(());
    }
    Err(RunError::Failed(
        ApiError::new(
            ErrorKind::ModelError,
            "The model called only tools that this request does not have or does not allow.",
        )
        .with_code("tool_not_allowed"),
    ))
}
