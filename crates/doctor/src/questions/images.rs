//! Images, by `data:` URL and by URL.

use serde_json::{Value, json};

use crate::excerpt::quoted;
use crate::exchange::Exchange;
use crate::finding::{Answer, Judgement};
use crate::question::{Ask, Question, Setup, Way};

/// A red square of 64 by 64 pixels.
const RED: &str = "data:image/png;base64,\
    iVBORw0KGgoAAAANSUhEUgAAAEAAAABACAIAAAAlC+aJAAAAS0lEQVR42u3PQQkAAAgAsetfWiP4FgYrsKZeS0BAQEBAQEBAQEBAQEBAQEBAQEBAQEBA\
    QEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEDgsqnc8OJg6Ln3AAAAAElFTkSuQmCC";
/// A name that is reserved so that it never resolves: nothing is loaded from anywhere.
const NOWHERE: &str = "http://image.invalid/antwort-doctor.png";
const QUESTION: &str = "Which colour is this? Answer with one word.";
/// Tokens by which a prompt with an image is longer at least.
const LEAST_GROWTH: u64 = 8;

pub(super) const QUESTIONS: &[Question] = &[
    Question {
        id: "image_data",
        text: "Images by `data:` URL are seen",
        way: Way::Asked { ask: |setup| vec![ask(setup, None), ask(setup, Some(RED))], judge: by_data },
        deep: false,
        repeated: false,
        gap: None,
    },
    Question {
        id: "image_url",
        text: "Images by URL are loaded",
        way: Way::Asked { ask: |setup| vec![ask(setup, Some(NOWHERE))], judge: by_url },
        deep: false,
        repeated: false,
        gap: None,
    },
];

fn ask(setup: &Setup, image: Option<&str>) -> Ask {
    let mut parts = vec![json!({"type": "text", "text": QUESTION})];
    parts.extend(image.map(|url| json!({"type": "image_url", "image_url": {"url": url}})));
    Ask::new(setup.chat(&json!([{"role": "user", "content": Value::Array(parts)}])))
}

fn by_data(exchanges: &[Exchange], _: &Setup) -> Judgement {
    let [blind, seeing] = exchanges else { return Judgement::unknown("not asked") };
    let reply = match seeing.usable() {
        Ok(reply) => reply,
        Err(judgement) => return judgement,
    };
    let says_red = |exchange: &Exchange| is_red(&exchange.reply.text);
    if says_red(seeing) && !says_red(blind) {
        return Judgement::yes(format!("the answer to a red square: {}", quoted(&reply.text)));
    }
    let count = |exchange: &Exchange| exchange.reply.count("prompt_tokens");
    match (count(blind), count(seeing)) {
        (Some(blind), Some(seeing)) if seeing >= blind + LEAST_GROWTH => {
            Judgement::yes(format!("the prompt has {seeing} tokens with it, {blind} without"))
        }
        (Some(tokens), Some(_)) => {
            Judgement::ignored(format!("the prompt has {tokens} tokens with it and without"))
        }
        _ => Judgement::unknown(format!("accepted; the answer to a red square: {}", quoted(&reply.text))),
    }
}

fn is_red(text: &str) -> bool {
    text.split(|char: char| !char.is_alphabetic()).any(|word| word.eq_ignore_ascii_case("red"))
}

/// The image does not exist: a server that loads images says that it cannot.
fn by_url(exchanges: &[Exchange], setup: &Setup) -> Judgement {
    let Some(exchange) = exchanges.first() else { return Judgement::unknown("not asked") };
    let message = exchange.error_message().to_ascii_lowercase();
    let loads =
        ["fetch", "download", "load", "resolve", "connect", "retriev", "dns", "name or service", "open url"];
    let is_about_loading = loads.iter().any(|word| message.contains(word));
    match exchange.usable() {
        Ok(_) => Judgement::ignored("an image that does not exist was accepted"),
        Err(judgement)
            if judgement.answer == Answer::No
                && setup.answered("image_data") != Some(Answer::No)
                && is_about_loading =>
        {
            Judgement::yes(format!("it tries: {}", judgement.evidence))
        }
        Err(judgement) => judgement,
    }
}
