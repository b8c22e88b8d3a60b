//! What a reload does with responses that follow results of tools: they are made for whoever may ask for them then.

use serde_json::{Value, json};

use super::reload::{Running, yaml};
use antwort_test_support::async_tool::{callback, started};
use antwort_test_support::eventually;
use antwort_test_support::gateway::JsonBody;
use antwort_test_support::mcp_server::McpServer;
use antwort_test_support::upstream::{Reply, Step, Upstream};

/// Two keys of one owner.
const KEY_A: &str = "a: {key: key-a, tenant: red, owner: ann}";
const KEY_B: &str = "b: {key: key-b, tenant: red, owner: ann}";

struct Shop {
    folder: tempfile::TempDir,
    upstream: Upstream,
    server: McpServer,
}

impl Shop {
    async fn new() -> Self {
        let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
        server.returns("add", started());
        Self { folder: tempfile::tempdir().unwrap(), upstream, server }
    }

    /// Settings with a server whose tool `add` may answer before it is done.
    fn yaml(&self, keys: &[&str]) -> String {
        let more = format!(
            "server: {{public_url: 'https://gateway.example.com/'}}\negress: {{allow: [127.0.0.1]}}\n\
             mcp: {{servers: {{shop: {{url: '{}', trust: trusted}}}}}}\n\
             tools: {{overrides: {{shop__add: {{async: allow}}}}}}\njobs: {{concurrency: 1}}",
            self.server.url()
        );
        yaml(&self.upstream, keys, &more)
    }

    async fn start(&self, keys: &[&str]) -> Running {
        Running::start(self.folder.path(), &self.upstream, &self.yaml(keys)).await
    }

    /// A response of the first key whose tool goes on.
    async fn ask(&self, gateway: &Running) -> String {
        self.upstream.reply(Reply::Calls(vec![("add", json!({"a": 1, "b": 2}))])).reply(says("Started it."));
        let body = json!({"model": "m", "input": "Add.",
            "tools": [{"type": "mcp", "server_label": "shop", "require_approval": "never"}]});
        let (status, response) = gateway.create("key-a", &body).await;
        assert_eq!((status, &response["status"]), (200, &json!("completed")), "{response:#}");
        response["id"].as_str().unwrap().to_owned()
    }

    async fn report(&self, gateway: &Running) {
        let url = format!("{}{}", gateway.process.base, callback(&self.server));
        let report = reqwest::Client::new().post(url).json_body(&json!({"output": "three"}));
        assert_eq!(report.send().await.unwrap().status(), 200);
    }
}

fn says(text: &str) -> Reply {
    Reply::Text(text.into())
}

async fn get(gateway: &Running, path: &str) -> Value {
    let request = reqwest::Client::new().get(format!("{}{path}", gateway.process.base)).bearer_auth("key-b");
    serde_json::from_str(&request.send().await.unwrap().text().await.unwrap()).unwrap()
}

/// Whether the result is in the response's item.
async fn is_stored(gateway: &Running, id: &str) -> bool {
    let response = get(gateway, &format!("/v1/responses/{id}")).await;
    response["output"].as_array().unwrap().iter().any(|item| item["output"] == "three")
}

