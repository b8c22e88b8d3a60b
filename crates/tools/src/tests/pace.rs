//! How long calls take and how many run at a time, by a clock that the test moves.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;

use super::*;

const MS: Duration = Duration::from_millis(1);

/// Takes 200 ms for each call.
fn slow(tools: Vec<ToolDefinition>) -> Arc<Script> {
    Arc::new(Script::new("x", tools).running(|_| {
        Box::pin(async {
            tokio::time::sleep(200 * MS).await;
            Ok(ToolOutput::text("done"))
        })
    }))
}

#[tokio::test(start_paused = true)]
async fn calls_run_at_the_same_time_unless_their_tool_may_not() {
    for (own, took) in [
        (json!({}), 200),
        (json!({"max_parallel": 3}), 400),
        (json!({"max_parallel": 2}), 400),
        (json!({"max_parallel": 0}), 800),
        (json!({"serial": true}), 800),
    ] {
        let toolbox = open(json!({"overrides": {"t": own}}), &[&slow(vec![tool("t")])]).await;
        let started = Instant::now();
        let context = someone();
        let calls = join_all((0..4).map(|_| call_with(&toolbox, "t", "{}", &context))).await;
        assert!(calls.iter().all(Result::is_ok));
        assert_eq!(started.elapsed(), took * MS, "{own}");
        assert_eq!(calls[0].as_ref().unwrap().meta.duration_ms, 200, "{own}");
    }
}

