//! A server that does as a test says, and remembers what it was asked.

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;
use tokio::sync::mpsc;

use super::*;

/// What a server was asked.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub verb: String,
    pub path: String,
    pub headers: HeaderMap,
    pub body: Value,
    /// The body as it came.
    pub text: String,
}

impl Seen {
    /// The method of the protocol; empty if it is no message.
    pub(crate) fn method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// A result that answers it.
    pub(crate) fn result(&self, result: &Value) -> Value {
        json!({ "jsonrpc": "2.0", "id": self.body["id"], "result": result })
    }

    pub(crate) fn ok(&self, result: &Value) -> Response {
        answer(&self.result(result))
    }
}

type Behaviour = Box<dyn Fn(Seen) -> BoxFuture<'static, Response> + Send + Sync>;

/// A server.
pub(super) struct Server {
    pub url: String,
    seen: Mutex<Vec<Seen>>,
    behaviour: Behaviour,
}

impl Server {
    /// Does as it is told with every request.
    pub(crate) async fn doing<F, A>(behaviour: F) -> Arc<Self>
    where
        F: Fn(Seen) -> A + Send + Sync + 'static,
        A: Future<Output = Response> + Send + 'static,
    {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let behaviour: Behaviour = Box::new(move |seen| Box::pin(behaviour(seen)));
        let server = Arc::new(Self { url, seen: Mutex::default(), behaviour });
        let routes = axum::Router::new().fallback(handle).with_state(Arc::clone(&server));
        TaskTracker::new().spawn(async move { axum::serve(listener, routes).await.unwrap() });
        server
    }

    /// Shakes hands, has no stream of its own, and does as it is told with everything else.
    pub(crate) async fn calling<F, A>(behaviour: F) -> Arc<Self>
    where
        F: Fn(Seen) -> A + Send + Sync + 'static,
        A: Future<Output = Response> + Send + 'static,
    {
        Self::doing(move |seen| {
            let early = shake(&seen, Some("s1"));
            let later = early.is_none().then(|| behaviour(seen));
            async move {
                match (early, later) {
                    (Some(response), _) => response,
                    (None, Some(later)) => later.await,
                    (None, None) => status(500),
                }
            }
        })
        .await
    }

    /// All that it was asked.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().clone()
    }

    /// What it was asked with a method.
    pub(crate) fn asked(&self, method: &str) -> Vec<Seen> {
        self.seen().into_iter().filter(|seen| seen.method() == method).collect()
    }
}

async fn handle(State(server): State<Arc<Server>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, MIB).await.unwrap();
    let seen = Seen {
        verb: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        headers: parts.headers,
        body: serde_json::from_slice(&body).unwrap_or_default(),
        text: String::from_utf8_lossy(&body).into_owned(),
    };
    server.seen.lock().push(seen.clone());
    (server.behaviour)(seen).await
}

/// The answer to what belongs to the handshake.
pub(super) fn shake(seen: &Seen, session: Option<&str>) -> Option<Response> {
    match (seen.verb.as_str(), seen.method()) {
        ("POST", "initialize") => {
            let mut response = seen.ok(&initialized(&seen.body["params"]["protocolVersion"]));
            if let Some(session) = session {
                response.headers_mut().insert("mcp-session-id", HeaderValue::from_str(session).unwrap());
            }
            Some(response)
        }
        ("POST", "notifications/initialized" | "notifications/cancelled") => Some(status(202)),
        ("GET", _) => Some(status(405)),
        ("DELETE", _) => Some(status(200)),
        _ => None,
    }
}

pub(super) fn initialized(version: &Value) -> Value {
    json!({
        "protocolVersion": version,
        "capabilities": { "tools": {} },
        "serverInfo": { "name": "small", "version": "1.2" },
    })
}

pub(super) fn status(status: u16) -> Response {
    Response::builder().status(status).body(Body::empty()).unwrap()
}

pub(super) fn answer(body: &Value) -> Response {
    ([("content-type", "application/json")], body.to_string()).into_response()
}

pub(super) fn failed(code: u16, body: &Value) -> Response {
    let mut response = answer(body);
    *response.status_mut() = axum::http::StatusCode::from_u16(code).unwrap();
    response
}

/// A stream of events, and what writes to it.
pub(super) fn events() -> (mpsc::UnboundedSender<String>, Response) {
    let (writer, reader) = mpsc::unbounded_channel::<String>();
    let stream = futures_util::stream::unfold(reader, |mut reader| async move {
        let text = reader.recv().await?;
        Some((Ok::<_, std::convert::Infallible>(Bytes::from(text)), reader))
    });
    let response = ([("content-type", "text/event-stream")], Body::from_stream(stream)).into_response();
    (writer, response)
}

/// A message as an event.
pub(super) fn event(message: &Value) -> String {
    format!("event: message\ndata: {message}\n\n")
}
