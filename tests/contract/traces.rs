//! Accounts of runs: the turns, calls, waits and limits of a run as `GET /v1/responses/{id}/trace` tells them, and the
//! summaries of the list.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use antwort::config::ModelPrice;
use serde_json::{Value, json};

use antwort_test_support::configured::settings;
use antwort_test_support::eventually;
use antwort_test_support::gateway::{Gateway, JsonBody};
use antwort_test_support::mcp_server::McpServer;
use antwort_test_support::mcp_server::before;
use antwort_test_support::openapi;
use antwort_test_support::process::Process;
use antwort_test_support::stream::{Stream, answer};
use antwort_test_support::upstream::{Reply, Step, Upstream, chunk, done, finish, usage};

const PRICE: ModelPrice = ModelPrice { input: 1.0, cached_input: None, output: 10.0 };

fn now_ms() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

fn ask(extra: &Value) -> Value {
    let mut body =
        json!({"model": "test-model", "input": "Go.", "tools": [{"type": "mcp", "server_label": "antwort"}]});
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    body
}

async fn trace_of(gateway: &Gateway, response: &Value) -> Value {
    let answer = gateway.get(&format!("/v1/responses/{}/trace", response["id"].as_str().unwrap())).await;
    assert_eq!(answer.status, 200, "{:#}", answer.body);
    openapi::assert_is("ResponseTrace", &answer.body);
    assert_eq!(answer.body["id"], response["id"]);
    answer.body
}

fn ms(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("a time: {value}"))
}

fn names(limits: &Value) -> Vec<&str> {
    limits.as_array().unwrap().iter().map(|limit| limit["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_trace_tells_turns_attempts_calls_and_costs_in_their_order() {
    let upstream = Upstream::spawn().await;
    let priced = Gateway::with_upstream(&upstream).provider(|provider| {
        provider.prices = [("test-model".to_owned(), PRICE)].into();
    });
    let gateway = priced.probe().0.spawn().await;
    let busy = Reply::Status(503, vec![], "busy".to_owned());
    let calls = Reply::Calls(vec![("slow", json!({})), ("fails", json!({})), ("noop", json!({}))]);
    let answer = Reply::Stream(vec![
        Step::Wait(Duration::from_millis(60)),
        chunk(json!({"content": "Done."})),
        Step::Wait(Duration::from_millis(60)),
        finish("stop"),
        usage(100, 20),
        done(),
    ]);
    let before = now_ms();
    upstream.reply(busy).reply(calls).reply(answer);
    let response = gateway.stream(ask(&json!({}))).await.response;
    let (after, trace) = (now_ms(), trace_of(&gateway, &response).await);
    assert!(before <= ms(&trace["started_at"]) && ms(&trace["ended_at"]) <= after, "{trace:#}");

    let [first, second] = [&trace["turns"][0], &trace["turns"][1]];
    assert_eq!((&first["provider"], &first["model"]), (&json!("default"), &json!("test-model")));
    assert_eq!((&first["attempts"], &second["attempts"]), (&json!(2), &json!(1)), "{trace:#}");
    assert_eq!(first["retry_reasons"], json!(["status_5xx"]), "{trace:#}");
    let retried = ms(&first["retried_at"][0]);
    assert!(ms(&first["sent_at"]) < retried && retried <= ms(&first["first_byte_at"]), "{trace:#}");
    let order = ["sent_at", "first_byte_at", "first_token_at", "ended_at"].map(|name| ms(&second[name]));
    assert!(order.is_sorted(), "{trace:#}");
    assert!(order[2] - order[1] >= 55 && order[3] - order[2] >= 55, "{trace:#}");
    assert_eq!(second["usage"]["input_tokens"], 100);
    assert_eq!(second["cost_usd"], 0.0003);
    assert_eq!(trace["turns"].as_array().unwrap().len(), 2);

    let made = first["calls"].as_array().unwrap();
    let shown: Vec<_> = response["output"].as_array().unwrap()[..3].iter().map(|item| &item["id"]).collect();
    assert_eq!(made.iter().map(|call| &call["call_id"]).collect::<Vec<_>>(), shown);
    let outcomes: Vec<_> =
        made.iter().map(|call| (call["name"].as_str().unwrap(), &call["outcome"])).collect();
    assert_eq!(
        outcomes,
        [("slow", &json!("completed")), ("fails", &json!("failed")), ("noop", &json!("completed"))]
    );
    assert_eq!((&made[0]["executor"], &made[0]["error"]), (&json!("probe"), &Value::Null));
    assert!(made[1]["error"].is_string(), "{trace:#}");
    assert!(ms(&made[0]["ended_at"]) - ms(&made[0]["started_at"]) >= 195, "{trace:#}");
    // A call that ends before another of its turn does so when it does, not when it is shown.
    assert!(ms(&made[2]["ended_at"]) < ms(&made[0]["ended_at"]), "{trace:#}");
    assert!(ms(&made[0]["ended_at"]) <= ms(&second["sent_at"]), "{trace:#}");
    // On a busy machine, the tools may take long enough to be made that this is told.
    let waits = trace["waits"].as_array().unwrap();
    assert!(waits.iter().all(|wait| wait["kind"] == "mcp_list_tools"), "{trace:#}");
    assert_eq!((&trace["limits"], &trace["has_events"]), (&json!([]), &json!(false)));
}

#[tokio::test]
async fn a_trace_tells_the_attempts_of_a_call_and_that_a_result_was_cached() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream)
        .set(|settings| {
            settings.tools.retry.max = 2;
            settings.tools.retry.delay = Duration::from_millis(10);
        })
        .probe()
        .0
        .spawn()
        .await;
    upstream.reply(Reply::Calls(vec![("unavailable", json!({}))])).text("Done.");
    let trace = trace_of(&gateway, &gateway.create(ask(&json!({}))).await).await;
    let call = &trace["turns"][0]["calls"][0];
    assert_eq!((&call["attempts"], &call["outcome"]), (&json!(3), &json!("failed")), "{trace:#}");
    let retried: Vec<i64> = call["retried_at"].as_array().unwrap().iter().map(ms).collect();
    assert_eq!(retried.len(), 2);
    assert!(ms(&call["started_at"]) < retried[0] && retried[0] < retried[1], "{trace:#}");
}

