//! Validates structured results against the schema that the tool declares (`tools.results.return_schema`).

use std::borrow::Cow;
use std::sync::Arc;

use tower::Service;

use super::validate::MAX_PROBLEMS;
use super::{ToolFuture, ToolRequest, ToolService, always_ready};
use crate::error::{FailureStage, ToolError, ToolErrorCode};
use crate::output::ToolOutput;
use antwort_config::ReturnSchema;
use antwort_protocol::schema::CompiledSchema;

/// Logs or rejects results that violate the schema. Error results are not validated.
#[derive(Clone)]
pub(crate) struct Returns<S> {
    inner: S,
}

impl<S> Returns<S> {
    pub(crate) fn new(inner: S) -> Self {
        Self { inner }
    }
}

impl<S: ToolService> Service<ToolRequest> for Returns<S> {
    always_ready!();

    fn call(&mut self, request: ToolRequest) -> ToolFuture {
        if !request.plan.checks_results() {
            return self.inner.call(request);
        }
        let plan = Arc::clone(&request.plan);
        let response = self.inner.call(request);
        Box::pin(async move {
            let output = response.await?;
            let Some((schema, severity)) = plan.returns() else { return Ok(output) };
            match problem(&schema, &output) {
                Some(problem) if severity == ReturnSchema::Error => Err(ToolError::new(
                    ToolErrorCode::InvalidResult,
                    FailureStage::Tool,
                    format!("the result violates the tool's return schema: {problem}"),
                )),
                Some(_) => {
                    // Without `problem`, which quotes the result: results are not logged.
                    tracing::warn!(tool = plan.name(), "tool result violates its return schema");
                    Ok(output)
                }
                None => Ok(output),
            }
        })
    }
}

fn problem(schema: &CompiledSchema, output: &ToolOutput) -> Option<Cow<'static, str>> {
    match &output.structured {
        _ if output.is_error || output.is_async || output.requires_input.is_some() => None,
        None => Some("the structured result is missing".into()),
        Some(value) => schema.validate(value, MAX_PROBLEMS).err().map(Cow::from),
    }
}
