//! Calls that are tasks of their servers: waited for, or fetched when the response has gone on.

use std::collections::BTreeMap;
use std::time::Duration;

use antwort::config::Settings;
use serde_json::{Value, json};

use super::{ask, before, brought, call, item, told};
use antwort_test_support::eventually;
use antwort_test_support::fleet::Fleet;
use antwort_test_support::gateway::{Gateway, frames, text_of};
use antwort_test_support::mcp_server::McpServer;
use antwort_test_support::mcp_server::tasks::TaskScript;
use antwort_test_support::process::Process;
use antwort_test_support::stream::{Stream, answer};
use antwort_test_support::stream_validator::assert_valid_stream;
use antwort_test_support::upstream::{Reply, Upstream};

fn script(is_extension: bool) -> TaskScript {
    TaskScript {
        tool: "add".to_owned(),
        is_extension,
        polls: 2,
        support: "optional",
        ..TaskScript::default()
    }
}

/// A server whose tool may go on after its call.
fn allow(settings: &mut Settings, server: &McpServer, on_complete: &str) {
    let shop = json!({"url": server.url(), "trust": "trusted"});
    settings.mcp.servers.insert("shop".to_owned(), serde_json::from_value(shop).unwrap());
    let overrides = json!({"shop__add": {"async": "allow", "on_complete": on_complete}});
    let overrides: BTreeMap<_, _> = serde_json::from_value(overrides).unwrap();
    settings.tools.overrides.extend(overrides);
}

async fn gateway(upstream: &Upstream, server: &McpServer, on_complete: &str) -> Gateway {
    before(upstream).set(|settings| allow(settings, server, on_complete)).spawn().await
}

fn known() -> Value {
    ask(json!([{"type": "mcp", "server_label": "shop"}]))
}

async fn stored(gateway: &Gateway, id: &str) -> Value {
    gateway.get(&format!("/v1/responses/{id}")).await.body
}

/// The call of a response, once it has its result.
async fn ended(gateway: &Gateway, id: &str) -> Value {
    let mut found = Value::Null;
    let has_ended = eventually(async || {
        found = item(&stored(gateway, id).await, "mcp_call").clone();
        found["status"] != "in_progress"
    });
    assert!(has_ended.await, "{found:#}");
    found
}

#[tokio::test]
async fn a_call_of_a_tool_that_must_be_a_task_waits_for_its_result() {
    for (is_extension, support) in [(false, "required"), (true, "forbidden")] {
        let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
        server.makes_tasks(TaskScript { support, ..script(is_extension) });
        let gateway = before(&upstream).spawn().await;
        upstream.reply(call("add", json!({"a": 1, "b": 2}))).text("Done.");
        let response = gateway.create(ask(json!([brought(&server)]))).await;
        assert_eq!(item(&response, "mcp_call")["output"], "worked out", "{response:#}");
        assert_eq!(server.tasks()[0].polls, 3);
        assert!(!server.tasks()[0].is_cancelled);
    }
}

#[tokio::test]
async fn a_tool_that_need_not_be_a_task_is_none_unless_it_may_go_on() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.makes_tasks(script(false));
    let gateway = before(&upstream).spawn().await;
    upstream.reply(call("add", json!({"a": 1, "b": 2}))).text("Done.");
    let response = gateway.create(ask(json!([brought(&server)]))).await;
    assert_eq!(item(&response, "mcp_call")["output"], "3");
    assert!(server.tasks().is_empty());
}

#[tokio::test]
async fn a_task_that_fails_or_is_cancelled_is_the_failure_of_its_call() {
    for is_extension in [false, true] {
        for (why, words) in [("broken", "broken"), ("cancelled", "the server has cancelled the task")] {
            let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
            let result = Some(Err(why.to_owned()));
            server.makes_tasks(TaskScript { support: "required", result, polls: 0, ..script(is_extension) });
            let gateway = before(&upstream).spawn().await;
            upstream.reply(call("add", json!({"a": 1, "b": 2}))).text("Done.");
            let response = gateway.create(ask(json!([brought(&server)]))).await;
            assert_eq!(item(&response, "mcp_call")["error"]["type"], "mcp_protocol_error", "{response:#}");
            assert!(told(&upstream).contains(words), "{}", told(&upstream));
        }
    }
}

