//! Removes the code fence that some models write around an answer that is to be JSON.
//!
//! The fence never reaches anybody: deltas add up to the final text, in a stream as in JSON. So what may be the fence is held
//! back: the first bytes until they cannot be one, and behind an opening fence the last bytes, until more text shows that
//! they are not the end. A text that begins with anything else is passed on untouched.
//!
//! What comes between the pieces of a text does not end it: some providers send reasoning, citations or state of their own
//! with each piece.

use super::machine::MAX_ANNOTATIONS;
use super::turn::ModelEvent;
use antwort_protocol::content::{Annotation, LogProb};

/// Bytes of white space before the fence, and of the name of a language behind it.
const MAX_HEAD_BYTES: usize = 64;
/// Bytes that are held back as the end. A model that writes nothing but white space is not held back for ever.
const MAX_TAIL_BYTES: usize = 256;
const FENCE: &str = "```";

/// Looks for a fence in the text of one message after the other.
#[derive(Debug, Default)]
pub struct CodeFence {
    state: State,
    /// What is held back.
    held: String,
    /// The log probabilities of what is held back as the beginning.
    logprobs: Vec<LogProb>,
    /// Citations that came while the whole text was held back: they have no place before it.
    annotations: Vec<Annotation>,
    /// Characters of the fence that was removed, by which citations count too far. Its characters are bytes.
    removed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// The text may begin with a fence.
    #[default]
    Head,
    /// Behind the fence that opens.
    Inside {
        /// Whether any of the text was passed on.
        begun: bool,
    },
    /// There is no fence.
    Outside,
}

/// What the beginning of a text is.
enum Head {
    /// Not known yet.
    Open,
    /// No fence.
    Other,
    /// A fence, with this length.
    Fence(usize),
}

impl CodeFence {
    /// Takes an event of the model, and gives those that are to be passed on.
    pub fn filter(&mut self, event: ModelEvent, mut pass: impl FnMut(ModelEvent)) {
        match event {
            ModelEvent::Text { delta, logprobs } => {
                if let Some(text) = self.push(delta, logprobs) {
                    pass(text);
                    self.pass_annotations(&mut pass);
                }
            }
            ModelEvent::Annotation(annotation) if self.holds_whole_text() => {
                if self.annotations.len() < MAX_ANNOTATIONS {
                    self.annotations.push(annotation);
                }
            }
            ModelEvent::Annotation(annotation) => pass(self.moved(annotation)),
            event @ (ModelEvent::Refusal(_) | ModelEvent::CallStarted { .. } | ModelEvent::Finish(_)) => {
                self.end_text(&mut pass);
                pass(event);
            }
            event => pass(event),
        }
    }

    /// The answer has ended: what is held back is passed on, unless it is the fence that closes.
    pub fn end(&mut self, mut pass: impl FnMut(ModelEvent)) {
        self.end_text(&mut pass);
        *self = Self::default();
    }

    /// The same for a text. More of its citations may still follow.
    fn end_text(&mut self, pass: &mut impl FnMut(ModelEvent)) {
        let (held, logprobs) = (std::mem::take(&mut self.held), std::mem::take(&mut self.logprobs));
        let state = std::mem::take(&mut self.state);
        let is_fence = matches!(state, State::Inside { .. }) && held.trim() == FENCE;
        if !held.is_empty() && !is_fence {
            pass(ModelEvent::Text { delta: held, logprobs });
        }
        self.pass_annotations(pass);
    }

    /// Whether there is text, and none of it was passed on.
    fn holds_whole_text(&self) -> bool {
        match self.state {
            State::Head => !self.held.is_empty(),
            State::Inside { begun } => !begun,
            State::Outside => false,
        }
    }

    fn pass_annotations(&mut self, pass: &mut impl FnMut(ModelEvent)) {
        for annotation in std::mem::take(&mut self.annotations) {
            pass(self.moved(annotation));
        }
    }

    /// A citation in the text as it is without the fence.
    fn moved(&self, mut annotation: Annotation) -> ModelEvent {
        if let Annotation::UrlCitation { start_index, end_index, .. }
        | Annotation::ContainerFileCitation { start_index, end_index, .. } = &mut annotation
        {
            *start_index = start_index.saturating_sub(self.removed);
            *end_index = end_index.saturating_sub(self.removed);
        }
        ModelEvent::Annotation(annotation)
    }

