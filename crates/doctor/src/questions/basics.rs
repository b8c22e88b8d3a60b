//! Completions as such: streams, usage, the limit of tokens, unknown fields, the prompt cache.

use std::fmt::Write;

use serde_json::json;

use crate::excerpt::excerpt;
use crate::exchange::{Cut, Exchange};
use crate::finding::Judgement;
use crate::question::{Ask, Question, Setup, Way, user, with};

/// The limit of tokens that is tried.
const SMALL_CAP: u32 = 12;
const COUNTING: &str = "Count from 1 to 300, one number per line. Do not stop before 300.";

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
        gap: Some("answers arrive in one piece: nothing is shown while the model writes"),
        ..asked(
            "stream",
            "Completions are streamed",
            |setup| vec![Ask::new(setup.bare(&user("Say hello.")))],
            stream,
        )
    },
    asked(
        "max_completion_tokens",
        "`max_completion_tokens` is honoured",
        |setup| ask_cap(setup, "max_completion_tokens"),
        cap,
    ),
    Question {
        gap: Some("`max_output_tokens` does not limit answers"),
        ..asked("max_tokens", "`max_tokens` is honoured", |setup| ask_cap(setup, "max_tokens"), cap)
    },
    Question {
        gap: Some("token counts are missing in responses, and limits of tokens and cost cannot hold"),
        ..asked("stream_usage", "`stream_options` and a chunk with the usage", ask_usage, stream_usage)
    },
    asked("completion", "Completions without a stream", ask_whole, whole),
    asked("unknown_fields", "Unknown fields are accepted", ask_unknown, unknown_fields),
    asked("cached_tokens", "Cached tokens are reported", ask_cached, cached_tokens),
];

fn stream(exchanges: &[Exchange], _: &Setup) -> Judgement {
    let Some(exchange) = exchanges.first() else { return Judgement::unknown("not asked") };
    let reply = match exchange.usable() {
        Ok(reply) => reply,
        Err(judgement) => return Judgement::no(judgement.evidence),
    };
    if !reply.says_something() {
        return Judgement::no("the answer is empty");
    }
    match (exchange.chunks, &exchange.failure) {
        (_, Some(failure)) => Judgement::no(failure.clone()),
        (0, None) => Judgement::ignored("the whole answer came in one piece"),
        (chunks, None) => {
            let mut evidence = format!("{chunks} chunks, the first after {} ms", exchange.first.as_millis());
            if exchange.cut == Some(Cut::Words) {
                evidence.push_str("; cut, as it did not end");
            } else if !exchange.done {
                evidence.push_str("; without `[DONE]`");
            }
            Judgement::yes(evidence)
        }
    }
}

fn ask_usage(setup: &Setup) -> Vec<Ask> {
    let body = setup.prompt_within(SMALL_CAP, "Say hello.");
    vec![Ask::new(with(body, "stream_options", json!({"include_usage": true})))]
}

fn stream_usage(exchanges: &[Exchange], _: &Setup) -> Judgement {
    let Some(exchange) = exchanges.first() else { return Judgement::unknown("not asked") };
    match exchange.usable() {
        Err(judgement) => judgement,
        Ok(reply) if reply.usage.is_some() => {
            let count = |name| reply.count(name).map_or("?".to_owned(), |count| count.to_string());
            let place = if reply.empty_choices > 0 { ", in a chunk with empty `choices`" } else { "" };
            let counts = format!("{} in, {} out", count("prompt_tokens"), count("completion_tokens"));
            Judgement::yes(format!("{counts}{place}"))
        }
        Ok(_) if exchange.cut.is_some() => Judgement::unknown("the answer did not end"),
        Ok(_) => Judgement::ignored("no usage in the stream"),
    }
}

fn ask_cap(setup: &Setup, field: &'static str) -> Vec<Ask> {
    let body = Setup {
        cap_field: None,
        model: setup.model.clone(),
        answers: setup.answers.clone(),
        ..Setup::default()
    };
    vec![Ask::new(with(body.prompt(COUNTING), field, json!(SMALL_CAP)))]
}

/// Words are at most as many as tokens; one more is tolerated in counts, for servers that count the end.
fn cap(exchanges: &[Exchange], _: &Setup) -> Judgement {
    let Some(exchange) = exchanges.first() else { return Judgement::unknown("not asked") };
    let reply = match exchange.usable() {
        Ok(reply) => reply,
        Err(judgement) => return judgement,
    };
    let (words, tokens) = (reply.words(), reply.count("completion_tokens"));
    let limit = SMALL_CAP as usize;
    if words > limit + 1 || tokens.is_some_and(|tokens| tokens > u64::from(SMALL_CAP) + 1) {
        let length = tokens.map_or(format!("{words} words"), |tokens| format!("{tokens} tokens"));
        return Judgement::ignored(format!("{length} for a limit of {limit}"));
    }
    let mut evidence = format!("{} of {limit}", tokens.map_or("?".to_owned(), |tokens| tokens.to_string()));
    _ = write!(
        evidence,
        " tokens, finish reason `{}`",
        reply.finish.as_deref().map_or("none".to_owned(), excerpt)
    );
    if reply.is_cut_short() || tokens.is_some_and(|tokens| tokens + 1 >= u64::from(SMALL_CAP)) {
        Judgement::yes(evidence)
    } else {
        Judgement::unknown(format!("the answer ended by itself: {evidence}"))
    }
}

