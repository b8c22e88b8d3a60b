//! What was seen of a case inside and outside of the gateway, without what differs from run to run, and how two of them differ.

use std::collections::HashMap;
use std::fmt::{self, Display, Formatter};

use serde_json::{Map, Value, json};

use super::client::Client;
use super::scenario::{Ask, Call, Interruption, Scenario};
use super::world::{Case, Seen};

/// All that was seen of a case.
#[derive(Debug, Clone)]
pub struct Observation {
    /// The responses, or errors.
    pub responses: Vec<Value>,
    pub events: Vec<Value>,
    pub traces: Vec<Value>,
    /// What the provider was sent.
    pub requests: Vec<Value>,
    /// What tools were asked for.
    pub calls: Vec<Value>,
    /// What a webhook was told.
    pub notices: Vec<Value>,
    /// The items of the conversation.
    pub items: Value,
}

/// A place in which two observations differ.
#[derive(Debug, Clone)]
pub struct Difference {
    /// The place, such as `requests[2].messages[3]`.
    place: String,
    whole: Value,
    interrupted: Value,
}

impl Display for Difference {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { place, whole, interrupted } = self;
        write!(f, "{place}\n  whole:       {whole}\n  interrupted: {interrupted}")
    }
}

impl Observation {
    pub fn of(case: &Case, seen: &Seen, client: &Client) -> Self {
        let (ends, (conversation, items)) = (client.ends(), client.conversation());
        // The events and traces of calls that must not be repeated are not compared.
        let has_writes = case.scenario.asks.iter().any(Ask::has_writes);
        let ids: Vec<_> = ends.iter().filter_map(|end| end.id.as_deref()?.strip_prefix("resp_")).collect();
        let plain = |value: &Value| {
            let mut text = value.to_string().replace(&case.name, "case");
            text = conversation.map_or(text.clone(), |id| text.replace(id, "conversation"));
            for (number, id) in ids.iter().enumerate() {
                text = text.replace(id, &format!("R{number}"));
            }
            without_times(serde_json::from_str(&text).unwrap())
        };
        let plain_notice = |notice: &Value| {
            let mut notice = plain(notice);
            notice["id"] = Value::Null;
            notice
        };
        let mut calls: Vec<String> = seen.calls.clone();
        calls.sort();
        Self {
            responses: ends.iter().map(|end| plain(&end.response)).collect(),
            events: ends.iter().filter(|_| !has_writes).map(|end| plain(&json!(end.events))).collect(),
            traces: ends.iter().filter(|_| !has_writes).map(|end| plain(&end.trace)).collect(),
            requests: seen.requests.iter().map(|request| with_plain_ids(plain(request))).collect(),
            calls: calls.iter().map(|call| plain(&json!(call))).collect(),
            notices: case.notices().iter().map(plain_notice).collect(),
            items: plain(items),
        }
    }

