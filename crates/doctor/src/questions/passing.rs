//! Questions that the list of models and all other answers decide in passing. What cannot be provoked is "yes" when it was
//! seen, else unknown.

use std::collections::BTreeSet;

use crate::excerpt::excerpt;
use crate::finding::Judgement;
use crate::question::{Question, Way};
use crate::seen::Seen;

const fn seen(id: &'static str, text: &'static str, judge: fn(&Seen) -> Judgement) -> Question {
    Question { id, text, way: Way::Seen(judge), deep: false, repeated: false, gap: None }
}

pub(super) const OF_MODELS: &[Question] = &[
    Question {
        gap: Some("models are not listed: name the model in every request, and patterns in `models`"),
        ..seen("models", "Models are listed", models)
    },
    seen("context_window", "The context window is told", context_window),
];

pub(super) const OF_STREAMS: &[Question] = &[
    seen("empty_choices", "Chunks with empty `choices`", |seen| {
        when_seen(seen.with_empty_choices, seen.answers, "with an empty `choices`")
    }),
    seen("sse_comments", "Comments in streams", |seen| {
        when_seen(seen.with_comments, seen.answers, "with lines that begin with `:`")
    }),
    seen("error_in_200", "Errors inside a status 200", hidden_errors),
];

pub(super) const OF_CALLS: &[Question] = &[
    seen("call_ids", "Every call has an id of its own", call_ids),
    seen("call_index", "Calls of a stream have an `index` of their own", call_index),
    seen("call_finish_reason", "Calls end with `tool_calls`", call_finish_reason),
];

pub(super) const OF_LIMITS: &[Question] =
    &[seen("rate_limit_headers", "Headers of rate limits (429)", rate_limit_headers)];

fn models(seen: &Seen) -> Judgement {
    let names: Vec<_> = seen.listing.models.iter().take(3).map(|name| excerpt(name)).collect();
    match (&seen.listing.problem, seen.listing.models.len()) {
        (Some(problem), _) => Judgement::no(problem.clone()),
        (None, 0) => Judgement::no("an empty list"),
        (None, count @ ..=3) => Judgement::yes(format!("{count}: {}", names.join(", "))),
        (None, count) => Judgement::yes(format!("{count}: {}, …", names.join(", "))),
    }
}

fn context_window(seen: &Seen) -> Judgement {
    match &seen.context_window {
        Some((tokens, place)) => Judgement::yes(format!("{tokens} tokens, in {place}")),
        None => Judgement::unknown("neither the list of models nor the server's properties have it"),
    }
}

fn when_seen(count: usize, of: usize, what: &str) -> Judgement {
    match count {
        0 => Judgement::unknown(format!("not seen in {of} answers")),
        _ => Judgement::yes(format!("{count} of {of} answers {what}")),
    }
}

fn hidden_errors(seen: &Seen) -> Judgement {
    match (seen.hidden_errors.first(), seen.open_error) {
        (Some(error), _) => Judgement::yes(error.clone()),
        (None, Some(status)) => Judgement::unknown(format!("not seen; an error had status {status}")),
        (None, None) => Judgement::unknown("no error was seen"),
    }
}

fn call_ids(seen: &Seen) -> Judgement {
    let calls = &seen.calls;
    let different: BTreeSet<_> = calls.ids.iter().collect();
    match (calls.count, calls.without_id) {
        (0, _) => Judgement::unknown("no call was seen"),
        (count, 1..) => Judgement::no(format!("{} of {count} calls have none", calls.without_id)),
        (count, 0) if different.len() < calls.ids.len() => {
            let id = calls.ids.first().map(|id| excerpt(id)).unwrap_or_default();
            Judgement::no(format!("{} ids for {count} calls, such as {id}", different.len()))
        }
        (count, 0) => Judgement::yes(format!(
            "{count} calls, such as {}",
            calls.ids.first().map(|id| excerpt(id)).unwrap_or_default()
        )),
    }
}

fn call_index(seen: &Seen) -> Judgement {
    let calls = &seen.calls;
    let shown = |index: &Option<u64>| index.map_or("none".to_owned(), |index| index.to_string());
    match &calls.several {
        Some(indexes) => {
            let listed = indexes.iter().map(shown).collect::<Vec<_>>().join(", ");
            let different: BTreeSet<_> = indexes.iter().flatten().collect();
            if different.len() == indexes.len() {
                Judgement::yes(format!("indexes {listed} in one answer"))
            } else {
                Judgement::no(format!("indexes {listed} in one answer"))
            }
        }
        None if calls.count == 0 => Judgement::unknown("no call was seen"),
        None if calls.without_index > 0 => {
            Judgement::no(format!("{} calls without one", calls.without_index))
        }
        None => Judgement::unknown("no answer had several calls"),
    }
}

fn call_finish_reason(seen: &Seen) -> Judgement {
    let reasons: Vec<&str> = seen.calls.finish.iter().map(String::as_str).collect();
    match reasons.as_slice() {
        [] => Judgement::unknown("no whole answer with calls was seen"),
        ["tool_calls"] => Judgement::yes("`tool_calls`"),
        others => Judgement::no(format!("`{}`", others.join("`, `"))),
    }
}

fn rate_limit_headers(seen: &Seen) -> Judgement {
    let headers: Vec<&str> = seen.limit_headers.iter().map(String::as_str).collect();
    match (&seen.too_many, headers.is_empty()) {
        (Some(wait), true) if wait.starts_with("no ") => Judgement::no(format!("status 429 with {wait}")),
        (Some(wait), true) => Judgement::yes(format!("status 429 with {wait}")),
        (Some(wait), false) => {
            Judgement::yes(format!("status 429 with {wait}, {}", excerpt(&headers.join(", "))))
        }
        (None, false) => Judgement::yes(format!("no 429, but {}", excerpt(&headers.join(", ")))),
        (None, true) => Judgement::unknown("no 429 was seen"),
    }
}
