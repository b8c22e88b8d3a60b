//! Tokens that the gateway gets for itself, or for its callers.

use antwort::config::{ClientCredentials, McpAuth, McpServerSettings, TokenExchange};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use super::{ask, before, call, item, keys};
use antwort_test_support::gateway::Gateway;
use antwort_test_support::mcp_server::{Auth, McpServer};
use antwort_test_support::upstream::Upstream;

/// A server that takes the tokens of its own authorization server, and knows the client `gateway`.
async fn guarded() -> McpServer {
    let server = McpServer::spawn().await;
    server.auth(Auth::Issued).oauth().client("gateway", "s3cret");
    server
}

fn with_secret() -> ClientCredentials {
    ClientCredentials {
        client_id: "gateway".into(),
        client_secret: Some("s3cret".to_owned().into()),
        private_key: None,
        algorithm: None,
        key_id: None,
        token_url: None,
        scopes: vec!["tools".into(), "more".into()],
        resource: None,
    }
}

async fn before_server(upstream: &Upstream, server: &McpServer, auth: McpAuth) -> Gateway {
    let url = Some(server.url());
    before(upstream)
        .set(|settings| {
            let guarded = McpServerSettings { url, auth, ..McpServerSettings::default() };
            settings.mcp.servers.insert("guarded".into(), guarded);
        })
        .spawn()
        .await
}

