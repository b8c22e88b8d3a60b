//! Paths of `server.pass_through`: what is sent to the provider, who may send it, and what is refused.

use std::sync::Arc;

use antwort::config::{LoadOptions, Settings};
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use parking_lot::Mutex;
use serde_json::{Value, json};

use antwort_test_support::gateway::{Gateway, HttpAnswer, JsonBody};

/// What a provider was sent.
#[derive(Debug, Clone)]
struct Sent {
    path: String,
    content_type: String,
    body: Bytes,
}

#[derive(Clone, Default)]
struct Provider(Arc<Mutex<Vec<Sent>>>);

const KEY: &str = "sk-provider-secret";

impl Provider {
    async fn spawn() -> (Self, String) {
        let provider = Self::default();
        let app = axum::Router::new().fallback(answer).with_state(provider.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        #[expect(clippy::disallowed_methods, reason = "the task ends with the test's runtime")]
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        (provider, url)
    }

    fn last(&self) -> Sent {
        self.0.lock().last().unwrap().clone()
    }

    fn count(&self) -> usize {
        self.0.lock().len()
    }
}

async fn answer(State(provider): State<Provider>, request: Request) -> Response {
    let path = request.uri().to_string();
    let content_type = request.headers()["content-type"].to_str().unwrap().to_owned();
    let body = axum::body::to_bytes(request.into_body(), usize::MAX).await.unwrap();
    provider.0.lock().push(Sent { path: path.clone(), content_type, body });
    match &*path {
        "/v1/audio/speech" => ([("content-type", "audio/mpeg")], vec![0xff_u8, 0xfb, 0]).into_response(),
        "/v1/completions" => {
            ([("content-type", "text/event-stream")], "data: {\"n\":1}\n\ndata: [DONE]\n\n").into_response()
        }
        "/v1/score" => (
            axum::http::StatusCode::BAD_REQUEST,
            axum::Json(json!({"error": {"type": "invalid_request_error", "code": null, "param": null,
                "message": format!("no: {KEY}")}})),
        )
            .into_response(),
        _ => axum::Json(json!({"results": [1]})).into_response(),
    }
}

const FILE: &str = "
server:
  request_body_limit: 64KiB
  pass_through: [/embeddings, /rerank, /completions, /score, '/audio/*']
auth:
  keys:
    all: {key: key-all}
    passer: {key: key-passer, scopes: ['pass_through:create']}
    embedder: {key: key-embedder, scopes: ['embeddings:create', 'chat:create']}
";

fn load(url: &str, file: &str) -> Result<Settings, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("antwort.yaml");
    let providers = format!(
        "providers:
  p: {{url: '{url}', api_key: {KEY}, models: ['rank-*', 'whisper*'], aliases: {{whisper-1: org/whisper}}}}
  # A single provider would serve every model.
  q: {{url: '{url}', models: [other]}}"
    );
    std::fs::write(&path, format!("{file}\n{providers}\nstore: {{url: 'memory:'}}\n")).unwrap();
    Settings::load(&LoadOptions { file: Some(path), ..LoadOptions::default() })
        .map_err(|error| error.to_string())
}

async fn send(gateway: &Gateway, key: &str, path: &str, body: &Value) -> HttpAnswer {
    let request = gateway.http.post(format!("{}{path}", gateway.base)).json_body(body);
    gateway.send(request.header("authorization", format!("Bearer {key}"))).await
}

async fn send_form(gateway: &Gateway, path: &str, body: String) -> HttpAnswer {
    let request = gateway.http.post(format!("{}{path}", gateway.base)).body(body);
    let request = request.header("content-type", "multipart/form-data; boundary=b");
    gateway.send(request.header("authorization", "Bearer key-passer")).await
}

fn recording(model: &str) -> String {
    format!(
        "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\nContent-Type: audio/wav\r\n\r\nRIFF\r\n\
         --b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n{model}\r\n--b--\r\n"
    )
}

#[tokio::test]
async fn listed_paths_reach_the_provider_of_their_model_below_each_prefix() {
    let (provider, url) = Provider::spawn().await;
    let gateway = Gateway::with(load(&url, FILE).unwrap()).spawn().await;
    let body = json!({"model": "rank-1", "query": "q", "documents": ["d"]});
    for path in ["/v1/rerank", "/rerank", "/openai/v1/rerank"] {
        let answer = send(&gateway, "key-passer", path, &body).await;
        assert_eq!((answer.status, answer.body), (200, json!({"results": [1]})), "{path}");
        let sent = provider.last();
        assert_eq!((sent.path.as_str(), sent.content_type.as_str()), ("/v1/rerank", "application/json"));
        assert_eq!(serde_json::from_slice::<Value>(&sent.body).unwrap(), body);
    }
    for path in ["/v1/rerank?top=2&x=a%20b", "/v1/audio/speeches?top=2&x=a%20b"] {
        assert_eq!(send(&gateway, "key-passer", path, &body).await.status, 200);
        assert_eq!(provider.last().path, path, "the query is sent, too");
    }
    let request = gateway.http.post(format!("{}/v1/completions", gateway.base)).json_body(&body);
    let streamed = request.header("authorization", "Bearer key-passer").send().await.unwrap();
    assert_eq!(streamed.headers()["content-type"], "text/event-stream");
    assert_eq!(streamed.text().await.unwrap(), "data: {\"n\":1}\n\ndata: [DONE]\n\n");
    let request = gateway.http.post(format!("{}/v1/audio/speech", gateway.base)).json_body(&body);
    let spoken = request.header("authorization", "Bearer key-passer").send().await.unwrap();
    assert_eq!(spoken.headers()["content-type"], "audio/mpeg");
    assert_eq!(spoken.bytes().await.unwrap(), [0xff_u8, 0xfb, 0][..]);
    let refused = send(&gateway, "key-passer", "/v1/score", &body).await;
    assert_eq!(refused.status, 400);
    assert!(!refused.body.to_string().contains(KEY), "{}", refused.body);
}