    fn push(&mut self, delta: String, mut logprobs: Vec<LogProb>) -> Option<ModelEvent> {
        match self.state {
            State::Outside => return Some(ModelEvent::Text { delta, logprobs }),
            State::Inside { .. } => return self.push_inside(&delta),
            State::Head => {}
        }
        self.held.push_str(&delta);
        self.logprobs.append(&mut logprobs);
        match head(&self.held) {
            Head::Open => None,
            Head::Other => {
                (self.state, self.removed) = (State::Outside, 0);
                let (delta, logprobs) = (std::mem::take(&mut self.held), std::mem::take(&mut self.logprobs));
                Some(ModelEvent::Text { delta, logprobs })
            }
            Head::Fence(length) => {
                (self.state, self.removed) = (State::Inside { begun: false }, length as u64);
                // Those of the fence would be among them.
                self.logprobs = Vec::new();
                let held = std::mem::take(&mut self.held);
                self.push_inside(held.get(length..).unwrap_or_default())
            }
        }
    }

    fn push_inside(&mut self, delta: &str) -> Option<ModelEvent> {
        self.held.push_str(delta);
        let tail = tail(&self.held);
        let end = if self.held.len() - tail > MAX_TAIL_BYTES { self.held.len() } else { tail };
        if end == 0 {
            return None;
        }
        self.state = State::Inside { begun: true };
        let rest = self.held.split_off(end);
        let delta = std::mem::replace(&mut self.held, rest);
        Some(ModelEvent::Text { delta, logprobs: Vec::new() })
    }
}

/// White space, three backticks, the name of a language, and white space to the end of the line.
fn head(text: &str) -> Head {
    let bare = text.trim_ascii_start();
    let blank = text.len() - bare.len();
    if blank > MAX_HEAD_BYTES {
        return Head::Other;
    }
    let Some(rest) = bare.strip_prefix(FENCE) else {
        return if FENCE.starts_with(bare) { Head::Open } else { Head::Other };
    };
    let name = rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || b"-_+.".contains(byte)).count();
    let behind = rest.get(name..).unwrap_or_default();
    let line = behind.trim_start_matches([' ', '\t', '\r']);
    let at = text.len() - line.len();
    if at > MAX_HEAD_BYTES + blank {
        return Head::Other;
    }
    match line.bytes().next() {
        None => Head::Open,
        Some(b'\n') => Head::Fence(at + 1),
        // The answer begins on the same line.
        Some(b'{' | b'[') => Head::Fence(at),
        Some(_) => Head::Other,
    }
}

