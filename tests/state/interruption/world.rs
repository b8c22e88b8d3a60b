//! What a run meets outside: a provider that says what the scenario has, tools, and the places where the process is lost.
//! They note what they see.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use antwort::protocol::id::Id;
use antwort::store::StoreError;
use antwort::tools::{
    Annotations, Progress, ToolCall, ToolContext, ToolDefinition, ToolError, ToolExecutor, ToolKind,
    ToolOutcome, ToolOutput,
};
use antwort_test_support::hooked_store::{Operation, StoreHooks};
use antwort_test_support::mcp_server::{McpServer, content};
use antwort_test_support::upstream::{Step, chunk, finish, usage};
use async_trait::async_trait;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use proptest::sample::Index;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::scenario::{Ask, Call, CallIds, Interruption, Scenario, Turn};

/// The cases that are under way, and what they meet.
pub struct World {
    /// The base URL of the provider.
    pub provider: String,
    /// A server whose tool waits for approval.
    pub shop: McpServer,
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
        let shop = McpServer::spawn().await;
        let schema = json!({"type": "object", "additionalProperties": true});
        shop.set_tools(vec![json!({"name": "gated", "description": "A tool.", "inputSchema": schema,
            "annotations": {"readOnlyHint": true}})]);
        shop.says("gated", vec![content::text("open")]);
        let world = Arc::new(Self { provider, shop, cases: Mutex::default(), runs: Mutex::default() });
        let router =
            Router::new().route("/v1/chat/completions", post(complete)).with_state(Arc::clone(&world));
        #[expect(clippy::disallowed_methods, reason = "the task ends with the test's runtime")]
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        world
    }

    /// All that was seen of a case outside of the gateway.
    pub fn seen(&self, case: &Case) -> Seen {
        let mut seen = case.seen.lock().clone();
        let calls = self.shop.calls().into_iter().filter(|call| call.arguments["case"] == case.name);
        seen.calls.extend(calls.map(|call| format!("{} {}", call.tool, call.arguments)));
        seen
    }

    pub fn add(&self, name: String, scenario: Scenario) -> Arc<Case> {
        let seen = Mutex::default();
        let (is_frozen, is_stopped) = (AtomicBool::new(false), watch::channel(false).0);
        let case = Arc::new(Case { name: name.clone(), scenario, seen, is_frozen, is_stopped });
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
        let place = |index: &Index, count: usize| if count == 0 { 0 } else { index.index(count) + 1 };
        let stop = match &self.scenario.interruption {
            Interruption::Commit(at) => Stop::Commit(place(at, whole.commits)),
            Interruption::Asked(at) => Stop::Asked(place(at, whole.asked)),
            Interruption::HalfSaid(at) => Stop::HalfSaid(place(at, whole.asked)),
            Interruption::Called(at) => Stop::Called(place(at, whole.executed)),
        };
        self.seen.lock().stop = Some(stop);
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
        self.seen.lock().stop = None;
        self.is_frozen.store(true, Ordering::SeqCst);
        self.is_stopped.send_replace(true);
        pending().await
    }

    /// The number of the request that the provider has got last, and how it names calls.
    fn number_and_ids(&self) -> (usize, CallIds) {
        let seen = self.seen.lock();
        (seen.asked, self.scenario.asks.get(seen.ask).map_or(CallIds::Unique, |ask| ask.call_ids))
    }

    /// A process that is lost does nothing more.
    async fn while_running(&self) {
        if self.is_frozen() {
            pending::<()>().await;
        }
    }

    /// Another process goes on with it.
    pub fn go_on(&self) {
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

/// Notes a request, and returns what the model says to it, and the stop that is reached.
fn asked(case: &Case, body: Value) -> (Option<Turn>, Option<Stop>) {
    let mut seen = case.seen.lock();
    let is_again = seen.attempts > 0 && seen.requests.last() == Some(&body);
    seen.requests.push(body);
    if is_again {
        seen.attempts += 1;
    } else {
        (seen.asked, seen.turns, seen.attempts) = (seen.asked + 1, seen.turns + 1, 1);
    }
    let turn = case.scenario.asks.get(seen.ask).and_then(|ask| ask.turns.get(seen.turns - 1)).cloned();
    let is_reached = |stop: &Stop| *stop == Stop::Asked(seen.asked) || *stop == Stop::HalfSaid(seen.asked);
    let is_refused = turn.as_ref().is_some_and(|turn| turn.is_refused) && seen.attempts == 1;
    let stop = seen.stop.filter(is_reached);
    match is_refused {
        true => (None, stop.filter(|stop| matches!(stop, Stop::Asked(_)))),
        false => (Some(turn.unwrap_or_else(Turn::answer)), stop),
    }
}

impl Turn {
    /// The answer behind all turns of the scenario.
    fn answer() -> Self {
        Self { is_refused: false, has_reasoning: false, has_text: true, calls: Vec::new() }
    }

    fn steps(&self, case: &Case) -> Vec<Step> {
        let (number, ids) = case.number_and_ids();
        let mut steps = vec![chunk(json!({"role": "assistant", "content": ""}))];
        if self.has_reasoning {
            steps.push(chunk(json!({"reasoning_content": format!("Hm {number}.")})));
        }
        let text = match (self.calls.is_empty(), self.has_text) {
            (true, true) => format!("{{\"turn\": {number}}}"),
            (true, false) => format!("No object {number}."),
            (false, true) => format!("Let me see {number}."),
            (false, false) => String::new(),
        };
        steps.extend(text.split_inclusive(' ').map(|word| chunk(json!({"content": word}))));
        for (index, call) in self.calls.iter().enumerate() {
            let arguments = match call {
                Call::Same => json!({"n": "same"}),
                Call::Gated => json!({"n": format!("{number}.{index}"), "case": case.name}),
                _ => json!({"n": format!("{number}.{index}")}),
            };
            let function = json!({"name": call.tool(), "arguments": arguments.to_string()});
            let mut call = json!({"index": index, "type": "function", "function": function});
            match ids {
                CallIds::Unique => call["id"] = json!(format!("call_{number}_{index}")),
                CallIds::OfTurn => call["id"] = json!(format!("call_{index}")),
                CallIds::None => {}
            }
            steps.push(chunk(json!({"tool_calls": [call]})));
        }
        steps.extend([finish(if self.calls.is_empty() { "stop" } else { "tool_calls" }), usage(5, 3)]);
        steps.push(Step::Raw(b"data: [DONE]\n\n".to_vec()));
        steps
    }
}

async fn complete(State(world): State<Arc<World>>, body: Bytes) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap();
    let Some(case) = world.case(body["model"].as_str().unwrap()) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    case.while_running().await;
    let (turn, stop) = asked(&case, body);
    if matches!(stop, Some(Stop::Asked(_))) {
        match case.stop().await {}
    }
    let Some(turn) = turn else { return StatusCode::SERVICE_UNAVAILABLE.into_response() };
    let mut steps = turn.steps(&case);
    if stop.is_some() {
        steps.truncate(steps.len() / 2);
    }
    let frames = stream::iter(steps).map(|step| match step {
        Step::Chunk(chunk) => Bytes::from(format!("data: {chunk}\n\n")),
        Step::Raw(bytes) => Bytes::from(bytes),
        _ => unreachable!("a turn has chunks"),
    });
    let end = stream::once(async move {
        if stop.is_some() {
            // What was said is logged first.
            tokio::time::sleep(std::time::Duration::from_millis(150)).await;
            match case.stop().await {}
        }
        Bytes::new()
    });
    let body = Body::from_stream(frames.chain(end).map(Ok::<_, Infallible>));
    ([("content-type", "text/event-stream")], body).into_response()
}

