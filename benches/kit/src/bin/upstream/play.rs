//! Plays the script: decides what is said, renders it in the protocol that was asked in, and keeps what never changes.

use crate::answer::{Answer, error, respond};
use crate::script::{Ask, Say, calls, echo, text};
use crate::{completions, native};
use bytes::Bytes;
use hyper::Response;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, RwLock};
use std::time::Duration;

/// Rendered answers to plain `text-*` requests; these depend on nothing but the key:
/// model, stream, usage, native.
type Key = (String, bool, bool, bool);
static CACHE: LazyLock<RwLock<HashMap<Key, Arc<Vec<Bytes>>>>> = LazyLock::new(Default::default);

pub(crate) async fn play(ask: Ask<'_>) -> Response<Answer> {
    let name = ask.model.rsplit('/').next().unwrap_or("");
    let mut words = name.split('-');
    let kind = words.next().unwrap_or("");
    let n: usize = words.next().and_then(|w| w.parse().ok()).unwrap_or(20);
    let delay = words
        .next()
        .and_then(|w| w.strip_suffix("us"))
        .and_then(|w| w.parse().ok())
        .map(Duration::from_micros);
    let last_user = ask.messages.iter().rposition(|m| m.0 == "user").unwrap_or(0);
    let since = |role| ask.messages.iter().skip(last_user).filter(|m| m.0 == role).count();
    let (results, turns) = (since("tool"), since("assistant"));

    let say = match kind {
        "err" if n == 429 => return error(429, "Rate limit reached, try again in 1s"),
        "err" => return error(n as u16, "The server had an error while processing your request"),
        "tool" if results == 0 && !ask.tools.is_empty() => Say::Calls(calls(&ask.tools, n, turns)),
        "loop" if turns < n && !ask.tools.is_empty() => Say::Calls(calls(&ask.tools[..1], 1, turns)),
        "echo" => Say::Text(echo(&ask.messages)),
        "slow" => {
            tokio::time::sleep(Duration::from_millis(n as u64)).await;
            Say::Text(text(20))
        }
        "tool" | "loop" => Say::Text(text(20)),
        _ => {
            let key = (name.to_string(), ask.stream, ask.usage, ask.native);
            let cached = CACHE.read().unwrap().get(&key).cloned();
            let frames = cached.unwrap_or_else(|| {
                let frames = Arc::new(render(
                    name,
                    &Say::Text(text(if kind == "cut" { n + 10 } else { n })),
                    &ask,
                    10,
                ));
                CACHE.write().unwrap().insert(key, frames.clone());
                frames
            });
            let frames = if ask.native { Arc::new(native::with_new_ids(&frames)) } else { frames };
            let cut = (kind == "cut").then_some(n);
            return respond(200, ask.stream, Answer::new(frames, delay.filter(|_| ask.stream), cut));
        }
    };
    let frames = render(name, &say, &ask, 10 * ask.messages.len());
    let frames = if ask.native { native::with_new_ids(&frames) } else { frames };
    respond(200, ask.stream, Answer::new(Arc::new(frames), None, None))
}

/// The answer's frames: one JSON document, or one SSE event each.
fn render(model: &str, say: &Say, ask: &Ask, prompt_tokens: usize) -> Vec<Bytes> {
    if ask.native {
        return native::render(model, say, ask.stream, prompt_tokens);
    }
    completions::render(model, say, ask, prompt_tokens)
}
