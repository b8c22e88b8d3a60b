//! The key `antwort` of a response: the echo of the run options, and in the last snapshot the outcome of the run.

use serde::Serialize;

use crate::protocol::request::{OnMismatch, RunOptions};

/// The object. Made in one of two ways, so that no snapshot has half of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunReport {
    /// With the limits in force.
    #[serde(flatten)]
    options: Option<RunOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    structured: Option<StructuredValidation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    turns: Option<u32>,
}

/// The outcome of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunOutcome {
    /// Inferences that were started.
    pub turns: u32,
    /// The verdict on the answer's format, if one was requested.
    pub structured: Option<StructuredValidation>,
}

/// Whether the answer matches the requested format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StructuredValidation {
    /// The setting in force.
    pub on_mismatch: OnMismatch,
    /// Null if there was no complete answer to validate: it was cut off or refused, or calls are still to be made.
    pub valid: Option<bool>,
    /// What is wrong, and where.
    pub error: Option<String>,
    /// The answer is valid after the model was asked to repair it.
    pub repaired: bool,
}

impl RunReport {
    /// Before the end: the echo, if the request has run options.
    pub fn echo(options: Option<RunOptions>) -> Option<Box<Self>> {
        options.map(|options| Box::new(Self { options: Some(options), structured: None, turns: None }))
    }

    /// At the end. The verdict replaces the `structured` of the request.
    pub fn with_outcome(echo: Option<Box<Self>>, outcome: RunOutcome) -> Box<Self> {
        let mut options = echo.and_then(|echo| echo.options);
        if let (Some(options), true) = (&mut options, outcome.structured.is_some()) {
            options.structured = None;
        }
        Box::new(Self { options, structured: outcome.structured, turns: Some(outcome.turns) })
    }
}
