//! The provider: says what the scenario has, and notes what it is asked.

use std::convert::Infallible;
use std::sync::Arc;

use antwort_test_support::upstream::{Step, chunk, finish, usage};
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use super::super::scenario::{Call, CallIds, Turn};
use super::{Case, Stop, World};

/// What the model says.
enum Said {
    Turn(Turn),
    /// A summary of the conversation.
    Summary,
}

/// Notes a request, and returns what the model says to it, and the stop that is reached.
fn asked(case: &Case, body: Value) -> (Option<Said>, Option<Stop>) {
    let wants_summary = wants_summary(&body);
    let mut seen = case.seen.lock();
    let is_again = seen.attempts > 0 && seen.requests.last() == Some(&body);
    seen.requests.push(body);
    if is_again {
        seen.attempts += 1;
    } else {
        (seen.asked, seen.attempts) = (seen.asked + 1, 1);
        seen.turns += usize::from(!wants_summary);
    }
    let is_reached = |stop: &Stop| *stop == Stop::Asked(seen.asked) || *stop == Stop::HalfSaid(seen.asked);
    let stop = seen.stop.filter(is_reached);
    if wants_summary {
        return (Some(Said::Summary), stop);
    }
    let turn = case.scenario.asks.get(seen.ask).and_then(|ask| ask.turns.get(seen.turns - 1)).cloned();
    let is_refused = turn.as_ref().is_some_and(|turn| turn.is_refused) && seen.attempts == 1;
    match is_refused {
        true => (None, stop.filter(|stop| matches!(stop, Stop::Asked(_)))),
        false => (Some(Said::Turn(turn.unwrap_or_else(Turn::answer))), stop),
    }
}

/// Whether the last message asks for a summary.
fn wants_summary(body: &Value) -> bool {
    let last = body["messages"].as_array().and_then(|messages| messages.last());
    last.and_then(|last| last["content"].as_str())
        .is_some_and(|text| text.contains("write a summary of this"))
}

impl Said {
    fn steps(&self, case: &Case) -> Vec<Step> {
        match self {
            Self::Turn(turn) => turn.steps(case),
            Self::Summary => {
                let text = format!("Summary {}.", case.number_and_ids().0);
                let text = text.split_inclusive(' ').map(|word| chunk(json!({"content": word})));
                let begin = chunk(json!({"role": "assistant", "content": ""}));
                let done = Step::Raw(b"data: [DONE]\n\n".to_vec());
                std::iter::once(begin).chain(text).chain([finish("stop"), usage(5, 3), done]).collect()
            }
        }
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
        if !self.calls.is_empty() && self.has_text && case.compacts() {
            steps.push(chunk(json!({"content": " And so on.".repeat(250)})));
        }
        for (index, call) in self.calls.iter().enumerate() {
            let arguments = match call {
                Call::Same => json!({"n": "same"}),
                Call::Gated | Call::Tasked => json!({"n": format!("{number}.{index}"), "case": case.name}),
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

pub(super) async fn complete(State(world): State<Arc<World>>, body: Bytes) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap();
    let Some(case) = world.case(body["model"].as_str().unwrap()) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    case.while_running().await;
    let (said, stop) = asked(&case, body);
    if matches!(stop, Some(Stop::Asked(_))) {
        match case.stop().await {}
    }
    let Some(said) = said else { return StatusCode::SERVICE_UNAVAILABLE.into_response() };
    let mut steps = said.steps(&case);
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
