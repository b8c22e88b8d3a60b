//! What a run meets outside: a provider that says what the scenario has, tools, a webhook, and the places where the process is
//! lost. They note what they see.

mod provider;
mod stops;
mod tools;

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use antwort::protocol::id::Id;
use antwort_test_support::mcp_server::tasks::TaskScript;
use antwort_test_support::mcp_server::{McpServer, content};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::watch;

use self::provider::complete;
pub use self::stops::StopsAtCommits;
pub use self::tools::Tools;
use super::scenario::{CallIds, Interruption, Scenario};

/// Where other programs reach the gateway, as they are told.
pub const PUBLIC_URL: &str = "https://gateway.example.com";

/// The cases that are under way, and what they meet.
pub struct World {
    /// The base URL of the provider.
    pub provider: String,
    /// A server whose tool waits for approval.
    pub shop: McpServer,
    /// A server whose tool becomes a task.
    pub works: McpServer,
    /// The base URL of the gateway, where results of work are reported that goes on.
    pub gateway: watch::Sender<String>,
    /// Of the test: what is done there is not lost with a process.
    runtime: Handle,
    http: reqwest::Client,
    /// Whether notices to webhooks are delivered. One that is under way when its process is lost would be delivered much later.
    pub delivers: AtomicBool,
    cases: Mutex<HashMap<String, Arc<Case>>>,
    /// Which case has made a response.
    runs: Mutex<HashMap<Id, Arc<Case>>>,
}

/// One scenario that is played.
pub struct Case {
    /// The model that it asks for.
    pub name: String,
    pub scenario: Scenario,
    seen: Mutex<Seen>,
    /// The process does nothing more for it.
    is_frozen: AtomicBool,
    /// The last thing that it does is done.
    is_stopped: watch::Sender<bool>,
    /// Its client makes a response.
    pub creates: AtomicBool,
    /// What its client waits for.
    pub waits_for: Mutex<&'static str>,
    /// The notices that a webhook has got, by their ids.
    notices: watch::Sender<BTreeMap<String, Value>>,
}

/// What was seen outside of the gateway.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// The bodies that the provider was sent.
    pub requests: Vec<Value>,
    /// The calls that tools were asked for.
    pub calls: Vec<String>,
    /// Writes of its runs.
    pub commits: usize,
    /// Calls of tools in the gateway.
    pub executed: usize,
    /// Requests without those that were sent again.
    pub asked: usize,
    /// Where the process is lost, as the number of a commit, a request or a call. Of a case that is not interrupted: `None`.
    stop: Option<Stop>,
    /// The request that the client has sent last.
    ask: usize,
    /// How many turns of it the model has said.
    turns: usize,
    /// How often the last one was asked for.
    attempts: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    Commit(usize),
    Asked(usize),
    HalfSaid(usize),
    Called(usize),
}

