//! Calls whose work goes on: what their results lead to is written before the run goes on, and a run may wait for them at its
//! end.

use super::live::{Run, RunError};
use super::state::{AddedMessage, StartedWork};
use super::trace::WaitKind;
use super::{commit, limits, turn};
use crate::background::spec;
use crate::completion_text::{TIMED_OUT, announcement};
use crate::task_polls;
use crate::tool_executor::TurnCalls;
use antwort_config::OnComplete;
use antwort_protocol::error::ApiError;
use antwort_protocol::id::Id;
use antwort_response::machine::{ServerCall, Termination, Turn};
use antwort_store::{AsyncCallKey, PendingCall, PendingSource, PolledTask, StartedCall};
use antwort_tools::StartedTask;

/// Writes that the work of a call goes on.
pub(super) async fn start_async(
    run: &mut Run,
    made: &ServerCall,
    (turn, index): (u32, u32),
    started: Option<&StartedTask>,
) -> Result<(), RunError> {
    let Some(item) = run.machine.server_call_item(made.slot).cloned() else { return Ok(()) };
    let on_complete = on_complete(run, made);
    if on_complete == OnComplete::Resume {
        run.state.started.push(StartedWork {
            turn,
            index,
            tool: made.call.name.clone(),
            item: item.to_string(),
        });
    }
    if on_complete == OnComplete::FollowUp {
        run.state.trace.note_followed(index);
    }
    let call = started_call(run, (turn, index), item, made.call.name.clone(), on_complete);
    let task = task_of(run, made, started);
    let after = task.as_ref().map(|task| task.after);
    run.parts.store.start_async(StartedCall { task, ..call }).await.map_err(ApiError::from)?;
    if let Some(after) = after {
        run.parts.in_flight.task_deadlines().add(after);
    }
    Ok(())
}

/// Where the result of a call is looked for that goes on as a task.
fn task_of(run: &Run, made: &ServerCall, started: Option<&StartedTask>) -> Option<PolledTask> {
    let (started, caller) = (started?, run.follow_ups.caller.as_ref()?);
    let ticket = task_polls::ticket(
        &run.parts,
        (&run.spec, &run.prompt, run.tools.request.as_deref()),
        caller,
        started,
    );
    if ticket.is_none() {
        tracing::warn!(tool = made.call.name, "nobody can look for the result of a task");
    }
    ticket
}

fn started_call(
    run: &Run,
    (turn, index): (u32, u32),
    item: Id,
    tool: String,
    on_complete: OnComplete,
) -> StartedCall {
    let spec = match (on_complete, &run.follow_ups.caller) {
        (OnComplete::FollowUp, Some(caller)) => {
            let seal = || spec::of_follow_up(&run.parts.seal, &run.spec, caller);
            run.follow_ups.spec.get_or_init(seal).clone()
        }
        _ => None,
    };
    let (owner, response) = (run.spec.owner.clone(), run.spec.response.id.clone());
    StartedCall {
        key: AsyncCallKey { owner, response, turn, index },
        item,
        tool,
        on_complete: on_complete.as_str(),
        spec,
        timeout: run.parts.options.tools.callback_timeout,
        task: None,
    }
}

/// What the result of a call leads to: a run that cannot wait is followed.
fn on_complete(run: &Run, made: &ServerCall) -> OnComplete {
    let binding = run.tools.offer.binding(made.call.namespace.as_deref(), &made.call.name);
    let of_tool = binding.and_then(|binding| binding.tool.on_complete());
    let of_agent = || run.parts.agents.get(run.spec.agent.as_deref()?).and_then(|agent| agent.on_complete);
    match of_tool.or_else(of_agent).unwrap_or_default() {
        OnComplete::Resume if run.can_wait => OnComplete::Resume,
        // What is not stored is continued by nothing.
        _ if run.spec.is_unlisted => OnComplete::Store,
        OnComplete::Resume => OnComplete::FollowUp,
        on_complete => on_complete,
    }
}

/// Waits for the results of calls before the run ends, if there are any to come and the model may be asked again.
pub(super) async fn before_end(
    run: &mut Run,
    turn: &Turn,
    ending: Option<Termination>,
) -> Result<Option<Termination>, RunError> {
    let is_done = matches!(ending, Some(Termination::Completed));
    if run.state.started.is_empty() || !is_done || !may_ask_again(run, turn) {
        return Ok(ending);
    }
    run.machine.close_turn(run.sink.events())?;
    limits::check_size(run)?;
    run.flush().await?;
    run.state.awaits_results = true;
    let started = run.state.started.clone();
    commit::commit_wait(run, WaitKind::Callback, TurnCalls::Started(&started)).await?;
    Err(RunError::Waits)
}

/// Whether the limits leave room for another inference behind this turn.
fn may_ask_again(run: &mut Run, turn: &Turn) -> bool {
    run.state.turns() < run.spec.limits.run.max_turns
        && turn::consume_token_budget(run, turn).is_ok()
        && run.spec.limits.reached_by(&run.machine.usage()).is_none()
        && run.check_deadline().is_ok()
}

/// Writes that the results of calls which the run has not waited for are followed by a response each.
pub(super) async fn follow_started(run: &mut Run) -> Result<(), RunError> {
    for work in std::mem::take(&mut run.state.started) {
        run.state.trace.note_followed_item(&work.item);
        let call =
            started_call(run, (work.turn, work.index), Id::from(work.item), work.tool, OnComplete::FollowUp);
        run.parts.store.start_async(call).await.map_err(ApiError::from)?;
    }
    Ok(())
}

/// Tells the model of the results that the run has waited for, or waits on if one is missing and not late.
pub(super) fn take_results(run: &mut Run, pending: &[PendingCall]) -> Result<(), RunError> {
    let mut texts = Vec::new();
    for work in &run.state.started {
        let place = (PendingSource::Async, work.turn, work.index);
        let found = pending.iter().find(|call| (call.source, call.turn, call.index) == place);
        let outcome = found.and_then(|call| call.outcome.as_ref());
        let is_open = found.and_then(|call| call.left).is_some();
        let (text, error) = match outcome {
            Some((text, error)) => (text.as_str(), error.as_deref()),
            None if is_open => return Err(RunError::Waits),
            None => (TIMED_OUT.0, Some(TIMED_OUT.1)),
        };
        let max = run.parts.options.tools.results.max_bytes;
        texts.push(announcement(&work.tool, &work.item, text, error, max));
    }
    let output = run.machine.close_turn(run.sink.events())?;
    turn::append_history(run, output);
    run.state.started.clear();
    run.state.awaits_results = false;
    let place = run.machine.response().output.len();
    let added: Vec<_> = texts.into_iter().map(|text| AddedMessage { place, text }).collect();
    turn::add_messages(run, added);
    Ok(())
}
