//! How servers are, for those who operate the gateway, and what tools they have, for those who use it.

use antwort::config::{AuthSettings, LoadOptions, McpAuth, McpServerSettings, Settings};
use secrecy::SecretString;
use serde_json::{Value, json};

use super::{ask, before, brought, call};
use antwort_test_support::gateway::{Builder, Gateway, JsonBody};
use antwort_test_support::mcp_server::{Auth, McpServer, tools};
use antwort_test_support::openapi;
use antwort_test_support::upstream::Upstream;

/// A gateway with these servers in its configuration.
fn configured(upstream: &Upstream, servers: Vec<(&str, McpServerSettings)>) -> Builder {
    let servers: Vec<_> = servers.into_iter().map(|(label, server)| (label.to_owned(), server)).collect();
    before(upstream).set(|settings| settings.mcp.servers.extend(servers))
}

fn at(url: String) -> McpServerSettings {
    McpServerSettings { url: Some(url), ..McpServerSettings::default() }
}

/// One key that may do this, and one that may not.
fn keys(scope: &str) -> AuthSettings {
    auth(&format!(
        "right: {{key: key-right, tenant: red, scopes: ['{scope}']}}, \
         wrong: {{key: key-wrong, scopes: ['responses:create', 'tools:admin', 'metrics:read']}}, \
         far: {{key: key-far, tenant: blue, scopes: ['{scope}']}}"
    ))
}

fn auth(keys: &str) -> AuthSettings {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("antwort.yaml");
    std::fs::write(&path, format!("auth: {{keys: {{{keys}}}}}")).unwrap();
    let environment = [("ANTWORT_UPSTREAM_URL".into(), "http://127.0.0.1:1/v1".into())].into();
    let options = LoadOptions { file: Some(path), environment, ..LoadOptions::default() };
    Settings::load(&options).unwrap().auth
}

async fn states(gateway: &Gateway) -> Vec<Value> {
    let answer = gateway.get("/v1/mcp/servers").await;
    assert_eq!(answer.status, 200, "{:#}", answer.body);
    openapi::assert_is("McpServerList", &answer.body);
    answer.body["data"].as_array().unwrap().clone()
}

#[tokio::test]
async fn operators_see_state_tools_latency_and_errors_of_each_server() {
    let (upstream, good, bad, other) = (
        Upstream::spawn().await,
        McpServer::spawn().await,
        McpServer::spawn().await,
        McpServer::spawn().await,
    );
    good.add_tools(tools::odd_schemas());
    bad.status(500, 100);
    let described = McpServerSettings { description: Some("Good things.".into()), ..at(good.url()) };
    let servers =
        vec![("good", described), ("bad", at(bad.url())), ("spare", at("http://127.0.0.1:1/mcp".into()))];
    let gateway = configured(&upstream, servers).spawn().await;
    let unused = states(&gateway).await;
    assert!(
        unused.iter().all(|state| state["state"] == "unused" && state["tenant"].is_null()),
        "{unused:#?}"
    );

    upstream.reply(call("echo", json!({"text": "x"}))).text("Done.");
    let label = |label: &str| json!({"type": "mcp", "server_label": label});
    gateway.create(ask(json!([label("good"), label("bad")]))).await;
    gateway.create(ask(json!([brought(&other)]))).await;
    let states = states(&gateway).await;
    let labels: Vec<_> = states.iter().map(|state| state["server_label"].as_str()).collect();
    assert_eq!(labels, [Some("bad"), Some("good"), Some("spare"), None]);
    let [bad, good, spare, brought] = &states[..] else { panic!("{states:#?}") };
    assert_eq!(
        (&good["state"], &good["transport"]),
        (&json!("connected"), &json!("streamable_http")),
        "{good:#}"
    );
    assert_eq!((&good["description"], &good["tenant"]), (&json!("Good things."), &json!("default")));
    assert_eq!((&good["calls"], &good["errors"], &good["connects"]), (&json!(1), &json!(0), &json!(1)));
    assert!(good["mean_latency_ms"].as_f64().unwrap() > 0.0);
    assert!(good["tools"].as_array().unwrap().contains(&json!("echo")));
    let left_out = good["left_out"].as_array().unwrap();
    assert!(left_out.iter().any(|tool| tool["name"] == "schema_string"), "{good:#}");
    assert!(!good["tools"].as_array().unwrap().contains(&json!("schema_string")));
    assert_eq!((&bad["state"], &bad["tools"]), (&json!("failing"), &json!([])));
    assert!(bad["last_error"].as_str().unwrap().contains("500"), "{bad:#}");
    assert_eq!((&spare["state"], &spare["calls"]), (&json!("unused"), &json!(0)));
    // Its path may have a key of the client's.
    let host = other.url().strip_suffix("mcp").unwrap().to_owned();
    assert_eq!((&brought["state"], &brought["endpoint"]), (&json!("connected"), &json!(host)));
}

