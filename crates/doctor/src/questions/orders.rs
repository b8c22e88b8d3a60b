//! Orders of messages that chat templates raise an error for, and that requests have all the same.

use serde_json::{Value, json};

use super::roles::{EXTRA, read, small};
use crate::exchange::Exchange;
use crate::finding::Judgement;
use crate::question::{Ask, Question, Setup, Way, user, with};
use crate::questions::calls::{CALL_ID, weather, weather_tools};

pub(super) const QUESTIONS: &[Question] = &[
    Question {
        id: "consecutive_users",
        text: "Two messages of the user in a row are read",
        way: Way::Asked { ask: ask_users, judge: read },
        deep: false,
        repeated: false,
        gap: None,
    },
    Question {
        id: "user_after_tool",
        text: "A message of the user behind an output is read",
        way: Way::Asked { ask: ask_after_tool, judge: after_tool },
        deep: false,
        repeated: false,
        gap: None,
    },
];

fn ask_users(setup: &Setup) -> Vec<Ask> {
    let both = json!([{"role": "user", "content": EXTRA}, {"role": "user", "content": "Say hello."}]);
    vec![Ask::new(small(setup, &user("Say hello."))), Ask::new(small(setup, &both))]
}

fn ask_after_tool(setup: &Setup) -> Vec<Ask> {
    let conversation = |more: &[Value]| {
        let call = json!({"id": CALL_ID, "type": "function",
            "function": {"name": "get_weather", "arguments": "{\"city\": \"Oslo\"}"}});
        let mut messages = vec![
            json!({"role": "user", "content": weather()}),
            json!({"role": "assistant", "content": "", "tool_calls": [call]}),
            json!({"role": "tool", "tool_call_id": CALL_ID, "content": "5 degrees, rain"}),
        ];
        messages.extend_from_slice(more);
        Ask::new(with(small(setup, &messages.into()), "tools", weather_tools()))
    };
    vec![conversation(&[]), conversation(&[json!({"role": "user", "content": EXTRA})])]
}

fn after_tool(exchanges: &[Exchange], setup: &Setup) -> Judgement {
    match exchanges.first().map(Exchange::usable) {
        Some(Err(judgement)) => {
            Judgement::unknown(format!("a call and its result are refused: {}", judgement.evidence))
        }
        _ => read(exchanges, setup),
    }
}
