//! The scripted trip: two tools at once, an answer that has to be asked for twice, and a call that a person must allow.

#![expect(clippy::indexing_slicing, reason = "a JSON value indexed by what it lacks is null")]

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::turn::{ScriptedCall, Turn, content};
use super::words::{named_after, words};

/// Label of the MCP server in the configuration.
pub(super) const SERVER: &str = "travel";
/// What the demo asks.
pub(super) const QUESTION: &str =
    "I want to go from Bergen to Oslo tomorrow. Is the weather fine, and which train can I book?";

pub(super) const FORECAST: &str = "weather_forecast";
pub(super) const TRAINS: &str = "find_trains";
pub(super) const BOOK: &str = "book_train";

/// Words of questions about a trip; others get an answer of their own, also if the tools are offered.
const ABOUT_TRIPS: [&str; 8] = ["train", "trains", "trip", "travel", "journey", "ticket", "tickets", "ride"];

/// Whether the next trip begins with a failure of the model server: the first does, which is the demo's own.
static FAILS_FIRST: AtomicBool = AtomicBool::new(true);

/// What the model server says to one request of a trip.
pub(super) enum TripReply {
    /// 503: the gateway tries again.
    Busy,
    Turn(Turn),
}

/// The next step of a trip, if the request is part of one: its tools are those of the server [`SERVER`], and it is asked for.
pub(super) fn next(request: &Value) -> Option<TripReply> {
    let offered = |name: &str| {
        let tools = request["tools"].as_array().into_iter().flatten();
        let mut names = tools.filter_map(|tool| tool["function"]["name"].as_str());
        names.find(|offered| offered.ends_with(name)).map(str::to_owned)
    };
    let (forecast, trains, book) = (offered(FORECAST)?, offered(TRAINS)?, offered(BOOK)?);
    let messages = request["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let asked_at = messages.iter().rposition(|message| message["role"] == "user").unwrap_or_default();
    let question = messages.get(asked_at).map(|message| content(&message["content"])).unwrap_or_default();
    let (from, to) = (named_after(&question, "from"), named_after(&question, "to"));
    let is_about_trips = words(&question).iter().any(|word| ABOUT_TRIPS.contains(&word.as_str()));
    if request["tool_choice"] == "none" || !is_about_trips && (from.is_none() || to.is_none()) {
        return None;
    }
    let (from, to) = (from.unwrap_or_else(|| "Bergen".to_owned()), to.unwrap_or_else(|| "Oslo".to_owned()));
    let is_result = |message: &&Value| message["role"] == "tool";
    let results: Vec<_> = messages.iter().skip(asked_at).filter(is_result).collect();
    Some(match results.len() {
        0 if FAILS_FIRST.swap(false, Ordering::Relaxed) => TripReply::Busy,
        0 => TripReply::Turn(Turn::calls(
            "Let me look at the weather and the timetable.",
            vec![
                ScriptedCall { name: forecast, arguments: json!({"city": to, "day": "tomorrow"}) },
                ScriptedCall { name: trains, arguments: json!({"from": from, "to": to, "day": "tomorrow"}) },
            ],
        )),
        1 | 2 => TripReply::Turn(Turn::calls(
            "It will be sunny, and the train at 8:01 has free seats. I can book it for you.",
            vec![ScriptedCall {
                name: book,
                arguments: json!({"train": "62", "departure": "08:01", "seats": 1}),
            }],
        )),
        _ => {
            let last = results.last().map(|message| content(&message["content"])).unwrap_or_default();
            TripReply::Turn(Turn::say(match last.starts_with("Error") {
                true => format!("I have not booked the train. {last}"),
                false => format!(
                    "{last} The train leaves {from} at 8:01 and arrives in {to} at 14:35. Expect sunshine and 14 degrees."
                ),
            }))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(question: &str, results: &[&str], choice: &str) -> Option<Value> {
        FAILS_FIRST.store(false, Ordering::Relaxed);
        let tools: Vec<_> =
            [FORECAST, TRAINS, BOOK].iter().map(|name| json!({"function": {"name": name}})).collect();
        let mut messages = vec![json!({"role": "user", "content": question})];
        messages.extend(results.iter().map(|text| json!({"role": "tool", "content": text})));
        match next(&json!({"messages": messages, "tools": tools, "tool_choice": choice})) {
            Some(TripReply::Turn(turn)) => Some(turn.completion()["choices"][0]["message"].clone()),
            _ => None,
        }
    }

    #[test]
    fn a_booking_that_is_refused_is_not_said_to_be_made() {
        let refused =
            said(QUESTION, &["sunny", "train 62", "Error: The call was not approved."], "auto").unwrap();
        assert_eq!(refused["content"], "I have not booked the train. Error: The call was not approved.");
        let booked = said(QUESTION, &["sunny", "train 62", "Train 62 is booked."], "auto").unwrap();
        assert!(
            booked["content"].as_str().unwrap().starts_with("Train 62 is booked. The train leaves Bergen")
        );
    }

    #[test]
    fn a_trip_is_planned_only_for_who_asks_for_one_and_allows_tools() {
        assert!(said("I want to go from New York to Boston", &[], "auto").is_some());
        for (question, choice) in
            [(QUESTION, "none"), ("Recommend a book", "auto"), ("Where are you from?", "auto")]
        {
            assert_eq!(said(question, &[], choice), None, "{question}");
        }
        let call = said("I want to go from New York to Boston", &[], "auto").unwrap();
        let arguments = call["tool_calls"][1]["function"]["arguments"].as_str().unwrap();
        let arguments: Value = serde_json::from_str(arguments).unwrap();
        assert_eq!(arguments, json!({"from": "New York", "to": "Boston", "day": "tomorrow"}));
    }
}
