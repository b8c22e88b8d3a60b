//! `<think>…</think>` at the head of an answer, for servers that leave a model's reasoning in its text.
//!
//! Tags may be split between pieces. Only the head counts: a tag further down is something that the
//! model writes about.

use crate::config::ThinkTags;

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";
/// White space that is held back where a tag may follow: nobody sends as much in earnest.
const MAX_UNDECIDED: usize = 4096;

/// A piece of the answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Reasoning(String),
    Text(String),
}

/// Tells reasoning from text.
#[derive(Debug)]
pub(super) struct ThinkTagParser {
    place: Place,
    /// What could still become a tag.
    held: String,
    /// White space at this place belongs to the tag before it.
    behind_tag: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Head,
    Inside,
    Behind,
}

impl ThinkTagParser {
    pub(super) fn new(tags: ThinkTags) -> Self {
        let place = match tags {
            ThinkTags::None => Place::Behind,
            ThinkTags::Tagged => Place::Head,
            ThinkTags::Opened => Place::Inside,
        };
        Self { place, held: String::new(), behind_tag: place == Place::Inside }
    }

    /// Whether all that follows is text, and `push` need not be called any more.
    pub(super) fn is_over(&self) -> bool {
        self.place == Place::Behind && !self.behind_tag
    }

    /// Takes in the next piece of the answer.
    pub(super) fn push(&mut self, text: &str, out: &mut Vec<Piece>) {
        self.held.push_str(text);
        if self.place == Place::Head {
            let head = self.held.trim_start();
            if let Some(rest) = head.strip_prefix(OPEN) {
                self.held = rest.to_owned();
                self.place = Place::Inside;
                self.behind_tag = true;
            } else if OPEN.starts_with(head) && self.held.len() <= MAX_UNDECIDED {
                return;
            } else {
                self.place = Place::Behind;
            }
        }
        if self.place == Place::Inside {
            self.skip_space();
            match self.held.split_once(CLOSE) {
                Some((reasoning, rest)) => {
                    give(Piece::Reasoning, reasoning.trim_end(), out);
                    self.held = rest.to_owned();
                    self.place = Place::Behind;
                    self.behind_tag = true;
                }
                None => {
                    let undecided = Some(undecided(&self.held)).filter(|length| *length <= MAX_UNDECIDED);
                    let rest = self.held.split_off(self.held.len() - undecided.unwrap_or(0));
                    give(Piece::Reasoning, &std::mem::replace(&mut self.held, rest), out);
                    return;
                }
            }
        }
        self.skip_space();
        give(Piece::Text, &std::mem::take(&mut self.held), out);
    }

    /// Gives out what was held back, as the answer is over.
    pub(super) fn end(&mut self, out: &mut Vec<Piece>) {
        let kind = if self.place == Place::Inside { Piece::Reasoning } else { Piece::Text };
        give(kind, &std::mem::take(&mut self.held), out);
    }

    fn skip_space(&mut self) {
        if self.behind_tag {
            self.held = self.held.trim_start().to_owned();
            self.behind_tag = self.held.is_empty();
        }
    }
}

fn give(kind: fn(String) -> Piece, text: &str, out: &mut Vec<Piece>) {
    if !text.is_empty() {
        out.push(kind(text.to_owned()));
    }
}

/// Length of the end of the text that could be the beginning of the closing tag, with the space before it.
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
        let (mut splitter, mut out) = (ThinkTagParser::new(tags), Vec::new());
        for piece in pieces {
            splitter.push(piece, &mut out);
        }
        splitter.end(&mut out);
        let (mut reasoning, mut text) = (String::new(), String::new());
        for piece in out {
            match piece {
                Piece::Reasoning(piece) => reasoning.push_str(&piece),
                Piece::Text(piece) => text.push_str(&piece),
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
