//! The client of a case: sends its requests one after another, answers what it is asked, and notes what it gets. It may be
//! stopped at any time, and goes on with another process.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use antwort_test_support::gateway::{JsonBody, frames_so_far};
use serde_json::{Value, json};

use super::scenario::{Ask, OnQuestion, TOOLS};
use super::world::Case;

/// When a request is sent again that the database was away for.
const RETRY_DELAY: Duration = Duration::from_millis(100);

pub struct Client {
    case: Arc<Case>,
    http: reqwest::Client,
    conversation: Option<String>,
    /// How many of its requests have ended.
    asked: usize,
    /// What came of them, and of the responses that followed these.
    ends: Vec<End>,
    /// The response that it deletes.
    deletes: Option<String>,
    /// The items of the conversation.
    items: Value,
}

/// What has come of a request.
#[derive(Debug, Clone, Default)]
pub struct End {
    /// The response's id, if it was made.
    pub id: Option<String>,
    /// The response at its end, or the error.
    pub response: Value,
    pub events: Vec<Value>,
    pub trace: Value,
}

impl Client {
    pub fn new(case: Arc<Case>, http: reqwest::Client) -> Self {
        Self { case, http, conversation: None, asked: 0, ends: Vec::new(), deletes: None, items: Value::Null }
    }

    /// Goes on until the last request has ended, at the gateway with this base URL.
    pub async fn go_on(&mut self, base: &str) {
        if self.case.scenario.is_in_conversation && self.conversation.is_none() {
            let request = self.http.post(format!("{base}/v1/conversations")).json_body(&json!({}));
            self.conversation = read(request).await["id"].as_str().map(ToOwned::to_owned);
        }
        self.ask_all(base).await;
    }

    /// Waits for the notices of the ends, and reads the conversation.
    pub async fn settle(&mut self, base: &str) {
        let ended = self.ends.iter().filter(|end| !end.events.is_empty()).count();
        // Each result of work that has gone on is told of, too.
        let events = self.ends.iter().flat_map(|end| &end.events);
        self.waits_for("notices");
        self.case.notified(ended + events.filter(|event| goes_on(event)).count()).await;
        if let Some(id) = &self.conversation {
            self.items = self.get(&format!("{base}/v1/conversations/{id}/items?order=asc&limit=100")).await;
        }
    }

    async fn ask_all(&mut self, base: &str) {
        let case = Arc::clone(&self.case);
        loop {
            if self.is_followed() {
                let end = self.follow_up(base).await;
                self.ends.push(end);
                continue;
            }
            let Some(ask) = case.scenario.asks.get(self.asked) else { return };
            let Some(input) = self.input() else { return };
            let mut body = ask.body(&self.case.name);
            body["input"] = input;
            if let Some(id) = &self.conversation {
                body["conversation"] = json!(id);
            } else if let Some(last) = self.ends.last() {
                body["previous_response_id"] = last.response["id"].clone();
            }
            case.begin_ask(self.asked);
            let created = match &self.deletes {
                Some(id) => json!({"id": id}),
                None => self.create(base, &body).await,
            };
            let Some(id) = created["id"].as_str() else {
                assert!(!self.ends.is_empty(), "the first request is taken: {created}");
                self.ends.push(End { response: created, ..End::default() });
                return;
            };
            let end = self.end(base, id, ask.on_question).await;
            self.ends.push(end);
            self.asked += 1;
        }
    }

    /// Whether another response follows the last one, with the result of work that has gone on.
    fn is_followed(&self) -> bool {
        let ask = self.asked.checked_sub(1).and_then(|last| self.case.scenario.asks.get(last));
        let (Some(end), Some(ask)) = (self.ends.last(), ask) else { return false };
        let is_completed = end.response["status"] == "completed" && !ask.is_kept_briefly;
        is_completed && end.events.iter().any(|event| goes_on(event) && event["item"]["name"] == "follows")
    }

    /// Finds the response that follows the last one, and follows it to its end.
    async fn follow_up(&mut self, base: &str) -> End {
        self.waits_for("a response that follows");
        let on_question = self.case.scenario.asks[self.asked - 1].on_question;
        let mut found = self.deletes.clone();
        while found.is_none() {
            let list = self.get(&format!("{base}/v1/responses?model={}&limit=100", self.case.name)).await;
            let ids = list["data"].as_array().expect("a list").iter().filter_map(|item| item["id"].as_str());
            let is_new = |id: &&str| !self.ends.iter().any(|end| end.id.as_deref() == Some(*id));
            found = ids.filter(is_new).map(ToOwned::to_owned).next();
            tokio::time::sleep(RETRY_DELAY).await;
        }
        self.end(base, &found.unwrap_or_default(), on_question).await
    }

