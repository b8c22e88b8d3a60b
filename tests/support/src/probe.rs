//! A tool executor that does what a test tells it to, and counts what it was told to do.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use antwort::tools::{
    Annotations, FailureStage, Progress, ToolCall, ToolContext, ToolDefinition, ToolError, ToolErrorCode,
    ToolExecutor, ToolKind, ToolOutcome, ToolOutput,
};
use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::json;

/// What the executor saw.
#[derive(Default)]
pub struct ProbeLog {
    counts: Mutex<HashMap<String, usize>>,
    contexts: Mutex<Vec<ToolContext>>,
    keys: Mutex<Vec<String>>,
    cancelled: Mutex<usize>,
}

/// The executor. Its tools are:
/// `echo` (says its arguments), `noop`, `slow` (200 ms), `hang` (for ever), `fails`, `says_error`, `panics`,
/// `fatal`, `unavailable`, `tells` (speaks to the user), `whispers` (does so, and is silent), `needs` (has a strict schema), `big` (100 KiB), and
/// `writes` (not to be repeated).
pub struct Probe(pub Arc<ProbeLog>);

impl ProbeLog {
    /// How often a tool was run.
    pub fn count(&self, tool: &str) -> usize {
        self.counts.lock().get(tool).copied().unwrap_or(0)
    }

    /// For whom calls were made.
    pub fn contexts(&self) -> Vec<ToolContext> {
        self.contexts.lock().clone()
    }

    /// Under which keys.
    pub fn keys(&self) -> Vec<String> {
        self.keys.lock().clone()
    }

    /// How many calls were given up before they were done.
    pub fn cancelled(&self) -> usize {
        *self.cancelled.lock()
    }
}

/// Counts a call that is dropped before it is done.
struct Guard<'a>(&'a ProbeLog, bool);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if !self.1 {
            *self.0.cancelled.lock() += 1;
        }
    }
}

#[async_trait]
impl ToolExecutor for Probe {
    fn id(&self) -> &str {
        "probe"
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Custom
    }

    async fn list(&self) -> Result<Vec<ToolDefinition>, ToolError> {
        let any = json!({"type": "object"});
        let needs = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        let names = [
            "echo",
            "noop",
            "slow",
            "hang",
            "fails",
            "says_error",
            "panics",
            "fatal",
            "unavailable",
            "tells",
            "whispers",
            "needs",
            "big",
            "writes",
        ];
        Ok(names
            .into_iter()
            .map(|name| {
                let schema = if name == "needs" { &needs } else { &any };
                let annotations =
                    if name == "writes" { Annotations::UNKNOWN } else { Annotations::READ_ONLY_OPEN_WORLD };
                let definition = ToolDefinition::new(name, "A probe.", schema).with_annotations(annotations);
                ToolDefinition { executor: "probe".into(), ..definition }
            })
            .collect())
    }

    async fn execute(
        &self,
        call: &ToolCall,
        context: &ToolContext,
        _progress: &Progress,
    ) -> Result<ToolOutcome, ToolError> {
        *self.0.counts.lock().entry(call.name.clone()).or_insert(0) += 1;
        self.0.contexts.lock().push(context.clone());
        self.0.keys.lock().extend(call.key.as_ref().map(ToString::to_string));
        let mut guard = Guard(&self.0, false);
        let outcome = match call.name.as_str() {
            "echo" => Ok(ToolOutput::text(serde_json::Value::Object(call.arguments.clone()).to_string())),
            "slow" => {
                tokio::time::sleep(Duration::from_millis(200)).await;
                Ok(ToolOutput::text("slow"))
            }
            "hang" => std::future::pending().await,
            "fails" => Err(ToolError::failed("it does not work").with_cause("secret cause")),
            "says_error" => Ok(ToolOutput::error("no such thing")),
            "panics" => panic!("a bug in the tool"),
            "fatal" => Err(ToolError::fatal(ToolErrorCode::StorageError, "gone")),
            "unavailable" => {
                Err(ToolError::new(ToolErrorCode::ToolUnavailable, FailureStage::NotSent, "not there"))
            }
            "whispers" => {
                Ok(ToolOutput { for_user: Some("for your eyes".into()), ..ToolOutput::silent("told") })
            }
            "tells" => Ok(ToolOutput { for_user: Some("for your eyes".into()), ..ToolOutput::text("told") }),
            "big" => Ok(ToolOutput::text("0123456789".repeat(10 << 10))),
            _ => Ok(ToolOutput::text("ok")),
        };
        guard.1 = true;
        outcome.map(ToolOutcome::Done)
    }
}
