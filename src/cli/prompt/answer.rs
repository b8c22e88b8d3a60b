//! Follows a run to its end and prints the result.

use std::pin::pin;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::arguments::{Gateway, PromptArgs, Protocol, TENANT};
use super::progress::{self, Progress};
use super::unserved;
use super::view::{self, EventPrinter};
use crate::cli::output::{is_output_closed, print_error, print_json, print_line, print_raw};
use crate::cli::prompt::calls;
use crate::cli::prompt::messages::{self, Mode};
use antwort_config::StorePolicy;
use antwort_engine::{EventBatch, EventReader, OnUnservedTool, RunContext, RunHandle};
use antwort_identity::Owner;
use antwort_protocol::content::ContentPart;
use antwort_protocol::dialect::Dialect;
use antwort_protocol::item::Item;
use antwort_protocol::request::{CreateResponse, SentFields};
use antwort_protocol::response::{Response, ResponseSnapshot, ResponseStatus};

/// Starts the run and prints it. Calls of client functions are answered, and the run is continued.
pub(super) async fn run(
    args: &PromptArgs,
    mut body: Map<String, Value>,
    gateway: Gateway<'_>,
) -> Result<(), String> {
    if args.execute_tools && !gateway.settings.tools.execution_enabled {
        return Err(messages::execution_failed("tools.execution_enabled is false in the configuration"));
    }
    if let Some(banner) = view::banner(args) {
        print_line(banner);
    }
    let (mut view, mut progress) = (EventPrinter::new(args), Progress::new());
    let mut totals = TokenTotals::default();
    for _ in 0..gateway.settings.engine.limits.max_turns {
        let snapshot = run_response(args, &body, gateway, (&mut view, &mut progress)).await?;
        let response = &snapshot.response;
        totals.add(response);
        progress.add(response);
        if !args.execute_tools || response.status != ResponseStatus::RequiresAction {
            Progress::print(&progress.end());
            return print_result(args, &snapshot, &totals);
        }
        let answers = unserved::answers(args, response, gateway);
        body.insert("previous_response_id".into(), response.id.as_str().into());
        body.insert("input".into(), answers.into());
    }
    Err(args.mode().failed("the model keeps calling tools that are not available"))
}

/// One response, printed while it is generated.
async fn run_response(
    args: &PromptArgs,
    body: &Map<String, Value>,
    gateway: Gateway<'_>,
    views: (&mut EventPrinter, &mut Progress),
) -> Result<Arc<ResponseSnapshot>, String> {
    let body = serde_json::to_vec(body).map_err(|error| args.rejection_message(&error.to_string()))?;
    let request = CreateResponse::parse(&body);
    let mut request = request.map_err(|error| args.rejection_message(&error.body.message))?;
    request.sent = SentFields::of_body(&body);
    let caller = RunContext {
        connection: None,
        chain: None,
        generates: true,
        owner: Owner { tenant: TENANT.into(), principal: "cli".into() },
        key: "cli".into(),
        key_hash: None,
        // The printer expects the same items whatever the configured dialect is.
        dialect: if args.json() { gateway.settings.engine.dialect } else { Dialect::OpenAi },
        client_action_status: None,
        store: StorePolicy::Allow,
        request_id: "cli".into(),
        log: None,
        traceparent: None,
        unserved_tools: OnUnservedTool::from_setting(
            gateway.settings.compat.unserved_tools,
            Some(OnUnservedTool::Omit),
        ),
        lists_unserved_fields: true,
        events: if views.1.is_shown() { EventReader::Watcher } else { EventReader::Process },
        keepalive: None,
        authorization: None,
    };
    let started = gateway.assembly.engine.start(request, caller).await;
    let mut run = started.map_err(|error| args.rejection_message(&error.body.message))?;
    for field in &run.ignored {
        print_error(&format!("note: `{field}` is ignored: it has no effect here"));
    }
    for kind in &run.omitted_tools {
        print_error(&format!("note: tools of type `{kind}` are not supported here and were omitted"));
    }
    let snapshot = follow(args, &mut run, views).await?;
    let response = &snapshot.response;
    match response.status {
        ResponseStatus::Failed => {
            let message = response.error.as_ref().map_or("the response failed", |error| &error.message);
            return Err(args.mode().failed(message));
        }
        ResponseStatus::Incomplete => {
            let reason = response.incomplete_details.as_ref().map_or("unknown", |why| why.reason.as_str());
            print_error(&format!("the answer is incomplete: {reason}"));
        }
        _ => {}
    }
    Ok(snapshot)
}