/// The audit lines of responses that were refused.
fn refusals(gateway: &Running) -> Vec<Value> {
    let lines = gateway.log();
    let lines = lines.lines().filter(|line| line.contains("antwort::audit") && line.contains("follow_up"));
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Whoever continues the response reads the result.
async fn assert_read(shop: &Shop, gateway: &Running, id: &str) {
    shop.upstream.reply(says("Three."));
    let body = json!({"model": "m", "input": "And?", "previous_response_id": id});
    let (status, response) = gateway.create("key-b", &body).await;
    assert_eq!(status, 200, "{response:#}");
    let told = shop.upstream.last()["messages"].to_string();
    assert!(told.contains("three") && !told.contains("Started.\""), "{told}");
}

#[tokio::test]
async fn a_key_that_a_reload_took_away_ends_the_chain_of_responses_and_the_result_is_stored() {
    let shop = Shop::new().await;
    let gateway = shop.start(&[KEY_A, KEY_B]).await;
    let id = shop.ask(&gateway).await;
    gateway.reload(&shop.yaml(&[KEY_B]), "success").await;
    let asked = shop.upstream.requests().len();
    shop.report(&gateway).await;
    assert!(eventually(async || is_stored(&gateway, &id).await).await, "{}", gateway.log());
    assert_eq!(shop.upstream.requests().len(), asked, "no model is asked for a key that is gone");
    let trace = get(&gateway, &format!("/v1/responses/{id}/trace")).await;
    assert_eq!(trace["turns"][0]["calls"][0]["follow_up_error"], "key_removed", "{trace:#}");
    let refused = refusals(&gateway);
    assert_eq!(refused.len(), 1, "{refused:#?}");
    let line = &refused[0];
    assert_eq!((&line["code"], &line["decision"]), (&json!("key_removed"), &json!("refused")), "{line}");
    assert_eq!(line["call_id"], format!("{id}/0/0"), "as the lines of the call have it");
    assert_eq!(
        (&line["response_id"], &line["tenant"], &line["principal"]),
        (&json!(id), &json!("red"), &json!("ann"))
    );
    assert_eq!(line["tool"], "add", "{line}");
    assert_read(&shop, &gateway, &id).await;
}

#[tokio::test]
async fn a_key_that_may_ask_no_more_ends_the_chain_of_responses() {
    let shop = Shop::new().await;
    let gateway = shop.start(&[KEY_A, KEY_B]).await;
    let id = shop.ask(&gateway).await;
    for (key, code) in [
        ("a: {key: key-a, tenant: red, owner: ann, scopes: ['models:read']}", "insufficient_scope"),
        ("a: {key: key-a, tenant: red, owner: bob}", "key_removed"),
        // The name has another key: the first may be in somebody else's hands.
        ("a: {key: key-c, tenant: red, owner: ann}", "key_removed"),
    ] {
        let id = if code == "insufficient_scope" {
            id.clone()
        } else {
            gateway.reload(&shop.yaml(&[KEY_A, KEY_B]), "success").await;
            shop.ask(&gateway).await
        };
        gateway.reload(&shop.yaml(&[key, KEY_B]), "success").await;
        let asked = shop.upstream.requests().len();
        shop.report(&gateway).await;
        assert!(eventually(async || is_stored(&gateway, &id).await).await, "{}", gateway.log());
        assert_eq!(shop.upstream.requests().len(), asked, "{code}");
        assert_eq!(refusals(&gateway).last().unwrap()["code"], code);
    }
}

#[tokio::test]
async fn a_key_that_a_reload_names_otherwise_is_the_same_key() {
    let shop = Shop::new().await;
    let gateway = shop.start(&[KEY_A, KEY_B]).await;
    let id = shop.ask(&gateway).await;
    gateway.reload(&shop.yaml(&["another: {key: key-a, tenant: red, owner: ann}", KEY_B]), "success").await;
    shop.upstream.reply(says("Three."));
    shop.report(&gateway).await;
    let followed = async || {
        let list = get(&gateway, "/v1/responses").await;
        let mut data = list["data"].as_array().unwrap().iter();
        data.any(|made| made["previous_response_id"] == *id && made["status"] == "completed")
    };
    assert!(eventually(followed).await, "{}", gateway.log());
    assert_eq!(refusals(&gateway).len(), 0);
}

#[tokio::test]
async fn a_response_that_waits_to_begin_is_not_made_for_a_key_that_a_reload_took_away() {
    let shop = Shop::new().await;
    let gateway = shop.start(&[KEY_A, KEY_B]).await;
    let id = shop.ask(&gateway).await;
    // The one place for background runs is taken.
    shop.upstream.reply(Reply::Stream(vec![Step::Hang]));
    let (status, busy) =
        gateway.create("key-b", &json!({"model": "m", "input": "Hi", "background": true})).await;
    assert_eq!(status, 200, "{busy}");
    let asked = async || shop.upstream.requests().len() == 3;
    assert!(eventually(asked).await);
    shop.report(&gateway).await;
    assert!(eventually(async || is_stored(&gateway, &id).await).await, "{}", gateway.log());
    let followed = async || {
        let list = get(&gateway, "/v1/responses").await;
        let data = list["data"].as_array().unwrap().clone();
        data.into_iter().find(|response| response["previous_response_id"] == *id).unwrap_or_default()
    };
    assert_eq!(followed().await["status"], "queued");
    gateway.reload(&shop.yaml(&[KEY_B]), "success").await;
    let cancel = format!("{}/v1/responses/{}/cancel", gateway.process.base, busy["id"].as_str().unwrap());
    let cancelled = reqwest::Client::new().post(cancel).bearer_auth("key-b").send().await.unwrap();
    assert_eq!(cancelled.status(), 200);
    assert!(eventually(async || followed().await["status"] == "failed").await, "{:#}", followed().await);
    assert_eq!(followed().await["error"]["code"], "key_removed", "{:#}", followed().await);
    assert_eq!(shop.upstream.requests().len(), 3, "no model is asked for a key that is gone");
    let refused = refusals(&gateway);
    assert_eq!(refused.len(), 1, "{refused:#?}");
    assert_eq!((&refused[0]["code"], &refused[0]["tool"]), (&json!("key_removed"), &json!("add")));
    assert_eq!(
        (&refused[0]["response_id"], &refused[0]["call_id"]),
        (&json!(id), &json!(format!("{id}/0/0")))
    );
    assert_read(&shop, &gateway, &id).await;
}