impl World {
    pub async fn new() -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let provider = format!("http://{}/v1", listener.local_addr().unwrap());
        let (shop, works) = (server("gated").await, server("tasked").await);
        let tool = "tasked".to_owned();
        works.makes_tasks(TaskScript { tool, polls: 1, support: "optional", ..TaskScript::default() });
        let world = Arc::new(Self {
            provider,
            shop,
            works,
            gateway: watch::channel(String::new()).0,
            runtime: Handle::current(),
            http: reqwest::Client::new(),
            delivers: AtomicBool::new(true),
            cases: Mutex::default(),
            runs: Mutex::default(),
        });
        let router = Router::new()
            .route("/v1/chat/completions", post(complete))
            .route("/v1/hook", post(notified))
            .with_state(Arc::clone(&world));
        #[expect(clippy::disallowed_methods, reason = "the task ends with the test's runtime")]
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        world
    }

    /// All that was seen of a case outside of the gateway.
    pub fn seen(&self, case: &Case) -> Seen {
        let mut seen = case.seen.lock().clone();
        let calls = self.shop.calls().into_iter().chain(self.works.calls());
        let calls = calls.filter(|call| call.arguments["case"] == case.name);
        seen.calls.extend(calls.map(|call| format!("{} {}", call.tool, call.arguments)));
        seen
    }

    /// Reports a result to this callback, again until a gateway has taken it.
    fn report(&self, callback: &str, output: &str) {
        let path = callback.strip_prefix(PUBLIC_URL).expect("an address of the gateway").to_owned();
        let (gateway, body) = (self.gateway.subscribe(), json!({"output": output}).to_string());
        let http = self.http.clone();
        self.runtime.spawn(async move {
            loop {
                let url = format!("{}{path}", *gateway.borrow());
                let report = http.post(url).header("content-type", "application/json").body(body.clone());
                // Of a response that was deleted: there is no such call.
                let is_taken = |status: StatusCode| status.is_success() || status == StatusCode::NOT_FOUND;
                if report.send().await.is_ok_and(|answer| is_taken(answer.status())) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
    }

    pub fn add(&self, name: String, scenario: Scenario) -> Arc<Case> {
        let seen = Mutex::default();
        let (is_frozen, is_stopped) = (AtomicBool::new(false), watch::channel(false).0);
        let notices = watch::channel(BTreeMap::new()).0;
        let waits_for = Mutex::new("nothing");
        let (creates, name_of) = (AtomicBool::new(false), name.clone());
        let case = Case { name: name_of, scenario, seen, is_frozen, is_stopped, creates, waits_for, notices };
        let case = Arc::new(case);
        self.cases.lock().insert(name, Arc::clone(&case));
        case
    }

    pub fn remove(&self, case: &Case) {
        self.cases.lock().remove(&case.name);
        self.runs.lock().retain(|_, of| of.name != case.name);
    }

    fn case(&self, name: &str) -> Option<Arc<Case>> {
        self.cases.lock().get(name).cloned()
    }
}

impl Case {
    /// The same place of one that was not interrupted: this one is.
    pub fn interrupt_like(&self, whole: &Seen) {
        let place = |at: &usize, count: usize| at.checked_rem(count).map_or(0, |at| at + 1);
        let stop = match &self.scenario.interruption {
            Interruption::Commit(at) => Stop::Commit(place(at, whole.commits)),
            Interruption::Asked(at) => Stop::Asked(place(at, whole.asked)),
            Interruption::HalfSaid(at) => Stop::HalfSaid(place(at, whole.asked)),
            Interruption::Called(at) => Stop::Called(place(at, whole.executed)),
        };
        self.seen.lock().stop = Some(stop);
    }

    /// Resolves when the webhook was told of so many ends.
    pub async fn notified(&self, count: usize) {
        _ = self.notices.subscribe().wait_for(|notices| notices.len() >= count).await;
    }

    /// What the webhook was told.
    pub fn notices(&self) -> Vec<Value> {
        self.notices.borrow().values().cloned().collect()
    }

    /// The client sends this request now.
    pub fn begin_ask(&self, ask: usize) {
        let mut seen = self.seen.lock();
        if seen.ask != ask {
            (seen.ask, seen.turns, seen.attempts) = (ask, 0, 0);
        }
    }

    /// The process is lost for this case.
    async fn stop(&self) -> Infallible {
        self.freeze();
        pending().await
    }

    /// The last thing that the process does for this case is done.
    fn freeze(&self) {
        self.seen.lock().stop = None;
        self.is_frozen.store(true, Ordering::SeqCst);
        self.is_stopped.send_replace(true);
    }

    /// The number of the request that the provider has got last, and how it names calls.
    fn number_and_ids(&self) -> (usize, CallIds) {
        let seen = self.seen.lock();
        (seen.asked, self.scenario.asks.get(seen.ask).map_or(CallIds::Unique, |ask| ask.call_ids))
    }

    /// Whether the conversation of its request is compacted.
    fn compacts(&self) -> bool {
        let ask = self.seen.lock().ask;
        self.scenario.asks.get(ask).is_some_and(|ask| ask.compacts)
    }

    /// A process that is lost does nothing more.
    async fn while_running(&self) {
        if self.is_frozen() {
            pending::<()>().await;
        }
    }

    /// Another process goes on with it.
    pub fn go_on(&self) {
        self.creates.store(false, Ordering::SeqCst);
        self.is_frozen.store(false, Ordering::SeqCst);
        self.is_stopped.send_replace(false);
    }

    fn is_frozen(&self) -> bool {
        self.is_frozen.load(Ordering::SeqCst)
    }

    /// Resolves when the process is lost.
    pub async fn stopped(&self) {
        _ = self.is_stopped.subscribe().wait_for(|is_stopped| *is_stopped).await;
    }
}

/// A server with one tool.
async fn server(tool: &str) -> McpServer {
    let server = McpServer::spawn().await;
    let schema = json!({"type": "object", "additionalProperties": true});
    let annotations = json!({"readOnlyHint": true});
    server.set_tools(vec![
        json!({"name": tool, "description": "A tool.", "inputSchema": schema, "annotations": annotations}),
    ]);
    server.says(tool, vec![content::text("open")]);
    server
}

/// Takes a notice, of which several with one id are one.
async fn notified(State(world): State<Arc<World>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let notice: Value = serde_json::from_slice(&body).unwrap();
    let data = &notice["data"];
    let run = data["response_id"].as_str().or(data["id"].as_str()).map(Id::from);
    if let Some(case) = run.and_then(|run| world.runs.lock().get(&run).cloned()) {
        let id = headers["webhook-id"].to_str().unwrap().to_owned();
        case.notices.send_modify(|notices| _ = notices.insert(id, notice));
    }
    StatusCode::OK
}
