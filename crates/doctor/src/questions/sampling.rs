//! Sampling: log probabilities, several choices, seeds, stop sequences.

use serde_json::json;

use crate::excerpt::quoted;
use crate::exchange::Exchange;
use crate::finding::Judgement;
use crate::question::{Ask, Question, Setup, Way, with};

const SHORT: u32 = 16;

const fn asked(
    id: &'static str,
    text: &'static str,
    ask: fn(&Setup) -> Vec<Ask>,
    judge: fn(&[Exchange], &Setup) -> Judgement,
) -> Question {
    Question { id, text, way: Way::Asked { ask, judge }, deep: false, repeated: false, gap: None }
}

pub(super) const QUESTIONS: &[Question] = &[
    Question {
        gap: Some("`top_logprobs` has no effect"),
        ..asked("logprobs", "Log probabilities are sent", ask_logprobs, logprobs)
    },
    Question { deep: true, ..asked("n", "Several choices (`n`)", ask_n, several) },
    // Some servers compute otherwise when they write several answers at once.
    Question { repeated: true, ..asked("seed", "`seed` is honoured", ask_seed, seed) },
    asked("stop", "`stop` is honoured", ask_stop, stop),
];

fn ask_logprobs(setup: &Setup) -> Vec<Ask> {
    let body = with(setup.prompt_within(SHORT, "Say hello."), "logprobs", json!(true));
    vec![Ask::new(with(body, "top_logprobs", json!(2)))]
}

fn logprobs(exchanges: &[Exchange], _: &Setup) -> Judgement {
    match exchanges.first().map(Exchange::usable) {
        Some(Ok(reply)) if reply.logprobs => Judgement::yes("in the choices"),
        Some(Ok(_)) => Judgement::ignored("accepted, and none came"),
        Some(Err(judgement)) => judgement,
        None => Judgement::unknown("not asked"),
    }
}

fn ask_n(setup: &Setup) -> Vec<Ask> {
    vec![Ask::new(with(setup.prompt_within(SHORT, "Say hello."), "n", json!(2)))]
}

fn several(exchanges: &[Exchange], _: &Setup) -> Judgement {
    match exchanges.first().map(Exchange::usable) {
        Some(Ok(reply)) if reply.choices.len() > 1 => {
            Judgement::yes(format!("{} choices", reply.choices.len()))
        }
        Some(Ok(_)) => Judgement::ignored("one choice for `n: 2`"),
        Some(Err(judgement)) => judgement,
        None => Judgement::unknown("not asked"),
    }
}

fn ask_seed(setup: &Setup) -> Vec<Ask> {
    let prompt = "Invent a name for a ship and tell its story.";
    [7, 7, 11].map(|seed| Ask::new(with(setup.prompt_within(SHORT, prompt), "seed", json!(seed)))).into()
}

fn seed(exchanges: &[Exchange], _: &Setup) -> Judgement {
    let mut texts = Vec::new();
    for exchange in exchanges {
        match exchange.usable() {
            Ok(reply) => {
                texts.push(format!(
                    "{}{}",
                    reply.reasoning.values().cloned().collect::<String>(),
                    reply.text
                ));
            }
            Err(judgement) => return judgement,
        }
    }
    match texts.as_slice() {
        [one, again, other] if one.is_empty() && again.is_empty() && other.is_empty() => {
            Judgement::unknown("no text")
        }
        [one, again, _] if one != again => {
            Judgement::ignored(format!("the same seed: {} and {}", brief(one), brief(again)))
        }
        [one, _, other] if one != other => {
            Judgement::yes("the same text for the same seed, another for another")
        }
        [_, _, _] => Judgement::unknown("the same text for every seed"),
        _ => Judgement::unknown("not asked"),
    }
}

fn brief(text: &str) -> String {
    quoted(&text.chars().take(40).collect::<String>())
}

/// A blank is in every answer of several words, whatever the model says.
fn ask_stop(setup: &Setup) -> Vec<Ask> {
    let ask = || setup.prompt_within(SHORT, "Write a sentence about the sea.");
    vec![Ask::new(ask()), Ask::new(with(ask(), "stop", json!([" "])))]
}

fn stop(exchanges: &[Exchange], _: &Setup) -> Judgement {
    let [before, after] = exchanges else { return Judgement::unknown("not asked") };
    let reply = match after.usable() {
        Ok(reply) => reply,
        Err(judgement) => return judgement,
    };
    let (free, stopped) = (before.reply.text.trim(), reply.text.trim());
    match (free.contains(' '), stopped.contains(' '), stopped.is_empty()) {
        (_, true, _) => Judgement::ignored(format!("stop at a blank: {}", quoted(stopped))),
        (true, false, false) => Judgement::yes(format!("stop at a blank: {}", quoted(stopped))),
        (true, false, true) => Judgement::unknown("the answer is empty"),
        (false, false, _) => Judgement::unknown("no text of several words without it, either"),
    }
}
