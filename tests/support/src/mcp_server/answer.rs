//! JSON-RPC: what comes of a request, whatever it came over.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;
use uuid::Uuid;

use super::script::{Call, Script};
use super::{tasks, tools};

/// Versions of the protocol, the latest first.
pub(crate) const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// A JSON-RPC error: its code and its words.
pub(crate) type Error = (i64, String);

/// Who asks, and where to speak before the answer.
#[derive(Clone)]
pub struct Caller {
    pub script: Arc<Script>,
    pub session: String,
    pub token: Option<String>,
    /// The stream of this request; else that of the session.
    pub stream: Option<UnboundedSender<Value>>,
}

impl Caller {
    /// Says something before the answer.
    pub fn say(&self, message: Value) {
        match &self.stream {
            // A client that went away is part of many tests.
            Some(stream) => _ = stream.send(message),
            None => self.script.sessions().push(&self.session, message),
        }
    }

    /// Asks the client something and waits for its answer.
    pub async fn ask(&self, method: &str) {
        let id = format!("question-{}", Uuid::now_v7().simple());
        let (sender, answer) = oneshot::channel();
        self.script.questions.lock().insert(id.clone(), sender);
        let own = self.script.knobs().question.clone();
        let params = match method {
            "elicitation/create" if own.is_some() => own.unwrap_or_default(),
            "elicitation/create" => json!({"message": "Which one?", "requestedSchema":
                {"type": "object", "properties": {"which": {"type": "string"}}, "required": ["which"]}}),
            "sampling/createMessage" => json!({"messages":
                [{"role": "user", "content": {"type": "text", "text": "Say something."}}], "maxTokens": 10}),
            _ => json!({}),
        };
        self.say(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        if let Ok(answer) = answer.await {
            self.script.seen().answers.push(answer);
        }
    }
}

/// Counts a request for as long as it is worked on.
struct InFlightGuard(Arc<Script>, (String, String));

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.seen().in_flight -= 1;
        self.0.running.lock().remove(&self.1);
    }
}

/// The answer to a request; none if it was cancelled meanwhile or is withheld.
pub(crate) async fn answer(caller: Caller, request: Value) -> Option<Value> {
    let (cancel, cancelled) = oneshot::channel();
    let key = (caller.session.clone(), request["id"].to_string());
    caller.script.running.lock().insert(key.clone(), cancel);
    caller.script.seen().in_flight += 1;
    let _flight = InFlightGuard(Arc::clone(&caller.script), key);
    let id = request["id"].clone();
    tokio::select! {
        result = work(&caller, &request) => (!is_withheld(&caller.script, &request)).then(|| match result {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err((code, message)) => {
                let mut error = json!({"code": code, "message": message});
                if let Some(data) = caller.script.knobs().error_data.get(&code) {
                    error["data"] = data.clone();
                }
                json!({"jsonrpc": "2.0", "id": id, "error": error})
            }
        }),
        _ = cancelled => None,
    }
}

fn is_withheld(script: &Script, request: &Value) -> bool {
    request["params"]["name"].as_str().is_some_and(|tool| script.knobs().withheld.contains(tool))
}

/// Takes what is no request: a notification, or the answer to a question.
pub(crate) fn take(script: &Script, session: &str, message: &Value) {
    let Some(method) = message["method"].as_str() else {
        let id = message["id"].as_str().unwrap_or_default();
        match script.questions.lock().remove(id) {
            Some(question) => _ = question.send(message.clone()),
            None => script.seen().faults.push(format!("an answer to no question: {message}")),
        }
        return;
    };
    count(script, method);
    match method {
        "notifications/initialized" => {
            if let Some(session) = script.sessions().get(session) {
                session.ready = true;
            }
        }
        "notifications/cancelled" => {
            let id = message["params"]["requestId"].clone();
            let running = script.running.lock().remove(&(session.to_owned(), id.to_string()));
            script.seen().cancelled.push(id);
            if let Some(running) = running {
                _ = running.send(());
            }
        }
        _ => (),
    }
}

fn count(script: &Script, method: &str) {
    *script.seen().methods.entry(method.to_owned()).or_default() += 1;
}

async fn work(caller: &Caller, request: &Value) -> Result<Value, Error> {
    let script = &caller.script;
    let method = request["method"].as_str().unwrap_or_default();
    let params = &request["params"];
    count(script, method);
    if method == "tools/call" {
        let call = Call {
            tool: params["name"].as_str().unwrap_or_default().to_owned(),
            id: request["id"].clone(),
            arguments: params["arguments"].clone(),
            meta: params["_meta"].clone(),
            session: caller.session.clone(),
            token: caller.token.clone(),
        };
        script.seen().calls.push(call);
    }
    if method == "tools/list" {
        script.seen().list_metas.push(params["_meta"].clone());
    }
    let (hangs, delay) = {
        let knobs = script.knobs();
        (knobs.hangs.contains(method), knobs.delays.get(method).copied())
    };
    if hangs {
        std::future::pending::<()>().await;
    }
    if let Some(time) = delay {
        tokio::time::sleep(time).await;
    }
    match method {
        "initialize" => Ok(initialize(script, params)),
        "ping" => Ok(json!({})),
        "tools/list" => tools::list(script, params),
        "tools/call" => match tasks::start(caller, params) {
            Some(task) => task,
            None => tools::call(caller, params).await,
        },
        _ if method.starts_with("tasks/") => tasks::answer(script, method, params),
        _ => Err((-32601, format!("Method not found: {method}"))),
    }
}

fn initialize(script: &Script, params: &Value) -> Value {
    let asked = params["protocolVersion"].as_str().unwrap_or_default();
    let known = VERSIONS.iter().find(|version| **version == asked).unwrap_or(&VERSIONS[0]);
    let version = script.knobs().protocol.clone().unwrap_or_else(|| (*known).to_owned());
    let tasks = script.knobs().tasks.as_ref().is_some_and(|tasks| !tasks.is_extension);
    let tasks = tasks.then(|| json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}));
    json!({"protocolVersion": version, "capabilities": {"tools": {"listChanged": true}, "tasks": tasks},
        "serverInfo": {"name": "scripted", "version": "1.0.0"}})
}
