//! What the server was told and what it saw.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::oauth::Issuer;
use super::sessions::Sessions;
use super::tasks::{Task, TaskScript};
use super::tools;

/// An HTTP request as it arrived.
#[derive(Debug, Clone)]
pub struct Request {
    /// Its method.
    pub method: Method,
    /// Its path with its query.
    pub path: String,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body, if it is JSON.
    pub body: Value,
    /// Its body, byte for byte.
    pub raw: String,
}

/// A call of a tool.
#[derive(Debug, Clone)]
pub struct Call {
    /// The tool.
    pub tool: String,
    /// The id of its JSON-RPC request.
    pub id: Value,
    /// Its arguments.
    pub arguments: Value,
    /// What came along.
    pub meta: Value,
    /// The session; empty where there are none.
    pub session: String,
    /// The token that came with it.
    pub token: Option<String>,
}

/// How requests are answered that are sent by POST.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    /// Calls by a stream, everything else by a body of JSON.
    Mixed,
    /// By a body of JSON.
    Json,
    /// By a stream.
    Stream,
    /// With 202, and the answer comes on the stream that the client got.
    SessionStream,
}

/// Who may come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Auth {
    /// Everybody.
    Open,
    /// Whoever brings one of these bearer tokens.
    Tokens(Vec<&'static str>),
    /// Whoever brings a token of the authorization server that has not expired.
    Issued,
}

/// How requests are answered that name a session which the server does not know.
#[derive(Debug, Clone)]
pub enum UnknownSessionReply {
    /// With a status and a body; `$id` in it is the request's id.
    Status(u16, &'static str),
    /// As if all were well, with a JSON-RPC error of this code and these words.
    Error(i64, &'static str),
    /// With a stream that ends without an answer.
    EmptyStream,
    /// With a body that breaks off.
    Cut,
}

/// An answer that is given instead of the right one.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Only to this JSON-RPC method.
    pub method: Option<String>,
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
}

/// What a call returns, or the code and the words of its JSON-RPC error.
pub(crate) type ToolReply = Result<Value, (i64, String)>;

/// What tests tell the server.
pub struct Knobs {
    pub tools: Vec<Value>,
    /// Further tools, for those users only of whom it is told.
    pub tools_of: HashMap<String, Vec<Value>>,
    pub results: HashMap<String, ToolReply>,
    pub asks: HashMap<String, String>,
    /// How calls become tasks.
    pub tasks: Option<TaskScript>,
    /// What is asked, if not the usual.
    pub question: Option<Value>,
    /// What the next calls of a tool return before all others.
    pub first: HashMap<String, VecDeque<ToolReply>>,
    /// `data` of errors, by their code.
    pub error_data: HashMap<i64, Value>,
    /// Tools whose results nobody gets.
    pub withheld: HashSet<String>,
    pub failures: VecDeque<Failure>,
    pub hangs: HashSet<String>,
    pub delays: HashMap<String, Duration>,
    pub answers: Answers,
    pub sessionless: bool,
    pub only_sse: bool,
    pub protocol: Option<String>,
    pub lost: UnknownSessionReply,
    pub auth: Auth,
    /// The scope that every token must have been given with.
    pub scope: Option<String>,
    /// The same for calls of a tool.
    pub tool_scopes: HashMap<String, String>,
    /// Whether nothing says where tokens are.
    pub no_metadata: bool,
    /// The token of the next call is the next to be refused.
    pub expires_next: bool,
    pub refused: HashSet<String>,
    pub per_page: Option<usize>,
    pub endless_pages: bool,
    pub list_extra: Value,
    pub slow: (u32, Duration),
    pub big: usize,
}

/// What the server saw.
#[derive(Default)]
pub struct ServerLog {
    pub requests: Vec<Request>,
    pub methods: HashMap<String, usize>,
    pub calls: Vec<Call>,
    /// `_meta` of requests for lists.
    pub list_metas: Vec<Value>,
    pub cancelled: Vec<Value>,
    pub answers: Vec<Value>,
    pub in_flight: usize,
    pub faults: Vec<String>,
}

/// All that the server knows.
pub struct Script {
    pub base: String,
    knobs: Mutex<Knobs>,
    seen: Mutex<ServerLog>,
    sessions: Mutex<Sessions>,
    issuer: Mutex<Issuer>,
    /// What ends requests in progress, by session and id.
    pub running: Mutex<HashMap<(String, String), oneshot::Sender<()>>>,
    /// Who waits for clients' answers, by the question's id.
    pub questions: Mutex<HashMap<String, oneshot::Sender<Value>>>,
    /// Requests whose answers go elsewhere.
    spawned: Mutex<JoinSet<()>>,
    /// Tasks in the sense of the protocol.
    pub tasks: Mutex<Vec<Task>>,
}

impl Script {
    pub fn new(base: String) -> Self {
        let knobs = Knobs {
            tools: tools::base(),
            tools_of: HashMap::new(),
            results: HashMap::new(),
            asks: HashMap::new(),
            tasks: None,
            question: None,
            first: HashMap::new(),
            error_data: HashMap::new(),
            withheld: HashSet::new(),
            failures: VecDeque::new(),
            hangs: HashSet::new(),
            delays: HashMap::new(),
            answers: Answers::Mixed,
            sessionless: false,
            only_sse: false,
            protocol: None,
            lost: UnknownSessionReply::Status(
                404,
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}"#,
            ),
            auth: Auth::Open,
            scope: None,
            tool_scopes: HashMap::new(),
            no_metadata: false,
            expires_next: false,
            refused: HashSet::new(),
            per_page: None,
            endless_pages: false,
            list_extra: json!({}),
            slow: (3, Duration::from_millis(20)),
            big: 1 << 20,
        };
        Self {
            base,
            knobs: Mutex::new(knobs),
            seen: Mutex::default(),
            sessions: Mutex::default(),
            issuer: Mutex::default(),
            running: Mutex::default(),
            questions: Mutex::default(),
            spawned: Mutex::default(),
            tasks: Mutex::default(),
        }
    }

