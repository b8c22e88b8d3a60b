//! Signals, and the text that they are sent as: a line for each.

use std::collections::BTreeMap;
use std::fmt::Write;

use antwort_protocol::id::Id;

/// The longest id that is accepted from others.
const MAX_ID_BYTES: usize = 128;

/// What is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signal {
    /// There is a job to be done.
    JobQueued,
    /// Some run was asked to end.
    CancelRequested,
    /// The events of a run before `next` are logged.
    Advanced {
        /// Its response.
        id: Id,
        /// The number of the next event.
        next: u64,
    },
    /// A run was given an answer.
    Answered(Id),
    /// A run has ended.
    Ended(Id),
}

/// Signals that are sent together. Of several that say the same, one is sent.
#[derive(Debug, Default)]
pub(super) struct Batch {
    job_queued: bool,
    cancel_requested: bool,
    runs: BTreeMap<Id, RunSignal>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct RunSignal {
    next: u64,
    answered: bool,
    ended: bool,
}

impl Batch {
    pub(super) fn add(&mut self, signal: Signal) {
        match signal {
            Signal::JobQueued => {
                self.bytes += if self.job_queued { 0 } else { 2 };
                self.job_queued = true;
            }
            Signal::CancelRequested => {
                self.bytes += if self.cancel_requested { 0 } else { 2 };
                self.cancel_requested = true;
            }
            Signal::Advanced { id, next } => {
                let run = self.run(id);
                run.next = run.next.max(next);
            }
            Signal::Answered(id) => self.run(id).answered = true,
            Signal::Ended(id) => self.run(id).ended = true,
        }
    }

    fn run(&mut self, id: Id) -> &mut RunSignal {
        if !self.runs.contains_key(&id) {
            self.bytes += 3 * line_bytes(&id);
        }
        self.runs.entry(id).or_default()
    }

    /// At least as many bytes as it is encoded to.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn encode(self) -> String {
        let mut text = String::with_capacity(self.bytes);
        if self.job_queued {
            text.push_str("j\n");
        }
        if self.cancel_requested {
            text.push_str("c\n");
        }
        // Writing to a string does not fail.
        for (id, RunSignal { next, answered, ended }) in self.runs {
            if next > 0 {
                _ = writeln!(text, "l {id} {next}");
            }
            if answered {
                _ = writeln!(text, "a {id}");
            }
            if ended {
                _ = writeln!(text, "e {id}");
            }
        }
        text
    }
}

/// The longest line that names a run: its number has up to 20 digits.
fn line_bytes(id: &Id) -> usize {
    id.as_str().len() + 24
}

/// The signals of a message, without what is not understood.
pub(super) fn decode(message: &[u8]) -> impl Iterator<Item = Signal> {
    let text = std::str::from_utf8(message).unwrap_or_default();
    text.lines().filter_map(decode_line)
}

fn decode_line(line: &str) -> Option<Signal> {
    let mut words = line.split(' ');
    let kind = words.next()?;
    let mut id = || words.next().filter(|id| !id.is_empty() && id.len() <= MAX_ID_BYTES).map(Id::from);
    let signal = match kind {
        "j" => Signal::JobQueued,
        "c" => Signal::CancelRequested,
        "a" => Signal::Answered(id()?),
        "e" => Signal::Ended(id()?),
        "l" => Signal::Advanced { id: id()?, next: words.next()?.parse().ok()? },
        _ => return None,
    };
    words.next().is_none().then_some(signal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(signals: Vec<Signal>) -> (String, usize) {
        let mut batch = Batch::default();
        signals.into_iter().for_each(|signal| batch.add(signal));
        let bytes = batch.bytes();
        (batch.encode(), bytes)
    }

    #[test]
    fn what_is_sent_is_read_and_each_thing_is_said_once() {
        let (a, b) = (Id::from("resp_a"), Id::from("resp_b"));
        let (text, bytes) = batch(vec![
            Signal::Advanced { id: a.clone(), next: 7 },
            Signal::JobQueued,
            Signal::Ended(b.clone()),
            Signal::JobQueued,
            Signal::Advanced { id: a.clone(), next: u64::MAX },
            Signal::Answered(a.clone()),
            Signal::CancelRequested,
            Signal::CancelRequested,
        ]);
        assert!(text.len() <= bytes, "{} of {bytes}", text.len());
        let expected = [
            Signal::JobQueued,
            Signal::CancelRequested,
            Signal::Advanced { id: a.clone(), next: u64::MAX },
            Signal::Answered(a),
            Signal::Ended(b),
        ];
        assert_eq!(decode(text.as_bytes()).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_is_not_understood_is_left_out_and_does_not_hide_the_rest() {
        let long = format!("e {}", "x".repeat(MAX_ID_BYTES + 1));
        let text = format!("x\nc x\nc \nl resp_1\nl resp_1 -1\nl resp_1 1 2\nj now\n{long}\n\ne resp_2\r\nj");
        let expected = [Signal::Ended("resp_2".into()), Signal::JobQueued];
        assert_eq!(decode(text.as_bytes()).collect::<Vec<_>>(), expected);
        assert_eq!(decode(b"j\n\xff").count(), 0);
    }
}
