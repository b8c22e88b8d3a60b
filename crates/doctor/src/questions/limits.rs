//! Limits: a prompt that is too long, and a connection that is closed.

use std::time::Duration;

use serde_json::json;

use crate::exchange::{Cut, Exchange};
use crate::finding::Judgement;
use crate::question::{Ask, Question, Setup, Way, with};

/// Tokens of the prompt if the window is not known.
const MAX_PROMPT: u64 = 40_000;
/// Tokens of the longest prompt for a window that is known: a server that knows it refuses the prompt before it reads it.
const MAX_KNOWN_PROMPT: u64 = 200_000;
/// A prompt that is read to the end has at least this share of its tokens, whatever the tokenizer.
const READ_SHARE: f64 = 0.9;
/// Tokens of the answer that is closed: enough to take a while.
const LONG: u32 = 512;
/// What the next answer may take longer.
const PATIENCE: Duration = Duration::from_millis(1500);

pub(super) const QUESTIONS: &[Question] = &[
    Question {
        id: "overflow",
        text: "A prompt that is too long is refused in known words",
        way: Way::Asked { ask: ask_overflow, judge: overflow },
        deep: true,
        repeated: false,
        gap: Some(
            "a prompt that is too long is not recognised as such: `truncation` and the error's code suffer",
        ),
    },
    Question {
        id: "cancel",
        text: "After a closed connection the next is answered at once",
        way: Way::Asked { ask: ask_cancel, judge: cancel },
        deep: false,
        repeated: false,
        gap: Some("answers whose client has gone keep the server busy"),
    },
];

/// A quarter more than the window has, as long as is bearable.
fn ask_overflow(setup: &Setup) -> Vec<Ask> {
    let tokens = match setup.context_window {
        Some(window) if window + window / 4 <= MAX_KNOWN_PROMPT => window + window / 4,
        Some(_) => return Vec::new(),
        None => MAX_PROMPT,
    };
    // Each such word is a token, or more.
    let prompt = format!("{}\nSay hello.", "one ".repeat(usize::try_from(tokens).unwrap_or_default()));
    vec![Ask::new(setup.prompt_within(8, &prompt))]
}

fn overflow(exchanges: &[Exchange], setup: &Setup) -> Judgement {
    let Some(exchange) = exchanges.first() else {
        let window = setup.context_window.unwrap_or_default();
        return Judgement::unknown(format!("the window of {window} tokens is too long to try"));
    };
    if exchange.is_overflow() {
        return Judgement::yes(exchange.refusal());
    }
    let reply = match exchange.usable() {
        Ok(reply) => reply,
        Err(judgement) => return judgement,
    };
    let sent = setup.context_window.map_or(MAX_PROMPT, |window| window + window / 4);
    match reply.count("prompt_tokens") {
        Some(read) if (read as f64) < sent as f64 * READ_SHARE => {
            Judgement::ignored(format!("of a prompt of {sent} tokens {read} were read, without a word"))
        }
        Some(read) => Judgement::unknown(format!("a prompt of {read} tokens is not too long")),
        None => Judgement::unknown(format!("a prompt of {sent} words was answered")),
    }
}

fn ask_cancel(setup: &Setup) -> Vec<Ask> {
    let short = || Ask::new(setup.prompt_within(8, "Say hello."));
    let mut long = setup.prompt("Count from 1 to 1000, one number per line. Do not stop before 1000.");
    if let Some(field) = setup.cap_field {
        long = with(long, field, json!(LONG));
    }
    vec![short(), Ask { body: long, cut: true }, short()]
}

fn cancel(exchanges: &[Exchange], _: &Setup) -> Judgement {
    let [before, closed, after] = exchanges else { return Judgement::unknown("not asked") };
    for exchange in [before, closed] {
        if let Err(judgement) = exchange.usable() {
            return Judgement::unknown(judgement.evidence);
        }
    }
    if closed.cut != Some(Cut::Asked) || closed.done {
        return Judgement::unknown("there was no stream to close");
    }
    let times = format!("{} ms, before it {} ms", after.took.as_millis(), before.took.as_millis());
    match after.usable() {
        Err(judgement) => Judgement::no(judgement.evidence),
        Ok(_) if after.took > before.took * 3 + PATIENCE => Judgement::no(format!("the next took {times}")),
        Ok(_) => Judgement::yes(format!("the next took {times}")),
    }
}