    pub fn knobs(&self) -> MutexGuard<'_, Knobs> {
        self.knobs.lock()
    }

    pub fn seen(&self) -> MutexGuard<'_, ServerLog> {
        self.seen.lock()
    }

    pub fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock()
    }

    pub fn issuer(&self) -> MutexGuard<'_, Issuer> {
        self.issuer.lock()
    }

    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.spawned.lock().spawn(task);
    }

    pub fn end_spawned(&self) {
        self.spawned.lock().abort_all();
    }

    /// Remembers a request, and returns its body.
    pub fn arrived(&self, method: Method, uri: &Uri, headers: &HeaderMap, body: &[u8]) -> Value {
        let raw = String::from_utf8_lossy(body).into_owned();
        let body: Value = serde_json::from_str(&raw).unwrap_or(Value::Null);
        let request =
            Request { method, path: uri.to_string(), headers: headers.clone(), body: body.clone(), raw };
        self.seen().requests.push(request);
        body
    }

    /// The answer that a test wants, or that one without the right token gets.
    pub fn refusal(&self, headers: &HeaderMap, message: Option<&Value>) -> Option<Response> {
        let method = message.and_then(|message| message["method"].as_str());
        let mut knobs = self.knobs();
        if message.is_some() {
            let mut failures = knobs.failures.iter();
            let found =
                failures.position(|failure| failure.method.is_none() || failure.method.as_deref() == method);
            if let Some(failure) = found.and_then(|at| knobs.failures.remove(at)) {
                let mut response =
                    (StatusCode::from_u16(failure.status).unwrap(), failure.body).into_response();
                for (name, value) in failure.headers {
                    response.headers_mut().insert(name, value.parse().unwrap());
                }
                return Some(response);
            }
        }
        let token = bearer(headers);
        if method == Some("tools/call") && std::mem::take(&mut knobs.expires_next) {
            knobs.refused.extend(token.clone());
        }
        let known = match &knobs.auth {
            Auth::Open => true,
            Auth::Tokens(tokens) => {
                token.as_ref().is_some_and(|token| tokens.iter().any(|known| known == token))
            }
            Auth::Issued => token.as_ref().is_some_and(|token| self.issuer().is_valid(token)),
        };
        let refused = token.as_ref().is_some_and(|token| knobs.refused.contains(token));
        let has = |scope: &str| token.as_ref().is_some_and(|token| self.issuer().has_scope(token, scope));
        let lacks = knobs.scope.as_ref().is_some_and(|scope| !has(scope));
        if !known || refused || lacks {
            let error = if token.is_some() { " error=\"invalid_token\"," } else { "" };
            let scope = knobs.scope.as_ref().map(|scope| format!(", scope=\"{scope}\"")).unwrap_or_default();
            let challenge = match knobs.no_metadata {
                true => "Bearer".to_owned(),
                false => format!("Bearer{error} resource_metadata=\"{}\"{scope}", self.metadata()),
            };
            return Some((StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, challenge)]).into_response());
        }
        let tool = message.and_then(|message| message["params"]["name"].as_str()).unwrap_or_default();
        let scope = knobs.tool_scopes.get(tool).filter(|scope| !has(scope))?;
        let challenge = format!(
            "Bearer error=\"insufficient_scope\", scope=\"{scope}\", resource_metadata=\"{}\"",
            self.metadata()
        );
        Some((StatusCode::FORBIDDEN, [(header::WWW_AUTHENTICATE, challenge)]).into_response())
    }

    /// Where the server's metadata are.
    pub fn metadata(&self) -> String {
        format!("{}/.well-known/oauth-protected-resource", self.base)
    }

    /// Refuses what a client should not have sent, and fails the test of it.
    pub fn fault(&self, status: StatusCode, why: String) -> Response {
        self.seen().faults.push(why.clone());
        (status, why).into_response()
    }
}

/// The bearer token of a request.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    value.strip_prefix("Bearer ").map(str::to_owned)
}
