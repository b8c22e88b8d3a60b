//! Parses the model's arguments and validates them against the tool's schema, with its defaults in the place of required
//! ones that are absent: tools get these, too.

use std::sync::Arc;

use serde_json::Value;
use tower::Service;

use super::{ToolFuture, ToolRequest, ToolService, always_ready, ready};
use crate::call::Arguments;
use crate::error::{ToolError, ToolErrorCode};
use crate::verbatim;
use antwort_protocol::schema::CompiledSchema;

/// Schema violations per message: enough for a model to correct its call.
pub(super) const MAX_PROBLEMS: usize = 5;

/// Rejects calls with invalid arguments.
#[derive(Clone)]
pub(crate) struct Validate<S> {
    inner: S,
}

impl<S> Validate<S> {
    pub(crate) fn new(inner: S) -> Self {
        Self { inner }
    }
}

impl<S: ToolService> Service<ToolRequest> for Validate<S> {
    always_ready!();

    fn call(&mut self, mut request: ToolRequest) -> ToolFuture {
        let schema = match request.plan.arguments() {
            Ok(schema) => schema,
            Err(problem) => {
                let why = format!("the schema of the tool's arguments cannot be compiled: {problem}");
                return ready(Err(ToolError::refused(ToolErrorCode::ToolUnavailable, why)));
            }
        };
        match arguments(&request.call.raw, &schema) {
            Ok((arguments, completed)) => {
                let call = Arc::make_mut(&mut request.call);
                call.arguments = arguments;
                if let Some(completed) = completed {
                    call.raw = completed;
                }
                self.inner.call(request)
            }
            Err(error) => ready(Err(error)),
        }
    }
}

/// The arguments, and their text if it is another one than the model has written.
fn arguments(raw: &str, schema: &CompiledSchema) -> Result<(Arguments, Option<String>), ToolError> {
    // Models send empty text for calls without arguments.
    let mut value = match raw.trim_ascii() {
        "" => Value::Object(Arguments::new()),
        text => serde_json::from_str(text)
            .map_err(|error| ToolError::argument(format!("the arguments are not JSON: {error}")))?,
    };
    if !value.is_object() {
        return Err(ToolError::argument(format!(
            "the arguments must be a JSON object, not {}",
            kind(&value)
        )));
    }
    let filled = schema.fill_defaults(&mut value);
    schema.validate(&value, MAX_PROBLEMS).map_err(ToolError::argument)?;
    let completed = if filled.is_empty() { None } else { verbatim::with_members(raw, &filled) };
    match value {
        Value::Object(arguments) => Ok((arguments, completed)),
        _ => Ok((Arguments::new(), completed)),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
