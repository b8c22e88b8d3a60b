//! Calls that fail: what the model reads, what ends the run, what is asked instead.

use super::*;

fn failing(id: &str, name: &str) -> Script {
    Script::new(id, vec![tool(name)]).answering(|_| Err(ToolError::failed("the disk is full")))
}

#[tokio::test]
async fn a_failure_is_treated_as_configured() {
    let spare = Arc::new(
        Script::new("spare", vec![tool("other")])
            .answering(|call| Ok(ToolOutput::text(format!("{} {}", call.name, call.raw)))),
    );
    for (on_error, expected) in [
        ("continue", Err((ToolErrorCode::ToolExecutionFailed, FailureStage::Tool, "the disk is full"))),
        ("fail", Err((ToolErrorCode::ToolExecutionFailed, FailureStage::Fatal, "bad: the disk is full"))),
        ("skip", Ok("The result of this tool is unavailable. Answer without it.")),
        ("fallback:other", Ok("other {\"a\":1}")),
        (
            "fallback:nothing",
            Err((ToolErrorCode::ToolExecutionFailed, FailureStage::Tool, "the disk is full")),
        ),
        ("fallback:bad", Err((ToolErrorCode::ToolExecutionFailed, FailureStage::Tool, "the disk is full"))),
    ] {
        let bad = Arc::new(failing("x", "bad"));
        for general in [true, false] {
            let changes = match general {
                true => json!({"on_error": on_error}),
                false => json!({"on_error": "fail", "overrides": {"bad": {"on_error": on_error}}}),
            };
            let toolbox = open(changes, &[&bad, &spare]).await;
            let result = call_with(&toolbox, "bad", "{\"a\":1}", &someone()).await;
            match (result, expected) {
                (Ok(output), Ok(text)) => {
                    assert_eq!(output.for_model, text);
                    assert_eq!(
                        (output.is_error, output.meta.skipped),
                        (on_error == "skip", on_error == "skip")
                    );
                    let from = output.meta.fallback_from.as_deref();
                    assert_eq!(from, on_error.starts_with("fallback").then_some("x"));
                }
                (Err(error), Err(expected)) => {
                    assert_eq!((error.code, error.stage, error.message.as_str()), expected, "{on_error}");
                }
                (result, _) => panic!("{on_error}: {result:?}"),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_says_how_long_it_took_how_often_it_was_tried_and_by_whom() {
    let slow = |id| {
        Arc::new(Script::new(id, vec![lookup("search")]).running(|_| {
            Box::pin(async {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                Err(ToolError::transport("lost"))
            })
        }))
    };
    let changes =
        json!({"routes": {"search": {"executors": ["a", "b"]}}, "retry": {"max": 1, "delay": "100ms"}});
    let toolbox = open(changes, &[&slow("a"), &slow("b")]).await;
    let meta = call(&toolbox, "search").await.unwrap_err().meta.expect("an account");
    assert!(meta.duration_ms >= 130, "both tries, and the wait between them: {meta:?}");
    assert_eq!(meta.attempts, 4);
    assert_eq!((meta.executor.as_deref(), meta.fallback_from.as_deref()), (Some("b"), Some("a")));

    let needs = ToolDefinition::new("needs", "", &json!({"type": "object", "required": ["a"]}));
    let toolbox = open(json!({}), &[&Arc::new(Script::new("x", vec![needs]))]).await;
    let meta = call(&toolbox, "needs").await.unwrap_err().meta.expect("an account");
    assert_eq!(
        (meta.attempts, meta.executor.as_deref()),
        (0, Some("x")),
        "nobody was asked, x would have been"
    );
}

#[tokio::test]
async fn a_tool_that_stands_in_says_how_its_own_call_went() {
    let bad =
        Arc::new(Script::new("x", vec![lookup("bad")]).answering(|_| Err(ToolError::transport("lost"))));
    let changes = json!({
        "retry": {"max": 2, "delay": "1ms"}, "overrides": {"bad": {"on_error": "fallback:other"}},
    });
    let fine = Arc::new(Script::new("spare", vec![tool("other")]));
    let toolbox = open(changes.clone(), &[&bad, &fine]).await;
    let meta = call(&toolbox, "bad").await.unwrap().meta;
    assert_eq!(
        (meta.attempts, meta.executor.as_deref()),
        (1, Some("spare")),
        "and not the three of the first"
    );
    assert_eq!(meta.fallback_from.as_deref(), Some("x"));

    let fails =
        Arc::new(Script::new("spare", vec![tool("other")]).answering(|_| Err(ToolError::failed("no"))));
    let toolbox = open(changes, &[&bad, &fails]).await;
    let meta = call(&toolbox, "bad").await.unwrap_err().meta.expect("an account");
    assert_eq!((meta.attempts, meta.executor.as_deref()), (1, Some("spare")));
    assert_eq!(meta.fallback_from.as_deref(), Some("x"));
}

#[tokio::test]
async fn a_tool_that_answers_with_an_error_has_failed_too() {
    let bad =
        Arc::new(Script::new("x", vec![tool("bad")]).answering(|_| Ok(ToolOutput::error("no such row"))));
    let toolbox = open(json!({}), &[&bad]).await;
    assert_eq!(call(&toolbox, "bad").await.unwrap().for_model, "no such row");
    let toolbox = open(json!({"on_error": "fail"}), &[&bad]).await;
    let error = call(&toolbox, "bad").await.unwrap_err();
    assert_eq!((error.code, error.stage), (ToolErrorCode::ToolExecutionFailed, FailureStage::Fatal));
    assert_eq!(error.message, "bad: no such row");
}

#[tokio::test]
async fn fallbacks_end_after_one_step() {
    let bad =
        Arc::new(Script::new("x", vec![tool("a"), tool("b")]).answering(|_| Err(ToolError::failed("no"))));
    let overrides = json!({"a": {"on_error": "fallback:b"}, "b": {"on_error": "fallback:a"}});
    let toolbox = open(json!({"overrides": overrides}), &[&bad]).await;
    assert!(call(&toolbox, "a").await.is_err());
    assert_eq!(bad.calls(), 2);
}

#[tokio::test]
async fn limits_and_cancellation_are_no_failures() {
    let script = Arc::new(Script::new("x", vec![tool("t")]));
    let toolbox = open(json!({"on_error": "fail"}), &[&script]).await;
    let spent = Arc::new(ToolContext { budget: Arc::new(CallBudget::new(0)), ..of("acme", "ann") });
    let error = call_with(&toolbox, "t", "{}", &spent).await.unwrap_err();
    assert_eq!((error.code, error.stage), (ToolErrorCode::ToolCallLimit, FailureStage::NotSent));

    let toolbox = open(json!({"on_error": "skip"}), &[&script]).await;
    let context = someone();
    context.cancel.cancel();
    let error = call_with(&toolbox, "t", "{}", &context).await.unwrap_err();
    assert_eq!((error.code, error.stage), (ToolErrorCode::Cancelled, FailureStage::Fatal));
    assert_eq!(script.calls(), 0, "a call of a cancelled run is not begun");
}

#[tokio::test]
async fn a_panic_is_an_error_of_its_call_alone() {
    let script = Script::new("x", vec![tool("early"), tool("late"), tool("fine")]).running(|call| {
        assert_ne!(call.name, "early", "secret");
        Box::pin(async move {
            tokio::task::yield_now().await;
            assert_ne!(call.name, "late", "secret");
            Ok(ToolOutput::text("fine"))
        })
    });
    let toolbox = open(json!({"overrides": {"late": {"serial": true}}}), &[&Arc::new(script)]).await;
    for name in ["early", "late", "late"] {
        let error = call(&toolbox, name).await.unwrap_err();
        assert_eq!(
            (error.code, error.stage, error.message.as_str()),
            (ToolErrorCode::ToolPanicked, FailureStage::Tool, "the tool crashed")
        );
    }
    assert_eq!(call(&toolbox, "fine").await.unwrap().for_model, "fine");
}

#[tokio::test]
async fn results_are_held_to_their_schema() {
    let schema = json!({"type": "object", "required": ["temp"]});
    let promising = tool("t").with_returns(&schema);
    for (mode, output, may) in [
        ("error", ToolOutput::value(json!({"temp": 1})), true),
        ("error", ToolOutput::value(json!({"wind": 1})), false),
        ("error", ToolOutput::text("warm"), false),
        ("error", ToolOutput::error("no such city"), true),
        ("warn", ToolOutput::value(json!({"wind": 1})), true),
        ("off", ToolOutput::value(json!({"wind": 1})), true),
    ] {
        let script = Script::new("x", vec![promising.clone()]).answering(move |_| Ok(output.clone()));
        let toolbox = open(json!({"results": {"return_schema": mode}}), &[&Arc::new(script)]).await;
        match call(&toolbox, "t").await {
            Ok(_) => assert!(may, "{mode}"),
            Err(error) => {
                assert_eq!(
                    (may, error.code, error.stage),
                    (false, ToolErrorCode::InvalidResult, FailureStage::Tool)
                );
            }
        }
    }
}
