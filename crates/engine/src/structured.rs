//! Structured outputs: validates an answer against `text.format`, and decides what happens to one that does not
//! match.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use antwort_identity::Requester;
use antwort_limits::BlockingPool;
use antwort_protocol::content::ContentPart;
use antwort_protocol::error::{ApiError, ErrorKind};
use antwort_protocol::item::{Item, Role};
use antwort_protocol::json::RawJson;
use antwort_protocol::parse::truncate_for_display;
use antwort_protocol::request::{OnMismatch, TextFormat};
use antwort_protocol::response::StructuredValidation;
use antwort_protocol::schema::CompiledSchema;

/// A schema up to this size is compiled in place: less work than starting a blocking task.
const SMALL_SCHEMA: usize = 4 << 10;

/// Validates answers.
pub(super) struct OutputValidator {
    form: OutputFormat,
    strict: bool,
    on_mismatch: OnMismatch,
}

/// Compiled before the model is asked, so that an invalid schema is refused at once.
enum OutputFormat {
    Free,
    Object,
    Schema(Box<CompiledSchema>),
}

/// Whether the latest answer has the form that was asked for.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Validity {
    #[default]
    NotJudged,
    Valid,
    /// What is wrong with it.
    Invalid(String),
}

impl Validity {
    pub(super) fn is_not_judged(&self) -> bool {
        *self == Self::NotJudged
    }
}

pub(super) enum OutputVerdict {
    /// The response is completed.
    Accept,
    /// The response fails.
    Fail(ApiError),
    /// The model is asked once more, and told this problem.
    Repair(String),
}

impl OutputValidator {
    /// Compiles `format`. A larger schema is compiled on a blocking thread, within this requester's share.
    pub(super) async fn new(
        format: &TextFormat,
        on_mismatch: OnMismatch,
        blocking: &BlockingPool,
        requester: &Requester,
    ) -> Result<Self, ApiError> {
        let (form, strict) = match format {
            TextFormat::Text => (OutputFormat::Free, false),
            TextFormat::JsonObject => (OutputFormat::Object, false),
            TextFormat::JsonSchema(format) => {
                let schema = if format.schema.get().len() <= SMALL_SCHEMA {
                    compile(&format.schema)?
                } else {
                    let schema = format.schema.clone();
                    blocking.run(requester, move || compile(&schema)).await??
                };
                (OutputFormat::Schema(Box::new(schema)), format.strict == Some(true))
            }
        };
        Ok(Self { form, strict, on_mismatch })
    }

    /// Accepts any answer.
    pub(super) fn unconstrained() -> Self {
        Self { form: OutputFormat::Free, strict: false, on_mismatch: OnMismatch::Keep }
    }

    /// Whether validating this turn will lead to a repair. `was_repaired`: the model was already asked for one.
    pub(super) fn needs_repair(&self, turn: &[Item], was_repaired: bool) -> bool {
        self.on_mismatch == OnMismatch::Repair
            && !was_repaired
            && matches!(self.form.check(turn), Validity::Invalid(_))
    }

    /// Validates the turn with which the model ends its work.
    pub(super) fn validate(&self, turn: &[Item]) -> Validity {
        self.form.check(turn)
    }

    /// What follows an answer. `was_repaired`: the model was already asked for a repair.
    pub(super) fn judge(&self, answer: &Validity, was_repaired: bool) -> OutputVerdict {
        let Validity::Invalid(problem) = answer else { return OutputVerdict::Accept };
        match self.on_mismatch {
            OnMismatch::Repair if !was_repaired => OutputVerdict::Repair(problem.clone()),
            OnMismatch::Fail => OutputVerdict::Fail(schema_violation(problem)),
            OnMismatch::Auto | OnMismatch::Repair if self.strict => {
                OutputVerdict::Fail(schema_violation(problem))
            }
            OnMismatch::Auto | OnMismatch::Repair | OnMismatch::Keep => OutputVerdict::Accept,
        }
    }

    /// The verdict that the response shows.
    pub(super) fn verdict(&self, answer: &Validity, was_repaired: bool) -> Option<StructuredValidation> {
        if matches!(self.form, OutputFormat::Free) {
            return None;
        }
        let (valid, error) = match answer {
            Validity::NotJudged => (None, None),
            Validity::Valid => (Some(true), None),
            Validity::Invalid(problem) => (Some(false), Some(problem.clone())),
        };
        let repaired = was_repaired && valid == Some(true);
        Some(StructuredValidation { on_mismatch: self.on_mismatch, valid, error, repaired })
    }
}

impl OutputFormat {
    /// Checks the last message. A refusal has no format and is not checked.
    fn check(&self, turn: &[Item]) -> Validity {
        if matches!(self, Self::Free) {
            return Validity::NotJudged;
        }
        let text = match final_text(turn) {
            FinalOutput::Text(text) => text,
            FinalOutput::Refusal => return Validity::NotJudged,
            FinalOutput::None => return Validity::Invalid("the answer has no text".to_owned()),
        };
        let value: Value = match serde_json::from_str(&text) {
            Ok(value) => value,
            Err(error) => return Validity::Invalid(format!("the answer is not JSON ({error})")),
        };
        match self {
            Self::Schema(schema) => match schema.validate_redacted(&value) {
                Ok(()) => Validity::Valid,
                Err(problem) => Validity::Invalid(problem),
            },
            Self::Object if !value.is_object() => {
                Validity::Invalid("the answer is not a JSON object".to_owned())
            }
            Self::Object | Self::Free => Validity::Valid,
        }
    }
}

fn compile(schema: &RawJson) -> Result<CompiledSchema, ApiError> {
    let invalid = |why: String| ApiError::invalid("invalid_json_schema", "text.format.schema", why);
    let value: Value = serde_json::from_str(schema.get())
        .map_err(|error| invalid(format!("The schema cannot be read: {error}.")))?;
    // The number of patterns was checked when the request was read.
    CompiledSchema::compile_prechecked(&value)
        .map_err(|error| invalid(format!("The schema is not valid: {}.", truncate_for_display(&error))))
}

fn schema_violation(problem: &str) -> ApiError {
    ApiError::new(
        ErrorKind::ModelError,
        format!(
            "The model's answer does not match 'text.format': {problem}. The text is kept in the output."
        ),
    )
    .with_code("invalid_structured_output")
}

enum FinalOutput {
    Text(String),
    Refusal,
    None,
}

fn final_text(turn: &[Item]) -> FinalOutput {
    let message = turn.iter().rev().find_map(|item| match item {
        Item::Message(message) if message.role == Role::Assistant => Some(message),
        _ => None,
    });
    let Some(message) = message else { return FinalOutput::None };
    let mut text = String::new();
    for part in &message.content {
        match part {
            ContentPart::OutputText(part) => text.push_str(&part.text),
            ContentPart::Refusal(_) => return FinalOutput::Refusal,
            _ => {}
        }
    }
    FinalOutput::Text(text)
}
