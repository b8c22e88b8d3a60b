//! Model events that wait for the open item to be closed, in the order of arrival.
//!
//! Pieces of a call's arguments are collected with the beginning of their call, found by an index, so that a piece
//! costs the same however many events wait.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::turn::{ModelEvent, ProviderFields};

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct PendingQueue {
    queue: VecDeque<PendingEvent>,
    /// How many events were taken out; places are counted from the first event ever.
    taken: usize,
    /// The place of the latest call of each slot.
    calls: BTreeMap<u32, usize>,
}

#[derive(Debug, Serialize, Deserialize)]
struct PendingEvent {
    event: ModelEvent,
    /// The arguments so far of the call that begins with this event.
    arguments: String,
}

impl PendingQueue {
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn front(&self) -> Option<&ModelEvent> {
        self.queue.front().map(|piece| &piece.event)
    }

    pub(super) fn push(&mut self, event: ModelEvent) {
        match &event {
            ModelEvent::CallDelta { slot, delta } => {
                if let Some(call) = self.call(*slot) {
                    return call.arguments.push_str(delta);
                }
            }
            ModelEvent::CallStarted { slot, .. } => {
                self.calls.insert(*slot, self.taken + self.queue.len());
            }
            _ => {}
        }
        self.queue.push_back(PendingEvent { event, arguments: String::new() });
    }

    /// Takes the first event, and the arguments of the call that begins with it.
    pub(super) fn pop(&mut self) -> Option<(ModelEvent, Option<ModelEvent>)> {
        let PendingEvent { event, arguments } = self.queue.pop_front()?;
        let delta = match &event {
            ModelEvent::CallStarted { slot, .. } => {
                if self.calls.get(slot) == Some(&self.taken) {
                    self.calls.remove(slot);
                }
                let slot = *slot;
                (!arguments.is_empty()).then_some(ModelEvent::CallDelta { slot, delta: arguments })
            }
            _ => None,
        };
        self.taken += 1;
        Some((event, delta))
    }

    /// The slot of the first call that is no item yet.
    pub(super) fn first_call(&self) -> Option<u32> {
        self.calls.iter().find(|(_, place)| **place >= self.taken).map(|(slot, _)| *slot)
    }

    /// The provider's id and fields of a pending call.
    pub(super) fn call_state(
        &mut self,
        slot: u32,
    ) -> Option<(&mut Option<String>, &mut Option<Box<ProviderFields>>)> {
        match &mut self.call(slot)?.event {
            ModelEvent::CallStarted { call_id, fields, .. } => Some((call_id, fields)),
            _ => None,
        }
    }

    fn call(&mut self, slot: u32) -> Option<&mut PendingEvent> {
        let place = self.calls.get(&slot)?.checked_sub(self.taken)?;
        self.queue.get_mut(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turn::CallKind;

    fn start(slot: u32) -> ModelEvent {
        let (call_id, name, namespace, fields) = (None, "f".into(), None, None);
        ModelEvent::CallStarted { slot, kind: CallKind::Function, call_id, name, namespace, fields }
    }

    fn delta(slot: u32, delta: &str) -> ModelEvent {
        ModelEvent::CallDelta { slot, delta: delta.into() }
    }

    #[test]
    fn arguments_wait_with_the_call_that_began_last_under_their_number() {
        let mut pending = PendingQueue::default();
        let text = || ModelEvent::Refusal("a".into());
        for event in
            [start(1), text(), start(2), delta(1, "{"), delta(2, "["), start(1), delta(1, "x"), delta(3, "y")]
        {
            pending.push(event);
        }
        assert_eq!(pending.len(), 5);
        assert_eq!(pending.pop(), Some((start(1), Some(delta(1, "{")))));
        pending.push(delta(1, "}"));
        pending.push(delta(2, "]"));
        assert_eq!(pending.pop(), Some((text(), None)));
        assert_eq!(pending.pop(), Some((start(2), Some(delta(2, "[]")))));
        assert_eq!(pending.pop(), Some((start(1), Some(delta(1, "x}")))));
        assert_eq!(pending.pop(), Some((delta(3, "y"), None)));
        pending.push(delta(1, "z"));
        assert_eq!(pending.pop(), Some((delta(1, "z"), None)), "its call does not wait any more");
        assert!(pending.is_empty() && pending.calls.is_empty());
    }
}
