//! Judges a stream of events as a strict client would, from its JSON alone.
//!
//! Shares no code with the machine: what it folds and what it counts is written here a second time.

use std::collections::HashSet;

use serde_json::{Value, json};

/// What a legal stream added up to.
#[derive(Debug)]
pub struct ValidStream {
    /// The response of the terminal event.
    pub response: Value,
}

/// Checks a whole stream and returns its response; panics with the reason when it is not legal.
pub fn assert_valid_stream(events: &[Value]) -> ValidStream {
    let mut judge = StreamValidator::default();
    for (position, event) in events.iter().enumerate() {
        judge.event(position, event);
    }
    judge.verdict()
}

/// The same of a response that another process went on with: what its process had begun to say stays incomplete.
pub fn assert_valid_resumed_stream(events: &[Value]) -> ValidStream {
    let mut judge = StreamValidator { resumed: true, ..StreamValidator::default() };
    for (position, event) in events.iter().enumerate() {
        judge.event(position, event);
    }
    judge.verdict()
}

#[derive(Default)]
struct StreamValidator {
    resumed: bool,
    items: Vec<ItemState>,
    ids: HashSet<String>,
    terminal: Option<Value>,
    failed: bool,
    queued: bool,
}

struct ItemState {
    item: Value,
    done: bool,
    parts: Vec<PartState>,
    summaries: Vec<PartState>,
    /// Deltas of arguments or input, and whether their sum was announced.
    argument: String,
    argument_done: bool,
}

#[derive(Default)]
struct PartState {
    kind: String,
    text: String,
    text_done: bool,
    done: bool,
}

impl StreamValidator {
    fn event(&mut self, position: usize, event: &Value) {
        let kind = event["type"].as_str().expect("an event has a type").to_owned();
        assert_eq!(event["sequence_number"], json!(position), "sequence numbers have no gaps: {event}");
        assert!(self.terminal.is_none(), "nothing follows the terminal event: {event}");
        assert!(
            !self.failed || kind == "response.failed",
            "an error is followed by response.failed: {event}"
        );
        match position {
            0 => assert!(kind == "response.created" || kind == "error", "the stream opens with {kind}"),
            1 => assert!(kind == "response.in_progress" || kind == "response.queued", "then comes {kind}"),
            2 if self.queued => assert!(
                ["response.in_progress", "error", "response.failed", "response.incomplete"].contains(&&*kind),
                "behind the queue comes {kind}"
            ),
            _ => assert!(kind != "response.created" && kind != "response.in_progress", "{kind} comes once"),
        }
        self.queued |= kind == "response.queued";
        match kind.as_str() {
            "response.created" | "response.in_progress" | "response.queued" => {
                assert_eq!(event["response"]["output"], json!([]));
                assert_eq!(event["response"]["usage"], Value::Null);
            }
            "error" => {
                assert!(
                    event["error"]["message"].is_string() && event["error"]["code"].is_string(),
                    "{event}"
                );
                self.failed = true;
            }
            "response.completed" | "response.incomplete" | "response.failed" => self.end(event),
            "response.output_item.added" => self.item_added(event),
            "response.output_item.done" => self.item_done(event),
            "antwort:input_required" => self.input_required(event),
            "tool-call" => self.a2a_input_required(event),
            "keepalive" => {
                assert!(position > 1, "nothing comes before the response is in progress: {event}");
                assert_eq!(event.as_object().unwrap().len(), 2, "{event}");
            }
            _ => self.within_item(&kind, event),
        }
    }

    fn item_added(&mut self, event: &Value) {
        assert!(self.items.iter().all(|item| item.done), "one item at a time: {event}");
        assert_eq!(event["output_index"], json!(self.items.len()), "{event}");
        let item = event["item"].clone();
        match item["type"].as_str().unwrap() {
            // The API knows no status of these.
            "mcp_list_tools" | "mcp_approval_request" | "reasoning" => {
                assert_eq!(item.get("status"), None, "{event}");
            }
            // Nor of this one, but the other dialect does.
            "compaction" => {
                assert!(item.get("status").is_none_or(|status| status == "in_progress"), "{event}");
            }
            _ => assert_eq!(item["status"], "in_progress", "{event}"),
        }
        let id = item["id"].as_str().expect("an item has an id").to_owned();
        assert!(self.ids.insert(id), "item ids are unique: {event}");
        match plain(&item) {
            "message" => assert_eq!(item["content"], json!([])),
            "reasoning" => assert_eq!(item["summary"], json!([])),
            "function_call" => {
                assert_eq!(item["arguments"], "");
                assert!(!item["name"].as_str().unwrap().is_empty());
                let call_id = item["call_id"].as_str().unwrap();
                assert!((1..=64).contains(&call_id.chars().count()));
                assert!(self.ids.insert(call_id.to_owned()), "call ids are unique: {event}");
            }
            "custom_tool_call" => assert_eq!(item["input"], ""),
            "mcp_list_tools" => assert_eq!(item["tools"], json!([])),
            "web_search_call" => assert!(item["action"]["query"].is_string(), "{event}"),
            _ => {}
        }
        self.items.push(ItemState {
            item,
            done: false,
            parts: Vec::new(),
            summaries: Vec::new(),
            argument: String::new(),
            argument_done: false,
        });
    }

