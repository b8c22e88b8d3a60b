//! The key `antwort` of a response: the echo of the request's, and in the last snapshot what came of the run.

use serde::Serialize;

use crate::protocol::request::{OnMismatch, RunOptions};

/// The object. Made in one of two ways, so that no snapshot has half of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunReport {
    /// With the limits that hold.
    #[serde(flatten)]
    options: Option<RunOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    structured: Option<StructuredValidation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    turns: Option<u32>,
}

/// What is known of a run when it has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunOutcome {
    /// Inferences that were begun.
    pub turns: u32,
    /// Of the answer's form, where one was asked for.
    pub structured: Option<StructuredValidation>,
}

/// Whether the answer has the form that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StructuredValidation {
    /// The setting that held.
    pub on_mismatch: OnMismatch,
    /// Null where there was no whole answer to judge: it was cut off or refused, or calls are still to be made.
    pub valid: Option<bool>,
    /// What is wrong, and where.
    pub error: Option<String>,
    /// The answer is valid because the model was asked once more.
    pub repaired: bool,
}

impl RunReport {
    /// Before the end: the echo, where the request has any.
    pub fn echo(options: Option<RunOptions>) -> Option<Box<Self>> {
        options.map(|options| Box::new(Self { options: Some(options), structured: None, turns: None }))
    }

    /// At the end. The verdict stands where the request's `structured` was.
    pub fn with_outcome(echo: Option<Box<Self>>, outcome: RunOutcome) -> Box<Self> {
        let mut options = echo.and_then(|echo| echo.options);
        if let (Some(options), true) = (&mut options, outcome.structured.is_some()) {
            options.structured = None;
        }
        Box::new(Self { options, structured: outcome.structured, turns: Some(outcome.turns) })
    }
}