#[tokio::test]
async fn a_task_that_takes_too_long_is_cancelled() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.makes_tasks(TaskScript { support: "required", polls: 1_000, ..script(false) });
    let gateway = before(&upstream)
        .set(|settings| settings.mcp.requests.max_time = Duration::from_millis(700))
        .spawn()
        .await;
    upstream.reply(call("add", json!({"a": 1, "b": 2}))).text("Done.");
    let response = gateway.create(ask(json!([brought(&server)]))).await;
    assert_eq!(item(&response, "mcp_call")["error"]["code"], "tool_timeout", "{response:#}");
    assert!(eventually(async || server.tasks()[0].is_cancelled).await);
}

#[tokio::test]
async fn a_task_asks_the_user_or_is_told_by_policy() {
    let which = json!({"one": {"method": "elicitation/create", "params": {"message": "Which one?",
        "requestedSchema": {"type": "object", "properties": {}}}}});
    for shows in [false, true] {
        let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
        server.makes_tasks(TaskScript { asks: Some(which.clone()), ..script(true) });
        let gateway = before(&upstream).spawn().await;
        upstream.reply(call("add", json!({"a": 1, "b": 2}))).text("Done.");
        let mut body = ask(json!([brought(&server)]));
        body["stream"] = json!(true);
        if shows {
            body["antwort"] = json!({"elicitation": ["form"]});
        }
        let mut stream = Stream::open(&gateway, &body).await;
        if shows {
            let question = stream.question().await;
            let given =
                json!({"call_id": question["call_id"], "output": {"action": "accept", "content": {"x": 1}}});
            assert_eq!(answer(&gateway, &stream.id(), &given).await.status, 202);
        }
        let response = assert_valid_stream(&frames(&stream.rest().await)).response;
        assert_eq!(item(&response, "mcp_call")["output"], "worked out");
        let expected = match shows {
            true => json!({"one": {"action": "accept", "content": {"x": 1}}}),
            false => json!({"one": {"action": "decline"}}),
        };
        assert_eq!(server.tasks()[0].answers, Some(expected));
    }
}

#[tokio::test]
async fn a_response_goes_on_without_the_result_of_a_task_which_is_fetched_later() {
    for is_extension in [false, true] {
        let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
        let say = Some("It is in the works.".to_owned());
        server.makes_tasks(TaskScript { polls: 1_000, say, ..script(is_extension) });
        let gateway = gateway(&upstream, &server, "store").await;
        upstream.reply(call("add", json!({"a": 1, "b": 2}))).text("Started.");
        let response = gateway.create(known()).await;
        assert_eq!(
            (text_of(&response).as_str(), told(&upstream).as_str()),
            ("Started.", "It is in the works.")
        );
        assert_eq!(item(&response, "mcp_call")["status"], "in_progress", "{response:#}");
        let id = response["id"].as_str().unwrap();
        assert!(eventually(async || server.tasks()[0].polls > 1).await, "it is looked at by itself");
        assert_eq!(item(&stored(&gateway, id).await, "mcp_call")["status"], "in_progress");
        server.end_tasks();
        let made = ended(&gateway, id).await;
        assert_eq!((&made["status"], &made["output"]), (&json!("completed"), &json!("worked out")));
        let polls = server.tasks()[0].polls;
        tokio::time::sleep(Duration::from_millis(600)).await;
        assert_eq!(server.tasks()[0].polls, polls, "nobody looks any more");
    }
}