    /// Without what may differ after this interruption.
    ///
    /// A call that was begun and must not be repeated has an unknown outcome; that of the turn whose commit was the last counts
    /// as begun. Anywhere but at a commit, the inference in flight is asked for again, and a call that may be repeated is made
    /// again. What was said of an abandoned inference is incomplete, and its events were sent.
    pub fn allowing(mut self, scenario: &Scenario) -> Self {
        if scenario.asks.iter().any(Ask::commits_amid_calls) {
            // Known drift: the account of a call is committed with the next turn, not with its result.
            self.traces.iter_mut().for_each(mask_how_calls_were_made);
        }
        self.requests.iter_mut().for_each(mask_written);
        self.calls.retain(|call| !call.as_str().unwrap_or_default().starts_with("writes "));
        let has = |wanted: Call| scenario.asks.iter().any(|ask| ask.has(|call| call == wanted));
        if has(Call::Tasked) || has(Call::Holds) {
            // The server of a task is asked while the calls before it are written; a call that waits for the user was begun.
            self.calls.dedup();
        }
        if has(Call::Holds) {
            // Its questions are asked again.
            self.events.clear();
            self.traces.clear();
        }
        if matches!(scenario.interruption, Interruption::Commit(_)) {
            self.lists().for_each(|items| mask_written_items(items));
            return self;
        }
        self.requests.iter_mut().chain([&mut self.items]).for_each(without_item_numbers);
        self.requests.dedup();
        self.calls.dedup();
        self.events.clear();
        self.traces.clear();
        for items in self.lists() {
            items.retain(|item| item["status"] != "incomplete");
            rename(items);
            mask_written_items(items);
        }
        // Of a request that could not be approved: the message of the error names its item.
        let errors = self.responses.iter_mut().filter(|response| response["output"].is_null());
        errors.for_each(|response| response["error"]["message"] = Value::Null);
        for end in ["first_id", "last_id"] {
            self.items[end] = Value::Null;
        }
        // Of a call whose work has gone on: its item has another number.
        for notice in self.notices.iter_mut().filter(|notice| !notice["data"]["response_id"].is_null()) {
            notice["data"]["id"] = Value::Null;
        }
        self
    }

    /// The outputs of the responses, and the items of the conversation.
    fn lists(&mut self) -> impl Iterator<Item = &mut Vec<Value>> {
        let outputs = self.responses.iter_mut().filter_map(|response| response["output"].as_array_mut());
        outputs.chain(self.items["data"].as_array_mut())
    }

    /// Where another one differs from this.
    pub fn differences(&self, interrupted: &Self) -> Vec<Difference> {
        let mut found = Vec::new();
        // What causes others comes first.
        let parts = |of: &Self| {
            let Self { responses, events, traces, requests, calls, mut notices, items } = of.clone();
            notices.sort_by_key(ToString::to_string);
            [
                ("requests", requests),
                ("calls", calls),
                ("responses", responses),
                ("events", events),
                ("traces", traces),
                ("notices", notices),
                ("items", vec![items]),
            ]
        };
        for ((name, whole), (_, interrupted)) in parts(self).into_iter().zip(parts(interrupted)) {
            compare(name.to_owned(), &json!(whole), &json!(interrupted), &mut found);
        }
        found
    }
}

/// Who has made the calls, and in how many attempts.
fn mask_how_calls_were_made(trace: &mut Value) {
    let turns = trace["turns"].as_array_mut().into_iter().flatten();
    for call in turns.filter_map(|turn| turn["calls"].as_array_mut()).flatten() {
        (call["attempts"], call["executor"]) = (Value::Null, Value::Null);
    }
}

/// Results of work that has gone on name the items of their calls, whose numbers are others behind an incomplete item.
fn without_item_numbers(request: &mut Value) {
    let text = request.to_string();
    let mut parts = text.split("which was started before (call ");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str("which was started before (");
        plain.push_str(part.split_once(')').map_or(part, |(_, rest)| rest));
    }
    *request = serde_json::from_str(&plain).unwrap();
}

/// Items behind an incomplete one have other numbers, and calls other ids, if the model numbers them anew.
fn rename(output: &mut [Value]) {
    let mut calls: HashMap<String, usize> = HashMap::new();
    for (number, item) in output.iter_mut().enumerate() {
        item["id"] = json!(number);
        if !item["approval_request_id"].is_null() {
            item["approval_request_id"] = json!("approved");
        }
        let Some(id) = item["call_id"].as_str().map(ToOwned::to_owned) else { continue };
        if item["output"].is_null() {
            calls.insert(id.clone(), number);
        }
        // An output is that of the last call of its id.
        item["call_id"] = json!(calls.get(&id));
    }
}

