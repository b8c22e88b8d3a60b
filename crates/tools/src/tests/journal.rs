//! What is written down about calls, and when.

use super::*;
use antwort_protocol::id::Id;

/// Keeps what happens in the order in which it happens.
#[derive(Default)]
struct Notes {
    lines: Mutex<Vec<String>>,
    fails: bool,
}

#[async_trait]
impl Journal for Notes {
    async fn dispatching(&self, key: &CallKey) -> Result<(), ToolError> {
        tokio::task::yield_now().await;
        self.lines.lock().push(format!("dispatching {key}"));
        if self.fails {
            return Err(ToolError::fatal(ToolErrorCode::StorageError, "no room"));
        }
        Ok(())
    }

    fn completed(&self, key: &CallKey, outcome: &Result<ToolOutput, ToolError>) {
        let outcome = match outcome {
            Ok(output) => output.for_model.clone(),
            Err(error) => error.code.as_str().to_owned(),
        };
        self.lines.lock().push(format!("completed {key}: {outcome}"));
    }
}

fn keyed(name: &str) -> ToolCall {
    let key = CallKey { response: Id::from("resp_1"), turn: 2, index: 0 };
    ToolCall { key: Some(key), ..ToolCall::direct(name, "{}".into()) }
}

async fn run(
    changes: Value,
    script: &Arc<Script>,
    notes: &Arc<Notes>,
    call: ToolCall,
) -> Result<ToolOutput, ToolError> {
    let toolbox = open(changes, &[script]).await;
    let journal: Arc<dyn Journal> = Arc::clone(notes) as Arc<dyn Journal>;
    let context = Arc::new(ToolContext { journal: Some(journal), ..of("acme", "ann") });
    let catalog = toolbox.catalog();
    let tool = Arc::clone(catalog.get(&call.name).unwrap());
    tool.call(call, context, Progress::none()).await
}

fn three() -> Arc<Script> {
    let tools = ["fine", "bad", "crash"].map(tool).to_vec();
    Arc::new(Script::new("x", tools).answering(|call| match call.name.as_str() {
        "bad" => Err(ToolError::failed("no")),
        "crash" => panic!("a bug"),
        name => Ok(ToolOutput::text(name)),
    }))
}

#[tokio::test]
async fn a_call_is_written_down_before_it_is_made_and_when_it_is_over() {
    for (name, outcome) in [("fine", "fine"), ("bad", "tool_execution_failed"), ("crash", "tool_panicked")] {
        let (script, notes) = (three(), Arc::new(Notes::default()));
        _ = run(json!({}), &script, &notes, keyed(name)).await;
        let expected = ["dispatching resp_1/2/0".to_owned(), format!("completed resp_1/2/0: {outcome}")];
        assert_eq!(*notes.lines.lock(), expected);
    }
}

#[tokio::test]
async fn what_cannot_be_written_down_is_not_done() {
    let (script, notes) = (three(), Arc::new(Notes { fails: true, ..Notes::default() }));
    let error = run(json!({"on_error": "skip"}), &script, &notes, keyed("fine")).await.unwrap_err();
    assert_eq!(
        (error.code, error.stage, script.calls()),
        (ToolErrorCode::StorageError, FailureStage::Fatal, 0)
    );
}

#[tokio::test]
async fn what_is_refused_or_belongs_to_no_response_is_not_written_down() {
    let (script, notes) = (three(), Arc::new(Notes::default()));
    _ = run(json!({}), &script, &notes, ToolCall::direct("fine", "{}".into())).await;
    _ = run(json!({}), &script, &notes, ToolCall { raw: "[]".into(), ..keyed("fine") }).await;
    _ = run(json!({"blocked_tools": ["*"]}), &script, &notes, keyed("fine")).await;
    assert!(notes.lines.lock().is_empty());
}

#[tokio::test]
async fn a_key_is_used_once_where_another_tool_stands_in() {
    let (script, notes) = (three(), Arc::new(Notes::default()));
    let output = run(json!({"on_error": "fallback:fine"}), &script, &notes, keyed("bad")).await.unwrap();
    assert_eq!(output.for_model, "fine");
    let lines = notes.lines.lock();
    assert_eq!(*lines, ["dispatching resp_1/2/0", "completed resp_1/2/0: tool_execution_failed"]);
}

#[tokio::test]
async fn a_call_that_is_cancelled_half_way_has_no_known_outcome() {
    let notes = Arc::new(Notes::default());
    let script = Arc::new(Script::new("x", vec![tool("slow")]).running(|_| Box::pin(std::future::pending())));
    let toolbox = open(json!({}), &[&script]).await;
    let journal: Arc<dyn Journal> = Arc::clone(&notes) as Arc<dyn Journal>;
    let context = Arc::new(ToolContext { journal: Some(journal), ..of("acme", "ann") });
    let call =
        toolbox.catalog().get("slow").unwrap().call(keyed("slow"), Arc::clone(&context), Progress::none());
    let cancel = async {
        while script.calls() == 0 {
            tokio::task::yield_now().await;
        }
        context.cancel.cancel();
    };
    let (result, ()) = tokio::join!(call, cancel);
    assert_eq!(result.unwrap_err().code, ToolErrorCode::Cancelled);
    assert_eq!(*notes.lines.lock(), ["dispatching resp_1/2/0"]);
}