#[tokio::test]
async fn the_failure_of_a_task_is_stored_as_its_result() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.makes_tasks(TaskScript { result: Some(Err("broken".to_owned())), ..script(true) });
    let gateway = gateway(&upstream, &server, "store").await;
    upstream.reply(call("add", json!({"a": 1, "b": 2}))).text("Started.");
    let response = gateway.create(known()).await;
    let made = ended(&gateway, response["id"].as_str().unwrap()).await;
    assert_eq!(made["status"], "failed", "{made:#}");
    assert!(made["error"].to_string().contains("broken"), "{made:#}");
}

#[tokio::test]
async fn a_response_follows_the_result_of_a_task() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.makes_tasks(script(false));
    let gateway = gateway(&upstream, &server, "follow_up").await;
    upstream.reply(call("add", json!({"a": 1, "b": 2}))).text("Started.").text("It is worked out.");
    let response = gateway.create(known()).await;
    let mut found = Value::Null;
    let follows = eventually(async || {
        let list = gateway.get("/v1/responses").await.body;
        let data = list["data"].as_array().unwrap();
        found = data
            .iter()
            .find(|other| other["previous_response_id"] == response["id"])
            .cloned()
            .unwrap_or_default();
        found["status"] == "completed"
    });
    assert!(follows.await, "{found:#}");
    assert!(upstream.last()["messages"].to_string().contains("worked out"));
}

#[tokio::test]
async fn a_run_waits_at_its_end_for_the_result_of_a_task() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.makes_tasks(script(true));
    let gateway = gateway(&upstream, &server, "resume").await;
    upstream.reply(call("add", json!({"a": 1, "b": 2}))).text("Started.").text("It is worked out.");
    let mut body = known();
    body["background"] = json!(true);
    let id = gateway.create(body).await["id"].as_str().unwrap().to_owned();
    assert!(eventually(async || stored(&gateway, &id).await["status"] == "completed").await);
    assert!(text_of(&stored(&gateway, &id).await).ends_with("It is worked out."));
    assert!(upstream.last()["messages"].to_string().contains("worked out"));
}

/// Nobody waits for a result that a cancelled response would have had.
#[tokio::test]
async fn the_task_of_a_cancelled_response_is_cancelled() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.makes_tasks(TaskScript { polls: 1_000, ..script(false) });
    let gateway = gateway(&upstream, &server, "resume").await;
    upstream.reply(call("add", json!({"a": 1, "b": 2}))).text("Started.");
    let mut body = known();
    body["background"] = json!(true);
    let id = gateway.create(body).await["id"].as_str().unwrap().to_owned();
    assert!(eventually(async || server.tasks().first().is_some_and(|task| task.polls > 0)).await);
    gateway.post(&format!("/v1/responses/{id}/cancel"), &json!({})).await;
    assert!(eventually(async || server.tasks()[0].is_cancelled).await);
    let polls = server.tasks()[0].polls;
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(server.tasks()[0].polls, polls, "nobody looks any more");
    let call = ended(&gateway, &id).await;
    assert_eq!(
        (&call["status"], &call["error"]["code"]),
        (&json!("failed"), &json!("cancelled")),
        "{call:#}"
    );
}

