//! `read_tool_output`: reads parts of a stored result that the model saw truncated.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::call::Arguments;
use super::context::ToolContext;
use super::definition::{Annotations, ToolDefinition};
use super::error::ToolError;
use super::executor::Tool;
use super::output::ToolOutput;
use super::result_store::ResultStore;

/// Default `length` of a read.
const DEFAULT_LENGTH: usize = 16 << 10;
/// Room for the header line with offset and total.
const HEADER_BYTES: usize = 128;

/// The tool. Offered if results are stored.
pub(super) struct ReadToolOutput {
    results: Arc<ResultStore>,
    /// Maximum bytes of a read: within the result limit, so that it is not truncated again.
    max_bytes: usize,
}

impl ReadToolOutput {
    /// The name that truncation notes refer to.
    pub(super) const NAME: &str = "read_tool_output";

    pub(super) fn new(results: Arc<ResultStore>, max_result_bytes: usize) -> Self {
        // At least one character must fit, or reading would make no progress.
        Self { results, max_bytes: max_result_bytes.saturating_sub(HEADER_BYTES).max(4) }
    }
}

#[async_trait]
impl Tool for ReadToolOutput {
    fn definition(&self) -> ToolDefinition {
        let parameters = json!({
            "type": "object",
            "properties": {
                "id": {"type": "string", "description": "The id that the note in the result names."},
                "offset": {"type": "integer", "minimum": 0, "description": "The byte to begin with; 0 by default."},
                "length": {"type": "integer", "minimum": 1, "description": "How many bytes to read."},
            },
            "required": ["id"],
            "additionalProperties": false,
        });
        let description = "Reads a part of an earlier tool result that was too long to be shown whole.";
        ToolDefinition::new(Self::NAME, description, &parameters).with_annotations(Annotations::READ_ONLY)
    }

    async fn call(&self, arguments: &Arguments, context: &ToolContext) -> Result<ToolOutput, ToolError> {
        let id = arguments.get("id").and_then(Value::as_str).unwrap_or_default();
        let number = |name| {
            let number = arguments.get(name).and_then(Value::as_f64);
            // JSON Schema accepts 3.0 as an integer, too.
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
            number.map(|number| number as usize)
        };
        let stored = self
            .results
            .read(context, id)
            .ok_or_else(|| ToolError::failed(format!("result {id} does not exist or has expired")))?;
        let (text, total) = (stored.text.as_str(), stored.text.len());
        let from = number("offset").unwrap_or(0);
        if from >= total {
            return Err(ToolError::argument(format!(
                "offset {from} is beyond the end of the result ({total} bytes)"
            )));
        }
        let from = text.floor_char_boundary(from);
        let length = number("length").unwrap_or(DEFAULT_LENGTH).clamp(4, self.max_bytes);
        let to = text.floor_char_boundary(from.saturating_add(length).min(total));
        let part = text.get(from..to).unwrap_or_default();
        Ok(ToolOutput::silent(format!("[bytes {from} to {to} of {total}]\n{part}")))
    }
}