#[tokio::test]
async fn a_trace_names_the_limits_that_stopped_the_run_or_calls_of_it() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).probe().0.spawn().await;
    let noop = || Reply::Calls(vec![("noop", json!({}))]);
    upstream.reply(noop());
    let stopped = gateway.create(ask(&json!({"antwort": {"limits": {"max_turns": 1}}}))).await;
    assert_eq!(stopped["incomplete_details"]["reason"], "max_turns");
    assert_eq!(names(&trace_of(&gateway, &stopped).await["limits"]), ["max_turns"]);

    upstream.reply(Reply::Calls(vec![("noop", json!({})), ("echo", json!({}))])).text("Done.");
    let limited = gateway.create(ask(&json!({"max_tool_calls": 1}))).await;
    assert_eq!(limited["status"], "completed");
    let trace = trace_of(&gateway, &limited).await;
    assert_eq!(names(&trace["limits"]), ["max_tool_calls"], "{trace:#}");
    assert_eq!(trace["turns"][0]["calls"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn calls_that_a_run_did_not_wait_for_are_cancelled_and_named_by_their_items() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).probe().0.spawn().await;
    upstream.reply(Reply::Calls(vec![("hang", json!({})), ("noop", json!({}))]));
    let stopped = gateway.create(ask(&json!({"antwort": {"limits": {"max_seconds": 1}}}))).await;
    assert_eq!(stopped["status"], "incomplete", "{stopped:#}");
    let trace = trace_of(&gateway, &stopped).await;
    let calls = trace["turns"][0]["calls"].as_array().unwrap();
    let ids: Vec<_> = calls.iter().map(|call| &call["call_id"]).collect();
    let items: Vec<_> = stopped["output"].as_array().unwrap().iter().map(|item| &item["id"]).collect();
    assert_eq!(ids, items, "{trace:#}");
    for call in calls {
        assert_eq!(call["outcome"], "cancelled", "{trace:#}");
        assert!(ms(&trace["ended_at"]) - ms(&call["ended_at"]) < 1000, "{trace:#}");
    }
}