/// Its item had `tool_timeout`: the run had waited with the answer of the task not shown yet.
#[tokio::test]
async fn a_task_behind_a_question_is_cancelled_with_its_response() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.makes_tasks(TaskScript { polls: 1_000, ..script(false) });
    let question = json!({"method": "elicitation/create", "params": {"mode": "form", "message": "Which one?",
        "requestedSchema": {"type": "object", "properties": {"which": {"type": "string"}}}}});
    let asks =
        json!({"resultType": "input_required", "inputRequests": {"one": question}, "requestState": "s"});
    server.returns_first("echo", asks);
    let gateway = gateway(&upstream, &server, "store").await;
    let calls = vec![("echo", json!({"text": "a"})), ("add", json!({"a": 1, "b": 2}))];
    upstream.reply(Reply::Calls(calls));
    let mut body = known();
    (body["background"], body["antwort"]) = (json!(true), json!({"elicitation": ["form"]}));
    let id = gateway.create(body).await["id"].as_str().unwrap().to_owned();
    let waits = async || {
        let text = reqwest::get(format!("{}/metrics", gateway.base)).await.unwrap().text().await.unwrap();
        text.contains("antwort_runs_waiting 1\n")
    };
    assert!(eventually(waits).await);
    gateway.post(&format!("/v1/responses/{id}/cancel"), &json!({})).await;
    let mut codes = Vec::new();
    let have_ended = eventually(async || {
        let response = stored(&gateway, &id).await;
        let calls = response["output"].as_array().unwrap().iter().filter(|item| item["type"] == "mcp_call");
        codes = calls.map(|call| call["error"]["code"].clone()).collect();
        codes == ["cancelled", "cancelled"]
    });
    assert!(have_ended.await, "{codes:?}");
}

/// The row went, and with it all that was known of the task.
#[tokio::test]
async fn the_task_of_a_deleted_response_is_cancelled() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.makes_tasks(TaskScript { polls: 1_000, ..script(false) });
    let gateway = gateway(&upstream, &server, "store").await;
    upstream.reply(call("add", json!({"a": 1, "b": 2}))).text("Started.");
    let id = gateway.create(known()).await["id"].as_str().unwrap().to_owned();
    assert_eq!(gateway.delete(&format!("/v1/responses/{id}")).await.status, 200);
    assert!(eventually(async || server.tasks()[0].is_cancelled).await);
}

#[tokio::test]
async fn many_tasks_of_one_server_are_looked_at_no_more_often_than_its_rate() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.makes_tasks(TaskScript { polls: 1_000, ..script(false) });
    let few = |settings: &mut antwort::config::Settings| {
        allow(settings, &server, "store");
        settings.mcp.tasks.max_polls_per_second = 1;
    };
    let gateway = before(&upstream).set(few).spawn().await;
    let begun = std::time::Instant::now();
    for _ in 0..4 {
        upstream.reply(call("add", json!({"a": 1, "b": 2}))).text("Started.");
        gateway.create(known()).await;
    }
    let polls = || server.tasks().iter().map(|task| task.polls).sum::<usize>();
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(eventually(async || polls() > 0).await, "they are looked at");
    // Turns are a second apart from the first task on, however late they are taken.
    let (polls, seconds) = (polls(), usize::try_from(begun.elapsed().as_secs()).unwrap());
    assert!(polls <= seconds + 2, "{polls} looks in {seconds} s");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_replica_fetches_the_result_of_a_task_whose_replica_is_gone() {
    let fleet = Fleet::new().await;
    let server = McpServer::spawn().await;
    server.makes_tasks(TaskScript { polls: 1_000, ..script(false) });
    let replica = async || fleet.builder().set(|settings| allow(settings, &server, "store")).spawn().await;
    let (first, second) = (replica().await, replica().await);
    fleet.upstream.reply(call("add", json!({"a": 1, "b": 2}))).text("Started.");
    let response = first.create(known()).await;
    let id = response["id"].as_str().unwrap();
    first.stop().await;
    let polls = server.tasks()[0].polls;
    assert!(eventually(async || server.tasks()[0].polls > polls).await, "the other looks at it");
    server.end_tasks();
    assert_eq!(ended(&second, id).await["output"], "worked out");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_result_of_a_task_is_fetched_after_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.makes_tasks(TaskScript { polls: 1_000, ..script(true) });
    let url = server.url();
    let environment =
        [("ANTWORT_EGRESS_ALLOW", "127.0.0.1"), ("ANTWORT_PUBLIC_URL", "https://gateway.example.com")];
    let settings = format!(
        "mcp: {{servers: {{shop: {{url: '{url}', trust: trusted}}}}}}\n\
         tools: {{overrides: {{shop__add: {{async: allow, on_complete: store}}}}}}\n"
    );
    std::fs::write(folder.path().join("antwort.yaml"), settings).unwrap();
    let mut gateway = Process::start_with_environment(folder.path(), &upstream, &environment).await;
    upstream.reply(call("add", json!({"a": 1, "b": 2}))).text("Started.");
    let http = reqwest::Client::new();
    let url = format!("{}/v1/responses", gateway.base);
    let created = http.post(&url).body(known().to_string()).header("content-type", "application/json");
    let response: Value = serde_json::from_str(&created.send().await.unwrap().text().await.unwrap()).unwrap();
    assert_eq!(item(&response, "mcp_call")["status"], "in_progress", "{response:#}");
    gateway.kill();
    server.end_tasks();
    gateway.restart().await;
    let id = response["id"].as_str().unwrap();
    let mut made = Value::Null;
    let has_ended = eventually(async || {
        let stored = http.get(format!("{url}/{id}")).send().await.unwrap().text().await.unwrap();
        made = item(&serde_json::from_str(&stored).unwrap(), "mcp_call").clone();
        made["status"] == "completed"
    });
    assert!(has_ended.await, "{made:#}");
    assert_eq!(made["output"], "worked out");
}

