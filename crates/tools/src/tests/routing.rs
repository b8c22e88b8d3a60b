//! Which executor runs a call of a tool that several serve.

use std::time::Duration;

use futures_util::future::join_all;

use super::*;

/// Three executors of `search`, which say who they are; those named fail as told.
fn three(fails: &'static [&'static str], error: fn() -> ToolError) -> [Arc<Script>; 3] {
    ["a", "b", "c"].map(|id| {
        let definition = lookup("search").with_tag(if id == "b" { "eu" } else { "us" });
        Arc::new(
            Script::new(id, vec![definition]).answering(move |_| {
                if fails.contains(&id) { Err(error()) } else { Ok(ToolOutput::text(id)) }
            }),
        )
    })
}

fn down() -> ToolError {
    ToolError::refused(ToolErrorCode::ToolUnavailable, "no connection")
}

async fn routed(route: Value, scripts: &[Arc<Script>; 3]) -> Arc<ToolRegistry> {
    let changes = json!({
        "routes": {"search": route}, "retry": {"max": 0}, "cache": {"enabled": false},
    });
    let [a, b, c] = scripts;
    open(changes, &[a, b, c]).await
}

#[tokio::test]
async fn one_name_with_a_route_is_one_tool() {
    let toolbox = routed(json!({}), &three(&[], down)).await;
    assert_eq!(names(&toolbox), ["search"]);
    let catalog = toolbox.catalog();
    let tags = &catalog.get("search").unwrap().definition().tags;
    assert_eq!(*tags, ["us", "eu"], "whoever may run it, its gates hold");
}

#[tokio::test]
async fn the_route_says_who_is_asked() {
    for (route, who) in [
        (json!({}), "a"),
        (json!({"executors": ["c", "a"]}), "c"),
        (json!({"require": ["eu"]}), "b"),
        (json!({"executors": ["c", "b"], "require": ["eu"]}), "b"),
    ] {
        let toolbox = routed(route.clone(), &three(&[], down)).await;
        let output = call(&toolbox, "search").await.unwrap();
        assert_eq!((output.for_model.as_str(), output.meta.executor.as_deref()), (who, Some(who)), "{route}");
        assert_eq!(output.meta.fallback_from, None);
    }
}

#[tokio::test]
async fn a_route_that_cannot_work_stops_the_start_and_names_its_key() {
    let scripts = three(&[], down);
    let [a, b, c] = &scripts;
    for (routes, error) in [
        (
            json!({"search": {"require": ["mars"]}}),
            "tools.routes.search.require: no executor of the route has the tool with the tag `mars`",
        ),
        (
            json!({"search": {"require": ["eu", "us"]}}),
            "tools.routes.search.require: no executor of the route has the tool with all of these tags",
        ),
        (
            json!({"search": {"executors": ["a", "nobody"]}}),
            "tools.routes.search.executors[1]: unknown executor `nobody`",
        ),
        (
            json!({"search": {}, "find": {"executors": ["a", "b"]}}),
            "tools.routes.find.executors[0]: `a` has no tool `find`",
        ),
        (json!({"search": {}, "find": {}}), "tools.routes.find: no executor has a tool of this name"),
        (
            json!({"search": {"executors": ["mcp:docs", "a"], "require": ["mars"]}}),
            "tools.routes.search.require: no executor of the route has the tool with the tag `mars`",
        ),
    ] {
        let opened = try_open(json!({"routes": routes}), &[a, b, c]).await;
        assert_eq!(opened.err().expect("it does not start").to_string(), error);
    }
    let tagged = json!({
        "routes": {"search": {"require": ["mars"]}}, "executors": {"b": {"tags": ["mars"]}},
    });
    let toolbox = open(tagged, &[a, b, c]).await;
    assert_eq!(call(&toolbox, "search").await.unwrap().for_model, "b", "an executor's tags are its tools'");
}

#[tokio::test]
async fn an_executor_that_does_not_answer_at_the_start_stops_no_route() {
    let silent = Arc::new(Script::new("a", vec![lookup("search")]));
    silent.lists.store(false, Ordering::Relaxed);
    let other = Arc::new(Script::new("b", vec![lookup("search")]));
    let changes = json!({"routes": {"search": {"executors": ["a", "b"], "require": []}}});
    let toolbox = open(changes, &[&silent, &other]).await;
    assert_eq!(names(&toolbox), ["search"]);
}

