//! A gateway on a real port, and a client that holds its answers against the documents.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use antwort::app::App;
use antwort::config::{DrainListener, Preset, ProviderSettings, Settings, StoreUrl};
use antwort::store::Store;
use antwort::tools::ToolExecutor;
use reqwest::header::HeaderMap;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::probe::{Probe, ProbeLog};
use super::upstream::Upstream;
use super::{openapi, stream_validator};

/// A running gateway; ends with the test.
pub struct Gateway {
    /// Without a path.
    pub base: String,
    /// Speaks to it.
    pub http: reqwest::Client,
    stop: CancellationToken,
    server: Option<tokio::task::JoinHandle<()>>,
    headers: HeaderMap,
}

/// A gateway in the making.
pub struct Builder {
    settings: Settings,
    executors: Vec<Arc<dyn ToolExecutor>>,
    store: Option<Arc<dyn Store>>,
}

/// An answer.
#[derive(Debug)]
pub struct HttpAnswer {
    /// Its status.
    pub status: u16,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Value,
}

/// A whole stream, found legal.
#[derive(Debug)]
pub struct Streamed {
    /// All events.
    pub events: Vec<Value>,
    /// The response of the last.
    pub response: Value,
}

impl Builder {
    /// Changes the settings.
    pub fn set(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Changes how the provider is used.
    pub fn provider(self, change: impl FnOnce(&mut ProviderSettings)) -> Self {
        self.set(|settings| change(settings.providers.get_mut("default").unwrap()))
    }

    /// Keeps responses in this file.
    pub fn database(self, path: PathBuf) -> Self {
        self.set(|settings| settings.store.url = StoreUrl::Sqlite(path))
    }

    /// Keeps responses in this store.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// With the tools of this executor.
    pub fn executor(mut self, executor: Arc<dyn ToolExecutor>) -> Self {
        self.executors.push(executor);
        self
    }

    /// With tools that do as they are told.
    pub fn probe(mut self) -> (Self, Arc<ProbeLog>) {
        let seen = Arc::new(ProbeLog::default());
        self.executors.push(Arc::new(Probe(Arc::clone(&seen))));
        (self, seen)
    }

    /// Starts it.
    pub async fn spawn(self) -> Gateway {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let app = match self.store {
            Some(store) => App::build_with_store(&self.settings, self.executors, store).await.unwrap(),
            None => App::build_with(&self.settings, self.executors).await.unwrap(),
        };
        let stop = CancellationToken::new();
        #[expect(clippy::disallowed_methods, reason = "the task ends with the test's runtime")]
        let server = tokio::spawn(app.serve(listener, stop.clone()));
        // With a name, as the gateway takes a program without one for a certain client library.
        let http = reqwest::Client::builder().user_agent("antwort-tests").build().unwrap();
        Gateway { base, http, stop, server: Some(server), headers: HeaderMap::new() }
    }
}

impl Gateway {
    /// A gateway in front of this provider, with everything else as by default and responses in memory.
    pub fn with_upstream(upstream: &Upstream) -> Builder {
        Self::with_upstream_url(&upstream.url)
    }

    /// A gateway with these settings.
    pub fn with(settings: Settings) -> Builder {
        Builder { settings, executors: Vec::new(), store: None }
    }

    /// A gateway in front of whatever is at this URL.
    pub fn with_upstream_url(url: &str) -> Builder {
        let mut settings = Settings::default();
        settings.store.url = StoreUrl::Memory;
        // So that a test can look at a gateway that drains.
        settings.server.drain_listener = DrainListener::Refuse;
        let mut provider = ProviderSettings::new(Preset::Generic, url);
        provider.default = true;
        provider.retries.initial_backoff = Duration::from_millis(5);
        settings.providers.insert("default".into(), provider);
        Self::with(settings)
    }

    /// Sends this header with every request.
    pub fn with_header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.insert(name, value.parse().unwrap());
        self
    }

    /// Stops it in order.
    pub async fn stop(mut self) {
        self.stop.cancel();
        self.server.take().unwrap().await.unwrap();
    }

    /// Tells it to stop, and does not wait.
    pub fn begin_stop(&self) {
        self.stop.cancel();
    }

    /// Sends a request with a JSON body and reads the answer.
    pub async fn post(&self, path: &str, body: &Value) -> HttpAnswer {
        self.send(self.http.post(format!("{}{path}", self.base)).json_body(body)).await
    }