/// Prints events as they arrive; returns the final response.
async fn follow(
    args: &PromptArgs,
    run: &mut RunHandle,
    (view, progress): (&mut EventPrinter, &mut Progress),
) -> Result<Arc<ResponseSnapshot>, String> {
    progress.begin_turn();
    let first = while_shown(run.first(), view, progress).await;
    let mut batch = Some(first.map_err(|error| args.rejection_message(&error.body.message))?);
    let (mut last, mut line) = (None, Vec::new());
    while let Some(EventBatch { events, terminal, .. }) = batch {
        progress.begin_batch();
        for event in events.typed() {
            Progress::print(&progress.wipe());
            let happened = progress.show(&event.event);
            if !happened.is_empty() && view.is_writing() {
                print_raw(&view.end());
            }
            Progress::print(&happened);
            if !args.json() {
                print_raw(&view.show(&event.event));
            } else if args.stream {
                line.clear();
                run.encoding.write_json(&event, &mut line);
                print_json(&String::from_utf8_lossy(&line));
            }
        }
        if is_output_closed() {
            return Err(args.mode().failed("nobody reads the output any more"));
        }
        last = terminal.or(last);
        batch = while_shown(run.next(), view, progress).await;
    }
    print_raw(&view.end());
    last.ok_or_else(|| args.mode().failed("the answer was interrupted"))
}

/// Waits, and shows meanwhile for what. The line does not go over text of the model.
async fn while_shown<T>(awaited: impl Future<Output = T>, view: &EventPrinter, progress: &mut Progress) -> T {
    let mut awaited = pin!(awaited);
    loop {
        match tokio::time::timeout(progress::TICK, &mut awaited).await {
            Ok(done) => {
                Progress::print(&progress.wipe());
                return done;
            }
            Err(_) if !view.is_writing() => Progress::print(&progress.tick()),
            Err(_) => {}
        }
    }
}

/// Token usage of all responses.
#[derive(Default)]
struct TokenTotals {
    prompt: u64,
    completion: u64,
    total: u64,
}

impl TokenTotals {
    fn add(&mut self, response: &Response) {
        let Some(usage) = response.usage else { return };
        self.prompt += usage.input_tokens;
        self.completion += usage.output_tokens;
        self.total += usage.total_tokens;
    }
}

/// The output for a finished response.
fn print_result(args: &PromptArgs, snapshot: &ResponseSnapshot, totals: &TokenTotals) -> Result<(), String> {
    let response = &snapshot.response;
    if args.json() {
        if !args.stream {
            print_json(&pretty(snapshot));
        }
        return Ok(());
    }
    let calls = calls::unanswered(&response.output);
    if !args.execute_tools && !calls.is_empty() {
        print_json(&pretty(&calls));
    }
    let text = view::for_reader(text(response));
    if args.execute_tools && !args.stream {
        print_line(&messages::final_response(&text));
    } else if !args.stream && !text.is_empty() {
        print_line(&text);
    }
    // A total of 0 means that the provider did not report usage.
    if totals.total > 0 {
        let TokenTotals { prompt, completion, total } = totals;
        print_line(&messages::tokens(*prompt, *completion, *total));
    }
    Ok(())
}

/// The text of the last message: earlier messages belong to the calls in between.
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

fn pretty(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    serde_json::to_string_pretty(&value).unwrap_or_default()
}

impl PromptArgs {
    fn mode(&self) -> Mode {
        Mode { stream: self.stream, tools: self.execute_tools && self.protocol == Protocol::Tools }
    }

    fn rejection_message(&self, message: &str) -> String {
        self.mode().rejected(message)
    }
}