/// `*`, which keys have by default, once showed the servers that other tenants' requests had brought.
#[tokio::test]
async fn a_key_that_does_not_name_the_scope_sees_the_sessions_of_its_own_tenant() {
    let (upstream, ours, theirs) =
        (Upstream::spawn().await, McpServer::spawn().await, McpServer::spawn().await);
    let mut red = at("http://127.0.0.1:1/mcp".into());
    red.tenants = Some(vec!["red".into()]);
    let servers = vec![("red", red), ("open", at("http://127.0.0.1:1/mcp".into()))];
    let keys = auth(
        "red: {key: key-red, tenant: red}, blue: {key: key-blue, tenant: blue}, \
         operator: {key: key-operator, tenant: green, scopes: ['mcp:admin']}",
    );
    let gateway = configured(&upstream, servers).set(|settings| settings.auth = keys).spawn().await;
    let send = async |request: reqwest::RequestBuilder, key: &str| {
        let answer = gateway.send(request.header("authorization", format!("Bearer {key}"))).await;
        assert_eq!(answer.status, 200, "{:#}", answer.body);
        answer.body
    };
    for (key, server) in [("key-red", &ours), ("key-blue", &theirs)] {
        let url = format!("{}/v1/responses", gateway.base);
        send(gateway.http.post(url).json_body(&ask(json!([brought(server)]))), key).await;
    }
    let mut seen = Vec::new();
    for key in ["key-red", "key-blue", "key-operator"] {
        let list = send(gateway.http.get(format!("{}/v1/mcp/servers", gateway.base)), key).await;
        let states = list["data"].as_array().unwrap().iter();
        let mut shown: Vec<_> =
            states.filter_map(|state| state["server_label"].as_str().or(state["tenant"].as_str())).collect();
        shown.sort_unstable();
        seen.push(shown.join(" "));
    }
    assert_eq!(seen, ["open red red", "blue open", "blue open red red"]);
}

#[tokio::test]
async fn no_credential_is_shown_to_operators() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.auth(Auth::Tokens(vec!["token-of-operator", "token-of-client"]));
    let mut mine = at(format!("{}?api_key=key-in-url", server.url().replace("//", "//user:password@")));
    mine.auth = McpAuth::Bearer { token: SecretString::from("token-of-operator") };
    mine.headers.insert("x-api-key".into(), SecretString::from("key-in-header"));
    let gone = at("http://user:password@127.0.0.1:1/mcp?api_key=key-in-url".into());
    let gateway = configured(&upstream, vec![("mine", mine), ("gone", gone)]).spawn().await;
    let mut tool = brought(&server);
    tool["authorization"] = json!("token-of-client");
    tool["server_url"] = json!(format!("{}?api_key=key-in-url", server.url()));
    let label = |label: &str| json!({"type": "mcp", "server_label": label});
    gateway.create(ask(json!([tool, label("mine"), label("gone")]))).await;
    let states = states(&gateway).await;
    assert_eq!(states.len(), 3);
    let shown = format!("{states:?}");
    for secret in ["token-of", "key-in", "user:", "password@", "api_key"] {
        assert!(!shown.contains(secret), "{secret}: {states:#?}");
    }
    assert_eq!(states[0]["state"], "failing", "{states:#?}");
}

