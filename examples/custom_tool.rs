//! A gateway with a tool of its own:
//! `ANTWORT_UPSTREAM_URL=http://127.0.0.1:11434/v1 cargo run --example custom_tool`

use std::sync::Arc;

use antwort::app::App;
use antwort::config::{LoadOptions, Settings};
use antwort::shutdown;
use antwort::tools::{
    Annotations, Arguments, LocalExecutor, Tool, ToolContext, ToolDefinition, ToolError, ToolKind, ToolOutput,
};
use serde_json::{Value, json};

/// Counts the words of a text, which models are bad at.
pub struct WordCount;

#[async_trait::async_trait]
impl Tool for WordCount {
    fn definition(&self) -> ToolDefinition {
        let parameters = json!({
            "type": "object",
            "properties": {"text": {"type": "string", "description": "What to count in."}},
            "required": ["text"],
        });
        let returns = json!({"type": "object", "required": ["words"]});
        ToolDefinition::new("word_count", "Counts the words of a text.", &parameters)
            .with_annotations(Annotations::READ_ONLY)
            .with_returns(&returns)
            .with_version("1.0.0")
    }

    async fn call(&self, arguments: &Arguments, _context: &ToolContext) -> Result<ToolOutput, ToolError> {
        // The arguments are by the schema; what a schema cannot say is checked here.
        let text = arguments.get("text").and_then(Value::as_str).unwrap_or_default();
        if text.trim().is_empty() {
            return Err(ToolError::argument("text must not be empty"));
        }
        Ok(ToolOutput::value(json!({"words": text.split_whitespace().count()})))
    }
}

/// The executor of the program's own tools.
pub fn executor() -> Arc<LocalExecutor> {
    Arc::new(LocalExecutor::new("words", ToolKind::Custom, [Arc::new(WordCount) as Arc<dyn Tool>]))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let environment = std::env::vars().collect();
    let settings = Settings::load(&LoadOptions { environment, ..LoadOptions::default() })?;
    settings.require_provider()?;
    let listener = tokio::net::TcpListener::bind(settings.listen).await?;
    let shutdown = shutdown::on_signal(&tokio_util::task::TaskTracker::new());
    App::build_with(&settings, vec![executor()]).await?.serve(listener, shutdown).await;
    Ok(())
}