/// Calls `whoami`: the last characters of the token that the server was shown.
async fn whoami(gateway: &Gateway, upstream: &Upstream) -> String {
    upstream.reply(call("whoami", json!({}))).text("Done.");
    let response = gateway.create(ask(json!([{"type": "mcp", "server_label": "guarded"}]))).await;
    let made = item(&response, "mcp_call");
    assert_eq!(made["status"], "completed", "{response:#}");
    made["output"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_token_is_got_with_a_secret_where_the_server_says_and_kept() {
    let (upstream, server) = (Upstream::spawn().await, guarded().await);
    let gateway = before_server(&upstream, &server, McpAuth::ClientCredentials(with_secret())).await;
    for _ in 0..3 {
        let end = whoami(&gateway, &upstream).await;
        assert!(server.oauth().tokens()[0].ends_with(&end));
    }
    let asked = server.oauth().requests();
    assert_eq!(asked.len(), 1, "the token is kept");
    assert_eq!(asked[0].client.as_deref(), Some("gateway"));
    assert_eq!(asked[0].form["scope"], "tools more");
    assert_eq!(asked[0].form["resource"], server.url());
}

#[tokio::test]
async fn a_token_is_got_with_a_signature() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let der = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    let pair = Ed25519KeyPair::from_pkcs8(der.as_ref()).unwrap();
    let public = jsonwebtoken::DecodingKey::from_ed_der(pair.public_key().as_ref());
    server.auth(Auth::Issued).oauth().signing_client("signer", jsonwebtoken::Algorithm::EdDSA, public);
    let text = BASE64_STANDARD.encode(der.as_ref());
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n");
    let auth = ClientCredentials {
        client_id: "signer".into(),
        client_secret: None,
        private_key: Some(pem.into()),
        ..with_secret()
    };
    let gateway = before_server(&upstream, &server, McpAuth::ClientCredentials(auth)).await;
    whoami(&gateway, &upstream).await;
    let asked = server.oauth().requests();
    assert_eq!((asked.len(), asked[0].client.as_deref()), (1, Some("signer")));
    assert_eq!(asked[0].claims.as_ref().unwrap()["iss"], "signer");
}

#[tokio::test]
async fn a_token_that_is_no_longer_taken_is_replaced_within_the_session() {
    let (upstream, server) = (Upstream::spawn().await, guarded().await);
    let gateway = before_server(&upstream, &server, McpAuth::ClientCredentials(with_secret())).await;
    let first = whoami(&gateway, &upstream).await;
    server.expire_token();
    let second = whoami(&gateway, &upstream).await;
    assert_ne!(first, second);
    assert_eq!((server.oauth().requests().len(), server.count_calls("whoami")), (2, 2));
    assert_eq!(server.count("initialize"), 1, "the session goes on");
}

#[tokio::test]
async fn a_token_is_replaced_before_it_expires() {
    let (upstream, server) = (Upstream::spawn().await, guarded().await);
    server.oauth().expires_in(1);
    let gateway = before_server(&upstream, &server, McpAuth::ClientCredentials(with_secret())).await;
    whoami(&gateway, &upstream).await;
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    whoami(&gateway, &upstream).await;
    assert!(server.oauth().requests().len() >= 2);
    assert_eq!(server.count_calls("whoami"), 2);
}

#[tokio::test]
async fn an_authorization_server_that_refuses_costs_the_servers_tools_only() {
    let (upstream, server) = (Upstream::spawn().await, guarded().await);
    let auth = ClientCredentials { client_secret: Some("wr0ng".to_owned().into()), ..with_secret() };
    let gateway = before_server(&upstream, &server, McpAuth::ClientCredentials(auth)).await;
    let response = gateway.create(ask(json!([{"type": "mcp", "server_label": "guarded"}]))).await;
    let problem = item(&response, "mcp_list_tools")["error"].as_str().unwrap().to_owned();
    assert!(problem.contains("credentials") && !problem.contains("wr0ng"), "{problem}");
    assert_eq!(response["status"], "completed");
    assert_eq!(server.count("initialize"), 0);
}

#[tokio::test]
async fn each_callers_token_is_exchanged_for_one_of_their_own() {
    let (upstream, server) = (Upstream::spawn().await, guarded().await);
    let auth = McpAuth::TokenExchange(TokenExchange {
        token_url: Some(server.oauth().token_url()),
        client_id: "gateway".into(),
        client_secret: Some("s3cret".to_owned().into()),
        scopes: Vec::new(),
        audience: Some("the-server".into()),
        resource: None,
    });
    let url = Some(server.url());
    let mut gateway = before(&upstream)
        .set(|settings| {
            settings.auth = keys();
            let guarded = McpServerSettings { url, auth, ..McpServerSettings::default() };
            settings.mcp.servers.insert("guarded".into(), guarded);
        })
        .spawn()
        .await;
    let mut ends = Vec::new();
    for key in ["ann", "bob", "ann", "eve"] {
        gateway = gateway.with_header("authorization", &format!("Bearer key-{key}"));
        ends.push(whoami(&gateway, &upstream).await);
    }
    assert_eq!(ends[0], ends[2], "kept for the same caller");
    assert!(ends[0] != ends[1] && ends[1] != ends[3] && ends[0] != ends[3], "{ends:?}");
    let subjects: Vec<_> =
        server.oauth().requests().iter().map(|asked| asked.form["subject_token"].clone()).collect();
    assert_eq!(subjects, ["key-ann", "key-bob", "key-eve"]);
    assert_eq!(server.oauth().requests()[0].form["audience"], "the-server");
    assert_eq!(server.sessions_made(), 3);
    for request in server.requests().iter().filter(|request| request.path == "/mcp") {
        assert!(
            !format!("{:?}", request.headers).contains("key-"),
            "the caller's own token came to the server"
        );
    }
    gateway = before_server(&upstream, &server, McpAuth::Forward).await;
    let tool = json!({"type": "mcp", "server_label": "guarded"});
    let answer = gateway.post("/v1/responses", &ask(json!([tool]))).await;
    assert_eq!((answer.status, &answer.body["error"]["param"]), (400, &json!("tools[0].authorization")));
}

/// The forms of the requests for tokens: their scopes.
fn scopes(server: &McpServer) -> Vec<String> {
    let asked = server.oauth().requests();
    asked.iter().map(|asked| asked.form.get("scope").cloned().unwrap_or_default()).collect()
}

fn without_scopes() -> McpAuth {
    McpAuth::ClientCredentials(ClientCredentials { scopes: Vec::new(), ..with_secret() })
}

#[tokio::test]
async fn the_scope_of_a_challenge_is_asked_for() {
    let (upstream, server) = (Upstream::spawn().await, guarded().await);
    server.wants_scope("mcp:basic");
    let gateway = before_server(&upstream, &server, without_scopes()).await;
    for _ in 0..2 {
        whoami(&gateway, &upstream).await;
    }
    assert_eq!(scopes(&server), ["", "mcp:basic"]);
    let gateway = before_server(&upstream, &server, McpAuth::ClientCredentials(with_secret())).await;
    whoami(&gateway, &upstream).await;
    assert_eq!(
        scopes(&server)[2..],
        ["tools more", "tools more mcp:basic"],
        "beside those of the configuration"
    );
}

#[tokio::test]
async fn a_call_that_needs_more_scopes_steps_up_once() {
    let (upstream, server) = (Upstream::spawn().await, guarded().await);
    server.wants_scope_for("whoami", "people:read").wants_scope_for("echo", "people:read");
    let gateway = before_server(&upstream, &server, without_scopes()).await;
    for _ in 0..2 {
        whoami(&gateway, &upstream).await;
    }
    assert_eq!(scopes(&server), ["", "people:read"]);
    assert_eq!((server.count("initialize"), server.count_calls("whoami")), (1, 2), "the session goes on");
}

#[tokio::test]
async fn a_scope_that_cannot_be_had_is_named_and_costs_nothing_else() {
    let (upstream, server) = (Upstream::spawn().await, guarded().await);
    server.wants_scope_for("delete_all", "admin").oauth().gives_not("admin");
    let gateway = before_server(&upstream, &server, without_scopes()).await;
    for _ in 0..3 {
        upstream.reply(call("delete_all", json!({}))).text("Done.");
        let response = gateway.create(ask(json!([{"type": "mcp", "server_label": "guarded"}]))).await;
        let error = &item(&response, "mcp_call")["error"];
        assert_eq!(
            *error,
            json!({"type": "http_error", "code": 403, "scope": "admin", "resource_metadata": server.metadata_url(),
                "message": error["message"]})
        );
        assert!(error["message"].as_str().unwrap().contains("`admin`"), "{error}");
        whoami(&gateway, &upstream).await;
    }
    assert_eq!(scopes(&server), ["", "admin", ""], "it is asked for once");
    assert_eq!((server.count_calls("delete_all"), server.count("initialize")), (0, 1));
}

#[tokio::test]
async fn a_server_that_wants_a_persons_login_says_so() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    server.auth(Auth::Tokens(vec!["good"])).wants_scope("files:read");
    let tool = |token: &str| json!({"type": "mcp", "server_label": "s", "server_url": server.url(), "authorization": token, "require_approval": "never"});
    let response = gateway.create(ask(json!([tool("bad")]))).await;
    let error = item(&response, "mcp_list_tools")["error"].as_str().unwrap().to_owned();
    assert!(error.contains(&server.metadata_url()) && error.contains("`files:read`"), "{error}");

    let server = McpServer::spawn().await;
    server.auth(Auth::Tokens(vec!["good"]));
    let tool = json!({"type": "mcp", "server_label": "s", "server_url": server.url(), "authorization": "good", "require_approval": "never"});
    gateway.create(ask(json!([tool]))).await;
    server.wants_scope("files:read");
    upstream.reply(call("whoami", json!({}))).text("Done.");
    let response = gateway.create(ask(json!([tool]))).await;
    let error = &item(&response, "mcp_call")["error"];
    let expected = json!({"type": "http_error", "code": 401, "scope": "files:read",
        "resource_metadata": server.metadata_url(), "message": error["message"]});
    assert_eq!(*error, expected, "{response:#}");
    assert!(error["message"].as_str().unwrap().contains("log in"), "{error}");
    // What a client was shown, it can send again.
    let stored = response["id"].as_str().unwrap();
    let again = json!({"model": "test-model", "input": "Go on.", "previous_response_id": stored});
    assert_eq!(gateway.create(again).await["status"], "completed");
    let mut replayed = response["output"].as_array().unwrap().clone();
    replayed.push(json!({"role": "user", "content": "Go on."}));
    let again = json!({"model": "test-model", "input": replayed});
    assert_eq!(gateway.create(again).await["status"], "completed");
}

#[tokio::test]
async fn a_server_without_metadata_gives_tokens_at_its_own_root() {
    let (upstream, server) = (Upstream::spawn().await, guarded().await);
    server.without_metadata();
    let gateway = before_server(&upstream, &server, without_scopes()).await;
    whoami(&gateway, &upstream).await;
    assert_eq!((server.oauth().requests().len(), server.count("initialize")), (1, 1));
    // One that wants no token is asked for none.
    let (upstream, open) = (Upstream::spawn().await, McpServer::spawn().await);
    open.without_metadata();
    let gateway = before_server(&upstream, &open, without_scopes()).await;
    assert_eq!(whoami(&gateway, &upstream).await, "body");
    assert!(open.oauth().requests().is_empty());
}
