//! Whether an answer keeps to the form that the client asked for, and what becomes of one that does not.

use serde_json::Value;

use crate::admission::{BlockingPool, Requester};
use crate::protocol::content::ContentPart;
use crate::protocol::error::ApiError;
use crate::protocol::item::{Item, Role};
use crate::protocol::json::Json;
use crate::protocol::parse::shorten;
use crate::protocol::request::{OnMismatch, TextFormat};
use crate::protocol::response::StructuredVerdict;
use crate::protocol::schema::Schema;

/// Bytes of a schema that is compiled at once: less than starting a thread's work would cost.
const SMALL_SCHEMA: usize = 4 << 10;

/// What answers are held to, and what is known of the latest one.
pub(super) struct Structured {
    form: Form,
    strict: bool,
    on_mismatch: OnMismatch,
    answer: Answer,
    /// The model was told what was wrong with its first answer.
    asked_again: bool,
}

/// Made before the model is asked, so that a schema that is none is refused at once.
enum Form {
    /// Anything goes.
    Free,
    /// A JSON object.
    Object,
    /// JSON of a schema.
    Schema(Box<Schema>),
}

/// The latest answer.
enum Answer {
    NotJudged,
    Valid,
    Invalid(String),
}

/// What follows from an answer.
pub(super) enum Judgement {
    /// The response is completed.
    Keep,
    /// It fails.
    Fail(ApiError),
    /// The model is asked once more; this is wrong with what it said.
    Repair(String),
}

impl Structured {
    /// What `format` demands. A schema of some size is compiled off the workers, on this requester's share of threads.
    pub(super) async fn new(
        format: &TextFormat,
        on_mismatch: OnMismatch,
        blocking: &BlockingPool,
        requester: &Requester,
    ) -> Result<Self, ApiError> {
        let (form, strict) = match format {
            TextFormat::Text => (Form::Free, false),
            TextFormat::JsonObject => (Form::Object, false),
            TextFormat::JsonSchema(format) => {
                let schema = if format.schema.get().len() <= SMALL_SCHEMA {
                    compile(&format.schema)?
                } else {
                    let schema = format.schema.clone();
                    blocking.run(requester, move || compile(&schema)).await??
                };
                (Form::Schema(Box::new(schema)), format.strict == Some(true))
            }
        };
        Ok(Self { form, strict, on_mismatch, answer: Answer::NotJudged, asked_again: false })
    }

    /// For what is no answer and has no form.
    pub(super) fn free() -> Self {
        let on_mismatch = OnMismatch::Keep;
        Self { form: Form::Free, strict: false, on_mismatch, answer: Answer::NotJudged, asked_again: false }
    }

    /// The model is about to answer: what was said before is not the answer any more.
    pub(super) fn begin_answer(&mut self) {
        self.answer = Answer::NotJudged;
    }

    /// Whether judging what has been said of a turn will lead to a repair.
    pub(super) fn needs_repair(&self, turn: &[Item]) -> bool {
        self.on_mismatch == OnMismatch::Repair
            && !self.asked_again
            && matches!(self.form.check(turn), Answer::Invalid(_))
    }

    /// Judges the turn with which the model ends its work.
    pub(super) fn judge(&mut self, turn: &[Item]) -> Judgement {
        self.answer = self.form.check(turn);
        let Answer::Invalid(problem) = &self.answer else { return Judgement::Keep };
        match self.on_mismatch {
            OnMismatch::Repair if !self.asked_again => {
                self.asked_again = true;
                Judgement::Repair(problem.clone())
            }
            OnMismatch::Fail => Judgement::Fail(violated(problem)),
            OnMismatch::Auto | OnMismatch::Repair if self.strict => Judgement::Fail(violated(problem)),
            OnMismatch::Auto | OnMismatch::Repair | OnMismatch::Keep => Judgement::Keep,
        }
    }

    /// What the response says of its answer.
    pub(super) fn verdict(&self) -> Option<StructuredVerdict> {
        if matches!(self.form, Form::Free) {
            return None;
        }
        let (valid, error) = match &self.answer {
            Answer::NotJudged => (None, None),
            Answer::Valid => (Some(true), None),
            Answer::Invalid(problem) => (Some(false), Some(problem.clone())),
        };
        let repaired = self.asked_again && valid == Some(true);
        Some(StructuredVerdict { on_mismatch: self.on_mismatch, valid, error, repaired })
    }
}

impl Form {
    /// Checks the last message. A refusal is an answer in no form, and is not judged.
    fn check(&self, turn: &[Item]) -> Answer {
        if matches!(self, Self::Free) {
            return Answer::NotJudged;
        }
        let text = match final_text(turn) {
            Said::Text(text) => text,
            Said::Refusal => return Answer::NotJudged,
            Said::Nothing => return Answer::Invalid("the answer has no text".to_owned()),
        };
        let value: Value = match serde_json::from_str(&text) {
            Ok(value) => value,
            Err(error) => return Answer::Invalid(format!("the answer is not JSON ({error})")),
        };
        match self {
            Self::Schema(schema) => match schema.check_unquoted(&value) {
                Ok(()) => Answer::Valid,
                Err(problem) => Answer::Invalid(problem),
            },
            Self::Object if !value.is_object() => {
                Answer::Invalid("the answer is not a JSON object".to_owned())
            }
            Self::Object | Self::Free => Answer::Valid,
        }
    }
}

fn compile(schema: &Json) -> Result<Schema, ApiError> {
    let invalid = |why: String| ApiError::invalid("invalid_json_schema", "text.format.schema", why);
    let value: Value = serde_json::from_str(schema.get())
        .map_err(|error| invalid(format!("The schema cannot be read: {error}.")))?;
    // Patterns were counted when the request was read.
    Schema::compile_counted(&value)
        .map_err(|error| invalid(format!("The schema is not valid: {}.", shorten(&error))))
}

fn violated(problem: &str) -> ApiError {
    ApiError::new(
        500,
        "model_error",
        "invalid_structured_output",
        format!(
            "The model's answer does not keep to 'text.format': {problem}. The text is kept in the output."
        ),
    )
}

/// What the last assistant message of a turn says.
enum Said {
    Text(String),
    Refusal,
    Nothing,
}

fn final_text(turn: &[Item]) -> Said {
    let message = turn.iter().rev().find_map(|item| match item {
        Item::Message(message) if message.role == Role::Assistant => Some(message),
        _ => None,
    });
    let Some(message) = message else { return Said::Nothing };
    let mut text = String::new();
    for part in &message.content {
        match part {
            ContentPart::OutputText(part) => text.push_str(&part.text),
            ContentPart::Refusal(_) => return Said::Refusal,
            _ => {}
        }
    }
    Said::Text(text)
}
