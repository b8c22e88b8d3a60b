//! The tools in the gateway, which note their calls.

use std::sync::Arc;

use antwort::protocol::elicitation::Elicitation;
use antwort::tools::{
    Annotations, Progress, RequiredInput, ToolCall, ToolContext, ToolDefinition, ToolError, ToolExecutor,
    ToolKind, ToolOutcome, ToolOutput,
};
use async_trait::async_trait;
use serde_json::{Value, json};

use super::super::scenario::TOOLS;
use super::{Stop, World};

/// The tools.
pub struct Tools(pub Arc<World>);

#[async_trait]
impl ToolExecutor for Tools {
    fn id(&self) -> &str {
        "tools"
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Custom
    }

    async fn list(&self) -> Result<Vec<ToolDefinition>, ToolError> {
        let tool = |name: &str| {
            let annotations =
                if name == "writes" { Annotations::UNKNOWN } else { Annotations::READ_ONLY_OPEN_WORLD };
            let definition = ToolDefinition::new(name, "A tool.", &json!({"type": "object"}));
            let definition = if goes_on(name) { definition.with_async() } else { definition };
            ToolDefinition { executor: "tools".into(), ..definition.with_annotations(annotations) }
        };
        Ok(TOOLS.map(tool).to_vec())
    }

    async fn execute(
        &self,
        call: &ToolCall,
        context: &ToolContext,
        _progress: &Progress,
    ) -> Result<ToolOutcome, ToolError> {
        let name = context.metadata.0.iter().find(|(key, _)| key == "case").map(|(_, name)| name.as_str());
        let case = name.and_then(|name| self.0.case(name)).expect("a call of a case");
        case.while_running().await;
        let key = call.key.as_ref().map(ToString::to_string);
        let arguments = Value::Object(call.arguments.clone()).to_string();
        let is_lost = {
            let mut seen = case.seen.lock();
            seen.calls.push(format!("{} {arguments} {key:?}", call.name));
            seen.executed += 1;
            seen.stop == Some(Stop::Called(seen.executed))
        };
        if is_lost {
            match case.stop().await {}
        }
        if goes_on(&call.name) {
            let callback = call.callback.as_ref().expect("where to report the result");
            self.0.report(&callback.address().unwrap().url, &arguments);
            return Ok(ToolOutcome::Async { handle: "work".into(), say: ToolOutput::text("Started.") });
        }
        if call.name == "asks" && call.input.is_none() {
            let questions = [("it".to_owned(), question())];
            let required = RequiredInput { questions: questions.into(), ..RequiredInput::default() };
            return Ok(ToolOutcome::RequiresInput(required));
        }
        let answer = match call.asker.as_ref().filter(|_| call.name == "holds") {
            Some(asker) => Some(asker.ask(question()).await),
            None => None,
        };
        let output = match call.name.as_str() {
            "fails" => return Err(ToolError::failed("it does not work")),
            "says_error" => ToolOutput::error("no such thing"),
            "holds" => ToolOutput::text(format!("{arguments} {answer:?}")),
            "asks" => ToolOutput::text(format!("{arguments} {:?}", call.input)),
            _ => ToolOutput::text(arguments),
        };
        Ok(ToolOutcome::Done(output))
    }
}

fn question() -> Elicitation {
    let question = json!({"mode": "form", "message": "Well?",
        "requestedSchema": {"type": "object", "properties": {"answer": {"type": "string"}}}});
    serde_json::from_str(&question.to_string()).unwrap()
}

/// Whether the work of a tool goes on after its answer.
fn goes_on(tool: &str) -> bool {
    ["resumes", "stores", "follows"].contains(&tool)
}
