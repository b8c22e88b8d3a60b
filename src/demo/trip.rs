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
const ABOUT_TRIPS: [&str; 10] =
    ["train", "trains", "book", "trip", "travel", "journey", "ticket", "tickets", "from", "ride"];

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
    if !words(&question).iter().any(|word| ABOUT_TRIPS.contains(&word.as_str())) {
        return None;
    }
    let place = |word, usual: &str| named_after(&question, word).unwrap_or_else(|| usual.to_owned());
    let (from, to) = (place("from", "Bergen"), place("to", "Oslo"));
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
            TripReply::Turn(Turn::say(format!(
                "{last} The train leaves {from} at 8:01 and arrives in {to} at 14:35. Expect sunshine and 14 degrees."
            )))
        }
    })
}
