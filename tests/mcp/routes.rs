//! Tools of the gateway that several MCP servers run: who is asked, who takes over, who is not asked at all.

use antwort::config::{
    ExecutorSettings, McpContext, McpServerSettings, McpTrust, RouteSettings, RouteStrategy, Settings,
};
use serde_json::{Value, json};

use super::{ask, before, call, item, keys, kinds, told};
use antwort_test_support::gateway::{Builder, Gateway};
use antwort_test_support::mcp_server::{McpServer, content, tools};
use antwort_test_support::upstream::{Reply, Upstream};

/// Two servers that search, and say who they are.
async fn two() -> (Upstream, McpServer, McpServer) {
    let (upstream, a, b) = (Upstream::spawn().await, McpServer::spawn().await, McpServer::spawn().await);
    for (server, name) in [(&a, "a"), (&b, "b")] {
        server.set_tools(vec![tools::tool("search", json!({}))]);
        server.says("search", vec![content::text(name)]);
    }
    (upstream, a, b)
}

fn server(server: &McpServer) -> McpServerSettings {
    McpServerSettings { url: Some(server.url()), ..McpServerSettings::default() }
}

fn route(strategy: RouteStrategy) -> RouteSettings {
    RouteSettings { executors: vec!["mcp:a".into(), "mcp:b".into()], strategy, ..RouteSettings::default() }
}

/// A gateway in which `search` is run by both.
fn routed(upstream: &Upstream, a: &McpServer, b: &McpServer, route: RouteSettings) -> Builder {
    let (a, b) = (server(a), server(b));
    before(upstream).set(|settings| {
        settings.mcp.servers.extend([("a".to_owned(), a), ("b".to_owned(), b)]);
        settings.tools.routes.insert("search".into(), route);
        settings.tools.cache.enabled = false;
    })
}

fn search() -> Value {
    ask(json!([{"type": "antwort:search"}]))
}

async fn executed(gateway: &Gateway) -> Value {
    gateway.post("/v1/tools/search/execute", &json!({"arguments": {}})).await.body
}