#[tokio::test(start_paused = true)]
async fn all_tools_of_an_executor_share_its_queue_and_its_time() {
    let settings = json!({"executors": {"x": {"max_parallel": 2}, "y": {"timeout": "150ms"}}});
    let hasty = Arc::new(Script::new("y", vec![tool("c")]).running(|_| {
        Box::pin(async {
            tokio::time::sleep(200 * MS).await;
            Ok(ToolOutput::text("done"))
        })
    }));
    let toolbox = open(settings, &[&slow(vec![tool("a"), tool("b")]), &hasty]).await;
    let (started, context) = (Instant::now(), someone());
    let calls = join_all(["a", "b", "a", "b"].map(|name| call_with(&toolbox, name, "{}", &context))).await;
    assert!(calls.iter().all(Result::is_ok));
    assert_eq!(started.elapsed(), 400 * MS);
    assert_eq!(call_with(&toolbox, "c", "{}", &context).await.unwrap_err().message, "timed out after 150ms");
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_with_its_timeout_or_its_run() {
    let settings = json!({"timeout": "150ms", "overrides": {
        "short": {"timeout": "100ms"}, "long": {"timeout": "1s"}, "queued": {"timeout": "300ms", "serial": true},
    }});
    let tools = ["general", "short", "long", "queued"].map(tool).to_vec();
    let toolbox = open(settings, &[&slow(tools)]).await;
    for (name, deadline, message) in [
        ("general", None, Some("timed out after 150ms")),
        ("short", None, Some("timed out after 100ms")),
        ("long", None, None),
        ("long", Some(50), Some("timed out after 50ms")),
        ("short", Some(5000), Some("timed out after 100ms")),
        ("long", Some(0), Some("the run's time limit was reached before the call was made")),
    ] {
        let deadline = deadline.map(|left| (Instant::now() + left * MS).into_std());
        let context = Arc::new(ToolContext { deadline, ..of("acme", "ann") });
        match (call_with(&toolbox, name, "{}", &context).await, message) {
            (Ok(_), None) => {}
            (Err(error), Some(message)) => {
                assert_eq!((error.code, error.message.as_str()), (ToolErrorCode::ToolTimeout, message));
            }
            (result, _) => panic!("{name}: {result:?}"),
        }
    }
    // The second one waits for 200 ms and has 100 left: waiting counts.
    let context = someone();
    let two = join_all((0..2).map(|_| call_with(&toolbox, "queued", "{}", &context))).await;
    assert_eq!((two[0].is_ok(), two[1].as_ref().unwrap_err().code), (true, ToolErrorCode::ToolTimeout));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_run_does_not_wait_for_its_calls() {
    let script = slow(vec![tool("t")]);
    let toolbox = open(json!({}), &[&script]).await;
    let (context, started) = (someone(), Instant::now());
    let call = call_with(&toolbox, "t", "{}", &context);
    let cancel = async {
        tokio::time::sleep(30 * MS).await;
        context.cancel.cancel();
    };
    let (result, ()) = tokio::join!(call, cancel);
    let error = result.unwrap_err();
    assert_eq!(
        (error.code, error.stage, started.elapsed()),
        (ToolErrorCode::Cancelled, FailureStage::Fatal, 30 * MS)
    );
}

/// Fails so often, as told, and then works.
fn flaky(definition: ToolDefinition, failures: usize, error: fn() -> ToolError) -> Arc<Script> {
    let calls = AtomicUsize::new(0);
    Arc::new(Script::new("x", vec![definition]).answering(move |_| {
        if calls.fetch_add(1, Ordering::Relaxed) < failures {
            Err(error())
        } else {
            Ok(ToolOutput::text("up"))
        }
    }))
}

#[tokio::test(start_paused = true)]
async fn calls_are_made_again_that_may_be_and_that_it_may_help() {
    let down = || ToolError::refused(ToolErrorCode::ToolUnavailable, "no connection");
    let cut: fn() -> ToolError = || ToolError::transport("connection lost");
    let idempotent = json!({"overrides": {"t": {"idempotent": true}}});
    let not = json!({"overrides": {"t": {"idempotent": false}}});
    for (definition, changes, failures, error, calls, works) in [
        (lookup("t"), json!({}), 2, cut, 3, true),
        (lookup("t"), json!({}), 2, down, 3, true),
        (lookup("t"), json!({}), 3, cut, 3, false),
        (lookup("t"), json!({"retry": {"max": 5}}), 4, cut, 5, true),
        (lookup("t"), json!({"overrides": {"t": {"retry": {"max": 0}}}}), 1, cut, 1, false),
        (lookup("t"), not, 1, cut, 1, false),
        (tool("t"), json!({}), 1, cut, 1, false),
        (tool("t"), idempotent, 1, cut, 2, true),
        (lookup("t"), json!({}), 1, || ToolError::failed("no such row"), 1, false),
        (lookup("t"), json!({}), 1, || ToolError::argument("no such city"), 1, false),
        (lookup("t"), json!({}), 1, || ToolError::refused(ToolErrorCode::AccessDenied, "no"), 1, false),
        (lookup("t"), json!({}), 1, || ToolError::fatal(ToolErrorCode::StorageError, "no"), 1, false),
        // No time to wait for another try: the error is told at once.
        (lookup("t"), json!({"timeout": "50ms"}), 1, cut, 1, false),
    ] {
        let script = flaky(definition, failures, error);
        let toolbox = open(changes.clone(), &[&script]).await;
        let result = call(&toolbox, "t").await;
        assert_eq!((script.calls(), result.is_ok()), (calls, works), "{changes} {}", error());
        match result {
            Ok(output) => assert_eq!(output.meta.attempts as usize, calls),
            Err(told) => assert_eq!(told.code, error().code),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn calls_are_made_again_after_a_wait_that_doubles() {
    let script = flaky(lookup("t"), 3, || ToolError::transport("connection lost"));
    let retry = json!({"retry": {"max": 3, "delay": "100ms", "max_delay": "1s"}});
    let toolbox = open(retry, &[&script]).await;
    let started = Instant::now();
    assert!(call(&toolbox, "t").await.is_ok());
    // 100, 200 and 400 ms, each of which jitter may halve.
    let took = started.elapsed();
    assert!(350 * MS <= took && took <= 701 * MS, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_cannot_be_reached_is_left_alone_for_a_while() {
    let script = flaky(tool("t"), 4, || ToolError::transport("no connection"));
    let toolbox = open(json!({"breaker": {"failures": 3, "open_for": "10s"}}), &[&script]).await;
    for (wait, calls, works) in [
        (0, 1, false),
        (0, 2, false),
        (0, 3, false),
        // Open.
        (0, 3, false),
        (9999, 3, false),
        // One call tries, fails, and it is open again.
        (1, 4, false),
        (9999, 4, false),
        // One tries and works.
        (1, 5, true),
        (0, 6, true),
    ] {
        tokio::time::advance(wait * MS).await;
        // A new catalogue does not forget.
        toolbox.refresh().await.unwrap();
        let before = script.calls();
        let result = call(&toolbox, "t").await;
        assert_eq!((script.calls(), result.is_ok()), (calls, works));
        if let Err(error) = result {
            let expected = if before == calls { FailureStage::NotSent } else { FailureStage::Transport };
            assert_eq!((error.code, error.stage), (ToolErrorCode::ToolUnavailable, expected));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_half_open_breaker_lets_one_call_through() {
    let script = Arc::new(Script::new("x", vec![tool("t")]).running(|call| {
        Box::pin(async move {
            tokio::time::sleep(100 * MS).await;
            if call.raw == "{}" { Ok(ToolOutput::text("up")) } else { Err(ToolError::transport("down")) }
        })
    }));
    let toolbox = open(json!({"breaker": {"failures": 1, "open_for": "1s"}}), &[&script]).await;
    let context = someone();
    assert!(call_with(&toolbox, "t", r#"{"down":1}"#, &context).await.is_err());
    tokio::time::advance(1000 * MS).await;
    // One that is given up half-way gives the chance to the next.
    let cancelled = someone();
    let given_up = call_with(&toolbox, "t", "{}", &cancelled);
    let cancel = async {
        tokio::time::sleep(10 * MS).await;
        cancelled.cancel.cancel();
    };
    assert!(tokio::join!(given_up, cancel).0.is_err());
    let calls = join_all((0..5).map(|_| call_with(&toolbox, "t", "{}", &context))).await;
    assert_eq!(calls.iter().filter(|result| result.is_ok()).count(), 1);
    assert!(call_with(&toolbox, "t", "{}", &context).await.is_ok());
    assert_eq!(script.calls(), 4);
}

#[tokio::test(start_paused = true)]
async fn what_opens_a_breaker_and_what_does_not() {
    type Answer = fn() -> Result<ToolOutput, ToolError>;
    let answers: [(Answer, bool); 7] = [
        (|| Err(ToolError::transport("lost")), true),
        (|| Err(ToolError::refused(ToolErrorCode::ToolUnavailable, "down")), true),
        (|| Err(ToolError::failed("no such row")), false),
        (|| Err(ToolError::argument("no such city")), false),
        (|| Err(ToolError::refused(ToolErrorCode::DomainNotAllowed, "no")), false),
        (|| Ok(ToolOutput::error("no")), false),
        (|| panic!("a bug"), false),
    ];
    for (i, (answer, opens)) in answers.into_iter().enumerate() {
        let script = Arc::new(Script::new("x", vec![tool("t")]).answering(move |_| answer()));
        let toolbox = open(json!({"breaker": {"failures": 2, "open_for": "1s"}}), &[&script]).await;
        for _ in 0..4 {
            _ = call(&toolbox, "t").await;
        }
        assert_eq!(script.calls() == 2, opens, "{i}");
    }
    // Timeouts count if the tool had the call, and not if it waited for its turn.
    for (own, opens) in
        [(json!({"timeout": "100ms"}), true), (json!({"timeout": "300ms", "serial": true}), false)]
    {
        let script = slow(vec![tool("t")]);
        let changes = json!({"breaker": {"failures": 2, "open_for": "1m"}, "overrides": {"t": own}});
        let toolbox = open(changes, &[&script]).await;
        let context = someone();
        for _ in 0..2 {
            join_all((0..4).map(|_| call_with(&toolbox, "t", "{}", &context))).await;
        }
        let before = script.calls();
        _ = call(&toolbox, "t").await;
        assert_eq!(script.calls() == before, opens, "{own}");
    }
}