#[tokio::test]
async fn only_the_scope_for_it_shows_how_servers_are() {
    let upstream = Upstream::spawn().await;
    let gateway = before(&upstream).set(|settings| settings.auth = keys("mcp:admin")).spawn().await;
    let gateway = gateway.with_header("authorization", "Bearer key-wrong");
    let answer = gateway.get("/v1/mcp/servers").await;
    assert_eq!((answer.status, answer.body["error"]["code"].as_str()), (403, Some("insufficient_scope")));
    let gateway = gateway.with_header("authorization", "Bearer key-right");
    assert_eq!(gateway.get("/v1/mcp/servers").await.status, 200);
    assert_eq!(gateway.get("/v1/tools").await.status, 403, "and nothing else");
}

#[tokio::test]
async fn the_tools_of_a_configured_server_are_listed_by_its_label_only() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let mut mine = at(server.url());
    mine.tenants = Some(vec!["red".into()]);
    mine.blocked_tools = vec!["fail".into()];
    let gateway = configured(&upstream, vec![("mine", mine)])
        .set(|settings| settings.auth = keys("tools:read"))
        .spawn()
        .await
        .with_header("authorization", "Bearer key-right");
    let general = gateway.get("/v1/tools").await.body;
    assert!(general["data"].as_array().unwrap().iter().all(|tool| tool["kind"] != "mcp"));
    assert_eq!((general.get("server_label"), server.count("tools/list")), (None, 0));
    assert_eq!(gateway.get("/v1/tools?server_label=antwort").await.body, general);

    let list = gateway.get("/v1/tools?server_label=mine").await;
    assert_eq!((list.status, &list.body["server_label"]), (200, &json!("mine")), "{:#}", list.body);
    openapi::assert_is("ToolDefinitionList", &list.body);
    let tools = list.body["data"].as_array().unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"echo") && !names.contains(&"fail"), "{names:?}");
    assert!(tools.iter().all(|tool| tool["kind"] == "mcp" && tool["executor"] == "mcp:mine"));
    let lines = gateway.get("/v1/tools?server_label=mine&view=summary").await.body;
    assert!(lines.as_str().unwrap().starts_with("- `echo` - "), "{lines}");

    for (key, label) in [("key-right", "other"), ("key-far", "mine")] {
        let gateway = gateway.http.get(format!("{}/v1/tools?server_label={label}", gateway.base));
        let answer = gateway.header("authorization", format!("Bearer {key}")).send().await.unwrap();
        assert_eq!(answer.status(), 404, "{key} {label}");
        assert!(answer.text().await.unwrap().contains("mcp_server_not_found"));
    }
    server.status(500, 100);
    gateway.get("/v1/tools?server_label=mine").await;
}

#[tokio::test]
async fn a_server_that_cannot_be_asked_is_an_error_of_its_own_in_lists() {
    let upstream = Upstream::spawn().await;
    let gone = at("http://127.0.0.1:1/mcp".into());
    let gateway = configured(&upstream, vec![("gone", gone)]).spawn().await;
    let answer = gateway.get("/v1/tools?server_label=gone").await;
    assert_eq!((answer.status, answer.body["error"]["code"].as_str()), (424, Some("mcp_server_unavailable")));
}

#[tokio::test]
async fn a_tool_of_a_configured_server_is_called_directly_unless_a_person_is_to_be_asked() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let mut mine = at(server.url());
    mine.rules.insert("read".into(), antwort::config::McpRule::Ask);
    mine.rules.insert("fail".into(), antwort::config::McpRule::Deny);
    let gateway = configured(&upstream, vec![("mine", mine)]).spawn().await;
    let execute = async |tool: &str, arguments: Value| {
        let path = format!("/v1/tools/{tool}/execute?server_label=mine");
        gateway.post(&path, &json!({"arguments": arguments})).await
    };
    let done = execute("echo", json!({"text": "hi"})).await;
    openapi::assert_is("ToolResult", &done.body);
    assert_eq!((&done.body["output"], &done.body["is_error"]), (&json!("hi"), &json!(false)));
    assert_eq!(done.body["meta"]["executor"], "mcp:mine");
    for (tool, status, code) in
        [("read", 403, "approval_required"), ("fail", 404, "tool_not_found"), ("none", 404, "tool_not_found")]
    {
        let answer = execute(tool, json!({})).await;
        assert_eq!((answer.status, answer.body["error"]["code"].as_str()), (status, Some(code)), "{tool}");
    }
    assert_eq!(server.calls().len(), 1);
}