fn ask_whole(setup: &Setup) -> Vec<Ask> {
    let mut body = with(setup.prompt_within(SMALL_CAP, "Say hello."), "stream", json!(false));
    if let Some(fields) = body.as_object_mut() {
        fields.remove("stream_options");
    }
    vec![Ask::new(body)]
}

fn whole(exchanges: &[Exchange], _: &Setup) -> Judgement {
    let Some(exchange) = exchanges.first() else { return Judgement::unknown("not asked") };
    match exchange.usable() {
        Err(judgement) => judgement,
        Ok(_) if exchange.chunks > 0 => Judgement::ignored("it was streamed all the same"),
        Ok(reply) if !reply.says_something() => Judgement::no("the answer is empty"),
        Ok(reply) => Judgement::yes(if reply.usage.is_some() { "with usage" } else { "without usage" }),
    }
}

fn ask_unknown(setup: &Setup) -> Vec<Ask> {
    vec![Ask::new(with(setup.prompt_within(SMALL_CAP, "Say hello."), "antwort_doctor", json!(true)))]
}

fn unknown_fields(exchanges: &[Exchange], _: &Setup) -> Judgement {
    match exchanges.first().map(Exchange::usable) {
        Some(Ok(_)) => Judgement::yes("`antwort_doctor: true` was accepted"),
        Some(Err(judgement)) => judgement,
        None => Judgement::unknown("not asked"),
    }
}

/// A prompt of about 1200 tokens: hosted servers cache from 1024 on.
fn ask_cached(setup: &Setup) -> Vec<Ask> {
    let text = "The quick brown fox jumps over the lazy dog, and the lazy dog sleeps on. ".repeat(70);
    let prompt = format!("{text}\nSay hello.");
    let ask = || Ask::new(setup.prompt_within(SMALL_CAP, &prompt));
    vec![ask(), ask()]
}

fn cached_tokens(exchanges: &[Exchange], _: &Setup) -> Judgement {
    let reply = match exchanges.last().map(Exchange::usable) {
        Some(Ok(reply))
            if reply.usage.is_none() && exchanges.iter().any(|exchange| exchange.cut.is_some()) =>
        {
            return Judgement::unknown("the answer did not end");
        }
        Some(Ok(reply)) => reply,
        Some(Err(judgement)) => return Judgement::unknown(judgement.evidence),
        None => return Judgement::unknown("not asked"),
    };
    let of = reply.count("prompt_tokens").map_or(String::new(), |tokens| format!(" of {tokens}"));
    match (reply.cached_tokens(), &reply.usage) {
        (Some(0), _) => Judgement::unknown(format!("0{of} for a repeated prompt")),
        (Some(cached), _) => Judgement::yes(format!("{cached}{of} for a repeated prompt")),
        (None, Some(_)) => Judgement::no("the usage has no such count"),
        (None, None) => Judgement::no("there is no usage"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Exchange, Judgement, Setup, cached_tokens, cap, stream_usage};
    use crate::finding::Answer;

    fn exchange(text: &str, finish: &str, usage: &Value) -> Exchange {
        let mut exchange = Exchange { status: Some(200), chunks: 1, ..Exchange::default() };
        let choice = json!({"index": 0, "delta": {"content": text}, "finish_reason": finish});
        exchange.reply.take(&json!({"choices": [choice], "usage": usage}));
        exchange
    }

    fn judged(judge: fn(&[Exchange], &Setup) -> Judgement, exchanges: &[Exchange]) -> Answer {
        judge(exchanges, &Setup::default()).answer
    }

    #[test]
    fn a_limit_is_honoured_if_it_ended_the_answer() {
        let (twelve, fifty) = ("1 ".repeat(12), "1 ".repeat(50));
        let tokens = |count: u64| json!({"completion_tokens": count});
        for (text, finish, usage, answer) in [
            (&*twelve, "length", Value::Null, Answer::Yes),
            (&*twelve, "stop", tokens(12), Answer::Yes),
            ("1 2 3", "stop", tokens(6), Answer::Unknown),
            (&*fifty, "stop", Value::Null, Answer::Ignored),
            ("1\n2\n3\n", "stop", tokens(600), Answer::Ignored),
        ] {
            assert_eq!(judged(cap, &[exchange(text, finish, &usage)]), answer, "{text} {finish} {usage}");
        }
    }

    #[test]
    fn usage_and_cached_tokens_in_their_shapes() {
        let rows = [
            (json!(null), Answer::Ignored, Answer::No),
            (json!({"prompt_tokens": 7}), Answer::Yes, Answer::No),
            (json!({"prompt_tokens_details": {"cached_tokens": 0}}), Answer::Yes, Answer::Unknown),
            (json!({"prompt_tokens_details": {"cached_tokens": 5}}), Answer::Yes, Answer::Yes),
            (json!({"prompt_cache_hit_tokens": 5}), Answer::Yes, Answer::Yes),
        ];
        for (usage, in_stream, cached) in rows {
            let exchanges = [exchange("hello", "stop", &usage)];
            assert_eq!(
                (judged(stream_usage, &exchanges), judged(cached_tokens, &exchanges)),
                (in_stream, cached),
                "{usage}"
            );
        }
    }
}
