//! Asks the model once more within a run: its output is kept, and a message says what is wrong with it.

use super::live::{Run, RunError};
use super::state::{AddedMessage, NextInference};
use super::{limits, turn};
use crate::compaction;
use crate::structured::OutputVerdict;
use antwort_config::settings::OnMissingCall;
use antwort_protocol::error::{ApiError, ErrorKind};
use antwort_response::machine::{Termination, Turn};
use antwort_response::turn::CallChoice;

/// Decides what follows a turn without calls: the end, or another turn if the answer does not match its format.
pub(super) async fn validate_output(run: &mut Run, turn: &Turn) -> Result<Option<Termination>, RunError> {
    if run.spec.is_compaction && run.machine.response().output.is_empty() {
        return Ok(Some(Termination::Failed(compaction::failed().body)));
    }
    run.state.answer = run.structured.validate(run.machine.turn_output());
    match run.structured.judge(&run.state.answer, run.state.reminded.repair) {
        OutputVerdict::Accept => Ok(Some(Termination::Completed)),
        OutputVerdict::Fail(error) => Ok(Some(Termination::Failed(error.body))),
        OutputVerdict::Repair(problem) => ask_for_repair(run, turn, &problem).await.map(|()| None),
    }
}

/// Whether the model will be asked again after this turn: its text is then marked as commentary, not as the
/// answer.
pub(super) fn will_retry_turn(run: &Run) -> bool {
    if run.machine.is_cut_off() {
        return false;
    }
    if run.call_filter.lacks_required_call() {
        return retries_missing_call(run);
    }
    !run.call_filter.has_calls()
        && run.structured.needs_repair(run.machine.turn_output(), run.state.reminded.repair)
}

/// Asks for the answer in its format, without tools, so that it is one inference.
async fn ask_for_repair(run: &mut Run, turn: &Turn, problem: &str) -> Result<(), RunError> {
    tracing::debug!(problem, "the answer does not match text.format; asking the model once more");
    let output = run.machine.close_turn(run.sink.events())?;
    limits::check_size(run)?;
    turn::finish_turn(run, turn, output)?;
    run.state.reminded.repair = true;
    add_message(
        run,
        format!(
            "Your last answer does not have the form that was asked for: {problem}. Answer again in that form, \
         and with nothing else."
        ),
    );
    run.state.next = NextInference::Repair;
    turn::begin_next_turn(run).await
}

/// Whether the model is asked once more when it has not made the required call.
///
/// Not if tools are not executed: such a request is a single inference.
pub(super) fn retries_missing_call(run: &Run) -> bool {
    run.spec.executes_tools && !run.state.reminded.call
}

/// Decides what follows a turn without the required call.
pub(super) async fn on_missing_call(
    run: &mut Run,
    turn: &Turn,
    is_reported: bool,
) -> Result<Option<Termination>, RunError> {
    if retries_missing_call(run) {
        return ask_for_call(run, turn, is_reported).await.map(|()| None);
    }
    run.call_filter.clear_required();
    match run.parts.options.engine.on_missing_call {
        OnMissingCall::Keep => validate_output(run, turn).await,
        OnMissingCall::Fail => Ok(Some(Termination::Failed(missing_call().body))),
    }
}

/// Asks for the required call. For other calls it made, the model finds errors in their results.
async fn ask_for_call(run: &mut Run, turn: &Turn, is_reported: bool) -> Result<(), RunError> {
    tracing::debug!("the model did not make the call that tool_choice requires; asking once more");
    run.state.reminded.call = true;
    let output = run.machine.close_turn(run.sink.events())?;
    limits::check_size(run)?;
    turn::finish_turn(run, turn, output)?;
    if !is_reported {
        let named = match turn::required_choice(run) {
            CallChoice::One(place) => run.tools.offer.tools.get(place),
            _ => None,
        };
        let what = match named {
            Some(tool) => format!("the tool '{}'", tool.wire_name),
            None => "one of the tools that you may call".to_owned(),
        };
        add_message(run, format!("You have to call {what} now, before you answer."));
    }
    run.state.next = NextInference::RequiredCall;
    turn::begin_next_turn(run).await
}

fn add_message(run: &mut Run, text: String) {
    let place = run.machine.response().output.len();
    turn::add_messages(run, vec![AddedMessage { place, text }]);
}

fn missing_call() -> ApiError {
    ApiError::new(
        ErrorKind::ModelError,
        "The model did not make the call that 'tool_choice' requires. Its text is kept in the output.",
    )
    .with_code("tool_choice_not_satisfied")
}
