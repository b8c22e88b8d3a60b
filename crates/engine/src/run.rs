//! One run: the only driver of new runs and of those that another process has begun.
//!
//! [`drive`] moves a run from phase to phase and leaves it in one of three ways ([`Driven`]). The phases are modules of functions that take
//! the [`Run`] (`live`), and use one another in one direction:
//!
//! - `resumed` finishes the turn that another process has committed;
//! - `mcp` emits tool lists and makes approved calls, `compact` replaces a conversation that has become long, `inference` asks the model for
//!   one turn, `refused` keeps its refused calls, `reprompt` judges its answer and asks once more;
//! - `tools` makes the calls of a turn, `outcomes` waits for their results, `held_questions` and `questions` ask the user, `async_calls`
//!   are those whose work goes on, `inputs` asks the client for outputs;
//! - `after_calls` decides what calls lead to, `turn` what the model is asked next, `end` ends the response;
//! - `begin` writes the row of a run that its client may come back for, `logged`;
//! - `state` is what a run has done so far, `trace` its account, `saved` what is committed of it, `commit` when, `limits` what it may do, and `wait` what
//!   interrupts it.
//!
//! Owns the order of things in time: when events are sent, what is awaited before the terminal event, and what
//! happens when the client disconnects, a deadline passes or something panics. The order of events on the wire is the
//! machine's.

mod after_calls;
mod async_calls;
mod begin;
mod commit;
mod compact;
mod end;
mod held_questions;
mod inference;
mod inputs;
mod limits;
mod live;
mod logged;
mod mcp;
mod outcomes;
mod questions;
mod refused;
mod reprompt;
mod resumed;
mod saved;
mod state;
mod summary;
mod timer;
mod tools;
pub(super) mod trace;
mod turn;
mod wait;

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;

use self::after_calls::AfterCalls;
pub(super) use self::live::Run;
use self::live::{RunEnd, RunError};
pub(super) use self::logged::Logged;
pub(super) use self::resumed::restore;
pub(super) use self::saved::{SavedRun, save};
pub(super) use self::state::{RunState, StartedWork};
use super::resume_point::{OpenCalls, ResumePoint};
use super::structured::Validity;
use super::tools::call_filter::RejectedTurn;
use antwort_protocol::error::{ApiError, ErrorKind};
use antwort_protocol::response::Usage;
use antwort_response::machine::{Termination, Turn};
use antwort_response::turn::FinishReason;

/// What a run does next.
enum Phase {
    /// Before the first inference in this process: new tool lists are emitted, approved calls executed. Also behind a resumed turn that leads to
    /// another.
    Begin,
    /// The turn that was committed last is finished, of a run that was claimed.
    Resumed(Box<ResumePoint>),
    /// The model is asked for a turn.
    Infer,
    /// The calls of a turn are made.
    Calls(Turn, RejectedTurn),
    /// No turn follows: what is still to be done before the response is closed.
    Closing(Termination),
}

/// What has become of a run whose driver is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Driven {
    /// It has ended, stored or not.
    Ended,
    /// A shutdown has interrupted it.
    GivenBack,
    /// It waits as a row for what comes from outside: an output of its client, an answer of the user, the result of an asynchronous call.
    Waits,
}

/// Executes a new run to its end.
pub(super) async fn execute(mut run: Box<Run>) {
    run.machine.start(run.sink.events());
    if run.attached.logged.is_some() {
        let Some(begun) = Box::pin(begin::begin_logged(run)).await else { return };
        run = begun;
    }
    drive(run, Phase::Begin).await;
}

/// Goes on with a run where it was.
pub(super) async fn resume(run: Box<Run>, point: ResumePoint) -> Driven {
    drive(run, Phase::Resumed(Box::new(point))).await
}

/// Runs to the end, unless the run can wait as a row, and does or is interrupted by a shutdown: then another process goes on
/// with it. Never panics.
async fn drive(mut run: Box<Run>, phase: Phase) -> Driven {
    run.parts.metrics.run_started();
    let outcome = match AssertUnwindSafe(run_phases(&mut run, phase)).catch_unwind().await {
        Ok(Ok(ending)) => RunEnd::Ended(ending),
        Ok(Err(RunError::Failed(error))) if run.can_wait && error.kind == ErrorKind::Aborted => {
            give_back(run).await;
            return Driven::GivenBack;
        }
        Ok(Err(RunError::Waits)) if run.can_wait => {
            give_back(run).await;
            return Driven::Waits;
        }
        // The connection was closed by the shutdown, not by the client.
        Ok(Err(RunError::Cancelled)) if !run.can_wait && run.parts.in_flight.abort_token().is_cancelled() => {
            end::run_end(&run, RunError::shutdown())
        }
        Ok(Err(stop)) => end::run_end(&run, stop),
        Err(_panic) => {
            tracing::error!(request_id = %run.call.request_id, "a run panicked");
            end::run_end(&run, RunError::Failed(ApiError::internal()))
        }
    };
    // Boxed, as are the rarer phases: their futures would take space in that of a run that waits for its model.
    Box::pin(end::end(run, outcome)).await;
    Driven::Ended
}

