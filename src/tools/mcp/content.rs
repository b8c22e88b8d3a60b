//! What a server's results are to the model.

use super::connection::{RemoteContent, RemoteResult};
use crate::tools::ToolOutput;

/// A result as the model takes it.
pub fn to_output(result: RemoteResult) -> ToolOutput {
    let texts: Vec<_> = result
        .content
        .into_iter()
        .filter_map(|part| match part {
            RemoteContent::Text(text) => Some(text),
            _ => None,
        })
        .collect();
    ToolOutput {
        for_model: texts.join("\n\n"),
        structured: result.structured,
        is_error: result.is_error,
        ..ToolOutput::default()
    }
}
