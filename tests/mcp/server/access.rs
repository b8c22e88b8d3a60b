//! Who may come, and how tokens are to be had.

use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header};
use serde_json::{Value, json};

use super::opened;
use antwort_test_support::mcp_client::McpClient;
use antwort_test_support::mcp_server::{Auth, McpServer};

const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

#[tokio::test]
async fn without_the_right_token_the_way_to_one_is_shown() {
    let server = McpServer::spawn().await;
    server.auth(Auth::Tokens(vec!["good"]));
    let mut client = McpClient::new(server.url());
    for (token, error) in [(None, false), (Some("bad".to_owned()), true)] {
        client.token = token;
        let refused = client.post(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize"})).await;
        assert_eq!(refused.status(), 401);
        let challenge = refused.headers()["www-authenticate"].to_str().unwrap().to_owned();
        assert!(
            challenge.starts_with("Bearer ") && challenge.contains("invalid_token") == error,
            "{challenge}"
        );
        let metadata = challenge.split_once("resource_metadata=\"").unwrap().1.trim_end_matches('"');
        let metadata = get(metadata).await;
        assert_eq!(metadata["authorization_servers"], json!([server.base]));
    }
    client.token = Some("good".to_owned());
    client.initialize().await;
    assert_eq!(server.count("initialize"), 1);
}

#[tokio::test]
async fn a_token_expires_with_the_next_call() {
    let (server, mut client) = opened().await;
    client.token = Some("old".to_owned());
    server.expire_token();
    assert_eq!(client.status("tools/list").await, 200);
    assert_eq!(client.status("tools/call").await, 401);
    assert_eq!(client.status("tools/list").await, 401);
    client.token = Some("new".to_owned());
    assert_eq!(client.call("whoami", json!({})).await["result"]["content"][0]["text"], "new");
    assert_eq!(server.calls().len(), 1);
}

#[tokio::test]
async fn secrets_are_taken_for_tokens() {
    let server = McpServer::spawn().await;
    server.auth(Auth::Issued);
    let oauth = server.oauth();
    oauth.client("me", "s:cret").expires_in(60);
    let metadata = get(&format!("{}/.well-known/oauth-authorization-server", server.base)).await;
    assert_eq!(metadata["token_endpoint"], oauth.token_url());
    let grant = ("grant_type", "client_credentials");
    let basic = reqwest::Client::new().post(oauth.token_url()).basic_auth("me", Some("s%3Acret"));
    let basic = basic.header("content-type", "application/x-www-form-urlencoded");
    let answer = json_of(basic.body("grant_type=client_credentials").send().await.unwrap()).await;
    assert_eq!((answer["token_type"].as_str(), answer["expires_in"].as_u64()), (Some("Bearer"), Some(60)));
    let form = [grant, ("client_id", "me"), ("client_secret", "s:cret"), ("scope", "a")];
    assert_eq!(ask(&oauth.token_url(), &form).await["scope"], "a");
    let wrong = ask(&oauth.token_url(), &[grant, ("client_id", "me"), ("client_secret", "wrong")]).await;
    assert_eq!(wrong["error"], "invalid_client");

    let mut client = McpClient::new(server.url());
    client.token = Some(answer["access_token"].as_str().unwrap().to_owned());
    client.initialize().await;
    assert_eq!(oauth.tokens().first(), client.token.as_ref());
    oauth.revoke_all();
    assert_eq!(client.status("ping").await, 401);
    let requests = oauth.requests();
    let clients: Vec<_> = requests.iter().map(|request| request.client.as_deref()).collect();
    assert_eq!(clients, [Some("me"), Some("me"), None]);
    assert!(requests[0].headers.contains_key("authorization"));
    assert_eq!(requests[1].form["client_secret"], "s:cret");
}

#[tokio::test]
async fn tokens_expire() {
    let server = McpServer::spawn().await;
    server.auth(Auth::Issued).oauth().client("me", "secret").expires_in(0);
    let form = [("grant_type", "client_credentials"), ("client_id", "me"), ("client_secret", "secret")];
    let answer = ask(&server.oauth().token_url(), &form).await;
    let mut client = McpClient::new(server.url());
    client.token = Some(answer["access_token"].as_str().unwrap().to_owned());
    assert_eq!(client.status("initialize").await, 401);
}

#[tokio::test]
async fn assertions_and_other_tokens_are_taken_for_tokens() {
    let server = McpServer::spawn().await;
    let oauth = server.oauth();
    oauth.signing_client("me", Algorithm::HS256, DecodingKey::from_secret(b"key"));
    let sign = |audience: &str| {
        let claims = json!({"iss": "me", "sub": "me", "aud": audience, "jti": "1", "exp": 4_000_000_000_u64});
        jsonwebtoken::encode(&Header::default(), &claims, &EncodingKey::from_secret(b"key")).unwrap()
    };
    let (good, bad) = (sign(&oauth.token_url()), sign("https://elsewhere"));
    let exchange = |assertion: &str| {
        let form = [
            ("grant_type", EXCHANGE),
            ("client_assertion_type", ASSERTION),
            ("client_assertion", assertion),
            ("subject_token", "of-ann"),
            ("subject_token_type", "urn:ietf:params:oauth:token-type:access_token"),
        ];
        let (url, form) = (oauth.token_url(), form.map(|(name, value)| (name, value.to_owned())));
        async move { ask(&url, &form.each_ref().map(|(name, value)| (*name, value.as_str()))).await }
    };
    let answer = exchange(&good).await;
    assert_eq!(answer["issued_token_type"], "urn:ietf:params:oauth:token-type:access_token");
    assert_eq!(exchange(&bad).await["error"], "invalid_client");
    oauth.fail(400, json!({"error": "invalid_grant"}));
    assert_eq!(exchange(&good).await["error"], "invalid_grant");
    let requests = oauth.requests();
    assert_eq!(requests[0].claims.as_ref().unwrap()["sub"], "me");
    assert_eq!(requests[0].form["subject_token"], "of-ann");
    assert_eq!(requests.len(), 3);
}

async fn get(url: &str) -> Value {
    json_of(reqwest::get(url).await.unwrap()).await
}

async fn ask(url: &str, form: &[(&str, &str)]) -> Value {
    let body: String = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
    let request =
        reqwest::Client::new().post(url).header("content-type", "application/x-www-form-urlencoded");
    json_of(request.body(body).send().await.unwrap()).await
}

async fn json_of(response: reqwest::Response) -> Value {
    serde_json::from_str(&response.text().await.unwrap()).unwrap()
}
