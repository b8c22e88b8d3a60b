//! A question as data: what is sent, how the answers are judged, and what a gap it is.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::exchange::Exchange;
use super::finding::{Answer, Judgement};
use super::seen::Seen;

/// A question about a server.
pub(super) struct Question {
    pub id: &'static str,
    pub text: &'static str,
    pub way: Way,
    /// Asked with `--deep` only: it costs many tokens.
    pub deep: bool,
    /// Asked several times, as the model's habit decides, too.
    pub repeated: bool,
    /// What does not work unless the answer is "yes" or unknown.
    pub gap: Option<&'static str>,
}

/// How a question is answered.
pub(super) enum Way {
    /// By requests.
    Asked { ask: fn(&Setup) -> Vec<Ask>, judge: fn(&[Exchange], &Setup) -> Judgement },
    /// By whether an answer follows a JSON Schema, of its member `value`, that the prompt contradicts.
    Schema { schema: &'static str, value: &'static str, tools: bool },
    /// By what the list of models and the answers to all other questions show.
    Seen(fn(&Seen) -> Judgement),
}

/// A request.
pub(super) struct Ask {
    pub body: Value,
    /// Whether the connection is closed at the first chunk.
    pub cut: bool,
}

impl Ask {
    pub(super) fn new(body: Value) -> Self {
        Self { body, cut: false }
    }
}

/// What requests are made with, as far as it has been found out.
#[derive(Debug, Default)]
pub(super) struct Setup {
    pub model: String,
    /// The field that limits answers, and its value.
    pub(crate) cap_field: Option<&'static str>,
    pub cap: u32,
    pub context_window: Option<u64>,
    /// Answers to earlier questions.
    pub answers: BTreeMap<&'static str, Answer>,
}

impl Setup {
    /// A streamed request with these messages.
    pub(super) fn chat(&self, messages: &Value) -> Value {
        let mut body = self.bare(messages);
        if let Some(field) = self.cap_field {
            set(&mut body, field, json!(self.cap));
        }
        if self.answered("stream_usage") == Some(Answer::Yes) {
            set(&mut body, "stream_options", json!({"include_usage": true}));
        }
        body
    }

    /// The same without the fields that some servers refuse.
    pub(super) fn bare(&self, messages: &Value) -> Value {
        json!({"model": self.model, "messages": messages, "stream": true})
    }

    /// A streamed request with one message of the user.
    pub(super) fn prompt(&self, prompt: &str) -> Value {
        self.chat(&user(prompt))
    }

    /// The same, with another limit of tokens.
    pub(super) fn prompt_within(&self, cap: u32, prompt: &str) -> Value {
        let mut body = self.prompt(prompt);
        if let Some(field) = self.cap_field {
            set(&mut body, field, json!(cap));
        }
        body
    }

    /// The answer to an earlier question.
    pub(super) fn answered(&self, id: &str) -> Option<Answer> {
        self.answers.get(id).copied()
    }

    /// Takes in the answer to a question.
    pub(super) fn learn(&mut self, id: &'static str, answer: Answer) {
        self.answers.insert(id, answer);
        if answer == Answer::Yes && self.cap_field.is_none() && is_cap(id) {
            self.cap_field = Some(id);
        }
    }
}

/// Whether a question is about a field that limits answers, and has its name.
pub(super) fn is_cap(id: &str) -> bool {
    matches!(id, "max_tokens" | "max_completion_tokens")
}

/// One message of the user.
pub(super) fn user(prompt: &str) -> Value {
    json!([{"role": "user", "content": prompt}])
}

/// The body with another field.
pub(super) fn with(mut body: Value, name: &str, value: Value) -> Value {
    set(&mut body, name, value);
    body
}

fn set(body: &mut Value, name: &str, value: Value) {
    if let Some(fields) = body.as_object_mut() {
        fields.insert(name.to_owned(), value);
    }
}
