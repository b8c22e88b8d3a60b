//! The key `antwort` of a response: the echo of the run options, what the request has that the run has not, and in the
//! last snapshot the outcome of the run.

use std::borrow::Cow;

use serde::Serialize;

use crate::request::{OnMismatch, RunOptions};

/// The object. Made in one of two ways, so that no snapshot has half of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunReport {
    /// With the limits in force.
    #[serde(flatten)]
    options: Option<RunOptions>,
    /// Types of tools of the request that are not supported and were left out, each once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    omitted_tools: Vec<Cow<'static, str>>,
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
    /// Before the end: the echo, if the request has run options, and the types of tools that were left out of it.
    pub fn echo(options: Option<RunOptions>, omitted_tools: Vec<Cow<'static, str>>) -> Option<Box<Self>> {
        (options.is_some() || !omitted_tools.is_empty())
            .then(|| Box::new(Self { options, omitted_tools, structured: None, turns: None }))
    }

    /// At the end. The verdict replaces the `structured` of the request.
    pub fn with_outcome(echo: Option<Box<Self>>, outcome: RunOutcome) -> Box<Self> {
        let (mut options, omitted_tools) =
            echo.map_or_else(Default::default, |echo| (echo.options, echo.omitted_tools));
        if let (Some(options), true) = (&mut options, outcome.structured.is_some()) {
            options.structured = None;
        }
        Box::new(Self { options, omitted_tools, structured: outcome.structured, turns: Some(outcome.turns) })
    }
}
