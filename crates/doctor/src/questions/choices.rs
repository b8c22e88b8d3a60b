//! `tool_choice`: each is asked with a prompt to which the model, left to itself, would do the contrary.

use serde_json::{Value, json};

use crate::excerpt::excerpt;
use crate::exchange::Exchange;
use crate::finding::{Answer, Judgement};
use crate::question::{Ask, Question, Setup, Way, with};
use crate::questions::calls::{function, no_call, weather, weather_tools};

const fn repeated(
    id: &'static str,
    text: &'static str,
    ask: fn(&Setup) -> Vec<Ask>,
    judge: fn(&[Exchange], &Setup) -> Judgement,
    gap: Option<&'static str>,
) -> Question {
    Question { id, text, way: Way::Asked { ask, judge }, deep: false, repeated: true, gap }
}

pub(super) const QUESTIONS: &[Question] = &[
    repeated(
        "tool_choice_required",
        "`tool_choice: required` is honoured",
        |setup| vec![choose(setup, "Say hello.", json!("required"))],
        required,
        Some("`tool_choice: required` fails where the model does not call by itself"),
    ),
    repeated(
        "tool_choice_named",
        "`tool_choice` of one function is honoured",
        |setup| {
            let time = json!({"type": "function", "function": {"name": "get_time"}});
            vec![choose(setup, weather(), time)]
        },
        named,
        None,
    ),
    repeated(
        "tool_choice_none",
        "`tool_choice: none` is honoured",
        |setup| vec![choose(setup, weather(), json!("none"))],
        none,
        None,
    ),
];

fn choose(setup: &Setup, prompt: &str, choice: Value) -> Ask {
    let mut tools = weather_tools();
    if let Some(tools) = tools.as_array_mut() {
        tools.push(function("get_time", "Returns the local time of a city.", "city"));
    }
    Ask::new(with(with(setup.prompt(prompt), "tools", tools), "tool_choice", choice))
}

fn required(exchanges: &[Exchange], _: &Setup) -> Judgement {
    let Some(exchange) = exchanges.first() else { return Judgement::unknown("not asked") };
    match exchange.usable().map(|reply| reply.calls.first()) {
        Err(judgement) => judgement,
        Ok(Some(call)) => Judgement::yes(format!("a call of {}", excerpt(&call.name))),
        Ok(None) => no_call(exchange, Judgement::ignored),
    }
}

fn named(exchanges: &[Exchange], _: &Setup) -> Judgement {
    let Some(exchange) = exchanges.first() else { return Judgement::unknown("not asked") };
    match exchange.usable().map(|reply| reply.calls.first()) {
        Err(judgement) => judgement,
        Ok(Some(call)) if call.name == "get_time" => {
            Judgement::yes("a call of get_time, though weather was asked for")
        }
        Ok(Some(call)) => Judgement::ignored(format!("a call of {}", excerpt(&call.name))),
        Ok(None) => no_call(exchange, Judgement::ignored),
    }
}

fn none(exchanges: &[Exchange], setup: &Setup) -> Judgement {
    let Some(exchange) = exchanges.first() else { return Judgement::unknown("not asked") };
    let calls_by_itself = matches!(setup.answered("calls"), Some(Answer::Yes | Answer::Unstable));
    match exchange.usable().map(|reply| reply.calls.first()) {
        Err(judgement) => judgement,
        Ok(Some(call)) => Judgement::ignored(format!("a call of {}", excerpt(&call.name))),
        Ok(None) if calls_by_itself => no_call(exchange, Judgement::yes),
        Ok(None) => Judgement::unknown("no call, as without the field"),
    }
}