#[tokio::test]
async fn the_next_one_is_asked_where_one_cannot_be_reached() {
    let lost = || ToolError::transport("lost");
    let refused = || ToolError::refused(ToolErrorCode::AccessDenied, "no");
    for (fails, error, idempotent, result, attempts) in [
        (&["a"] as &[&str], down as fn() -> ToolError, true, Some("b"), 2),
        (&["a", "b"], down, true, Some("c"), 3),
        (&["a", "b", "c"], down, true, None, 3),
        // It never heard of the call, so another one may.
        (&["a"], down, false, Some("b"), 2),
        (&["a"], lost, true, Some("b"), 2),
        (&["a"], lost, false, None, 1),
        (&["a"], refused, true, None, 1),
        (&["a"], || ToolError::argument("no"), true, None, 1),
        (&["a"], || ToolError::failed("no"), true, None, 1),
    ] {
        let scripts = three(fails, error);
        let changes = json!({
            "routes": {"search": {}}, "retry": {"max": 0}, "cache": {"enabled": false},
            "overrides": {"search": {"idempotent": idempotent}},
        });
        let [a, b, c] = &scripts;
        let toolbox = open(changes, &[a, b, c]).await;
        let called = call(&toolbox, "search").await;
        assert_eq!(
            called.as_ref().ok().map(|output| output.for_model.as_str()),
            result,
            "{fails:?} {}",
            error()
        );
        assert_eq!(scripts.iter().map(|script| script.calls()).sum::<usize>(), attempts);
        match called {
            Ok(output) => {
                assert_eq!(output.meta.fallback_from.as_deref(), Some("a"));
                assert_eq!(output.meta.attempts as usize, attempts);
            }
            Err(told) => assert_eq!(told.code, error().code),
        }
    }
}

#[tokio::test]
async fn each_executor_has_a_breaker_of_its_own() {
    let scripts = three(&["a"], down);
    let toolbox = routed(json!({}), &scripts).await;
    for _ in 0..10 {
        let output = call(&toolbox, "search").await.unwrap();
        assert_eq!((output.for_model.as_str(), output.meta.fallback_from.as_deref()), ("b", Some("a")));
    }
    assert_eq!((scripts[0].calls(), scripts[1].calls()), (5, 10));
}

/// Who runs how many of 400 calls, made one after the other.
async fn share(route: Value) -> [usize; 3] {
    let scripts = three(&[], down);
    let toolbox = routed(route, &scripts).await;
    for _ in 0..400 {
        call(&toolbox, "search").await.unwrap();
    }
    scripts.map(|script| script.calls())
}

#[tokio::test]
async fn calls_are_shared_by_the_strategy() {
    assert_eq!(share(json!({"strategy": "ordered"})).await, [400, 0, 0]);
    assert_eq!(share(json!({"strategy": "round_robin", "executors": ["a", "b"]})).await, [200, 200, 0]);
    assert_eq!(share(json!({"strategy": "weighted", "weights": {"a": 0, "b": 0}})).await, [0, 0, 400]);
    // By chance: so far off only once in more than a billion times.
    let [a, b, c] = share(json!({"strategy": "weighted", "weights": {"a": 2}})).await;
    assert!((130..270).contains(&a) && (40..160).contains(&b) && (40..160).contains(&c), "{a} {b} {c}");
    let p2c = share(json!({"strategy": "p2c"})).await;
    assert!(p2c.iter().all(|calls| (70..200).contains(calls)), "{p2c:?}");
}

#[tokio::test(start_paused = true)]
async fn the_less_busy_one_is_asked() {
    for strategy in ["least_inflight", "p2c"] {
        let scripts = ["a", "b", "c"].map(|id| {
            Arc::new(Script::new(id, vec![lookup("search")]).running(|_| {
                Box::pin(async {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    Ok(ToolOutput::text("done"))
                })
            }))
        });
        let route = json!({"strategy": strategy});
        let toolbox = routed(route, &scripts).await;
        let context = someone();
        join_all((0..30).map(|_| call_with(&toolbox, "search", "{}", &context))).await;
        let calls = scripts.map(|script| script.calls());
        if strategy == "least_inflight" {
            assert_eq!(calls, [10, 10, 10]);
        } else {
            assert!(calls.iter().all(|calls| (5..16).contains(calls)), "{calls:?}");
        }
    }
}

#[tokio::test]
async fn a_conversation_stays_with_its_executor() {
    let scripts = three(&[], down);
    let toolbox = routed(json!({"strategy": "sticky"}), &scripts).await;
    let mut seen = std::collections::BTreeSet::new();
    for number in 0..50 {
        let by_user = Arc::new(of("acme", &format!("user {number}")));
        let conversation: Option<Arc<str>> = Some(format!("resp_{number}").into());
        let in_conversation =
            |who| Arc::new(ToolContext { conversation: conversation.clone(), ..of("acme", who) });
        let ask = async |context: &Arc<ToolContext>| {
            call_with(&toolbox, "search", "{}", context).await.unwrap().for_model
        };
        assert_eq!(ask(&by_user).await, ask(&by_user).await);
        let first = ask(&in_conversation("ann")).await;
        assert_eq!(first, ask(&in_conversation("bob")).await);
        seen.insert(first);
    }
    assert_eq!(seen.len(), 3);
}