/// With plain ids for those calls that the gateway has named: their names are hashes.
fn with_plain_ids(mut request: Value) -> Value {
    let mut named: Vec<Value> = Vec::new();
    let mut name = |id: &mut Value| {
        // Those of the provider begin with the number of the turn or of the call.
        if id.as_str().is_some_and(|id| !id.starts_with("call_") || id.starts_with("call_R")) {
            let place = named.iter().position(|known| known == id).unwrap_or_else(|| {
                named.push(id.clone());
                named.len() - 1
            });
            *id = json!(format!("named {place}"));
        }
    };
    for message in request["messages"].as_array_mut().into_iter().flatten() {
        let Some(message) = message.as_object_mut() else { continue };
        for call in message.get_mut("tool_calls").and_then(Value::as_array_mut).into_iter().flatten() {
            name(&mut call["id"]);
        }
        message.get_mut("tool_call_id").into_iter().for_each(&mut name);
    }
    request
}

/// The results of calls that must not be repeated.
fn mask_written(request: &mut Value) {
    let Some(messages) = request["messages"].as_array_mut() else { return };
    let calls = messages.iter().filter_map(|message| message["tool_calls"].as_array()).flatten();
    let written = calls.filter(|call| call["function"]["name"] == "writes").map(|call| call["id"].clone());
    let written: Vec<_> = written.collect();
    for message in messages.iter_mut().filter(|message| written.contains(&message["tool_call_id"])) {
        message["content"] = json!("written, or unknown");
    }
}

fn mask_written_items(items: &mut [Value]) {
    for item in items.iter_mut().filter(|item| item["name"] == "writes") {
        for field in ["output", "error", "status"] {
            item[field] = Value::Null;
        }
    }
}

/// Without times, without what is sealed, which differs each time, and without what was waited for that is not of the run itself.
fn without_times(value: Value) -> Value {
    let is_time =
        |name: &str| ["at", "from", "to"].contains(&name) || name.ends_with("_at") || name.ends_with("_ms");
    let is_outside = |wait: &Value| wait["kind"] == "queue" || wait["kind"] == "mcp_list_tools";
    match value {
        Value::Object(fields) => {
            let mut kept = Map::new();
            for (name, mut value) in fields.into_iter().filter(|(name, _)| !is_time(name)) {
                if name == "waits" {
                    value.as_array_mut().into_iter().for_each(|waits| waits.retain(|wait| !is_outside(wait)));
                }
                if name == "encrypted_content" && value.is_string() {
                    value = json!("sealed");
                }
                kept.insert(name, without_times(value));
            }
            Value::Object(kept)
        }
        Value::Array(list) => Value::Array(list.into_iter().map(without_times).collect()),
        value => value,
    }
}

fn compare(place: String, whole: &Value, interrupted: &Value, found: &mut Vec<Difference>) {
    match (whole, interrupted) {
        (Value::Object(one), Value::Object(other)) => {
            let names: std::collections::BTreeSet<_> = one.keys().chain(other.keys()).collect();
            for name in names {
                let (one, other) =
                    (one.get(name).unwrap_or(&Value::Null), other.get(name).unwrap_or(&Value::Null));
                compare(format!("{place}.{name}"), one, other, found);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (number, (one, other)) in one.iter().zip(other).enumerate() {
                compare(format!("{place}[{number}]"), one, other, found);
            }
        }
        (Value::Array(one), Value::Array(other)) => {
            let place_of = one.iter().zip(other).position(|(one, other)| one != other);
            let number = place_of.unwrap_or(one.len().min(other.len()));
            let get = |list: &[Value]| list.get(number).cloned().unwrap_or(Value::Null);
            let place = format!("{place}[{number}] of {} and {}", one.len(), other.len());
            match (get(one), get(other)) {
                (Value::Null, other) => {
                    found.push(Difference { place, whole: Value::Null, interrupted: other });
                }
                (one, Value::Null) => found.push(Difference { place, whole: one, interrupted: Value::Null }),
                (one, other) => compare(place, &one, &other, found),
            }
        }
        _ if whole == interrupted => {}
        _ => found.push(Difference { place, whole: whole.clone(), interrupted: interrupted.clone() }),
    }
}