#[tokio::test]
async fn a_form_is_passed_on_with_the_name_that_its_model_has_there() {
    let (provider, url) = Provider::spawn().await;
    let gateway = Gateway::with(load(&url, FILE).unwrap()).spawn().await;
    for (named, asked) in [("whisper-1", "org/whisper"), ("whisper-large", "whisper-large")] {
        assert_eq!(send_form(&gateway, "/v1/audio/transcriptions", recording(named)).await.status, 200);
        let sent = provider.last();
        assert_eq!(
            (sent.path.as_str(), sent.content_type.as_str()),
            ("/v1/audio/transcriptions", "multipart/form-data; boundary=b")
        );
        assert_eq!(sent.body, recording(asked));
    }
    let count = provider.count();
    let long = recording("whisper-1").replace("RIFF", &"R".repeat(70_000));
    for (path, body, status, code) in [
        ("/v1/audio/transcriptions", recording("unknown"), 404, "model_not_found"),
        ("/v1/audio/transcriptions", recording(""), 400, "missing_required_parameter"),
        ("/v1/audio/transcriptions", "RIFF".into(), 400, "invalid_body"),
        ("/v1/audio/transcriptions", long, 413, "request_too_large"),
        ("/v1/audio/%2e%2e/files", recording("whisper-1"), 404, "unknown_url"),
        ("/v1/audio/a%2fb", recording("whisper-1"), 404, "unknown_url"),
        ("/v1/audio//x", recording("whisper-1"), 404, "unknown_url"),
    ] {
        let answer = send_form(&gateway, path, body).await;
        assert_eq!((answer.status, answer.body["error"]["code"].as_str()), (status, Some(code)), "{path}");
    }
    assert_eq!(provider.count(), count, "nothing was sent");
}

#[tokio::test]
async fn paths_need_their_scope_and_post_and_others_do_not_exist() {
    let (provider, url) = Provider::spawn().await;
    let gateway = Gateway::with(load(&url, FILE).unwrap()).spawn().await;
    let body = json!({"model": "rank-1"});
    for (key, path, status, code) in [
        ("key-embedder", "/v1/rerank", 403, "insufficient_scope"),
        ("key-embedder", "/v1/audio/speech", 403, "insufficient_scope"),
        ("key-passer", "/v1/embeddings", 403, "insufficient_scope"),
        ("key-nobody", "/v1/rerank", 401, "invalid_api_key"),
        // It is not in the list.
        ("key-all", "/v1/chat/completions", 404, "unknown_url"),
        ("key-all", "/v1/moderations", 404, "unknown_url"),
        ("key-all", "/v1/audio", 404, "unknown_url"),
    ] {
        let answer = send(&gateway, key, path, &body).await;
        assert_eq!(
            (answer.status, answer.body["error"]["code"].as_str()),
            (status, Some(code)),
            "{key} {path}"
        );
    }
    let unknown = send(&gateway, "key-passer", "/v1/rerank", &json!({"model": "none"})).await;
    assert_eq!((unknown.status, unknown.body["error"]["code"].as_str()), (404, Some("model_not_found")));
    assert_eq!(provider.count(), 0);
    assert_eq!(send(&gateway, "key-embedder", "/v1/embeddings", &body).await.status, 200);
    let request = gateway.http.get(format!("{}/v1/rerank", gateway.base));
    let got = request.header("authorization", "Bearer key-all").send().await.unwrap();
    assert_eq!((got.status().as_u16(), &got.headers()["allow"]), (405, &"POST".parse().unwrap()));
    // One route in metrics for all paths of a pattern.
    for n in 0..3 {
        send(&gateway, "key-passer", &format!("/v1/audio/x{n}"), &body).await;
    }
    let request = gateway.http.get(format!("{}/metrics", gateway.base));
    let metrics =
        request.header("authorization", "Bearer key-all").send().await.unwrap().text().await.unwrap();
    assert!(!metrics.contains("audio/x1"), "{metrics}");
}

#[test]
fn wrong_paths_are_errors_of_the_configuration() {
    for (path, says) in [
        ("/responses", "the paths below /responses are the gateway's own"),
        ("/models/*", "the paths below /models"),
        ("/v1/rerank", "the paths below /v1"),
        ("/openai/*", "the paths below /openai"),
        ("/*", "covers the gateway's own paths"),
        ("rerank", "expected a path without the prefix /v1"),
        ("/audio/*/x", "expected a path"),
        ("/aud*", "expected a path"),
        ("/a/../b", "expected a path"),
        ("/{x}", "expected a path"),
        ("/a b", "expected a path"),
        ("/", "expected a path"),
        ("/embeddings", "is listed twice"),
    ] {
        let error =
            load("http://127.0.0.1:1/v1", &format!("server: {{pass_through: [/embeddings, '{path}']}}"))
                .unwrap_err();
        assert!(error.contains("server.pass_through[1]") && error.contains(says), "{path}: {error}");
    }
}