    fn item_done(&mut self, event: &Value) {
        let index = event["output_index"].as_u64().unwrap() as usize;
        let item = &mut self.items[index];
        let done = &event["item"];
        let is_abandoned = self.resumed && done["status"] == "incomplete";
        if is_abandoned && (item.done || plain(done) == "message" && done["content"] == json!([])) {
            assert_abandoned(&item.item, done);
            (item.item, item.done) = (done.clone(), true);
            return;
        }
        assert!(!item.done, "done once: {event}");
        item.done = true;
        assert_eq!(done["id"], item.item["id"]);
        assert_eq!(done["type"], item.item["type"]);
        let has_status = done.get("status").is_some() && !is_abandoned;
        assert_eq!(has_status || is_abandoned, item.item.get("status").is_some() || is_abandoned, "{event}");
        // The work of a server-side call may go on.
        let is_call = ["mcp_call", "antwort:tool_call"].contains(&plain(done));
        assert!(done["status"] != "in_progress" || is_call && done["output"].is_string(), "{event}");
        assert!(
            item.parts.iter().chain(&item.summaries).all(|part| part.done),
            "all parts are done: {event}"
        );
        match plain(done) {
            "function_call" => {
                assert!(item.argument_done && done["arguments"] == item.argument.as_str(), "{event}");
            }
            "custom_tool_call" => {
                assert!(item.argument_done && done["input"] == item.argument.as_str(), "{event}");
            }
            _ => {
                let texts = |list: &Value| -> Vec<String> {
                    let parts = list.as_array().into_iter().flatten();
                    parts
                        .map(|part| part["text"].as_str().or(part["refusal"].as_str()).unwrap().to_owned())
                        .collect()
                };
                let seen: Vec<_> = item.parts.iter().map(|part| part.text.clone()).collect();
                assert_eq!(texts(&done["content"]), seen, "the item holds what was streamed");
                let seen: Vec<_> = item.summaries.iter().map(|part| part.text.clone()).collect();
                assert_eq!(texts(&done["summary"]), seen);
            }
        }
        item.item = done.clone();
    }

    /// A call of the client is asked for behind its item, once; a question of a tool is asked while its call is open.
    fn input_required(&mut self, event: &Value) {
        let index = event["output_index"].as_u64().expect("it has an output_index") as usize;
        let item = &self.items.get(index).expect("the item was added");
        assert_eq!(event["item_id"], item.item["id"]);
        if event["elicitation"].is_object() {
            assert!(!item.done, "{event}");
        } else {
            assert!(item.done && item.item["status"] == "completed", "{event}");
            assert_eq!(event["call_id"], item.item["call_id"]);
        }
        assert_eq!(event["name"], item.item["name"], "{event}");
        assert_eq!(event["arguments"], item.argument.as_str(), "{event}");
        assert!(event["expires_at"].is_i64(), "{event}");
        assert!(self.ids.insert(format!("asked {}", event["call_id"])), "asked once: {event}");
    }

    /// The same for an A2A client, which knows no items.
    fn a2a_input_required(&mut self, event: &Value) {
        let call = self.items.iter().find(|item| item.item["call_id"] == event["inputId"]);
        let call = call.expect("the item of the call was added");
        assert!(call.done && call.item["status"] == "completed", "{event}");
        assert!(event["toolCall"]["arguments"].is_object(), "{event}");
        assert!(self.ids.insert(format!("asked {}", event["inputId"])), "asked once: {event}");
    }