#[tokio::test]
async fn a_hundred_calls_are_split_between_two_servers() {
    let (upstream, a, b) = two().await;
    let gateway = routed(&upstream, &a, &b, route(RouteStrategy::RoundRobin)).spawn().await;
    for _ in 0..50 {
        upstream.reply(Reply::Calls(vec![("search", json!({})), ("search", json!({"n": 1}))])).text("Done.");
        let response = gateway.create(search()).await;
        assert_eq!(kinds(&response), ["mcp_call", "mcp_call", "message"]);
        let made = item(&response, "mcp_call");
        assert_eq!((&made["server_label"], &made["name"]), (&json!("antwort"), &json!("search")));
    }
    assert_eq!((a.count_calls("search"), b.count_calls("search")), (50, 50));
    assert_eq!((a.count("tools/list"), b.count("tools/list")), (1, 1), "lists are kept");
    let text = gateway.get("/metrics").await.body.as_str().unwrap().to_owned();
    for executor in ["mcp:a", "mcp:b"] {
        let line =
            format!(r#"antwort_tool_calls_total{{tool="search",outcome="ok",executor="{executor}"}} 50"#);
        assert!(text.contains(&format!("\n{line}\n")), "{line} is not in\n{text}");
    }
}

#[tokio::test]
async fn each_strategy_finds_servers() {
    for (strategy, weights, share) in [
        (RouteStrategy::Ordered, &[][..], [20, 0]),
        (RouteStrategy::LeastInflight, &[], [20, 0]),
        (RouteStrategy::Weighted, &[("mcp:a", 0), ("mcp:b", 1)], [0, 20]),
    ] {
        let (upstream, a, b) = two().await;
        let weights = weights.iter().map(|(id, weight)| ((*id).to_owned(), *weight)).collect();
        let route = RouteSettings { weights, ..route(strategy) };
        let gateway = routed(&upstream, &a, &b, route).spawn().await;
        for _ in 0..20 {
            executed(&gateway).await;
        }
        assert_eq!([a.count_calls("search"), b.count_calls("search")], share, "{strategy:?}");
    }
}

#[tokio::test]
async fn the_other_server_takes_over_where_one_is_down() {
    let (upstream, a, b) = two().await;
    let gateway = routed(&upstream, &a, &b, route(RouteStrategy::Ordered)).spawn().await;
    let first = executed(&gateway).await;
    assert_eq!((&first["output"], &first["meta"]["executor"]), (&json!("a"), &json!("mcp:a")));
    a.kill().await;
    let second = executed(&gateway).await;
    assert_eq!(second["output"], "b", "{second:#}");
    assert_eq!(
        (&second["meta"]["executor"], &second["meta"]["fallback_from"]),
        (&json!("mcp:b"), &json!("mcp:a"))
    );
    assert!(second["meta"]["attempts"].as_u64() >= Some(2), "{second:#}");
    upstream.reply(call("search", json!({}))).text("Done.");
    let response = gateway.create(search()).await;
    assert_eq!(kinds(&response), ["mcp_call", "message"], "one item, whoever ran it: {response:#}");
    assert_eq!(item(&response, "mcp_call")["output"], "b");
    b.kill().await;
    let failed = executed(&gateway).await;
    assert_eq!(
        (&failed["is_error"], &failed["code"]),
        (&json!(true), &json!("tool_unavailable")),
        "{failed:#}"
    );
    assert!(failed["meta"]["executor"].is_string() && failed["meta"]["duration_ms"].is_u64());
}

#[tokio::test]
async fn what_a_tool_says_or_may_have_done_is_no_reason_to_ask_another() {
    let (upstream, a, b) = two().await;
    let gateway = routed(&upstream, &a, &b, route(RouteStrategy::Ordered)).spawn().await;
    a.returns("search", json!({"content": [content::text("no such row")], "isError": true}));
    assert_eq!(executed(&gateway).await["output"], "no such row");
    a.errors("search", -32603, "boom");
    assert_eq!(executed(&gateway).await["code"], "tool_execution_failed");
    // An answer of 500 may come after the effect.
    a.status_of("tools/call", 1, (500, &[], "oops"));
    assert_eq!(executed(&gateway).await["is_error"], true);
    assert_eq!(b.count_calls("search"), 0);

    let own = antwort::config::ToolOverride { idempotent: Some(true), ..Default::default() };
    let change = |settings: &mut Settings| {
        settings.tools.overrides.insert("search".into(), own);
        settings.tools.retry.max = 0;
    };
    let gateway = routed(&upstream, &a, &b, route(RouteStrategy::Ordered)).set(change).spawn().await;
    a.status_of("tools/call", 1, (500, &[], "oops"));
    let answer = executed(&gateway).await;
    assert_eq!((&answer["output"], &answer["meta"]["fallback_from"]), (&json!("b"), &json!("mcp:a")));
}

#[tokio::test]
async fn a_server_that_was_down_from_the_start_is_found_when_it_is_there() {
    let (upstream, a, b) = two().await;
    a.kill().await;
    let gateway = routed(&upstream, &a, &b, route(RouteStrategy::Ordered)).spawn().await;
    assert_eq!(executed(&gateway).await["output"], "b");
    b.kill().await;
    let gateway = routed(&upstream, &a, &b, route(RouteStrategy::Ordered)).spawn().await;
    let refused = gateway.post("/v1/tools/search/execute", &json!({"arguments": {}})).await;
    assert_eq!((refused.status, &refused.body["error"]["code"]), (424, &json!("mcp_server_unavailable")));
    let error = gateway.refuse(search(), 424, "mcp_server_unavailable").await;
    assert_eq!(error["param"], "tools[0].type");
    // Whoever asks for all of them has the others.
    let response = gateway.create(ask(json!([{"type": "mcp", "server_label": "antwort"}]))).await;
    assert_eq!(response["status"], "completed");
    let again = McpServer::spawn_on(a.base.trim_start_matches("http://")).await;
    again.set_tools(vec![tools::tool("search", json!({}))]);
    again.says("search", vec![content::text("back")]);
    let back = async || executed(&gateway).await["output"] == "back";
    assert!(antwort_test_support::eventually(back).await);
}

#[tokio::test]
async fn tags_of_the_configuration_choose_the_server() {
    let (upstream, a, b) = two().await;
    let eu = RouteSettings { require: vec!["eu".into()], ..route(RouteStrategy::RoundRobin) };
    let of_server = |settings: &mut Settings| {
        let own = ExecutorSettings { tags: vec!["eu".into()], ..ExecutorSettings::default() };
        settings.tools.executors.insert("mcp:b".into(), own);
    };
    let of_tool = |settings: &mut Settings| {
        let own = antwort::config::ToolOverride { tags: vec!["eu".into()], ..Default::default() };
        settings.tools.overrides.insert("b__search".into(), own);
    };
    for change in [&of_server as &dyn Fn(&mut Settings), &of_tool] {
        let gateway = routed(&upstream, &a, &b, eu.clone()).set(change).spawn().await;
        for _ in 0..4 {
            assert_eq!(executed(&gateway).await["output"], "b");
        }
        let listed = gateway.get("/v1/tools/search").await.body;
        assert_eq!((&listed["executor"], &listed["kind"]), (&json!("mcp:b"), &json!("mcp")));
        assert_eq!(listed["tags"], json!(["net", "eu"]));
    }
    assert_eq!(a.count_calls("search"), 0);
}

#[tokio::test]
async fn a_conversation_stays_with_one_server_from_its_first_response_on() {
    let (upstream, a, b) = two().await;
    let gateway = routed(&upstream, &a, &b, route(RouteStrategy::Sticky)).spawn().await;
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..12 {
        let mut body = search();
        let mut servers = std::collections::BTreeSet::new();
        for _ in 0..4 {
            upstream.reply(call("search", json!({}))).text("Done.");
            let response = gateway.create(body.clone()).await;
            servers.insert(item(&response, "mcp_call")["output"].as_str().unwrap().to_owned());
            body["previous_response_id"] = response["id"].clone();
        }
        assert_eq!(servers.len(), 1, "a conversation of four responses: {servers:?}");
        seen.append(&mut servers);
    }
    assert_eq!(seen.len(), 2, "and another one goes elsewhere");
    // Where nothing is kept, the client's word counts.
    let mut seen = std::collections::BTreeSet::new();
    for key in 0..12 {
        let mut servers = std::collections::BTreeSet::new();
        for _ in 0..3 {
            let mut body = search();
            body["store"] = json!(false);
            body["prompt_cache_key"] = json!(format!("conversation {key}"));
            upstream.reply(call("search", json!({}))).text("Done.");
            let response = gateway.create(body).await;
            servers.insert(item(&response, "mcp_call")["output"].as_str().unwrap().to_owned());
        }
        assert_eq!(servers.len(), 1, "{servers:?}");
        seen.append(&mut servers);
    }
    assert_eq!(seen.len(), 2);
}

#[tokio::test]
async fn servers_of_a_route_are_those_that_the_caller_may_use() {
    let (upstream, a, b) = two().await;
    let change = |settings: &mut Settings| {
        settings.auth = keys();
        settings.mcp.servers.get_mut("a").unwrap().tenants = Some(vec!["red".into()]);
        let b = settings.mcp.servers.get_mut("b").unwrap();
        b.tenants = Some(vec!["blue".into()]);
        b.context = vec![McpContext::Tenant, McpContext::User];
    };
    let gateway = routed(&upstream, &a, &b, route(RouteStrategy::RoundRobin)).set(change).spawn().await;
    let mut gateway = gateway.with_header("authorization", "Bearer key-ann");
    for _ in 0..3 {
        assert_eq!(executed(&gateway).await["output"], "a");
    }
    gateway = gateway.with_header("authorization", "Bearer key-eve");
    for _ in 0..3 {
        assert_eq!(executed(&gateway).await["output"], "b");
    }
    let told = b.calls().last().unwrap().meta["antwort/context"].clone();
    assert_eq!(told, json!({"tenant": "blue", "user": "eve"}));
}

#[tokio::test]
async fn what_is_blocked_or_needs_approval_at_a_server_is_not_run_there() {
    let (upstream, a, b) = two().await;
    let blocked = |settings: &mut Settings| settings.tools.blocked_tools = vec!["a__search".into()];
    let gateway = routed(&upstream, &a, &b, route(RouteStrategy::Ordered)).set(blocked).spawn().await;
    assert_eq!(executed(&gateway).await["output"], "b");
    // It does not say that it only reads.
    let careful = |settings: &mut Settings| {
        settings.mcp.servers.get_mut("a").unwrap().trust = Some(McpTrust::Annotations);
    };
    let gateway = routed(&upstream, &a, &b, route(RouteStrategy::Ordered)).set(careful).spawn().await;
    assert_eq!(executed(&gateway).await["output"], "b");
    let all = |settings: &mut Settings| settings.tools.blocked_tools = vec!["search".into()];
    let gateway = routed(&upstream, &a, &b, route(RouteStrategy::Ordered)).set(all).spawn().await;
    assert_eq!(gateway.get("/v1/tools/search").await.status, 404);
    assert_eq!(a.count_calls("search"), 0);
}

#[tokio::test]
async fn a_tool_of_the_gateway_and_of_a_server_can_be_one() {
    let (upstream, a, _) = two().await;
    a.set_tools(vec![tools::tool("noop", json!({}))]);
    a.says("noop", vec![content::text("from afar")]);
    let settings = server(&a);
    let change = |all: &mut Settings| {
        all.mcp.servers.insert("a".into(), settings);
        let executors = vec!["mcp:a".into(), "probe".into()];
        let route =
            RouteSettings { executors, strategy: RouteStrategy::RoundRobin, ..RouteSettings::default() };
        all.tools.routes.insert("noop".into(), route);
        all.tools.cache.enabled = false;
    };
    let (builder, seen) = before(&upstream).set(change).probe();
    let gateway = builder.spawn().await;
    for _ in 0..10 {
        upstream.reply(call("noop", json!({}))).text("Done.");
        gateway.create(ask(json!([{"type": "antwort:noop"}]))).await;
        assert!(["from afar", "ok"].contains(&told(&upstream).as_str()));
    }
    assert_eq!((a.count_calls("noop"), seen.count("noop")), (5, 5));
    let listed = gateway.get("/v1/tools").await.body;
    let names = listed["data"].as_array().unwrap().iter().filter(|tool| tool["name"] == "noop");
    assert_eq!(names.count(), 1);
}

#[test]
fn a_route_to_servers_that_cannot_work_is_refused_and_its_key_named() {
    use antwort::config::LoadOptions;
    let load = |yaml: &str| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("antwort.yaml");
        std::fs::write(&path, yaml).unwrap();
        let environment = [("ANTWORT_UPSTREAM_URL".into(), "http://127.0.0.1:1/v1".into())].into();
        let options = LoadOptions { file: Some(path), environment, ..LoadOptions::default() };
        Settings::load(&options).err().map(|errors| errors.to_string()).unwrap_or_default()
    };
    let with = |server: &str, tools: &str| {
        load(&format!(
            "mcp: {{servers: {{a: {{url: 'http://a.example/mcp'}}, b: {{url: 'http://b.example/mcp'{server}}}}}}}\ntools: {{{tools}}}"
        ))
    };
    const BOTH: &str = "routes: {search: {executors: ['mcp:a', 'mcp:b']}}";
    assert_eq!(with("", BOTH), "");
    for (server, tools, key) in [
        ("", "routes: {search: {executors: ['mcp:a', 'mcp:c']}}", "tools.routes.search.executors[1]"),
        ("", "routes: {search: {executors: ['mcp:a']}}", "tools.routes.search.executors"),
        (", trust: untrusted", BOTH, "tools.routes.search.executors[1]"),
        (", rules: {'se*': ask}", BOTH, "tools.routes.search.executors[1]"),
        (", rules: {'se*': deny}", BOTH, "tools.routes.search.executors[1]"),
        (", blocked_tools: [search]", BOTH, "tools.routes.search.executors[1]"),
        (", allowed_tools: [read]", BOTH, "tools.routes.search.executors[1]"),
        ("", "executors: {'mcp:c': {timeout: 1s}}", "tools.executors.mcp:c"),
        (
            "",
            "on_error: 'fallback:search', routes: {search: {executors: ['mcp:a', 'mcp:b']}}",
            "tools.on_error",
        ),
    ] {
        let errors = with(server, tools);
        assert!(errors.contains(key), "{tools}{server}: {errors}");
    }
    assert_eq!(with(", trust: untrusted, rules: {search: allow}", BOTH), "");
}
