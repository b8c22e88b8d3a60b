//! Tool calls as such: whether there are any, several in one turn, and what a request may say about that.

use serde_json::{Value, json};

use crate::excerpt::{excerpt, quoted};
use crate::exchange::Exchange;
use crate::finding::{Answer, Judgement};
use crate::question::{Ask, Question, Setup, Way, with};

const TWO_CITIES: &str =
    "What is the weather in Oslo and in Rome? Call get_weather once for each city, both at once.";

/// The id of a call that the strictest servers accept: nine letters and digits.
pub(super) const CALL_ID: &str = "doctor001";

pub(super) const QUESTIONS: &[Question] = &[
    Question {
        id: "calls",
        text: "Functions are called",
        way: Way::Asked { ask: ask_call, judge: calls },
        deep: false,
        repeated: true,
        gap: Some("functions and tools cannot be relied on with this model"),
    },
    Question {
        id: "strict_functions",
        text: "`strict` of functions is accepted",
        way: Way::Asked { ask: ask_strict, judge: strict },
        deep: false,
        repeated: false,
        gap: None,
    },
    Question {
        id: "parallel_calls",
        text: "Parallel calls in one turn",
        way: Way::Asked { ask: ask_parallel, judge: parallel },
        deep: false,
        repeated: true,
        gap: None,
    },
    Question {
        id: "parallel_calls_off",
        text: "`parallel_tool_calls: false` is honoured",
        way: Way::Asked { ask: ask_one, judge: one_call },
        deep: false,
        repeated: true,
        gap: None,
    },
];

/// The prompt that asks for a call.
pub(super) fn weather() -> &'static str {
    "What is the weather in Oslo? Use the function get_weather."
}

/// The function that it asks for.
pub(super) fn weather_tools() -> Value {
    json!([function("get_weather", "Returns the current weather of a city.", "city")])
}

/// A function with one string argument.
pub(super) fn function(name: &str, description: &str, argument: &str) -> Value {
    json!({"type": "function", "function": {"name": name, "description": description, "parameters": {
        "type": "object", "properties": {argument: {"type": "string"}}, "required": [argument],
        "additionalProperties": false}}})
}

/// What an answer without a call means.
pub(super) fn no_call(exchange: &Exchange, otherwise: fn(String) -> Judgement) -> Judgement {
    let reply = &exchange.reply;
    if reply.is_cut_short() {
        return Judgement::unknown("the limit of tokens ended the answer before a call");
    }
    let is_leaked = ["<tool_call", "[TOOL_CALLS]", "<function="].iter().any(|mark| reply.text.contains(mark));
    let leaked = if is_leaked { "a call as text: " } else { "no call: " };
    otherwise(format!("{leaked}{}", quoted(&reply.text)))
}

fn ask_call(setup: &Setup) -> Vec<Ask> {
    vec![Ask::new(with(setup.prompt(weather()), "tools", weather_tools()))]
}

fn calls(exchanges: &[Exchange], _: &Setup) -> Judgement {
    let Some(exchange) = exchanges.first() else { return Judgement::unknown("not asked") };
    let reply = match exchange.usable() {
        Ok(reply) => reply,
        Err(judgement) => return judgement,
    };
    let Some(call) = reply.calls.first() else { return no_call(exchange, Judgement::no) };
    let shown = excerpt(&format!("{}({})", call.name, call.arguments));
    let is_object = serde_json::from_str::<Value>(&call.arguments).is_ok_and(|value| value.is_object());
    match is_object {
        true => Judgement::yes(shown),
        false if reply.is_cut_short() => {
            Judgement::unknown(format!("the limit of tokens ended the call: {shown}"))
        }
        false => Judgement::no(format!("the arguments are no JSON object: {shown}")),
    }
}

fn ask_strict(setup: &Setup) -> Vec<Ask> {
    let mut tools = weather_tools();
    if let Some(function) = tools.pointer_mut("/0/function") {
        *function = with(function.take(), "strict", json!(true));
    }
    vec![Ask::new(with(setup.prompt(weather()), "tools", tools))]
}

fn strict(exchanges: &[Exchange], setup: &Setup) -> Judgement {
    match exchanges.first().map(Exchange::usable) {
        Some(Ok(_)) => Judgement::yes("accepted"),
        Some(Err(judgement)) => of_the_field(judgement, setup),
        None => Judgement::unknown("not asked"),
    }
}

/// An error says nothing about a field if there are no calls without it, either.
fn of_the_field(judgement: Judgement, setup: &Setup) -> Judgement {
    match setup.answered("calls") {
        Some(Answer::No) => {
            Judgement::unknown(format!("no calls without it, either: {}", judgement.evidence))
        }
        _ => judgement,
    }
}

fn ask_parallel(setup: &Setup) -> Vec<Ask> {
    vec![Ask::new(with(setup.prompt(TWO_CITIES), "tools", weather_tools()))]
}

fn parallel(exchanges: &[Exchange], _: &Setup) -> Judgement {
    let Some(exchange) = exchanges.first() else { return Judgement::unknown("not asked") };
    match exchange.usable().map(|reply| reply.calls.len()) {
        Err(judgement) => judgement,
        Ok(0) => no_call(exchange, Judgement::no),
        Ok(1) if exchange.reply.is_cut_short() => Judgement::unknown("the limit of tokens ended the answer"),
        Ok(1) => Judgement::no("one call for two cities"),
        Ok(count) => Judgement::yes(format!("{count} calls")),
    }
}

fn ask_one(setup: &Setup) -> Vec<Ask> {
    let body = with(setup.prompt(TWO_CITIES), "tools", weather_tools());
    vec![Ask::new(with(body, "parallel_tool_calls", json!(false)))]
}

fn one_call(exchanges: &[Exchange], setup: &Setup) -> Judgement {
    let Some(exchange) = exchanges.first() else { return Judgement::unknown("not asked") };
    let makes_several = matches!(setup.answered("parallel_calls"), Some(Answer::Yes | Answer::Unstable));
    match exchange.usable().map(|reply| reply.calls.len()) {
        Err(judgement) => of_the_field(judgement, setup),
        Ok(0) => no_call(exchange, Judgement::unknown),
        Ok(1) if makes_several => Judgement::yes("one call"),
        Ok(1) => Judgement::unknown("one call, as without the field"),
        Ok(count) => Judgement::ignored(format!("{count} calls")),
    }
}