    /// Sends a request with any body, which is called JSON unless the headers say otherwise.
    pub async fn post_bytes(
        &self,
        path: &str,
        body: impl Into<reqwest::Body>,
        headers: &[(&str, &str)],
    ) -> HttpAnswer {
        let mut request = self.http.post(format!("{}{path}", self.base)).body(body);
        if !headers.iter().any(|(name, _)| *name == "content-type") {
            request = request.header("content-type", "application/json");
        }
        self.send(headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))).await
    }

    /// Reads something.
    pub async fn get(&self, path: &str) -> HttpAnswer {
        self.send(self.http.get(format!("{}{path}", self.base))).await
    }

    /// Deletes something.
    pub async fn delete(&self, path: &str) -> HttpAnswer {
        self.send(self.http.delete(format!("{}{path}", self.base))).await
    }

    /// Sends any request.
    pub async fn send(&self, request: reqwest::RequestBuilder) -> HttpAnswer {
        let response = request.headers(self.headers.clone()).send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        assert!(headers.contains_key("x-request-id"), "every answer has a request id");
        let text = response.text().await.unwrap();
        let body: Value = serde_json::from_str(&text).unwrap_or(Value::String(text));
        let is_error = status >= 400 && body.get("status").is_none() && body != "";
        if is_error {
            openapi::assert_error(&body);
        }
        if body["object"] == "response" && body.get("deleted").is_none() {
            openapi::assert_response(&body);
        }
        HttpAnswer { status, headers, body }
    }

    /// Makes a response and expects it to succeed.
    pub async fn create(&self, body: Value) -> Value {
        let answer = self.post("/v1/responses", &body).await;
        assert_eq!(answer.status, 200, "{:#}", answer.body);
        answer.body
    }

    /// Makes a response and expects an error of this status and code.
    pub async fn refuse(&self, body: Value, status: u16, code: &str) -> Value {
        let answer = self.post("/v1/responses", &body).await;
        assert_eq!(
            (answer.status, answer.body["error"]["code"].as_str()),
            (status, Some(code)),
            "{:#}",
            answer.body
        );
        answer.body["error"].clone()
    }

    /// Makes a streamed response, and judges the stream.
    pub async fn stream(&self, mut body: Value) -> Streamed {
        body["stream"] = true.into();
        let request = self.http.post(format!("{}/v1/responses", self.base)).json_body(&body);
        let response = request.headers(self.headers.clone()).send().await.unwrap();
        let status = response.status().as_u16();
        let text = response.text().await.unwrap();
        assert_eq!(status, 200, "{text}");
        let events = frames(&text);
        for event in &events {
            openapi::assert_event(event);
        }
        let verdict = stream_validator::assert_valid_stream(&events);
        Streamed { events, response: verdict.response }
    }

    /// Makes the same response without and with a stream and returns both.
    pub async fn both(&self, body: Value) -> [Value; 2] {
        [self.create(body.clone()).await, self.stream(body).await.response]
    }

    /// Begins a streamed response and hands out the connection.
    pub async fn open_stream(&self, mut body: Value) -> reqwest::Response {
        body["stream"] = true.into();
        let request = self.http.post(format!("{}/v1/responses", self.base)).json_body(&body);
        request.headers(self.headers.clone()).send().await.unwrap()
    }
}

/// JSON bodies, without the feature of the client library that would do the same.
pub trait JsonBody {
    /// Sets the body and its type.
    fn json_body(self, body: &Value) -> Self;
}

impl JsonBody for reqwest::RequestBuilder {
    fn json_body(self, body: &Value) -> Self {
        self.header("content-type", "application/json").body(body.to_string())
    }
}

/// The events of a stream, with its framing held to the letter.
pub fn frames(text: &str) -> Vec<Value> {
    let events = text.strip_suffix("data: [DONE]\n\n");
    frames_so_far(events.unwrap_or_else(|| panic!("the stream ends with its mark: {text}")))
}

/// The events of a stream that has not ended.
pub fn frames_so_far(text: &str) -> Vec<Value> {
    let mut frames: Vec<&str> = text.split("\n\n").collect();
    assert_eq!(frames.pop(), Some(""), "a frame ends with a blank line");
    let mut events = Vec::new();
    for frame in frames {
        if frame.starts_with(':') {
            continue;
        }
        let (name, data) = frame.split_once('\n').unwrap_or_else(|| panic!("two lines a frame: {frame}"));
        if name == "event: input-required" {
            events.push(a2a_event(data));
            continue;
        }
        let event: Value = serde_json::from_str(data.strip_prefix("data: ").expect("data")).expect("JSON");
        assert_eq!(name.strip_prefix("event: "), event["type"].as_str(), "the frame is named by its type");
        events.push(event);
    }
    events
}

/// The event of A2A clients, whose number is the id of its frame, in which it alone has one.
fn a2a_event(lines: &str) -> Value {
    let (id, data) = lines.split_once('\n').expect("three lines");
    let mut event: Value = serde_json::from_str(data.strip_prefix("data: ").expect("data")).expect("JSON");
    super::openapi::assert_event(&event);
    event["sequence_number"] = id.strip_prefix("id: ").expect("id").parse::<u64>().expect("a number").into();
    event
}

/// The text of a response's messages.
pub fn text_of(response: &Value) -> String {
    let items = response["output"].as_array().into_iter().flatten();
    let parts = items.flat_map(|item| item["content"].as_array().into_iter().flatten());
    parts.filter(|part| part["type"] == "output_text").filter_map(|part| part["text"].as_str()).collect()
}