    /// Follows a response to its end.
    async fn end(&mut self, base: &str, id: &str, on_question: OnQuestion) -> End {
        let url = format!("{base}/v1/responses/{id}");
        if self.deletes.is_none() {
            self.waits_for("the end of a stream");
            let events = self.follow(&url, on_question).await;
            if self.deletes.is_none() {
                self.waits_for("results of work that goes on");
                let response = self.settled(&url).await;
                let trace = self.get(&format!("{url}/trace")).await;
                return End { id: Some(id.to_owned()), response, events, trace };
            }
        }
        self.waits_for("a response to be deleted");
        acted(&self.http.delete(&url), &[200, 404]).await;
        let response = self.get(&url).await;
        // Not before: a client that is stopped here deletes again.
        self.deletes = None;
        End { id: Some(id.to_owned()), response, ..End::default() }
    }

    fn waits_for(&self, what: &'static str) {
        *self.case.waits_for.lock() = what;
    }

    /// The id of its conversation, and the items of that.
    pub fn conversation(&self) -> (Option<&str>, &Value) {
        (self.conversation.as_deref(), &self.items)
    }

    /// What came of the requests.
    pub fn ends(&self) -> &[End] {
        &self.ends
    }

    /// The next input: the answers to what the last response has asked, or else something to say. `None`: it has failed.
    fn input(&self) -> Option<Value> {
        let Some(last) = self.ends.last() else { return Some(json!("Go.")) };
        let output = last.response["output"].as_array()?;
        let answered: Vec<_> = output
            .iter()
            .filter_map(|item| item["call_id"].as_str().filter(|_| kind(item) == "function_call_output"))
            .collect();
        let answer = |item: &Value| match kind(item) {
            "mcp_approval_request" if item["status"] != "incomplete" => Some(
                json!({"type": "mcp_approval_response", "approval_request_id": item["id"], "approve": true}),
            ),
            // One of an inference that was abandoned is no call.
            "function_call"
                if item["status"] == "completed"
                    && !answered.contains(&item["call_id"].as_str().unwrap_or_default()) =>
            {
                Some(json!({"type": "function_call_output", "call_id": item["call_id"], "output": "done"}))
            }
            _ => None,
        };
        let mut input: Vec<_> = output.iter().filter_map(answer).collect();
        if input.is_empty() {
            input.push(json!({"role": "user", "content": "And on."}));
        }
        Some(json!(input))
    }

    /// Sends a request, perhaps again: its key says that it is the same.
    async fn create(&self, base: &str, body: &Value) -> Value {
        let key = format!("{}-{}", self.case.name, self.asked);
        let dialect = if self.case.scenario.is_open_responses { "open_responses" } else { "openai" };
        let request = self.http.post(format!("{base}/v1/responses")).header("idempotency-key", key);
        let request = request.header("antwort-dialect", dialect);
        self.case.creates.store(true, Ordering::SeqCst);
        let created = read(request.json_body(body)).await;
        self.case.creates.store(false, Ordering::SeqCst);
        created
    }