    fn within_item(&mut self, kind: &str, event: &Value) {
        let index = event["output_index"].as_u64().expect("an item's event has an output_index") as usize;
        let item = self.items.get_mut(index).expect("the item was added");
        assert!(!item.done, "nothing follows an item's end: {event}");
        assert_eq!(event["item_id"], item.item["id"], "{event}");
        let parts = if event.get("summary_index").is_some() { &mut item.summaries } else { &mut item.parts };
        let at = event.get("content_index").or(event.get("summary_index")).and_then(Value::as_u64);
        let Some(at) = at.map(|at| at as usize) else {
            return argument_event(item, kind, event);
        };
        if kind.ends_with("_part.added") {
            assert_eq!(at, parts.len(), "parts come in order: {event}");
            assert!(parts.iter().all(|part| part.done), "one part at a time: {event}");
            let kind = event["part"]["type"].as_str().unwrap().to_owned();
            if kind == "output_text" {
                assert_eq!(event["part"]["annotations"], json!([]));
            }
            parts.push(PartState { kind, ..PartState::default() });
            return;
        }
        let part = parts.get_mut(at).expect("the part was added");
        assert!(!part.done, "nothing follows a part's end: {event}");
        if kind.ends_with(".delta") {
            assert!(!part.text_done);
            assert!(!event["delta"].as_str().unwrap().is_empty(), "no empty deltas");
            part.text.push_str(event["delta"].as_str().unwrap());
        } else if kind.ends_with("_part.done") {
            assert!(part.text_done, "the text is done before its part: {event}");
            assert_eq!(event["part"]["type"], part.kind.as_str());
            part.done = true;
        } else if kind.ends_with(".done") {
            let text = event.get("text").or(event.get("refusal")).unwrap();
            assert_eq!(text, part.text.as_str(), "done repeats the deltas");
            part.text_done = true;
        } else {
            assert_eq!(kind, "response.output_text.annotation.added");
        }
    }

    fn end(&mut self, event: &Value) {
        let response = &event["response"];
        assert!(self.items.iter().all(|item| item.done), "all items are done at the end: {event}");
        let folded: Vec<_> = self.items.iter().map(|item| item.item.clone()).collect();
        assert_eq!(response["output"], json!(folded), "the response is the fold of the stream");
        let status = response["status"].as_str().unwrap();
        let expected = match event["type"].as_str().unwrap() {
            "response.completed" => ["completed", "requires_action"],
            "response.incomplete" => ["incomplete", "cancelled"],
            _ => ["failed", "failed"],
        };
        assert!(expected.contains(&status), "{status} in {}", event["type"]);
        assert!(
            response["usage"].is_object() || response["usage"].is_null(),
            "usage is an object or unknown"
        );
        assert_eq!(self.failed, status == "failed", "an error event goes with failed, and only with it");
        // A call that the gateway runs may be left out without harm to what follows.
        let is_call = |item: &ItemState| {
            ["mcp_call", "antwort:tool_call", "web_search_call"].contains(&plain(&item.item))
        };
        let cut = self.items.iter().position(|item| item.item["status"] == "incomplete" && !is_call(item));
        let cut = cut.filter(|_| !self.resumed);
        assert!(cut.is_none_or(|at| at + 1 == self.items.len()), "an incomplete item is the last one");
        if status == "completed" || status == "requires_action" {
            assert!(cut.is_none(), "nothing is incomplete in a {status} response");
        }
        self.terminal = Some(response.clone());
    }

    fn verdict(self) -> ValidStream {
        ValidStream { response: self.terminal.expect("the stream has a terminal event") }
    }
}

/// An item of an inference that was abandoned is as it was, but for its status, and a message has no text.
fn assert_abandoned(item: &Value, done: &Value) {
    assert_eq!((&done["id"], &done["type"]), (&item["id"], &item["type"]));
    match plain(done) {
        "message" => assert_eq!(done["content"], json!([]), "a message that was abandoned is empty"),
        _ => assert_eq!(done.get("content"), item.get("content")),
    }
}

/// The type of an item in OpenAI's spelling.
fn plain(item: &Value) -> &str {
    let kind = item["type"].as_str().unwrap();
    match kind {
        "antwort:tool_call" | "antwort:user_message" => kind,
        _ => kind.strip_prefix("antwort:").unwrap_or(kind),
    }
}

fn argument_event(item: &mut ItemState, kind: &str, event: &Value) {
    if let Some(delta) = event.get("delta").and_then(Value::as_str) {
        assert!(!item.argument_done && !delta.is_empty(), "{event}");
        item.argument.push_str(delta);
    } else if let Some(whole) = event.get("arguments").or(event.get("input")).and_then(Value::as_str) {
        assert!(!item.argument_done, "{event}");
        assert_eq!(whole, item.argument, "done repeats the deltas");
        item.argument_done = true;
    } else {
        let own = kind == "antwort:tool_progress";
        let foreign = item.item["type"].as_str().unwrap().starts_with("antwort:");
        let prefix = if foreign { "antwort:" } else { "response." };
        assert!(own || kind.starts_with(prefix), "unknown event {event}");
    }
}
