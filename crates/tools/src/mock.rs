//! Tools with canned answers, for demonstrations and tests.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::call::ToolCall;
use super::callback::Callback;
use super::context::ToolContext;
use super::definition::{Annotations, ToolDefinition, ToolKind};
use super::error::ToolError;
use super::executor::{Progress, ToolExecutor};
use super::output::{ToolOutcome, ToolOutput};
use antwort_config::{AsyncMode, MockTool};

/// Returns the configured answer after the configured delay.
pub struct MockExecutor {
    tools: BTreeMap<String, MockTool>,
    /// Default delay.
    delay: Duration,
}

/// An invalid definition of mock tools.
#[derive(Debug, thiserror::Error)]
pub enum MockError {
    /// The text is not a JSON object.
    #[error("expected a JSON object of tools by name: {0}")]
    Json(serde_json::Error),
    /// The definition of one tool is invalid.
    #[error("{tool}: {problem}")]
    Tool {
        /// Name of the tool.
        tool: String,
        /// What is wrong.
        problem: String,
    },
}

impl MockExecutor {
    /// Mock tools with `delay` as the default delay.
    pub fn new(tools: BTreeMap<String, MockTool>, delay: Duration) -> Self {
        Self { tools, delay }
    }

    /// Parses tools by name, each either the text it answers with or an object with the fields of the setting
    /// `tools.mock.<name>`: `{"get_weather": {"output": {"temp": 21}, "delay": "100ms"}, "x": "plain text"}`.
    ///
    /// # Errors
    /// If the text is not such an object.
    pub fn read(text: &str) -> Result<BTreeMap<String, MockTool>, MockError> {
        let tools: BTreeMap<String, Value> = serde_json::from_str(text).map_err(MockError::Json)?;
        let tools = tools.into_iter().map(|(name, value)| match read(value) {
            Ok(tool) => Ok((name, tool)),
            Err(problem) => Err(MockError::Tool { tool: name, problem }),
        });
        tools.collect()
    }

    /// The error for a tool without a configured answer.
    pub fn missing(name: &str) -> ToolError {
        ToolError::failed(format!("No mock for: {name}"))
    }
}

fn read(value: Value) -> Result<MockTool, String> {
    match value {
        Value::String(_) => Ok(MockTool { output: Some(value), ..MockTool::default() }),
        // Other objects are refused: otherwise a misspelt field would silently become an answer.
        Value::Object(_) => serde_json::from_value(value).map_err(|error| error.to_string()),
        _ => Err("expected a string, or an object with 'output' or 'error'".into()),
    }
}

#[async_trait]
impl ToolExecutor for MockExecutor {
    fn id(&self) -> &'static str {
        "mock"
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Mock
    }

    async fn list(&self) -> Result<Vec<ToolDefinition>, ToolError> {
        let any = json!({"type": "object"});
        let tools = self.tools.iter().map(|(name, mock)| {
            let parameters = mock.parameters.as_ref().unwrap_or(&any);
            let asynchronous = if mock.asynchronous { AsyncMode::Allow } else { AsyncMode::Deny };
            let tool = ToolDefinition {
                asynchronous,
                kind: ToolKind::Mock,
                executor: self.id().into(),
                ..ToolDefinition::new(name, &mock.description, parameters)
            };
            tool.with_annotations(Annotations::READ_ONLY)
        });
        Ok(tools.collect())
    }

    async fn execute(
        &self,
        call: &ToolCall,
        _: &ToolContext,
        _: &Progress,
    ) -> Result<ToolOutcome, ToolError> {
        let Some(mock) = self.tools.get(&call.name) else { return Err(Self::missing(&call.name)) };
        tokio::time::sleep(mock.delay.unwrap_or(self.delay)).await;
        if mock.asynchronous && mock.error.is_none() {
            return Ok(start(call, mock.output.as_ref()));
        }
        match (&mock.error, &mock.output) {
            (Some(error), _) => Err(ToolError::failed(error.clone())),
            (None, None) => Err(Self::missing(&call.name)),
            (None, Some(Value::String(text))) => Ok(ToolOutcome::Done(ToolOutput::text(text.clone()))),
            (None, Some(value)) => Ok(ToolOutcome::Done(ToolOutput::value(value.clone()))),
        }
    }
}

/// Work that somebody else finishes, who finds the URL in the log.
fn start(call: &ToolCall, says: Option<&Value>) -> ToolOutcome {
    let address = call.callback.as_ref().and_then(Callback::address);
    tracing::info!(
        tool = call.name,
        callback_url = address.as_ref().map(|address| &*address.url),
        "mock tool waits for its callback"
    );
    let say = match says {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => "Started; the result will follow.".to_owned(),
    };
    ToolOutcome::Async { handle: call.name.clone(), say: ToolOutput::started(say) }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn call(mock: &MockExecutor, name: &str) -> Result<ToolOutput, ToolError> {
        let call = ToolCall::direct(name, "{}".into());
        match mock.execute(&call, &ToolContext::default(), &Progress::none()).await? {
            ToolOutcome::Done(output) | ToolOutcome::Async { say: output, .. } => Ok(output),
            ToolOutcome::RequiresInput(_) => panic!("a mock asks nothing"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn answers_as_the_file_says_after_the_delay() {
        let file = r#"{
            "get_weather": {"output": {"temp": 21}, "delay": "300ms"},
            "x": "plain text",
            "down": {"error": "no network"},
            "bare": {"description": "Has no answer."}
        }"#;
        let mock = MockExecutor::new(MockExecutor::read(file).unwrap(), Duration::from_millis(100));
        let started = tokio::time::Instant::now();
        let weather = call(&mock, "get_weather").await.unwrap();
        assert_eq!(started.elapsed(), Duration::from_millis(300));
        assert_eq!(
            (weather.for_model.as_str(), weather.structured),
            ("{\"temp\":21}", Some(json!({"temp": 21})))
        );
        let plain = call(&mock, "x").await.unwrap();
        assert_eq!((plain.for_model.as_str(), plain.structured), ("plain text", None));
        assert_eq!(started.elapsed(), Duration::from_millis(400), "100 ms unless the file says otherwise");
        assert_eq!(call(&mock, "down").await.unwrap_err().message, "no network");
        assert_eq!(call(&mock, "y").await.unwrap_err().message, "No mock for: y");
        assert_eq!(call(&mock, "bare").await.unwrap_err().message, "No mock for: bare");
        assert_eq!(mock.list().await.unwrap().len(), 4);
    }

    #[test]
    fn a_file_that_is_none_is_refused() {
        for (file, problem) in [
            ("[]", "expected a JSON object"),
            (r#"{"x": 1}"#, "x: expected a string"),
            (r#"{"x": {"outptu": 1}}"#, "x: unknown field"),
            (r#"{"x": {"output": 1, "delay": "soon"}}"#, "x: "),
        ] {
            let error = MockExecutor::read(file).err().unwrap().to_string();
            assert!(error.contains(problem), "{file}: {error}");
        }
    }
}
