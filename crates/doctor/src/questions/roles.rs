//! Roles and reasoning. Whether a message is read shows in the tokens of the prompt, whatever the model makes of it.

use serde_json::{Value, json};

use crate::excerpt::quoted;
use crate::exchange::Exchange;
use crate::finding::{Answer, Judgement};
use crate::question::{Ask, Question, Setup, Way, user, with};
use crate::questions::calls::{CALL_ID, weather, weather_tools};

/// A text of about forty tokens.
pub(super) const EXTRA: &str = "Remember this list of words as long as we talk: apple, river, window, candle, mountain, pencil, garden, \
                     bridge, silver, orange, harbour, lantern, meadow, copper, thunder, velvet.";
/// Tokens by which a prompt with that text is longer at least.
const LEAST_GROWTH: u64 = 12;

const fn asked(
    id: &'static str,
    text: &'static str,
    ask: fn(&Setup) -> Vec<Ask>,
    judge: fn(&[Exchange], &Setup) -> Judgement,
) -> Question {
    Question { id, text, way: Way::Asked { ask, judge }, deep: false, repeated: false, gap: None }
}

pub(super) const QUESTIONS: &[Question] = &[
    asked("developer_role", "Messages of the role `developer` are read", ask_developer, read),
    asked("second_system", "A second system message is read", ask_second_system, read),
    asked("reasoning_out", "Reasoning is sent", ask_reasoning, reasoning_out),
    asked("reasoning_in", "Reasoning that is sent back is read", ask_reasoning_back, reasoning_in),
];

/// How the prompts of two requests differ.
enum Growth {
    Grew(u64, u64),
    Same(u64),
    Uncounted,
}

fn growth(before: &Exchange, after: &Exchange) -> Growth {
    let count = |exchange: &Exchange| exchange.reply.count("prompt_tokens");
    match (count(before), count(after)) {
        (Some(before), Some(after)) if after >= before + LEAST_GROWTH => Growth::Grew(before, after),
        (Some(before), Some(_)) => Growth::Same(before),
        _ => Growth::Uncounted,
    }
}

/// Judges a request without a message and one with it.
pub(super) fn read(exchanges: &[Exchange], _: &Setup) -> Judgement {
    let [before, after] = exchanges else { return Judgement::unknown("not asked") };
    if let Err(judgement) = after.usable() {
        return judgement;
    }
    match growth(before, after) {
        Growth::Grew(before, after) => {
            Judgement::yes(format!("the prompt has {after} tokens with it, {before} without"))
        }
        Growth::Same(tokens) => {
            Judgement::ignored(format!("the prompt has {tokens} tokens with it and without"))
        }
        Growth::Uncounted => Judgement::unknown("accepted; without usage nothing shows whether it is read"),
    }
}

fn ask_developer(setup: &Setup) -> Vec<Ask> {
    let with_it = json!([{"role": "developer", "content": EXTRA}, {"role": "user", "content": "Say hello."}]);
    vec![Ask::new(small(setup, &user("Say hello."))), Ask::new(small(setup, &with_it))]
}

fn ask_second_system(setup: &Setup) -> Vec<Ask> {
    let messages = |second: &[Value]| {
        let mut messages = vec![
            json!({"role": "system", "content": "Be brief."}),
            json!({"role": "user", "content": "Say hello."}),
            json!({"role": "assistant", "content": "Hello."}),
        ];
        messages.extend_from_slice(second);
        messages.push(json!({"role": "user", "content": "Say it again."}));
        Ask::new(small(setup, &messages.into()))
    };
    vec![messages(&[]), messages(&[json!({"role": "system", "content": EXTRA})])]
}

pub(super) fn small(setup: &Setup, messages: &Value) -> Value {
    let body = setup.chat(messages);
    match setup.cap_field {
        Some(field) => with(body, field, json!(12)),
        None => body,
    }
}

fn ask_reasoning(setup: &Setup) -> Vec<Ask> {
    let question = "A bat and a ball cost 1.10 together. The bat costs 1.00 more than the ball. What does the ball cost?";
    vec![Ask::new(setup.prompt(question))]
}

fn reasoning_out(exchanges: &[Exchange], setup: &Setup) -> Judgement {
    let reply = match exchanges.first().map(Exchange::usable) {
        Some(Ok(reply)) => reply,
        Some(Err(judgement)) => return Judgement::unknown(judgement.evidence),
        None => return Judgement::unknown("not asked"),
    };
    let text = reply.text.trim_start();
    if !reply.reasoning.is_empty() {
        let fields: Vec<_> = reply.reasoning.keys().map(|field| format!("`{field}`")).collect();
        Judgement::yes(format!("in {}", fields.join(" and ")))
    } else if text.starts_with("<think>") {
        Judgement { detail: Some("tagged"), ..Judgement::yes("in the text, in `<think>` tags") }
    } else if text.contains("</think>") {
        let evidence = "in the text, up to `</think>`: the chat template opens the tag";
        Judgement { detail: Some("opened"), ..Judgement::yes(evidence) }
    } else {
        Judgement::no(format!("none in {} tokens: {}", setup.cap, quoted(text)))
    }
}

/// Templates keep the reasoning of the turns behind the user's last message only, so it is sent with a call.
fn ask_reasoning_back(setup: &Setup) -> Vec<Ask> {
    let conversation = |field: Option<&str>| {
        let call = json!({"id": CALL_ID, "type": "function",
            "function": {"name": "get_weather", "arguments": "{\"city\": \"Oslo\"}"}});
        let mut assistant = json!({"role": "assistant", "content": "", "tool_calls": [call]});
        if let Some(field) = field {
            assistant = with(assistant, field, json!(EXTRA));
        }
        let result = json!({"role": "tool", "tool_call_id": CALL_ID, "content": "5 degrees, rain"});
        let messages = json!([{"role": "user", "content": weather()}, assistant, result]);
        Ask::new(with(small(setup, &messages), "tools", weather_tools()))
    };
    vec![conversation(None), conversation(Some("reasoning_content")), conversation(Some("reasoning"))]
}

fn reasoning_in(exchanges: &[Exchange], _: &Setup) -> Judgement {
    let [before, content, plain] = exchanges else { return Judgement::unknown("not asked") };
    if let Err(judgement) = before.usable() {
        return Judgement::unknown(format!("a call and its result are refused: {}", judgement.evidence));
    }
    let fields = [("reasoning_content", content), ("reasoning", plain)];
    let mut refused = Vec::new();
    let mut counted = true;
    for (field, after) in fields {
        match (after.usable(), growth(before, after)) {
            (Err(judgement), _) if judgement.answer == Answer::No => refused.push(judgement),
            (Err(judgement), _) => return judgement,
            (Ok(_), Growth::Grew(before, after)) => {
                let evidence = format!("`{field}`: the prompt has {after} tokens with it, {before} without");
                return Judgement { detail: Some(field), ..Judgement::yes(evidence) };
            }
            (Ok(_), Growth::Same(_)) => {}
            (Ok(_), Growth::Uncounted) => counted = false,
        }
    }
    match (refused.len(), refused.pop()) {
        (2, Some(judgement)) => Judgement { detail: Some("none"), ..judgement },
        _ if counted => Judgement::ignored("the prompt is no longer with `reasoning_content` or `reasoning`"),
        _ => Judgement::unknown("accepted; without usage nothing shows whether it is read"),
    }
}