/// Where the end of a text begins that may be the fence that closes: white space, backticks, white space.
fn tail(text: &str) -> usize {
    let bare = text.trim_ascii_end();
    let body = bare.trim_end_matches('`');
    let ticks = bare.len() - body.len();
    match ticks {
        // A fence that was begun and is followed by white space is none.
        1 | 2 if bare.len() < text.len() => bare.len(),
        _ => body.trim_ascii_end().len(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The text of an answer that comes in these pieces.
    fn passed(pieces: &[&str]) -> String {
        passed_between(pieces, &[])
    }

    /// The same with these events behind each piece.
    fn passed_between(pieces: &[&str], between: &[ModelEvent]) -> String {
        let (mut fence, mut text) = (CodeFence::default(), String::new());
        let mut add = |event: ModelEvent| {
            if let ModelEvent::Text { delta, .. } = event {
                assert!(!delta.is_empty());
                text.push_str(&delta);
            }
        };
        for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
            let event = ModelEvent::Text { delta: (*piece).to_owned(), logprobs: Vec::new() };
            fence.filter(event, &mut add);
            for event in between {
                fence.filter(event.clone(), &mut add);
            }
        }
        fence.end(&mut add);
        text
    }

    fn citation(start_index: u64, end_index: u64) -> ModelEvent {
        let (url, title) = ("u".to_owned(), "t".to_owned());
        ModelEvent::Annotation(Annotation::UrlCitation { url, title, start_index, end_index })
    }

    /// What some providers send with each piece of a text.
    fn companions() -> Vec<ModelEvent> {
        vec![
            ModelEvent::Reasoning("hm".to_owned()),
            ModelEvent::ReasoningSummary("hm".to_owned()),
            ModelEvent::ReasoningState(crate::turn::ProviderFields::new()),
            ModelEvent::CallId { slot: 0, call_id: "c".to_owned() },
            ModelEvent::ServiceTier("default".to_owned()),
            citation(0, 0),
        ]
    }

    const CASES: &[(&str, &str)] = &[
        ("```json\n{\"a\": 1}\n```", "{\"a\": 1}"),
        ("\n```JSON \r\n{\n  \"a\": \"`x`\"\n}\n\n```\n\n", "{\n  \"a\": \"`x`\"\n}"),
        ("```\n[1]\n```", "[1]"),
        ("```json{\"a\": 1}```", "{\"a\": 1}"),
        ("``` {\"a\": \"```\"}\n```", "{\"a\": \"```\"}"),
        // Cut off.
        ("```json\n{\"a\": 1", "{\"a\": 1"),
        ("```json\n{\"a\": 1}\n``", "{\"a\": 1}\n``"),
        ("```js", "```js"),
        // No fence around the whole.
        ("{\"a\": \"```json\\n```\"}", "{\"a\": \"```json\\n```\"}"),
        ("Here: ```json\n{}\n```", "Here: ```json\n{}\n```"),
        ("```json\n{}\n```\nHope this helps", "{}\n```\nHope this helps"),
        ("````\n{}\n````", "````\n{}\n````"),
        ("```not json, but words", "```not json, but words"),
        ("", ""),
        ("`", "`"),
        (" \n", " \n"),
    ];

    #[test]
    fn one_fence_around_the_whole_answer_is_removed() {
        for (text, expected) in CASES {
            assert_eq!(passed(&[text]), *expected, "{text:?}");
        }
    }

    #[test]
    fn what_comes_between_the_pieces_does_not_end_the_text() {
        let pieces = ["```js", "on\n", "{\"a\":", " \"```\"}", "\n``", "`"];
        assert_eq!(passed_between(&pieces, &companions()), "{\"a\": \"```\"}");
        // A call does: what follows it is another text.
        let call = ModelEvent::CallStarted {
            slot: 0,
            kind: crate::turn::CallKind::Function,
            call_id: None,
            name: "f".to_owned(),
            namespace: None,
            fields: None,
        };
        assert_eq!(passed_between(&["```\n[1]\n```", "```\n[2]\n```"], &[call]), "[1][2]");
    }

    #[test]
    fn citations_follow_their_text_and_count_without_the_fence() {
        let mut fence = CodeFence::default();
        let mut seen = Vec::new();
        let text = |text: &str| ModelEvent::Text { delta: text.to_owned(), logprobs: Vec::new() };
        let finish = ModelEvent::Finish(crate::turn::FinishReason::Stop);
        let events =
            [text("```json\n"), citation(9, 11), text("[1, 2]"), citation(3, 13), finish, citation(12, 13)];
        for event in events {
            fence.filter(event, |event| match event {
                ModelEvent::Text { delta, .. } => seen.push(delta),
                ModelEvent::Annotation(Annotation::UrlCitation { start_index, end_index, .. }) => {
                    seen.push(format!("{start_index}-{end_index}"));
                }
                _ => {}
            });
        }
        assert_eq!(seen, ["[1, 2]", "1-3", "0-5", "4-5"]);
        // Of a text that is cut off they are passed on, too.
        let mut left = Vec::new();
        for event in [text("```json\n[1"), citation(9, 10)] {
            fence.filter(event, |event| left.push(event));
        }
        fence.end(|event| left.push(event));
        let texts = left.iter().filter(|event| matches!(event, ModelEvent::Text { .. })).count();
        assert_eq!((texts, left.len()), (1, 2), "{left:?}");
    }

    #[test]
    fn white_space_without_an_end_is_not_held_back() {
        let mut fence = CodeFence::default();
        let text = |text: &str| ModelEvent::Text { delta: text.to_owned(), logprobs: Vec::new() };
        fence.filter(text("```json\n{"), |_| {});
        for _ in 0..10_000 {
            fence.filter(text(" \n"), |_| {});
            assert!(fence.held.len() <= MAX_TAIL_BYTES + 2);
        }
    }

    #[test]
    fn log_probabilities_are_those_of_the_text_or_none() {
        let of = |token: &str| LogProb {
            token: token.into(),
            logprob: -0.1,
            bytes: Box::default(),
            top_logprobs: Box::default(),
        };
        let both = |pieces: &[&str]| {
            let (mut fence, mut tokens) = (CodeFence::default(), String::new());
            for piece in pieces {
                let event = ModelEvent::Text { delta: (*piece).to_owned(), logprobs: vec![of(piece)] };
                fence.filter(event, |event| {
                    if let ModelEvent::Text { logprobs, .. } = event {
                        logprobs.iter().for_each(|logprob| tokens.push_str(&logprob.token));
                    }
                });
            }
            tokens
        };
        assert_eq!(both(&[" ", "`", "{}"]), " `{}");
        assert_eq!(both(&["```", "json\n", "{}", "\n```"]), "");
    }

    proptest! {
        #[test]
        fn the_pieces_in_which_a_text_comes_do_not_matter(
            text in "[ \\n]{0,3}(```|``|````)?(json)?[ ]?\\n?[a{}\" \\n`]{0,12}(\\n```)?[ \\n]{0,2}",
            cuts in proptest::collection::vec(0..40_usize, 0..8),
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&str> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
            let whole = passed(&[&text]);
            prop_assert_eq!(&passed(&pieces), &whole);
            prop_assert_eq!(&passed_between(&pieces, &companions()), &whole);
            // Nothing but a fence is removed.
            prop_assert!(text.contains(&whole) || whole.is_empty());
        }
    }
}
