//! Credentials against authorization servers on real ports.

mod discovery;
mod fixed;
mod tokens;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap as Received, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use parking_lot::Mutex;
use reqwest::Url;
use reqwest::header::HeaderMap;
use secrecy::SecretString;
use serde_json::{Value, json};

use super::*;
use antwort_config::settings::McpServerSettings;
use antwort_net::client::HttpClientOptions;
use antwort_net::egress::{Egress, EgressOptions};

/// Egress that allows these hosts beside public ones.
fn egress(allow: &[&str]) -> Arc<Egress> {
    let options = EgressOptions {
        allow: allow.iter().map(ToString::to_string).collect(),
        allowed_domains: None,
        max_redirects: 2,
        max_response_bytes: 1 << 20,
        timeout: Duration::from_secs(10),
        http: HttpClientOptions::default(),
    };
    Arc::new(Egress::new(&options).unwrap())
}

fn at_home() -> Arc<Egress> {
    egress(&["127.0.0.1", "localhost"])
}

/// A received request.
#[derive(Debug, Clone)]
struct Seen {
    path: String,
    authorization: Option<String>,
    form: BTreeMap<String, String>,
}

type Answers = Arc<dyn Fn(&Seen, usize) -> (u16, Value) + Send + Sync>;

/// A server that computes each response from the request and the number of earlier requests to the same path.
struct Server {
    base: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    async fn spawn(answers: impl Fn(&str, &Seen, usize) -> (u16, Value) + Send + Sync + 'static) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let (own, log) = (base.clone(), Arc::clone(&seen));
        let answers: Answers = Arc::new(move |seen, before| answers(&own, seen, before));
        let routes = Router::new().fallback(move |uri: Uri, headers: Received, body: Bytes| {
            let (answers, log) = (Arc::clone(&answers), Arc::clone(&log));
            async move { answer(&uri, &headers, &body, &answers, &log).await }
        });
        tokio_util::task::TaskTracker::new()
            .spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self { base, seen }
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().clone()
    }

    /// The token requests.
    fn asked(&self) -> Vec<Seen> {
        self.seen().into_iter().filter(|seen| seen.path == "/token").collect()
    }
}

async fn answer(
    uri: &Uri,
    headers: &Received,
    body: &Bytes,
    answers: &Answers,
    log: &Mutex<Vec<Seen>>,
) -> Response {
    let authorization = headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
    let form = form_urlencoded::parse(body).into_owned().collect();
    let seen = Seen { path: uri.path().to_owned(), authorization, form };
    let before = {
        let mut log = log.lock();
        let before = log.iter().filter(|other| other.path == seen.path).count();
        log.push(seen.clone());
        before
    };
    // Long enough for concurrent requests to overlap.
    tokio::time::sleep(Duration::from_millis(20)).await;
    let (status, body) = answers(&seen, before);
    let location = body["location"].as_str().unwrap_or_default().to_owned();
    let mut response = (StatusCode::from_u16(status).unwrap(), axum::Json(body)).into_response();
    if !location.is_empty() {
        response.headers_mut().insert("location", location.parse().unwrap());
    }
    response
}

/// A token endpoint that issues `t0`, `t1`, …
async fn giving(life: u64) -> Server {
    Server::spawn(move |_, seen, before| match seen.path.as_str() {
        "/token" => {
            (200, json!({"access_token": format!("t{before}"), "token_type": "bearer", "expires_in": life}))
        }
        _ => (404, json!({})),
    })
    .await
}

fn settings(said: Value) -> McpServerSettings {
    serde_json::from_value(said).unwrap()
}

fn source(auth: Value, egress: &Arc<Egress>, server: &str) -> CredentialSource {
    let said = Value::Object([("auth".to_owned(), auth)].into_iter().collect());
    CredentialSource::new(&settings(said), egress, &Url::parse(server).unwrap()).unwrap()
}

/// Client credentials with a secret and a configured token endpoint.
fn with_secret(server: &Server) -> Arc<dyn Credentials> {
    let auth = json!({"type": "client_credentials", "client_id": "id", "client_secret": "s3cret",
        "token_url": format!("{}/token", server.base)});
    source(auth, &at_home(), "https://mcp.example/mcp").for_caller(None).unwrap()
}

fn caller(authorization: &str) -> Option<SecretString> {
    Some(authorization.to_owned().into())
}

fn shown(headers: &HeaderMap) -> Option<&str> {
    headers.get("authorization").map(|value| value.to_str().unwrap())
}

async fn failure(credentials: &dyn Credentials) -> McpError {
    credentials.headers().await.expect_err("no headers")
}
