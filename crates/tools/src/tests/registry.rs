//! Which tools there are: names, collisions, refreshes.

use tokio::task::JoinSet;

use super::*;

fn script(id: &str, tools: &[&str]) -> Arc<Script> {
    let own = id.to_owned();
    let tools = tools.iter().map(|name| tool(name)).collect();
    // Says who answers, and under which name it was asked.
    Arc::new(
        Script::new(id, tools).answering(move |call| Ok(ToolOutput::text(format!("{own} {}", call.name)))),
    )
}

#[tokio::test]
async fn two_tools_of_one_name_are_told_apart_as_configured() {
    let (a, b) = (script("mcp:a", &["search", "one"]), script("mcp:b", &["search", "two"]));
    let error = try_open(json!({}), &[&a, &b]).await.err().unwrap().to_string();
    for part in ["'mcp:a'", "'mcp:b'", "'search'"] {
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(a.shutdowns.load(Ordering::Relaxed), 1, "what was opened is closed");

    for (collision, tools, who, answer) in [
        ("first", vec!["one", "search", "two"], "search", "mcp:a search"),
        ("last", vec!["one", "search", "two"], "search", "mcp:b search"),
        ("prefix", vec!["mcp_a_search", "mcp_b_search", "one", "two"], "mcp_b_search", "mcp:b search"),
    ] {
        let toolbox = open(json!({"collision": collision}), &[&a, &b]).await;
        assert_eq!(names(&toolbox), tools, "{collision}");
        assert_eq!(call(&toolbox, who).await.unwrap().for_model, answer, "{collision}");
    }
}

#[tokio::test]
async fn prefixed_names_stay_apart_and_short_enough() {
    let long = "x".repeat(64);
    let (a, b) = (script("ä-server", &["s", &long]), script("mcp:b", &["s", &long, "mcp_b_s"]));
    let toolbox = open(json!({"collision": "prefix"}), &[&a, &b]).await;
    let names = names(&toolbox);
    assert_eq!(names.len(), 5, "{names:?}");
    assert!(names.contains(&"mcp_b_s".to_owned()), "a name of its own is kept: {names:?}");
    for name in &names {
        assert!(name.len() <= 64 && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)));
    }
    assert!(names.iter().any(|name| name.starts_with("_-server_s_")), "{names:?}");
    let again = open(json!({"collision": "prefix"}), &[&a, &b]).await;
    assert_eq!(super::names(&again), names, "the same in every process");
}

#[tokio::test]
async fn what_is_no_good_is_left_out_alone() {
    let mut bad = vec![tool("good"), tool("two words"), tool(""), tool(&"x".repeat(65)), tool("good")];
    bad.push(ToolDefinition::new("no_schema", "", &json!({"type": "objekt"})));
    bad.push(ToolDefinition::new("no_object", "", &json!(true)));
    bad.push(ToolDefinition::new("remote", "", &json!({"$ref": "http://127.0.0.1:1/schema.json"})));
    bad.push(tool("bad_returns").with_returns(&json!({"type": 7})));
    let toolbox = open(json!({}), &[&Arc::new(Script::new("x", bad))]).await;
    assert_eq!(names(&toolbox), ["good"]);
}

#[tokio::test]
async fn definitions_say_who_runs_them_and_which_tags_were_added() {
    let overrides = json!({"overrides": {"t": {"tags": ["net", "eu"]}}});
    let script = Arc::new(Script::new("x", vec![tool("t").with_tag("net")]));
    let toolbox = open(overrides, &[&script]).await;
    let catalog = toolbox.catalog();
    let definition = catalog.get("t").unwrap().definition();
    assert_eq!((&*definition.executor, definition.kind), ("x", ToolKind::Custom));
    assert_eq!(definition.tags, ["net", "eu"]);
    let own = catalog.get("read_tool_output").unwrap().definition();
    assert_eq!((&*own.executor, own.kind), ("builtin", ToolKind::Builtin));
    assert!(catalog.get("nothing").is_none());
    assert_eq!(catalog.len(), 2);
}

#[tokio::test]
async fn a_refresh_brings_what_is_new_and_keeps_what_cannot_be_asked() {
    let (a, b) = (script("a", &["one"]), script("b", &["two"]));
    let toolbox = open(json!({}), &[&a, &b]).await;
    let before = toolbox.catalog();
    a.tools.lock().push(tool("three"));
    b.tools.lock().clear();
    b.lists.store(false, Ordering::Relaxed);
    toolbox.refresh().await.unwrap();
    assert_eq!(names(&toolbox), ["one", "three", "two"]);
    assert!(toolbox.catalog().version() > before.version());
    assert!(before.get("three").is_none(), "a catalogue never changes");
    let health = toolbox.health().await;
    assert_eq!(
        health,
        [
            ("a".to_owned(), ExecutorHealth::Healthy),
            ("b".to_owned(), ExecutorHealth::Unhealthy("gone".into()))
        ]
    );

    b.lists.store(true, Ordering::Relaxed);
    toolbox.refresh().await.unwrap();
    assert_eq!(names(&toolbox), ["one", "three"]);

    b.tools.lock().push(tool("one"));
    let version = toolbox.catalog().version();
    assert!(toolbox.refresh().await.is_err());
    assert_eq!((names(&toolbox).len(), toolbox.catalog().version()), (2, version), "the old one stays");
}

#[tokio::test]
async fn an_executor_that_is_not_ready_stops_the_start_and_one_without_tools_does_not() {
    let a = script("a", &["one"]);
    let mut broken = Script::new("b", Vec::new());
    broken.initializes = false;
    let error = try_open(json!({}), &[&a, &Arc::new(broken)]).await.err().unwrap();
    assert_eq!(error.to_string(), "tools of 'b': tool_execution_failed: no key");
    assert_eq!(a.shutdowns.load(Ordering::Relaxed), 1);

    let silent = script("c", &["two"]);
    silent.lists.store(false, Ordering::Relaxed);
    let toolbox = open(json!({}), &[&a, &silent]).await;
    assert_eq!(names(&toolbox), ["one"]);
    toolbox.shutdown().await;
    toolbox.shutdown().await;
    assert_eq!(silent.shutdowns.load(Ordering::Relaxed), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tools_are_listed_and_called_while_the_catalogue_is_swapped() {
    let script = script("x", &["always"]);
    let toolbox = open(json!({}), &[&script]).await;
    let mut tasks = JoinSet::new();
    for _ in 0..50 {
        let toolbox = Arc::clone(&toolbox);
        tasks.spawn(async move {
            let mut last = 0;
            for _ in 0..20 {
                let catalog = toolbox.catalog();
                assert!(catalog.version() >= last, "catalogues never go back");
                last = catalog.version();
                let names: Vec<_> = catalog.iter().map(|tool| tool.definition().name.clone()).collect();
                assert!(names.is_sorted() && names.len() == catalog.len());
                for tool in catalog.iter().filter(|tool| &*tool.definition().executor == "x") {
                    let name = tool.definition().name.clone();
                    let call = ToolCall::direct(&name, "{}".into());
                    let output = tool.call(call, someone(), Progress::none()).await.unwrap();
                    assert_eq!(output.for_model, format!("x {name}"));
                }
                tokio::task::yield_now().await;
            }
        });
    }
    for round in 0..50 {
        *script.tools.lock() = vec![tool("always"), tool(&format!("round_{round}"))];
        toolbox.refresh().await.unwrap();
        tokio::task::yield_now().await;
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    assert_eq!(
        (names(&toolbox), toolbox.catalog().version()),
        (vec!["always".into(), "round_49".into()], 51)
    );
}