#[tokio::test]
async fn a_trace_tells_how_long_the_client_was_waited_for() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(Reply::Calls(vec![("weather", json!({"city": "Berlin"}))])).text("Sunny.");
    let body = json!({"model": "test-model", "input": "Weather?", "stream": true, "antwort": {"client_tools": "inline"},
        "tools": [{"type": "function", "name": "weather", "parameters": {"type": "object"}}]});
    let mut stream = Stream::open(&gateway, &body).await;
    let question = stream.question().await;
    let id = stream.id();
    let unknown = gateway.get(&format!("/v1/responses/{id}/trace")).await;
    assert_eq!((unknown.status, &unknown.body["error"]["code"]), (404, &json!("trace_not_found")));
    tokio::time::sleep(Duration::from_millis(150)).await;
    let given = answer(&gateway, &id, &json!({"call_id": question["call_id"], "output": "sunny"})).await;
    assert_eq!(given.status, 202, "{:#}", given.body);
    stream.rest().await;
    let trace = trace_of(&gateway, &json!({"id": id})).await;
    let kinds: Vec<_> = trace["waits"].as_array().unwrap().iter().map(|wait| &wait["kind"]).collect();
    assert_eq!(kinds, [&json!("queue"), &json!("client")], "{trace:#}");
    let wait = &trace["waits"][1];
    assert!(ms(&wait["to"]) - ms(&wait["from"]) >= 150, "{trace:#}");
    let [first, second] = [&trace["turns"][0], &trace["turns"][1]];
    assert!(ms(&first["ended_at"]) <= ms(&wait["from"]), "{trace:#}");
    assert!(ms(&wait["to"]) <= ms(&second["sent_at"]), "{trace:#}");
}

#[tokio::test]
async fn a_background_run_tells_how_long_it_was_queued() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.text("Hello.");
    let queued = gateway.create(json!({"model": "test-model", "input": "Hi", "background": true})).await;
    let path = format!("/v1/responses/{}", queued["id"].as_str().unwrap());
    assert!(eventually(async || gateway.get(&path).await.body["status"] == "completed").await);
    let trace = trace_of(&gateway, &queued).await;
    assert_eq!(trace["has_events"], true, "{trace:#}");
    assert_eq!(trace["waits"][0]["kind"], "queue", "{trace:#}");
    assert_eq!(trace["waits"][0]["from"], trace["started_at"], "{trace:#}");
    assert!(ms(&trace["waits"][0]["to"]) <= ms(&trace["turns"][0]["sent_at"]), "{trace:#}");
}

#[tokio::test]
async fn only_the_owner_of_a_stored_response_reads_its_trace() {
    let upstream = Upstream::spawn().await;
    let keys = "auth: {keys: {one: {key: key-of-one}, two: {key: key-of-two}}}";
    let gateway = Gateway::with(settings(&upstream, &[], keys)).spawn().await;
    let gateway = gateway.with_header("authorization", "Bearer key-of-one");
    upstream.always(Reply::Text("Hello.".to_owned()));
    let stored = gateway.create(json!({"model": "test-model", "input": "Hi"})).await;
    let unstored = gateway.create(json!({"model": "test-model", "input": "Hi", "store": false})).await;
    trace_of(&gateway, &stored).await;
    let path = |response: &Value| format!("/v1/responses/{}/trace", response["id"].as_str().unwrap());
    assert_eq!(gateway.get(&path(&unstored)).await.status, 404);
    let other = gateway.with_header("authorization", "Bearer key-of-two");
    let hidden = other.get(&path(&stored)).await;
    assert_eq!((hidden.status, &hidden.body["error"]["code"]), (404, &json!("not_found")));
}

