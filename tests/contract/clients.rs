//! Client profiles: who is recognized by its headers, what differs for it, and what comes before that.

use antwort::config::{ApiKeySettings, ClientActionStatus, Scope, Settings, Switch};
use serde_json::{Value, json};

use antwort_test_support::gateway::{Gateway, JsonBody, frames};
use antwort_test_support::upstream::{Reply, Upstream};

const CODEX: &[(&str, &str)] =
    &[("originator", "codex_cli_rs"), ("user-agent", "codex_cli_rs/0.169.0 (Debian)")];
const NODE: &[(&str, &str)] = &[("user-agent", "OpenAI/JS 7.57.0"), ("x-stainless-lang", "js")];
const DOTNET: &[(&str, &str)] = &[("user-agent", "OpenAI/2.9.1 (.NET 10.0.5; Microsoft Windows 10.0.26200)")];
const ASYNC_OPENAI: &[(&str, &str)] = &[("accept", "*/*"), ("authorization", "Bearer sk-x")];
const PYTHON: &[(&str, &str)] = &[("user-agent", "OpenAI/Python 3.54.0"), ("x-stainless-lang", "python")];

fn ask(stream: bool, antwort: Option<&str>) -> Value {
    let tools = json!([{"type": "function", "name": "get_weather", "parameters": null}]);
    let mut body = json!({"model": "test-model", "input": "Weather?", "tools": tools, "stream": stream});
    if let Some(status) = antwort {
        body["antwort"] = json!({"client_action_status": status});
    }
    body
}

fn weather() -> Reply {
    Reply::Calls(vec![("get_weather", json!({"city": "Oslo"}))])
}

/// What a client with these headers and no others gets: the name of its profile, and the body.
async fn send(gateway: &Gateway, headers: &[(&str, &str)], body: &Value) -> (Option<String>, Value) {
    // Not the gateway's own client, which has a name.
    let request = reqwest::Client::new().post(format!("{}/v1/responses", gateway.base)).json_body(body);
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    let response = request.send().await.unwrap();
    let profile =
        response.headers().get("antwort-client-profile").map(|name| name.to_str().unwrap().to_owned());
    let text = response.text().await.unwrap();
    let body = match body["stream"] == true {
        true => frames(&text).pop().unwrap()["response"].clone(),
        false => serde_json::from_str(&text).unwrap(),
    };
    (profile, body)
}

fn key(status: Option<ClientActionStatus>) -> impl FnOnce(&mut Settings) {
    move |settings| {
        let hash =
            aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, b"sk-x").as_ref().try_into().unwrap();
        let key = ApiKeySettings {
            store: antwort::config::StorePolicy::Allow,
            hash,
            tenant: "t".into(),
            owner: "o".into(),
            scopes: vec![Scope::All],
            dialect: None,
            client_action_status: status,
            max_runs: None,
        };
        settings.auth.keys.insert("k".into(), key);
    }
}

#[tokio::test]
async fn clients_whose_types_cannot_read_requires_action_get_completed() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for (headers, profile, status) in [
        (NODE, Some("openai-node"), "completed"),
        (DOTNET, Some("openai-dotnet"), "completed"),
        (ASYNC_OPENAI, Some("async-openai"), "completed"),
        (CODEX, Some("codex"), "requires_action"),
        (PYTHON, None, "requires_action"),
        (&[], None, "requires_action"),
    ] {
        for stream in [false, true] {
            upstream.reply(weather());
            let (named, response) = send(&gateway, headers, &ask(stream, None)).await;
            assert_eq!(named.as_deref(), profile, "{headers:?}");
            assert_eq!(response["status"], status, "{headers:?}, stream: {stream}");
            // Whoever asks for it later: the status was fixed when the response was made.
            let stored =
                gateway.get(&format!("/v1/responses/{}", response["id"].as_str().unwrap())).await.body;
            assert_eq!(stored, response, "{headers:?}, stream: {stream}");
        }
    }
}