/// A call that was answered with a task was made: it was made once more when the session was lost, and failed at the first
/// error in between.
#[tokio::test]
async fn a_task_is_waited_for_across_errors_and_lost_sessions_and_its_call_is_made_once() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.makes_tasks(TaskScript { support: "required", polls: 1_000, ..script(false) });
    let gateway = before(&upstream).spawn().await;
    upstream.reply(call("add", json!({"a": 1, "b": 2}))).text("Done.");
    let body = ask(json!([brought(&server)]));
    let (response, ()) = tokio::join!(gateway.create(body), async {
        assert!(eventually(async || server.tasks().first().is_some_and(|task| task.polls > 0)).await);
        server.status_of("tasks/get", 2, (502, &[], "Bad gateway"));
        let polls = server.tasks()[0].polls;
        assert!(eventually(async || server.tasks()[0].polls > polls).await, "it is looked at again");
        server.restart();
        let polls = server.tasks()[0].polls;
        assert!(eventually(async || server.tasks()[0].polls > polls).await, "in another session");
        server.end_tasks();
    });
    assert_eq!(item(&response, "mcp_call")["output"], "worked out", "{response:#}");
    assert_eq!((server.count_calls("add"), server.tasks().len()), (1, 1));
}

#[tokio::test]
async fn a_tool_whose_list_does_not_say_that_it_must_be_a_task_is_called_again_as_one() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.makes_tasks(TaskScript { support: "required", is_secret: true, ..script(false) });
    let gateway = before(&upstream).spawn().await;
    upstream.reply(call("add", json!({"a": 1, "b": 2}))).text("Done.");
    let response = gateway.create(ask(json!([brought(&server)]))).await;
    assert_eq!(item(&response, "mcp_call")["output"], "worked out", "{response:#}");
    assert_eq!((server.count_calls("add"), server.tasks().len()), (2, 1));
}

/// An error on the way is not the end of a task.
#[tokio::test]
async fn a_task_is_looked_at_again_behind_an_error() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.makes_tasks(TaskScript { polls: 1_000, ..script(true) });
    let gateway = gateway(&upstream, &server, "store").await;
    upstream.reply(call("add", json!({"a": 1, "b": 2}))).text("Started.");
    let id = gateway.create(known()).await["id"].as_str().unwrap().to_owned();
    assert!(eventually(async || server.tasks()[0].polls > 0).await);
    server.restart();
    let polls = server.tasks()[0].polls;
    assert!(eventually(async || server.tasks()[0].polls > polls).await, "in another session");
    server.end_tasks();
    assert_eq!(ended(&gateway, &id).await["output"], "worked out");
    assert_eq!(server.count_calls("add"), 1);
}
