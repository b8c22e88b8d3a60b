//! One request and all that came back.

use std::time::Duration;

use serde_json::Value;

use super::excerpt::quoted;
use super::finding::Judgement;
use super::reply::Reply;
use antwort_provider::{ProviderError, ProviderErrorKind};

/// Why the rest of an answer was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// The question is what happens when the connection is closed.
    Asked,
    /// It has more words than any answer needs.
    Words,
    /// It has more bytes.
    Bytes,
}

/// A request's outcome.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    /// Absent if there was no answer; `failure` says why.
    pub status: Option<u16>,
    pub failure: Option<String>,
    /// Names and values of headers that are looked at, in lower case.
    pub headers: Vec<(String, String)>,
    pub reply: Reply,
    /// Chunks of a stream; 0: the body came as a whole.
    pub chunks: usize,
    /// Whether the end mark came.
    pub done: bool,
    /// Lines that are comments.
    pub comments: usize,
    /// Data that is no JSON.
    pub garbage: Option<String>,
    pub error: Option<ProviderError>,
    pub cut: Option<Cut>,
    /// Until the first event.
    pub first: Duration,
    pub took: Duration,
    /// Bytes of the request.
    pub sent: usize,
}

impl Exchange {
    /// Whether an error came with status 200.
    pub(super) fn has_hidden_error(&self) -> bool {
        self.is_success() && self.error.is_some()
    }

    pub(super) fn is_success(&self) -> bool {
        self.status.is_some_and(|status| (200..300).contains(&status))
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The message of its error.
    pub(super) fn error_message(&self) -> &str {
        self.error.as_ref().map_or("", |error| error.message.as_str())
    }

    /// Whether the gateway recognises the error as a prompt that is too long.
    pub(super) fn is_overflow(&self) -> bool {
        self.error.as_ref().is_some_and(|error| error.kind == ProviderErrorKind::ContextLength)
    }

    /// The answer, or what it means that there is none: a refusal is "no", everything else is not known.
    pub(super) fn usable(&self) -> Result<&Reply, Judgement> {
        let Some(status) = self.status else {
            return Err(Judgement::unknown(self.failure.as_deref().unwrap_or("no answer")));
        };
        match (&self.error, status) {
            (Some(_), 401 | 403 | 404 | 408 | 429 | 502..=504) => Err(Judgement::unknown(self.refusal())),
            (Some(_), _) => Err(Judgement::no(self.refusal())),
            (None, _) if self.reply.choices.is_empty() => Err(Judgement::unknown(self.refusal())),
            (None, _) => Ok(&self.reply),
        }
    }

    /// Status and message of a refusal, or what is wrong with an answer.
    pub(super) fn refusal(&self) -> String {
        let Some(status) = self.status else {
            return self.failure.clone().unwrap_or_else(|| "no answer".to_owned());
        };
        match (&self.error, &self.garbage, &self.failure) {
            (Some(error), ..) => format!("status {status}: {}", quoted(&error.message)),
            (None, Some(garbage), _) => format!("status {status}, but no completion: {}", quoted(garbage)),
            (None, None, Some(failure)) => format!("status {status}, then {failure}"),
            (None, None, None) => format!("status {status} without a completion"),
        }
    }

    /// Tokens that it cost, counted or estimated.
    pub(super) fn tokens(&self) -> (u64, u64) {
        if self.status.is_none() {
            return (0, 0);
        }
        let counted = |name| self.reply.count(name);
        let input = counted("prompt_tokens").unwrap_or_else(|| {
            let refused = self.error.is_some();
            if refused { 0 } else { self.sent as u64 / 4 }
        });
        (input, counted("completion_tokens").unwrap_or(self.reply.words() as u64 * 4 / 3))
    }
}

/// Whether a chunk or a body with status 200 is an error.
pub(super) fn is_error(chunk: &Value) -> bool {
    let has = |value: &Value| value.get("error").is_some_and(|error| !is_empty(error));
    let in_choice = chunk.pointer("/choices/0").is_some_and(has);
    let is_old_form = chunk.get("object").and_then(Value::as_str) == Some("error");
    has(chunk) || in_choice || is_old_form
}

fn is_empty(error: &Value) -> bool {
    match error {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Exchange, is_error};
    use crate::finding::Answer;
    use antwort_config::ProviderSettings;
    use antwort_provider::read_error;

    #[test]
    fn a_refusal_is_no_and_what_says_nothing_about_the_question_is_unknown() {
        for (status, answer) in [
            (400, Answer::No),
            (422, Answer::No),
            (500, Answer::No),
            (401, Answer::Unknown),
            (429, Answer::Unknown),
            (503, Answer::Unknown),
        ] {
            let error = read_error(
                r#"{"error": {"message": "no\u001b"}}"#,
                Some(status),
                &ProviderSettings::default(),
            );
            let exchange = Exchange { status: Some(status), error: Some(error), ..Exchange::default() };
            let judgement = exchange.usable().unwrap_err();
            assert_eq!((judgement.answer, judgement.evidence), (answer, format!("status {status}: \"no\"")));
        }
        assert_eq!(Exchange::default().usable().unwrap_err().answer, Answer::Unknown);
    }

    #[test]
    fn errors_with_status_200_in_their_shapes() {
        for error in [
            json!({"error": {"message": "m"}}),
            json!({"error": "m"}),
            json!({"object": "error", "message": "m"}),
            json!({"choices": [{"error": {"code": 502}}]}),
        ] {
            assert!(is_error(&error), "{error}");
        }
        for none in [
            json!({"error": null}),
            json!({"error": {"message": "", "code": null}}),
            json!({"choices": []}),
            json!(7),
        ] {
            assert!(!is_error(&none), "{none}");
        }
    }
}