#[tokio::test]
async fn a_list_of_summaries_is_filtered_and_tells_the_figures_of_runs() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).probe().0.spawn().await;
    upstream.reply(Reply::Calls(vec![("noop", json!({}))])).text(&"ü".repeat(300));
    let done = gateway.create(ask(&json!({}))).await;
    upstream.reply(Reply::Calls(vec![("noop", json!({}))]));
    let stopped = gateway
        .create(ask(&json!({"antwort": {"limits": {"max_turns": 1}}, "model": "org/model:latest"})))
        .await;
    let list = async |query: &str| {
        let answer = gateway.get(&format!("/v1/responses?{query}")).await;
        assert_eq!(answer.status, 200, "{:#}", answer.body);
        let ids = answer.body["data"].as_array().unwrap().iter().map(|response| response["id"].clone());
        (ids.collect::<Vec<_>>(), answer.body)
    };
    let (ids, page) = list("view=summary").await;
    assert_eq!(ids, [stopped["id"].clone(), done["id"].clone()]);
    openapi::assert_is("ResponseList", &page);
    let summary = &page["data"][1];
    assert_eq!((&summary["turns"], &summary["calls"]), (&json!(2), &json!(1)), "{summary:#}");
    assert_eq!((&summary["failed_calls"], &summary["retries"]), (&json!(0), &json!(0)), "{summary:#}");
    assert!(summary["duration_ms"].is_i64() && summary["cost_usd"].is_null(), "{summary:#}");
    assert_eq!(summary["text"].as_str().unwrap(), "ü".repeat(200));
    assert_eq!(summary["usage"], done["usage"]);
    assert!(summary.get("output").is_none());
    assert_eq!(list("status=incomplete").await.0, [stopped["id"].clone()]);
    assert_eq!(list("view=summary&model=test-model").await.0, [done["id"].clone()]);
    assert!(list("model=test-model&status=failed").await.0.is_empty());
    for query in ["status=ended", "view=short"] {
        let refused = gateway.get(&format!("/v1/responses?{query}")).await;
        let param = query.split('=').next().unwrap();
        assert_eq!(
            (refused.status, &refused.body["error"]["param"]),
            (400, &json!(param)),
            "{:#}",
            refused.body
        );
    }
}

#[tokio::test]
async fn calls_that_were_approved_are_a_turn_without_an_inference() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    let tools = json!([{"type": "mcp", "server_label": "s", "server_url": server.url()}]);
    upstream.reply(Reply::Calls(vec![("echo", json!({"text": "hi"}))]));
    let asked = gateway.create(json!({"model": "test-model", "input": "Go.", "tools": tools})).await;
    let items = asked["output"].as_array().unwrap();
    let request = items.iter().find(|item| item["type"] == "mcp_approval_request").unwrap();
    upstream.text("Done.");
    let approval =
        json!([{"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": true}]);
    let done = gateway
        .create(json!({"model": "test-model", "previous_response_id": asked["id"], "input": approval, "tools": tools}))
        .await;
    let trace = trace_of(&gateway, &done).await;
    let turns = trace["turns"].as_array().unwrap();
    let attempts: Vec<_> =
        turns.iter().map(|turn| (&turn["attempts"], turn["calls"].as_array().unwrap().len())).collect();
    assert_eq!(attempts, [(&json!(0), 1), (&json!(1), 0)], "{trace:#}");
    assert_eq!(turns[0]["calls"][0]["outcome"], "completed", "{trace:#}");
}

/// Before there is an item, where a slow server is to be found.
#[tokio::test]
async fn a_trace_tells_how_long_the_servers_took_to_list_their_tools() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    server.delay("tools/list", Duration::from_millis(120));
    upstream.always(Reply::Text("Hello.".to_owned()));
    let body = json!({"model": "test-model", "input": "Go.",
        "tools": [{"type": "mcp", "server_label": "s", "server_url": server.url()}]});
    let listed = trace_of(&gateway, &gateway.create(body.clone()).await).await;
    let wait = &listed["waits"][0];
    assert_eq!(wait["kind"], "mcp_list_tools", "{listed:#}");
    assert!(ms(&wait["to"]) - ms(&wait["from"]) >= 120, "{listed:#}");
    assert!(ms(&wait["to"]) <= ms(&listed["turns"][0]["sent_at"]), "{listed:#}");
    gateway.create(body).await;
    assert_eq!(server.count("tools/list"), 1, "the list is cached");
}