#[tokio::test]
async fn the_status_of_a_pause_is_said_by_the_request_then_the_key_then_the_client_then_the_configuration() {
    use ClientActionStatus::{Auto, Completed, RequiresAction};
    let upstream = Upstream::spawn().await;
    // What the request, the key, the client and the configuration say; each pair of levels is in conflict somewhere.
    for (request, of_key, client, configured, expected) in [
        (Some("requires_action"), Some(Completed), PYTHON, Completed, "requires_action"),
        (Some("completed"), Some(RequiresAction), PYTHON, RequiresAction, "completed"),
        (Some("auto"), Some(RequiresAction), PYTHON, RequiresAction, "completed"),
        (Some("requires_action"), None, NODE, RequiresAction, "requires_action"),
        (Some("requires_action"), None, PYTHON, Completed, "requires_action"),
        (Some("completed"), None, PYTHON, RequiresAction, "completed"),
        (None, Some(RequiresAction), NODE, RequiresAction, "requires_action"),
        (None, Some(RequiresAction), PYTHON, Completed, "requires_action"),
        (None, Some(Completed), PYTHON, RequiresAction, "completed"),
        (None, Some(Auto), PYTHON, RequiresAction, "completed"),
        (None, None, NODE, RequiresAction, "completed"),
        (None, None, PYTHON, RequiresAction, "requires_action"),
        (None, None, PYTHON, Completed, "completed"),
    ] {
        let configure = |settings: &mut Settings| {
            settings.engine.client_action_status = configured;
            key(of_key)(settings);
        };
        let gateway = Gateway::with_upstream(&upstream).set(configure).spawn().await;
        let headers = [client, &[("authorization", "Bearer sk-x")]].concat();
        for stream in [false, true] {
            upstream.reply(weather());
            let (_, response) = send(&gateway, &headers, &ask(stream, request)).await;
            assert_eq!(
                response["status"], expected,
                "{request:?} {of_key:?} {client:?} {configured:?} {stream}"
            );
        }
    }
}

#[tokio::test]
async fn auto_in_a_request_heeds_the_tools_that_are_bound_to_it() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let mut body = ask(false, Some("auto"));
    upstream.reply(weather());
    let (_, response) = send(&gateway, NODE, &body).await;
    assert_eq!(response["status"], "completed");
    assert_eq!(response["antwort"]["client_action_status"], "auto", "what was asked is echoed");
    body["tools"].as_array_mut().unwrap().push(json!({"type": "mcp", "server_label": "antwort"}));
    upstream.reply(weather());
    assert_eq!(send(&gateway, NODE, &body).await.1["status"], "requires_action");
}

#[tokio::test]
async fn a_request_may_want_the_pause_of_a_single_shot_run_too() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).set(|s| s.tools.execution_enabled = false).spawn().await;
    for (asked, expected) in
        [(None, "completed"), (Some("auto"), "completed"), (Some("requires_action"), "requires_action")]
    {
        upstream.reply(weather());
        assert_eq!(gateway.create(ask(false, asked)).await["status"], expected, "{asked:?}");
    }
}

#[tokio::test]
async fn profiles_can_be_switched_off() {
    let upstream = Upstream::spawn().await;
    let gateway =
        Gateway::with_upstream(&upstream).set(|s| s.compat.client_profiles = Switch::Off).spawn().await;
    for headers in [NODE, DOTNET, ASYNC_OPENAI, CODEX] {
        upstream.reply(weather());
        let (named, response) = send(&gateway, headers, &ask(false, None)).await;
        assert_eq!((named, &response["status"]), (None, &json!("requires_action")), "{headers:?}");
    }
}

#[tokio::test]
async fn a_status_that_there_is_not_is_refused_with_its_path() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let error = gateway.refuse(ask(false, Some("done")), 400, "invalid_value").await;
    assert_eq!(error["param"], "antwort.client_action_status");
    assert!(error["message"].as_str().unwrap().contains("requires_action"), "{error}");
}

#[tokio::test]
async fn the_profile_is_named_on_refusals_too_and_web_pages_may_read_it() {
    let upstream = Upstream::spawn().await;
    let origins = |settings: &mut Settings| settings.server.cors.allowed_origins = vec!["*".into()];
    let gateway = Gateway::with_upstream(&upstream).set(origins).spawn().await;
    let gateway =
        gateway.with_header("x-stainless-lang", "js").with_header("origin", "https://app.example.com");
    for (answer, status) in [
        (gateway.post("/v1/responses", &json!({"model": 1})).await, 400),
        (gateway.get("/v1/models").await, 200),
        (gateway.get("/v1/nothing").await, 404),
    ] {
        assert_eq!(answer.status, status);
        assert_eq!(answer.headers["antwort-client-profile"], "openai-node");
        let exposed = answer.headers["access-control-expose-headers"].to_str().unwrap();
        assert!(exposed.contains("antwort-client-profile"), "{exposed}");
    }
}
