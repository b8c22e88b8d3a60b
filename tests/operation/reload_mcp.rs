//! What a reload does with the sessions of MCP servers: those of a server that is the same are kept.

use std::time::Duration;

use serde_json::{Value, json};

use super::reload::{KEY_B, Running, rest_of, yaml};
use super::{read_until, text};
use antwort_test_support::eventually;
use antwort_test_support::mcp_server::McpServer;
use antwort_test_support::upstream::{Reply, Step, Upstream, chunk, done, finish};

/// Two servers, `same` and `other`, and what the settings say beside their URLs.
struct Servers {
    same: McpServer,
    other: McpServer,
}

impl Servers {
    async fn spawn() -> Self {
        Self { same: McpServer::spawn().await, other: McpServer::spawn().await }
    }

    /// Both, the second with more keys.
    fn both(&self, of_other: &str) -> String {
        let (same, other) = (self.same.url(), self.other.url());
        format!("mcp: {{servers: {{same: {{url: '{same}'}}, other: {{url: '{other}'{of_other}}}}}}}")
    }

    fn one(&self) -> String {
        format!("mcp: {{servers: {{same: {{url: '{}'}}}}}}", self.same.url())
    }

    /// Sessions that each has made so far.
    fn made(&self) -> (usize, usize) {
        (self.same.sessions_made(), self.other.sessions_made())
    }

    async fn have_open(&self, same: usize, other: usize) -> bool {
        eventually(async || (self.same.open_sessions(), self.other.open_sessions()) == (same, other)).await
    }
}

fn asking_for(labels: &[&str]) -> Value {
    let tool = |label: &&str| json!({"type": "mcp", "server_label": label, "require_approval": "never"});
    json!({"model": "m", "input": "x", "tools": labels.iter().map(tool).collect::<Vec<_>>()})
}

async fn use_servers(gateway: &Running, labels: &[&str]) {
    let (status, answer) = gateway.create("key-b", &asking_for(labels)).await;
    assert_eq!(status, 200, "{answer}");
    let listed = answer["output"].as_array().unwrap().iter().filter(|item| item["type"] == "mcp_list_tools");
    assert_eq!(listed.filter(|item| item["error"].is_null()).count(), labels.len(), "{answer:#}");
}

#[tokio::test]
async fn a_server_that_did_not_change_keeps_its_session_and_list_while_another_gets_new_ones() {
    let folder = tempfile::tempdir().unwrap();
    let (upstream, servers) = (Upstream::spawn().await, Servers::spawn().await);
    upstream.always(Reply::Stream(vec![text("Hi"), finish("stop"), done()]));
    let file = |of_other: &str, more: &str| {
        yaml(&upstream, &[KEY_B], &format!("{}\n{more}", servers.both(of_other)))
    };
    let gateway = Running::start(folder.path(), &upstream, &file("", "")).await;
    use_servers(&gateway, &["same", "other"]).await;
    assert_eq!(servers.made(), (1, 1));

    gateway.reload(&file(", headers: {x-team: blue}", ""), "success").await;
    use_servers(&gateway, &["same", "other"]).await;
    assert_eq!(servers.made(), (1, 2), "only what changed is connected to anew");
    assert_eq!((servers.same.count("initialize"), servers.same.count("tools/list")), (1, 1));
    assert_eq!(servers.other.count("initialize"), 2);
    assert!(servers.have_open(1, 1).await, "the session by the old settings is closed");

    // Neither is another server, where the gateway's own tools, agents, or what requests may bring differ.
    let more = "tools: {timeout: 20s, max_parallel: 3}\nagents: {x: {model: m}}";
    gateway.reload(&file(", headers: {x-team: blue}", more), "success").await;
    use_servers(&gateway, &["same", "other"]).await;
    assert_eq!((servers.made(), servers.same.count("tools/list")), ((1, 2), 1));

    // What all connections are made by.
    let more = format!("{more}\negress: {{timeout: 7s, allow: ['10.0.0.1']}}");
    gateway.reload(&file(", headers: {x-team: blue}", &more), "success").await;
    use_servers(&gateway, &["same", "other"]).await;
    assert_eq!(servers.made(), (2, 3));
    assert!(servers.have_open(1, 1).await);

    gateway.reload(&yaml(&upstream, &[KEY_B], &format!("{}\n{more}", "")), "success").await;
    assert!(servers.have_open(0, 0).await, "servers that are gone from the file are left");
}

#[tokio::test]
async fn a_run_goes_on_with_the_session_of_a_server_that_a_reload_took_away() {
    let folder = tempfile::tempdir().unwrap();
    let (upstream, servers) = (Upstream::spawn().await, Servers::spawn().await);
    let both = yaml(&upstream, &[KEY_B], &servers.both(""));
    let gateway = Running::start(folder.path(), &upstream, &both).await;
    let calls = |names: [&str; 2]| {
        let call = |(index, name): (usize, &str)| {
            json!({"index": index, "id": format!("c{index}"),
                "function": {"name": name, "arguments": "{\"text\": \"hello\"}"}})
        };
        chunk(json!({"tool_calls": names.into_iter().enumerate().map(call).collect::<Vec<_>>()}))
    };
    let wait = Step::Wait(Duration::from_secs(3));
    let both_called = calls(["same__echo", "other__echo"]);
    upstream.reply(Reply::Stream(vec![text("Let me see"), wait, both_called, finish("tool_calls"), done()]));
    upstream.always(Reply::Stream(vec![text("Done"), finish("stop"), done()]));
    let mut streamed = asking_for(&["same", "other"]);
    streamed["stream"] = true.into();
    let mut running = gateway.request("key-b", &streamed).send().await.unwrap();
    let seen = read_until(&mut running, "output_text.delta").await;

    gateway.reload(&yaml(&upstream, &[KEY_B], &servers.one()), "success").await;
    use_servers(&gateway, &["same"]).await;
    assert_eq!(servers.made(), (1, 1), "both generations share what both have");
    let (status, refused) = gateway.create("key-b", &asking_for(&["other"])).await;
    assert_eq!(status, 400, "{refused}");
    assert_eq!(servers.other.open_sessions(), 1, "the run has it still");

    let response = rest_of(running, seen).await;
    assert_eq!(response["status"], "completed", "{response:#}");
    let made: Vec<_> = response["output"].as_array().unwrap().iter().collect();
    let made: Vec<_> = made.into_iter().filter(|item| item["type"] == "mcp_call").collect();
    assert_eq!(made.len(), 2, "{response:#}");
    assert!(made.iter().all(|call| call["error"].is_null() && call["output"] == "hello"), "{made:#?}");
    assert_eq!(servers.made(), (1, 1));
    assert!(servers.have_open(1, 0).await, "with the run ends what only it had");
    // The server has seen the end of its session a little before the gateway has.
    assert!(eventually(async || gateway.metric("antwort_mcp_sessions ").await == 1).await);
}