/// What was sent is logged, so that the next process goes on behind it.
async fn give_back(mut run: Box<Run>) {
    run.executor.cancel();
    run.sink.settle_log().await;
    run.conversation_lock = None;
    run.parts.metrics.run_given_back();
}

/// Moves the run from phase to phase until it is to be closed.
async fn run_phases(run: &mut Run, mut phase: Phase) -> Result<Termination, RunError> {
    loop {
        phase = match phase {
            Phase::Begin => begin(run).await?,
            Phase::Resumed(point) => {
                let ending = Box::pin(resumed::finish_left_turn(run, *point)).await?;
                ending.map_or(Phase::Begin, Phase::Closing)
            }
            Phase::Infer => infer(run).await?,
            Phase::Calls(turn, rejected) => make_calls(run, turn, rejected).await?,
            Phase::Closing(ending) => {
                if !run.state.started.is_empty() {
                    Box::pin(async_calls::follow_started(run)).await?;
                }
                return Ok(ending);
            }
        };
    }
}

/// What comes before the model is asked.
async fn begin(run: &mut Run) -> Result<Phase, RunError> {
    if !run.generates {
        // No model was asked.
        run.machine.count_usage(&Usage::default());
        return Ok(Phase::Closing(Termination::Completed));
    }
    mcp::emit_list_tools(run)?;
    if run.tools.approved.is_empty() {
        return Ok(Phase::Infer);
    }
    let ending = Box::pin(mcp::run_approved(run)).await?;
    Ok(ending.map_or(Phase::Infer, Phase::Closing))
}

/// Asks the model for a turn.
async fn infer(run: &mut Run) -> Result<Phase, RunError> {
    if run.state.turns() >= run.spec.limits.run.max_turns {
        return Err(RunError::LimitReached("max_turns"));
    }
    run.check_deadline()?;
    if run.prompt.auto_compaction.is_some() {
        Box::pin(compact::compact_if_due(run)).await?;
    }
    run.state.begin_inference();
    run.state.answer = Validity::NotJudged;
    run.call_filter.begin_turn(run.executor.left());
    let turn = inference::infer_with_retry(run).await?;
    run.state.output_tokens += turn.usage.map_or(0, |usage| usage.output_tokens);
    after_inference(run, turn).await
}

/// Decides what follows an inference: calls, another turn or the end.
async fn after_inference(run: &mut Run, turn: Turn) -> Result<Phase, RunError> {
    let lacks_call = run.call_filter.lacks_required_call();
    let rejected = run.call_filter.end_turn();
    if run.call_filter.limit_exceeded() {
        run.state.trace.reach_limit("max_tool_calls".into());
    }
    let incomplete = |reason: &'static str| Ok(Phase::Closing(Termination::Incomplete(reason.into())));
    match turn.finish {
        Some(FinishReason::Length) => return incomplete("max_output_tokens"),
        Some(FinishReason::ContentFilter) => return incomplete("content_filter"),
        Some(FinishReason::Stop) | None => {}
    }
    let ending = if lacks_call {
        Box::pin(reprompt::on_missing_call(run, &turn, rejected.any)).await?
    } else {
        run.call_filter.clear_required();
        run.parts.metrics.client_calls(turn.client_calls);
        let has_calls = !turn.server_calls.is_empty() || turn.client_calls + turn.approval_calls > 0;
        if has_calls || rejected.any {
            return Ok(Phase::Calls(turn, rejected));
        }
        let ending = Box::pin(reprompt::validate_output(run, &turn)).await?;
        Box::pin(async_calls::before_end(run, &turn, ending)).await?
    };
    Ok(ending.map_or(Phase::Infer, Phase::Closing))
}

/// Makes the calls of a turn, and decides what they lead to.
async fn make_calls(run: &mut Run, turn: Turn, rejected: RejectedTurn) -> Result<Phase, RunError> {
    let mut have_failed = None;
    if !turn.server_calls.is_empty() {
        run.state.denied_turns = 0;
        have_failed = Some(Box::pin(tools::run_calls(run, &turn.server_calls)).await?);
    }
    let open = OpenCalls { client: turn.client_calls > 0, approval: turn.approval_calls > 0 };
    let output = match after_calls::after_calls(run, have_failed, open).await? {
        AfterCalls::Ends(ending) => return Ok(Phase::Closing(ending)),
        AfterCalls::GoesOn(output) => output,
    };
    if have_failed.is_none() && rejected.by_mistake {
        limits::count_denied_turn(run)?;
    }
    turn::finish_turn(run, &turn, output)?;
    match have_failed {
        Some(_) => turn::prepare_next_turn(run),
        None => Box::pin(turn::begin_next_turn(run)).await?,
    }
    if run.tools.servers.iter().any(|server| server.has_changed()) {
        Box::pin(mcp::refresh_changed_tools(run)).await?;
    }
    Ok(Phase::Infer)
}
