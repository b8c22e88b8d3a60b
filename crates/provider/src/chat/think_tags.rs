//! Parses `<think>…</think>` at the beginning of an answer, for servers that leave a model's reasoning in its text.
//!
//! Tags may be split between deltas. Only a tag at the beginning counts: later ones are text that the model writes.

use antwort_config::ThinkTags;

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";
/// Maximum bytes of white space that are buffered where a tag may follow.
const MAX_UNDECIDED: usize = 4096;

/// A segment of the answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Segment {
    Reasoning(String),
    Text(String),
}

/// Separates reasoning from text.
#[derive(Debug)]
pub(super) struct ThinkTagParser {
    position: Position,
    /// Text that may be the beginning of a tag.
    held: String,
    /// Directly after a tag, where white space is skipped.
    after_tag: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    Start,
    Inside,
    After,
}

impl ThinkTagParser {
    pub(super) fn new(tags: ThinkTags) -> Self {
        let position = match tags {
            ThinkTags::None => Position::After,
            ThinkTags::Tagged => Position::Start,
            ThinkTags::Opened => Position::Inside,
        };
        Self { position, held: String::new(), after_tag: position == Position::Inside }
    }

    /// Whether everything that follows is text, so that `push` need not be called any more.
    pub(super) fn is_done(&self) -> bool {
        self.position == Position::After && !self.after_tag
    }

    /// Processes the next delta of the answer.
    pub(super) fn push(&mut self, text: &str, out: &mut Vec<Segment>) {
        self.held.push_str(text);
        if self.position == Position::Start {
            let head = self.held.trim_start();
            if let Some(rest) = head.strip_prefix(OPEN) {
                self.held = rest.to_owned();
                self.position = Position::Inside;
                self.after_tag = true;
            } else if OPEN.starts_with(head) && self.held.len() <= MAX_UNDECIDED {
                return;
            } else {
                self.position = Position::After;
            }
        }
        if self.position == Position::Inside {
            self.skip_space();
            match self.held.split_once(CLOSE) {
                Some((reasoning, rest)) => {
                    emit(Segment::Reasoning, reasoning.trim_end(), out);
                    self.held = rest.to_owned();
                    self.position = Position::After;
                    self.after_tag = true;
                }
                None => {
                    let undecided = Some(undecided(&self.held)).filter(|length| *length <= MAX_UNDECIDED);
                    let rest = self.held.split_off(self.held.len() - undecided.unwrap_or(0));
                    emit(Segment::Reasoning, &std::mem::replace(&mut self.held, rest), out);
                    return;
                }
            }
        }
        self.skip_space();
        emit(Segment::Text, &std::mem::take(&mut self.held), out);
    }

    /// Emits what is buffered, at the end of the answer.
    pub(super) fn end(&mut self, out: &mut Vec<Segment>) {
        let kind = if self.position == Position::Inside { Segment::Reasoning } else { Segment::Text };
        emit(kind, &std::mem::take(&mut self.held), out);
    }

    fn skip_space(&mut self) {
        if self.after_tag {
            self.held = self.held.trim_start().to_owned();
            self.after_tag = self.held.is_empty();
        }
    }
}

fn emit(kind: fn(String) -> Segment, text: &str, out: &mut Vec<Segment>) {
    if !text.is_empty() {
        out.push(kind(text.to_owned()));
    }
}

/// Length of the suffix that may be the beginning of the closing tag, with the white space before it.
fn undecided(text: &str) -> usize {
    let tag =
        (1..CLOSE.len()).rev().find(|&length| CLOSE.get(..length).is_some_and(|start| text.ends_with(start)));
    let before = text.get(..text.len() - tag.unwrap_or(0)).unwrap_or(text);
    text.len() - before.trim_end().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(tags: ThinkTags, pieces: &[&str]) -> (String, String) {
        let (mut parser, mut out) = (ThinkTagParser::new(tags), Vec::new());
        for piece in pieces {
            parser.push(piece, &mut out);
        }
        parser.end(&mut out);
        let (mut reasoning, mut text) = (String::new(), String::new());
        for segment in out {
            match segment {
                Segment::Reasoning(segment) => reasoning.push_str(&segment),
                Segment::Text(segment) => text.push_str(&segment),
            }
        }
        (reasoning, text)
    }

    #[test]
    fn tags_are_found_however_they_are_cut() {
        use ThinkTags::{Opened, Tagged};
        let rows = [
            (Tagged, "<think>\nhm, 1 < 2\n</think>\n\nSo.", "hm, 1 < 2", "So."),
            (Tagged, "\n <think>a</think>b", "a", "b"),
            (Tagged, "No tag. <think>x</think>", "", "No tag. <think>x</think>"),
            (Tagged, "<thing>", "", "<thing>"),
            (Tagged, "<think></think>b", "", "b"),
            (Tagged, "<think>never closed </thi", "never closed </thi", ""),
            (Tagged, "<thi", "", "<thi"),
            (Opened, "a\n\nb</think>c", "a\n\nb", "c"),
            (Opened, "a</think>b</think>c", "a", "b</think>c"),
        ];
        for (tags, text, reasoning, answer) in rows {
            let expected = (reasoning.to_owned(), answer.to_owned());
            assert_eq!(split(tags, &[text]), expected, "{text}");
            let letters: Vec<String> = text.chars().map(String::from).collect();
            let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
            assert_eq!(split(tags, &letters), expected, "{text}, letter by letter");
        }
    }
}