    /// A response that has ended, when the results of all work are there that has gone on.
    async fn settled(&self, url: &str) -> Value {
        loop {
            let response = self.get(url).await;
            let goes_on = |item: &Value| item["status"] == "in_progress";
            if !response["output"].as_array().is_some_and(|output| output.iter().any(goes_on)) {
                return response;
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }

    async fn get(&self, url: &str) -> Value {
        read(self.http.get(url)).await
    }

    /// Follows a response to its end, and answers its questions.
    async fn follow(&mut self, url: &str, on_question: OnQuestion) -> Vec<Value> {
        let mut events = Vec::new();
        // A stream that is cut goes on where it was.
        while !self.follow_on(url, on_question, &mut events).await {
            tokio::time::sleep(RETRY_DELAY).await;
        }
        events
    }

    /// Returns whether the response has ended, or is to be deleted.
    async fn follow_on(&mut self, url: &str, on_question: OnQuestion, events: &mut Vec<Value>) -> bool {
        let last = events.last().and_then(|event: &Value| event["sequence_number"].as_u64());
        let after = last.map(|last| format!("&starting_after={last}")).unwrap_or_default();
        let Ok(mut stream) = self.http.get(format!("{url}?stream=true{after}")).send().await else {
            return false;
        };
        if !stream.status().is_success() {
            let error: Value = serde_json::from_str(&stream.text().await.unwrap()).unwrap();
            assert!(is_away(&error), "{error}");
            return false;
        }
        let mut text = String::new();
        while let Ok(Some(piece)) = stream.chunk().await {
            text.push_str(std::str::from_utf8(&piece).unwrap());
            let Some(end) = text.rfind("\n\n") else { continue };
            let rest = text.split_off(end + 2);
            let whole = std::mem::replace(&mut text, rest);
            for event in frames_so_far(whole.strip_suffix("data: [DONE]\n\n").unwrap_or(&whole)) {
                if event["type"] == "error" && is_away(&event) {
                    assert!(
                        event["sequence_number"].is_null(),
                        "the run has failed: {event}, behind {:?}",
                        events.last()
                    );
                    return false;
                }
                if event["type"] == "antwort:input_required" {
                    match on_question {
                        OnQuestion::Answer => self.answer(url, &event).await,
                        OnQuestion::Cancel => acted(&self.http.post(format!("{url}/cancel")), &[200]).await,
                        OnQuestion::Delete => {
                            self.deletes = url.rsplit('/').next().map(ToOwned::to_owned);
                            return true;
                        }
                    }
                }
                events.push(event);
            }
        }
        let kind = |event: &Value| event["type"].as_str().map(ToOwned::to_owned);
        let terminal = ["response.completed", "response.failed", "response.incomplete", "response.cancelled"];
        events.last().and_then(kind).is_some_and(|kind| terminal.contains(&&*kind))
    }

    /// It may have been answered before.
    async fn answer(&self, url: &str, question: &Value) {
        let is_of_tool = question["elicitation"].is_object();
        let answer = json!({"action": "accept", "content": {"answer": "yes"}});
        let output = if is_of_tool { answer } else { json!("done") };
        let body = json!({"call_id": question["call_id"], "output": output});
        acted(&self.http.post(format!("{url}/inputs")).json_body(&body), &[202, 409]).await;
    }
}

/// Sends a request until it has one of these statuses: again while the database is away.
async fn acted(request: &reqwest::RequestBuilder, expected: &[u16]) {
    loop {
        let answer = request.try_clone().unwrap().send().await;
        let status = answer.map_or(503, |answer| answer.status().as_u16());
        if status != 503 {
            assert!(expected.contains(&status), "{status} to {request:?}");
            return;
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
}

/// Sends a request, again while the database is away.
async fn read(request: reqwest::RequestBuilder) -> Value {
    loop {
        // The gateway may close a connection at this moment.
        if let Ok(answer) = request.try_clone().unwrap().send().await {
            let answer: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
            if !is_away(&answer) {
                return answer;
            }
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
}

/// Whether it tells of a call whose work goes on.
fn goes_on(event: &Value) -> bool {
    event["type"] == "response.output_item.done" && event["item"]["status"] == "in_progress"
}

/// Whether it is the error of a database that is away.
fn is_away(answer: &Value) -> bool {
    let error = if answer["error"].is_object() { &answer["error"] } else { answer };
    error["code"] == "storage_unavailable" || error["code"] == "storage_timeout"
}

/// The type of an item, in either dialect.
fn kind(item: &Value) -> &str {
    let kind = item["type"].as_str().unwrap_or_default();
    kind.strip_prefix("antwort:").unwrap_or(kind)
}

impl Ask {
    /// The request's body, without its input.
    pub fn body(&self, model: &str) -> Value {
        let ours = TOOLS.into_iter().filter(|tool| *tool != "forbidden");
        let tools: Vec<_> = ours.chain(["gated", "tasked", "client"]).collect();
        let mut body = json!({
            "model": model, "background": true, "metadata": {"case": model}, "allowed_tools": tools,
            "parallel_tool_calls": !self.is_serial,
            "tools": [
                {"type": "mcp", "server_label": "antwort", "allowed_tools": TOOLS},
                {"type": "mcp", "server_label": "shop", "require_approval": "always"},
                {"type": "mcp", "server_label": "works", "require_approval": "never"},
                {"type": "function", "name": "client", "parameters": {"type": "object"}},
            ],
            "antwort": {"client_tools": "inline", "elicitation": ["form"]},
        });
        if self.is_kept_briefly {
            // Nobody could answer it.
            (body["store"], body["antwort"]) = (json!(false), json!({}));
        }
        if self.requires_call {
            body["tool_choice"] = json!("required");
        }
        if self.is_json {
            let schema =
                json!({"type": "object", "properties": {"turn": {"type": "integer"}}, "required": ["turn"]});
            body["text"] = json!({"format": {"type": "json_schema", "name": "turn", "schema": schema}});
            body["antwort"]["structured"] = json!({"on_mismatch": "repair"});
        }
        if self.compacts {
            body["context_management"] = json!([{"type": "compaction", "compact_threshold": 1000}]);
        }
        if self.seals_reasoning {
            body["include"] = json!(["reasoning.encrypted_content"]);
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
