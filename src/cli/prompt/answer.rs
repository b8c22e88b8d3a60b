//! Follows a run to its end and shows what came of it.

use std::sync::Arc;

use serde_json::{Value, json};

use super::view::{self, View};
use super::{PromptArgs, Protocol};
use crate::app::Assembly;
use crate::cli::{complain, piece, say};
use crate::config::Settings;
use crate::engine::{Caller, OnUnservedTool, RunHandle};
use crate::protocol::content::ContentPart;
use crate::protocol::dialect::Dialect;
use crate::protocol::item::{FunctionCall, Item};
use crate::protocol::request::CreateResponse;
use crate::protocol::response::{Response, Snapshot, Status};
use crate::response::machine::Events;
use crate::store::Owner;

/// Starts the run and shows it.
pub(super) async fn show(
    args: &PromptArgs,
    body: &Value,
    settings: &Settings,
    assembly: &Assembly,
) -> Result<(), String> {
    if args.execute_tools && !settings.tools.execution_enabled {
        return Err("Tools execution failed: tools.execution_enabled is false in the configuration".into());
    }
    let request = CreateResponse::parse(body.to_string().as_bytes());
    let request = request.map_err(|error| args.refused(&error.body.message))?;
    let caller = Caller {
        owner: Owner { tenant: "default".into(), principal: "cli".into() },
        // Items look the same to `view` whatever the configuration says of the wire.
        dialect: if args.json() { settings.engine.dialect } else { Dialect::OpenAi },
        client_action_status: None,
        request_id: "cli".into(),
        traceparent: None,
        unserved_tools: OnUnservedTool::from_setting(settings.compat.unserved_tools, None),
        authorization: None,
    };
    let started = assembly.engine.start(request, caller).await;
    let mut run = started.map_err(|error| args.refused(&error.body.message))?;
    for field in &run.ignored {
        complain(&format!("note: the provider is not asked for `{field}`: it is not known"));
    }
    for kind in &run.omitted_tools {
        complain(&format!("note: the model is not offered `{kind}`: it is not served here"));
    }
    let snapshot = follow(args, &mut run).await?;
    let response = &snapshot.response;
    match response.status {
        Status::Failed => {
            let message = response.error.as_ref().map_or("the response failed", |error| &error.message);
            return Err(args.failed(message));
        }
        Status::Incomplete => {
            let reason = response.incomplete_details.as_ref().map_or("unknown", |why| why.reason.as_str());
            complain(&format!("the answer is incomplete: {reason}"));
        }
        _ => {}
    }
    conclude(args, &snapshot)
}

/// Shows events while they come; gives the response of the last one.
async fn follow(args: &PromptArgs, run: &mut RunHandle) -> Result<Arc<Snapshot>, String> {
    if let Some(banner) = view::banner(args) {
        say(banner);
    }
    let mut view = View::new(args);
    let mut events: Option<Events> =
        Some(run.first().await.map_err(|error| args.refused(&error.body.message))?);
    let (mut last, mut line) = (None, Vec::new());
    while let Some(batch) = events {
        for event in batch {
            if !args.json() {
                piece(&view.show(&event.event));
            } else if args.stream {
                line.clear();
                run.encoding.json(&event, &mut line);
                say(&String::from_utf8_lossy(&line));
            }
            if let Some(snapshot) = event.event.terminal() {
                last = Some(Arc::clone(snapshot));
            }
        }
        events = run.next().await;
    }
    piece(&view.end());
    last.ok_or_else(|| args.failed("the answer broke off"))
}

/// What is said once the response is whole.
fn conclude(args: &PromptArgs, snapshot: &Snapshot) -> Result<(), String> {
    let response = &snapshot.response;
    if args.json() {
        if !args.stream {
            say(&pretty(snapshot));
        }
        return unanswered(args, response);
    }
    let calls = calls(response);
    if !args.execute_tools && !calls.is_empty() {
        say(&pretty(&calls));
    } else {
        unanswered(args, response)?;
    }
    let text = view::for_reader(text(response));
    if args.execute_tools && !args.stream {
        say(&format!("Final response: {text}"));
    } else if !args.stream && !text.is_empty() {
        say(&text);
    }
    // Nothing at all was spent by no model: the provider did not say.
    if let Some(usage) = response.usage.filter(|usage| usage.total_tokens > 0) {
        let (prompt, completion, total) = (usage.input_tokens, usage.output_tokens, usage.total_tokens);
        say(&format!("Tokens: {prompt} prompt + {completion} completion = {total} total"));
    }
    Ok(())
}

/// The text of the last message: what was said before it belongs to the calls in between.
fn text(response: &Response) -> String {
    let message = response.output.iter().rev().find_map(|item| match item {
        Item::Message(message) => Some(message),
        _ => None,
    });
    let parts = message.into_iter().flat_map(|message| &message.content);
    let text = parts.filter_map(|part| match part {
        ContentPart::OutputText(text) => Some(text.text.as_str()),
        ContentPart::Refusal(refusal) => Some(refusal.refusal.as_str()),
        _ => None,
    });
    text.collect()
}

/// The calls that nobody has answered, as the Go program shows them: arguments as an object where they are one.
fn calls(response: &Response) -> Vec<Value> {
    let functions = response.output.iter().filter_map(|item| match item {
        Item::FunctionCall(call) => Some(call),
        _ => None,
    });
    let one = |call: &FunctionCall| {
        let arguments: Value =
            serde_json::from_str(&call.arguments).unwrap_or_else(|_| call.arguments.clone().into());
        json!({"id": call.call_id, "type": "function",
            "function": {"name": call.name, "arguments": arguments}})
    };
    functions.map(one).collect()
}

/// A call that waits for a client ends the run: at the command line there is nobody to answer it.
fn unanswered(args: &PromptArgs, response: &Response) -> Result<(), String> {
    if !args.execute_tools || response.status != Status::RequiresAction {
        return Ok(());
    }
    let calls = calls(response);
    let names = calls.iter().filter_map(|call| call.pointer("/function/name")?.as_str());
    let names = names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    Err(format!(
        "Tools execution failed: the model called {names}, and the gateway has no such tool; \
         `antwort tools list --summary` shows those that it has, --mock-tools adds some"
    ))
}

fn pretty(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    serde_json::to_string_pretty(&value).unwrap_or_default()
}

impl PromptArgs {
    /// Nothing came of the request.
    fn refused(&self, message: &str) -> String {
        match (self.stream, self.runs_tools()) {
            (true, true) => format!("Tools stream execution failed: {message}"),
            _ => self.failed(message),
        }
    }

    /// The answer went wrong on its way.
    fn failed(&self, message: &str) -> String {
        match (self.stream, self.runs_tools()) {
            (true, _) => format!("Stream error: {message}"),
            (false, true) => format!("Tools execution failed: {message}"),
            (false, false) => format!("Error: {message}"),
        }
    }

    fn runs_tools(&self) -> bool {
        self.execute_tools && self.protocol == Protocol::Tools
    }
}
