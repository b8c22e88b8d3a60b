//! A run that waits for another one: a tool of a program that embeds the gateway hands a task to a child run, and the parent waits
//! for its end as a row, as for any other call whose work goes on. Nothing of the gateway knows of child runs.

use std::sync::Arc;

use antwort::tools::{
    Annotations, Progress, ToolCall, ToolContext, ToolDefinition, ToolError, ToolExecutor, ToolKind,
    ToolOutcome, ToolOutput,
};
use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::json;

use super::report;
use super::resume::{ended, waits};
use antwort_test_support::eventually;
use antwort_test_support::gateway::{Gateway, text_of};
use antwort_test_support::upstream::{Reply, Upstream};

/// The address of the gateway for other programs.
const PUBLIC_URL: &str = "https://gateway.example.com";

/// Tasks that were handed over, each with the path where its result is reported.
#[derive(Default)]
struct Delegate(Mutex<Vec<(String, String)>>);

#[async_trait]
impl ToolExecutor for Delegate {
    fn id(&self) -> &str {
        "delegate"
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Custom
    }

    async fn list(&self) -> Result<Vec<ToolDefinition>, ToolError> {
        let schema = json!({"type": "object", "properties": {"task": {"type": "string"}}});
        let definition = ToolDefinition::new("delegate", "Hands a task over.", &schema).with_async();
        let definition = definition.with_annotations(Annotations::READ_ONLY_OPEN_WORLD);
        Ok(vec![ToolDefinition { executor: "delegate".into(), ..definition }])
    }

    async fn execute(
        &self,
        call: &ToolCall,
        _context: &ToolContext,
        _progress: &Progress,
    ) -> Result<ToolOutcome, ToolError> {
        let url = call.callback.as_ref().and_then(|callback| callback.address()).expect("an address").url;
        let path = url.strip_prefix(PUBLIC_URL).expect("the gateway's").to_owned();
        let task = call.arguments["task"].as_str().unwrap_or_default().to_owned();
        self.0.lock().push((task, path));
        Ok(ToolOutcome::Async { handle: "child".into(), say: ToolOutput::text("Handed over.") })
    }
}

#[tokio::test]
async fn a_run_waits_for_its_child_runs_and_reads_what_they_have_said() {
    let (upstream, delegate) = (Upstream::spawn().await, Arc::new(Delegate::default()));
    let gateway = Gateway::with_upstream(&upstream)
        .executor(Arc::clone(&delegate) as _)
        .set(|settings| {
            settings.server.public_url = Some(PUBLIC_URL.to_owned());
            let resumes = serde_json::from_value(json!({"on_complete": "resume"})).unwrap();
            settings.tools.overrides.extend([("delegate".to_owned(), resumes)]);
        })
        .spawn()
        .await;
    let tasks = ["Weigh it.", "Measure it."];
    upstream.reply(Reply::Calls(tasks.map(|task| ("delegate", json!({"task": task}))).to_vec()));
    upstream.text("I wait for both.");
    let parent = json!({"model": "test-model", "input": "How large is it?", "background": true,
        "tools": [{"type": "antwort:delegate"}]});
    let parent = gateway.create(parent).await["id"].as_str().unwrap().to_owned();
    assert!(eventually(async || waits(&gateway).await).await, "the parent is a row");

    let handed = delegate.0.lock().clone();
    assert_eq!(handed.iter().map(|(task, _)| &**task).collect::<Vec<_>>(), tasks);
    for (task, path) in handed.into_iter().rev() {
        assert!(waits(&gateway).await, "until the last child has ended");
        upstream.text(&format!("{task} Done."));
        let child = gateway.create(json!({"model": "test-model", "input": task, "background": true})).await;
        let child = ended(&gateway, child["id"].as_str().unwrap()).await;
        if task == tasks[0] {
            upstream.text("It is large.");
        }
        assert_eq!(report(&gateway, &path, &json!({"output": text_of(&child)})).await.status, 200);
    }
    let response = ended(&gateway, &parent).await;
    assert_eq!(response["status"], "completed", "{response:#}");
    assert!(text_of(&response).ends_with("It is large."), "{response:#}");
    let messages = upstream.last()["messages"].to_string();
    let said = ["Weigh it. Done.", "Measure it. Done."];
    assert!(said.iter().all(|said| messages.contains(said)), "{messages}");
}
