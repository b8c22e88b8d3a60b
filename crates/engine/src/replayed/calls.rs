//! The calls of a history that have one `call_id`. Servers number theirs anew in each answer, so there may be several, and
//! an output belongs to the one before it.

use std::collections::{HashMap, HashSet};

use super::equal::{Print, call_print, difference, output_print};
use super::found::Found;
use antwort_protocol::item::{Item, ToolOutput};

/// Calls with one `call_id`, found by what they say: the work is that of reading each once.
#[derive(Default)]
pub(super) struct Calls<'a> {
    made: Vec<MadeCall<'a>>,
    by_id: HashMap<&'a str, usize>,
    by_print: HashMap<Print, Vec<usize>>,
    /// The outputs of all of them.
    outputs: HashSet<Print>,
    /// The one that the input has replayed last; outputs behind it belong to it.
    replayed: Option<Replayed>,
}

struct Replayed {
    place: usize,
    /// How many of its outputs were replayed behind it, and how many it has.
    outputs: usize,
    of: usize,
}

struct MadeCall<'a> {
    call: &'a Item,
    outputs: HashSet<Print>,
    /// The input has answered it.
    is_answered: bool,
}

impl<'a> Calls<'a> {
    /// Adds a call of the history.
    pub(super) fn add(&mut self, call: &'a Item) {
        let place = self.made.len();
        if call.id().is_response_scoped() {
            self.by_id.insert(call.id().as_str(), place);
        }
        self.by_print.entry(call_print(call)).or_default().push(place);
        self.made.push(MadeCall { call, outputs: HashSet::new(), is_answered: false });
    }

    /// Adds an output of the history, to the call before it.
    pub(super) fn answer(&mut self, output: &ToolOutput) {
        let print = output_print(output);
        self.outputs.insert(print);
        self.made.last_mut().into_iter().for_each(|call| _ = call.outputs.insert(print));
    }

    /// Finds a call: the one with its id, or else the next equal one.
    pub(super) fn find(&mut self, item: &Item) -> Found {
        let place = self.by_id.get(item.id().as_str()).copied().or_else(|| self.next_equal(item));
        let made = place.map_or_else(|| self.made.last(), |place| self.made.get(place));
        if let (Some(place), Some(made)) = (place, made) {
            self.replayed = Some(Replayed { place, outputs: 0, of: made.outputs.len() });
        }
        made.and_then(|made| difference(made.call, item)).into()
    }

    /// The place of the next equal call, or of the first.
    fn next_equal(&self, item: &Item) -> Option<usize> {
        let places = self.by_print.get(&call_print(item))?;
        let after = self.replayed.as_ref().map_or(0, |replayed| replayed.place + 1);
        places.get(places.partition_point(|place| *place < after)).or_else(|| places.first()).copied()
    }

    /// Finds an output: of the call that was replayed before it until it has all of its own, then of any. The newest call may
    /// be open: then the last output of the input answers it.
    pub(super) fn find_output(&mut self, output: &ToolOutput, is_custom: bool, comes_again: bool) -> Found {
        let print = output_print(output);
        let newest = self.made.len().saturating_sub(1);
        let is_newest_replayed = self.replayed.as_ref().is_some_and(|replayed| replayed.place == newest);
        if let Some(replayed) = self.replayed.as_mut().filter(|replayed| replayed.outputs < replayed.of) {
            if self.made.get(replayed.place).is_some_and(|made| made.outputs.contains(&print)) {
                replayed.outputs += 1;
                return Found::Equal;
            }
            if replayed.outputs == 0 && !(is_custom && is_newest_replayed) {
                return Found::Other("output");
            }
        }
        let Some(call) = self.made.last_mut() else { return Found::New };
        let is_open = call.outputs.is_empty();
        if self.outputs.contains(&print) && (!is_open || (comes_again && !is_newest_replayed)) {
            return Found::Equal;
        }
        // The first answer to an open call. More are not those of the history, and a custom tool call may have them:
        // coding agents report the progress so.
        if is_open || call.is_answered || is_custom {
            call.is_answered = true;
            return Found::New;
        }
        Found::Other("output")
    }
}