const TOOLS: [&str; 5] = ["echo", "fails", "says_error", "writes", "forbidden"];

/// The tools.
pub struct Tools(pub Arc<World>);

#[async_trait]
impl ToolExecutor for Tools {
    fn id(&self) -> &str {
        "tools"
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Custom
    }

    async fn list(&self) -> Result<Vec<ToolDefinition>, ToolError> {
        let tool = |name: &str| {
            let annotations =
                if name == "writes" { Annotations::UNKNOWN } else { Annotations::READ_ONLY_OPEN_WORLD };
            let definition = ToolDefinition::new(name, "A tool.", &json!({"type": "object"}));
            ToolDefinition { executor: "tools".into(), ..definition.with_annotations(annotations) }
        };
        Ok(TOOLS.map(tool).to_vec())
    }

    async fn execute(
        &self,
        call: &ToolCall,
        context: &ToolContext,
        _progress: &Progress,
    ) -> Result<ToolOutcome, ToolError> {
        let name = context.metadata.0.iter().find(|(key, _)| key == "case").map(|(_, name)| name.as_str());
        let case = name.and_then(|name| self.0.case(name)).expect("a call of a case");
        case.while_running().await;
        let key = call.key.as_ref().map(ToString::to_string);
        let arguments = Value::Object(call.arguments.clone()).to_string();
        let is_lost = {
            let mut seen = case.seen.lock();
            seen.calls.push(format!("{} {arguments} {key:?}", call.name));
            seen.executed += 1;
            seen.stop == Some(Stop::Called(seen.executed))
        };
        if is_lost {
            match case.stop().await {}
        }
        let output = match call.name.as_str() {
            "fails" => return Err(ToolError::failed("it does not work")),
            "says_error" => ToolOutput::error("no such thing"),
            _ => ToolOutput::text(arguments),
        };
        Ok(ToolOutcome::Done(output))
    }
}