#[tokio::test]
async fn a_trace_tells_what_a_summary_has_cost() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream)
        .provider(|provider| {
            let small = ModelPrice { input: 0.5, cached_input: None, output: 0.5 };
            provider.prices = [("test-model".to_owned(), PRICE), ("small-model".to_owned(), small)].into();
        })
        .set(|settings| settings.engine.compaction.model = Some("small-model".into()))
        .spawn()
        .await;
    upstream.text("The user builds a boat.").text("A mast.");
    let input = json!([
        {"role": "user", "content": "Build a boat."},
        {"role": "assistant", "content": "planks ".repeat(1000)},
        {"role": "user", "content": "Now the mast."}]);
    let body = json!({"model": "test-model", "input": input,
        "context_management": [{"type": "compaction", "compact_threshold": 1000}]});
    let response = gateway.create(body).await;
    let trace = trace_of(&gateway, &response).await;
    let [summary, answer] = &trace["turns"].as_array().unwrap()[..] else { panic!("two: {trace:#}") };
    assert_eq!((&summary["is_compaction"], &answer["is_compaction"]), (&json!(true), &json!(false)));
    assert_eq!((&summary["model"], &answer["model"]), (&json!("small-model"), &json!("test-model")));
    let cost = |turn: &Value, price: ModelPrice| {
        let tokens = |name: &str| turn["usage"][name].as_f64().unwrap();
        (tokens("input_tokens") * price.input + tokens("output_tokens") * price.output) / 1e6
    };
    let costs =
        [cost(summary, ModelPrice { input: 0.5, cached_input: None, output: 0.5 }), cost(answer, PRICE)];
    for (turn, cost) in [summary, answer].into_iter().zip(costs) {
        assert!((turn["cost_usd"].as_f64().unwrap() - cost).abs() < 1e-12, "{trace:#}");
    }
    assert!(ms(&summary["ended_at"]) <= ms(&answer["sent_at"]), "{trace:#}");
    assert!(summary["first_token_at"].is_i64(), "{trace:#}");
    let page = gateway.get("/v1/responses?view=summary").await.body;
    assert_eq!(page["data"][0]["turns"], 1, "{page:#}");
    assert!((page["data"][0]["cost_usd"].as_f64().unwrap() - costs.iter().sum::<f64>()).abs() < 1e-12);
}

/// The process is killed while a call is under way, and the next one ends the response.
#[tokio::test]
async fn a_run_whose_process_is_gone_keeps_the_account_of_what_was_committed() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::spawn().await;
    let server = McpServer::spawn().await;
    server.slow(100, Duration::from_secs(1));
    let allow = [("ANTWORT_EGRESS_ALLOW", "127.0.0.1")];
    let mut gateway = Process::start_with_environment(folder.path(), &upstream, &allow).await;
    upstream.reply(Reply::Calls(vec![("echo", json!({"text": "hi"}))]));
    upstream.reply(Reply::Calls(vec![("slow", json!({}))]));
    let http = reqwest::Client::new();
    let body = json!({"model": "test-model", "input": "Go.", "stream": true, "tools":
        [{"type": "mcp", "server_label": "s", "server_url": server.url(), "require_approval": "never"}]});
    let mut stream =
        http.post(format!("{}/v1/responses", gateway.base)).json_body(&body).send().await.unwrap();
    let first = String::from_utf8(stream.chunk().await.unwrap().unwrap().to_vec()).unwrap();
    let id = first.split("\"id\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    assert!(eventually(async || server.count_calls("slow") == 1).await);
    gateway.kill();
    gateway.restart().await;
    let url = format!("{}/v1/responses/{id}/trace", gateway.base);
    let mut trace = Value::Null;
    let found = eventually(async || {
        trace = serde_json::from_str(&http.get(&url).send().await.unwrap().text().await.unwrap()).unwrap();
        trace["turns"].is_array()
    });
    let response = http.get(url.strip_suffix("/trace").unwrap()).send().await.unwrap().text().await.unwrap();
    assert!(found.await, "{trace:#} {response}");
    openapi::assert_is("ResponseTrace", &trace);
    let [first, second] = &trace["turns"].as_array().unwrap()[..] else { panic!("two turns: {trace:#}") };
    let call = &first["calls"][0];
    assert_eq!((&call["name"], &call["outcome"]), (&json!("echo"), &json!("completed")), "{trace:#}");
    assert!(first["usage"].is_object() && call["ended_at"].is_i64(), "{trace:#}");
    let call = &second["calls"][0];
    assert_eq!(
        (&call["name"], &call["outcome"], &call["ended_at"]),
        (&json!("slow"), &json!("unknown"), &Value::Null),
        "{trace:#}"
    );
}
