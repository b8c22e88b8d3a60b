//! Reads a response in progress back from its stored JSON, so that its run can be ended by another process.

use std::borrow::Cow;

use serde::Deserialize;

use super::{OutputItems, RequestEcho, Response, ResponseStatus, RunReport};
use crate::dialect::Dialect;
use crate::id::Id;
use crate::request::RunOptions;

impl Response {
    /// The response of a stored JSON object, without its output: items are rows of their own. `dialect` is that in
    /// which its run was begun.
    pub fn from_stored(json: &str, dialect: Dialect) -> serde_json::Result<Self> {
        // Read twice, as raw JSON cannot be read through `flatten`.
        let Head { id, created_at, service_tier, antwort } = serde_json::from_str(json)?;
        let echo: RequestEcho = serde_json::from_str(json)?;
        Ok(Self {
            id,
            object: "response",
            created_at,
            completed_at: None,
            status: ResponseStatus::InProgress,
            error: None,
            incomplete_details: None,
            output: OutputItems::new(dialect),
            usage: None,
            service_tier,
            echo: echo.into(),
            antwort: antwort.and_then(|report| {
                let omitted_tools = report.omitted_tools.into_iter().map(Cow::Owned).collect();
                RunReport::echo(Some(report.options), omitted_tools)
            }),
        })
    }
}

/// The fields of a response in progress that are not an echo of its request.
#[derive(Deserialize)]
struct Head {
    id: Id,
    created_at: i64,
    service_tier: String,
    #[serde(default)]
    antwort: Option<StoredReport>,
}

/// A [`RunReport`] before the end of its run.
#[derive(Deserialize)]
struct StoredReport {
    #[serde(flatten)]
    options: RunOptions,
    #[serde(default)]
    omitted_tools: Vec<String>,
}