/// Loses the process behind a commit.
pub struct StopsAtCommits(pub Arc<World>);

/// The writes of a run that count as commits: the run waits for them.
const COMMITS: [&str; 10] = [
    "enqueue",
    "begin",
    "begin_logged",
    "update_running",
    "commit_turn",
    "ask_questions",
    "wait_for_inputs",
    "start_async",
    "finish",
    "finish_logged",
];

impl StopsAtCommits {
    fn case(&self, operation: &Operation) -> Option<Arc<Case>> {
        let run = operation.run.as_ref()?;
        let mut runs = self.0.runs.lock();
        if let (Some(model), false) = (&operation.model, runs.contains_key(run)) {
            runs.insert(run.clone(), self.0.case(model)?);
        }
        runs.get(run).cloned()
    }
}

#[async_trait]
impl StoreHooks for StopsAtCommits {
    async fn before(&self, operation: &Operation) -> Result<(), StoreError> {
        let Some(case) = self.case(operation) else { return Ok(()) };
        case.while_running().await;
        if COMMITS.contains(&operation.name) {
            let mut seen = case.seen.lock();
            seen.commits += 1;
            if seen.stop == Some(Stop::Commit(seen.commits)) {
                case.is_frozen.store(true, Ordering::SeqCst);
            }
        }
        Ok(())
    }

    async fn after(&self, operation: &Operation) -> Result<(), StoreError> {
        let case = self.case(operation).filter(|_| COMMITS.contains(&operation.name));
        let is_last =
            |case: &Arc<Case>| matches!(case.seen.lock().stop, Some(Stop::Commit(_))) && case.is_frozen();
        match case.filter(is_last) {
            Some(case) => match case.stop().await {},
            None => Ok(()),
        }
    }

    fn allows(&self, operation: &Operation) -> bool {
        self.case(operation).is_none_or(|case| !case.is_frozen())
    }
}

impl Ask {
    /// The request's body, without its input.
    pub fn body(&self, model: &str) -> Value {
        let tools = ["echo", "fails", "says_error", "writes", "gated", "client"];
        let mut body = json!({
            "model": model, "background": true, "metadata": {"case": model}, "allowed_tools": tools,
            "parallel_tool_calls": !self.is_serial,
            "tools": [
                {"type": "mcp", "server_label": "antwort", "allowed_tools": TOOLS},
                {"type": "mcp", "server_label": "shop", "require_approval": "always"},
                {"type": "function", "name": "client", "parameters": {"type": "object"}},
            ],
            "antwort": {"client_tools": "inline"},
        });
        if self.requires_call {
            body["tool_choice"] = json!("required");
        }
        if self.is_json {
            let schema =
                json!({"type": "object", "properties": {"turn": {"type": "integer"}}, "required": ["turn"]});
            body["text"] = json!({"format": {"type": "json_schema", "name": "turn", "schema": schema}});
            body["antwort"]["structured"] = json!({"on_mismatch": "repair"});
        }
        if let Some(max) = self.max_tool_calls {
            body["max_tool_calls"] = max.into();
        }
        if let Some(max) = self.max_turns {
            body["antwort"]["limits"] = json!({"max_turns": max});
        }
        if let Some(max) = self.max_output_tokens {
            body["max_output_tokens"] = max.into();
        }
        body
    }
}
