//! What a turn adds to the conversation, and how the model is asked for the next one.

use std::sync::Arc;

use super::commit;
use super::live::{Run, RunError};
use super::state::{AddedMessage, NextInference};
use crate::tool_executor::TurnCalls;
use crate::{history, itemless_turns, states};
use antwort_response::machine::{Turn, TurnOutput};
use antwort_response::turn::{CallChoice, HistoryItem};

/// Adds a turn to the conversation, unless a limit is reached.
pub(super) fn finish_turn(run: &mut Run, turn: &Turn, output: TurnOutput) -> Result<(), RunError> {
    consume_token_budget(run, turn)?;
    if let Some(limit) = run.spec.limits.reached_by(&run.machine.usage()) {
        return Err(RunError::LimitReached(limit));
    }
    let mut output = output;
    // The turns without items before this one are in the conversation already.
    output.states.values_mut().for_each(|state| state.earlier.clear());
    append_history(run, output);
    Ok(())
}

/// Adds the items of a turn to the conversation, in their order. Approved calls are of the answer that has asked for approval.
pub(super) fn append_history(run: &mut Run, turn: TurnOutput) {
    let TurnOutput { first, mut states, orphan_state: loose } = turn;
    let conversation = &mut Arc::make_mut(&mut run.prompt.request).conversation;
    let begin = conversation.len();
    conversation.extend(loose.map(itemless_turns::history_item));
    let items = run.machine.response().output.len();
    for place in first..items {
        let Ok(place) = u32::try_from(place) else { break };
        let item = run.machine.visible(place);
        conversation.extend(item.and_then(|item| history::from_run_output(item, states.remove(&place))));
    }
    if let Some(first) = conversation.get_mut(begin) {
        first.begins_turn = run.state.next != NextInference::First;
    }
    states::attach_states(conversation);
}

/// Adds messages to the conversation of this run only.
pub(super) fn add_messages(run: &mut Run, added: Vec<AddedMessage>) {
    let conversation = &mut run.prompt.request_mut().conversation;
    conversation.extend(added.iter().map(|message| HistoryItem::from(message.item())));
    run.state.messages.extend(added);
}

/// Commits a turn without calls of the gateway, and prepares the next one. A run that ends with its process is not committed
/// for that.
pub(super) async fn begin_next_turn(run: &mut Run) -> Result<(), RunError> {
    if run.can_wait {
        run.flush().await?;
        commit::commit_turn(run, TurnCalls::Server(&[])).await?;
    }
    prepare_next_turn(run);
    Ok(())
}

/// Asks as the turn before has left it: a state that was committed leads to the same.
pub(super) fn prepare_next_turn(run: &mut Run) {
    let next = std::mem::take(&mut run.state.next);
    let required = required_choice(run);
    let ask = Arc::make_mut(&mut run.prompt.request);
    match next {
        NextInference::First => {}
        NextInference::RequiredCall => ask.tool_choice = required,
        NextInference::Repair => {
            ask.tool_choice = CallChoice::None;
            run.call_filter.deny_all();
        }
        NextInference::Later if run.call_filter.limit_exceeded() && run.executor.left() == 0 => {
            // One last inference, without tools, as no more calls would be made.
            ask.tool_choice = CallChoice::None;
            run.call_filter.deny_all();
        }
        // The required call was made; requiring it again would never end.
        NextInference::Later => ask.tool_choice = run.tools.offer.choice.later_turn_choice(),
    }
}

/// How the model is asked for the call that it has not made.
pub(super) fn required_choice(run: &Run) -> CallChoice {
    let offer = &run.tools.offer;
    offer.choice.retry_choice(offer.tools.len())
}

/// `max_output_tokens` is for the whole response: a turn's tokens are subtracted from those of the next.
pub(super) fn consume_token_budget(run: &mut Run, turn: &Turn) -> Result<(), RunError> {
    match run.prompt.spend_tokens(turn.usage.map_or(0, |usage| usage.output_tokens)) {
        true => Err(RunError::LimitReached("max_output_tokens")),
        false => Ok(()),
    }
}
