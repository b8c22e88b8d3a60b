//! What comes in a stream, and how it ends.

use std::time::Duration;

use serde_json::{Value, json};

use super::{ask, outcome};
use antwort_test_support::gateway::{Gateway, text_of};
use antwort_test_support::upstream::{Reply, Step, Upstream, chunk, done, finish, usage};

fn text(text: &str) -> Step {
    chunk(json!({"content": text}))
}

fn raw(bytes: impl AsRef<[u8]>) -> Step {
    Step::Raw(bytes.as_ref().to_vec())
}

fn pause() -> Step {
    Step::Wait(Duration::from_millis(50))
}

/// The bytes of a whole answer of two words, as most servers frame it.
fn framed(line_end: &str) -> Vec<u8> {
    let mut all = String::new();
    for (delta, reason) in
        [(json!({"content": "Grüße, "}), Value::Null), (json!({"content": "世界 🦀"}), json!("stop"))]
    {
        let chunk = json!({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]});
        all.push_str(&format!("data: {chunk}{line_end}{line_end}"));
    }
    all.push_str(&format!("data: [DONE]{line_end}{line_end}"));
    all.into_bytes()
}

#[tokio::test]
async fn an_answer_that_breaks_off_fails_with_its_text_kept() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let error = json!({"error": {"message": "CUDA out of memory", "code": 500}});
    let named = raw(format!("event: error\ndata: {error}\n\n"));
    let unframed = raw(format!("{error}\n\n"));
    let in_choice = Step::Chunk(
        json!({"choices": [{"index": 0, "delta": {}, "error": {"message": "overloaded", "code": 502}}]}),
    );
    for (name, steps, code) in [
        ("the connection breaks", vec![pause(), Step::Cut], "upstream_disconnected"),
        ("the stream just ends", vec![], "upstream_disconnected"),
        ("half an event, then the end", vec![raw(b"data: {\"choices\":[{\"del")], "upstream_disconnected"),
        ("an error object", vec![Step::Chunk(error.clone())], "upstream_error"),
        ("an error event", vec![named], "upstream_error"),
        ("an error without a frame (llama.cpp)", vec![unframed], "upstream_error"),
        ("an error in the choice (OpenRouter)", vec![in_choice], "upstream_error"),
        (
            "an error, then a pretended end",
            vec![Step::Chunk(error), finish("stop"), done()],
            "upstream_error",
        ),
        (
            "a rate limit",
            vec![Step::Chunk(json!({"error": {"message": "slow", "code": 429}}))],
            "rate_limit_exceeded",
        ),
        (
            "a broken chunk",
            vec![raw("data: {\"choices\":[{\"delta\":{\"con\n\n"), finish("stop"), done()],
            "upstream_malformed",
        ),
        ("an unknown finish reason", vec![finish("network_error"), done()], "upstream_error"),
        ("a web page", vec![raw("<html><body>Bad gateway</body></html>\n\n")], "upstream_disconnected"),
    ] {
        let mut whole = vec![chunk(json!({"role": "assistant"})), text("Hel"), text("lo")];
        whole.extend(steps);
        upstream.reply(Reply::Stream(whole));
        assert_eq!(outcome(&gateway, ask()).await, ("failed".into(), code.into(), "Hello".into()), "{name}");
    }
    assert_eq!(upstream.requests().len(), 12, "what was heard is not asked for again");
}

#[tokio::test]
async fn an_event_that_is_too_large_ends_the_answer_and_not_the_process() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let piece = vec![b'x'; 1024 * 1024];
    let mut steps = vec![text("Hi"), raw(b"data: {\"choices\":[{\"delta\":{\"content\":\"")];
    steps.extend((0..17).map(|_| Step::Raw(piece.clone())));
    steps.extend([raw(b"\"}}]}\n\n"), finish("stop"), done()]);
    upstream.reply(Reply::Stream(steps));
    assert_eq!(outcome(&gateway, ask()).await, ("failed".into(), "upstream_malformed".into(), "Hi".into()));

    // Just below the limit it is an answer like any other, though an item may not be as large.
    let gateway =
        Gateway::with_upstream(&upstream).set(|s| s.engine.max_item_bytes = 64 * 1024 * 1024).spawn().await;
    upstream.reply(Reply::Stream(vec![text(&"y".repeat(15 * 1024 * 1024)), finish("stop"), done()]));
    let (status, _, text) = outcome(&gateway, ask()).await;
    assert_eq!((status.as_str(), text.len()), ("completed", 15 * 1024 * 1024));
}

#[tokio::test]
async fn an_output_that_outgrows_its_limits_is_incomplete() {
    let upstream = Upstream::spawn().await;
    let long = || vec![text("Hello, "); 100];
    let many = || {
        (0..100).map(|n| chunk(json!({"tool_calls": [{"index": n, "id": format!("c{n}"), "function": {"name": "f", "arguments": "{}"}}]}))).collect()
    };
    for (name, steps, change) in [
        (
            "one item",
            long(),
            (|engine| engine.max_item_bytes = 200) as fn(&mut antwort::config::EngineSettings),
        ),
        ("all items", long(), |engine| (engine.max_item_bytes, engine.max_response_bytes) = (200, 200)),
        ("their number", many(), |engine| engine.max_output_items = 5),
    ] {
        let gateway =
            Gateway::with_upstream(&upstream).set(|settings| change(&mut settings.engine)).spawn().await;
        let mut body = ask();
        body["tools"] = json!([{"type": "function", "name": "f"}]);
        let mut steps: Vec<Step> = steps;
        steps.extend([finish("stop"), done()]);
        upstream.reply(Reply::Stream(steps));
        let response = gateway.stream(body).await.response;
        assert_eq!(
            (&response["status"], &response["incomplete_details"]["reason"]),
            (&json!("incomplete"), &json!("max_response_size")),
            "{name}"
        );
    }
}

#[tokio::test]
async fn odd_frames_are_read_like_any_other() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let lines = framed("\n");
    let bytes: Vec<Step> = lines.iter().map(|byte| Step::Raw(vec![*byte])).collect();
    let thirds: Vec<Step> =
        lines.chunks(3).flat_map(|piece| [raw(piece), Step::Wait(Duration::ZERO)]).collect();
    let middle = lines.windows(2).position(|pair| pair == "ü".as_bytes()).unwrap() + 1;
    let split = vec![raw(&lines[..middle]), pause(), raw(&lines[middle..])];
    let mut mark = b"\xef\xbb\xbf".to_vec();
    mark.extend(&lines);
    let text = String::from_utf8(lines.clone()).unwrap();
    for (name, steps) in [
        ("bytes one by one", bytes),
        ("three bytes at a time", thirds),
        ("a character in two reads", split),
        ("CRLF", vec![raw(framed("\r\n"))]),
        ("CR", vec![raw(framed("\r"))]),
        ("a byte order mark", vec![raw(mark)]),
        ("no blank behind the colon", vec![raw(text.replace("data: ", "data:"))]),
        (
            "comments",
            vec![raw(format!(": OPENROUTER PROCESSING\n\n{}", text.replace("\n\n", "\n\n: ping\n\n")))],
        ),
        (
            "ids, names and retry",
            vec![raw(format!("retry: 100\n\n{}", text.replace("data: ", "id: 7\nevent: message\ndata: ")))],
        ),
        ("empty events", vec![raw(text.replace("\n\n", "\n\ndata:\n\nevent: ping\n\n"))]),
        ("no line end at the end", vec![raw(text.trim_end())]),
        (
            "all behind the end",
            vec![raw(format!("{text}data: {{\"choices\":[{{\"delta\":{{\"content\":\"!\"}}}}]}}\n\n"))],
        ),
    ] {
        upstream.reply(Reply::Stream(steps));
        let expected = ("completed".into(), String::new(), "Grüße, 世界 🦀".into());
        assert_eq!(outcome(&gateway, ask()).await, expected, "{name}");
    }
}

#[tokio::test]
async fn odd_chunks_are_read_for_what_they_say() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let stray = || Step::Chunk(json!({"object": "billing.summary", "cost": 0.1}));
    let nothing = || Step::Chunk(json!({"choices": []}));
    let second = Step::Chunk(json!({"choices": [{"index": 1, "delta": {"content": "other"}}]}));
    let parts = chunk(json!({"content": [{"type": "text", "text": "Hello"}]}));
    let nulls = chunk(
        json!({"role": null, "content": "Hello", "tool_calls": null, "refusal": null, "reasoning": null}),
    );
    let late = Step::Chunk(
        json!({"choices": [{"index": 0, "delta": {"content": "Hello"}, "finish_reason": "stop"}]}),
    );
    for (name, steps, tokens) in [
        ("[DONE] without a finish reason", vec![text("Hello"), done()], 0),
        ("the end without [DONE]", vec![text("Hello"), finish("stop")], 0),
        ("usage after the finish reason", vec![text("Hello"), finish("stop"), usage(5, 3), done()], 8),
        ("usage long after it", vec![text("Hello"), finish("stop"), pause(), usage(5, 3), done()], 8),
        ("usage and no [DONE]", vec![text("Hello"), finish("stop"), usage(5, 3)], 8),
        ("empty choices first (Azure)", vec![nothing(), text("Hello"), finish("stop"), done()], 0),
        ("a frame that is no chunk at the end", vec![text("Hello"), finish("stop"), stray(), done()], 0),
        ("a second choice", vec![text("Hello"), second, finish("stop"), done()], 0),
        ("text in parts", vec![parts, finish("stop"), done()], 0),
        ("nulls everywhere", vec![nulls, finish("stop"), done()], 0),
        ("text with the finish reason", vec![late, done()], 0),
        (
            "empty deltas",
            vec![text(""), text("Hello"), text(""), chunk(json!({})), finish("stop"), done()],
            0,
        ),
        ("an unknown word for the end", vec![text("Hello"), finish("eos"), done()], 0),
        ("a stray line", vec![raw("data: ping\n\n"), text("Hello"), finish("stop"), done()], 0),
    ] {
        upstream.reply(Reply::Stream(steps));
        let response = gateway.stream(ask()).await.response;
        assert_eq!(
            (&response["status"], text_of(&response)),
            (&json!("completed"), "Hello".into()),
            "{name}"
        );
        let counted = response["usage"]["total_tokens"].as_u64();
        assert_eq!(counted, Some(tokens).filter(|tokens| *tokens > 0), "{name}");
    }
}

#[tokio::test]
async fn limits_of_the_provider_make_an_incomplete_response() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for (word, reason) in [
        ("length", "max_output_tokens"),
        ("max_tokens", "max_output_tokens"),
        ("max_completion_tokens", "max_output_tokens"),
        ("model_context_window_exceeded", "max_output_tokens"),
        ("content_filter", "content_filter"),
        ("sensitive", "content_filter"),
    ] {
        upstream.reply(Reply::Stream(vec![text("Hel"), finish(word), usage(5, 3), done()]));
        let response = gateway.stream(ask()).await.response;
        assert_eq!(
            (&response["status"], &response["incomplete_details"]["reason"]),
            (&json!("incomplete"), &json!(reason))
        );
        assert_eq!((text_of(&response), &response["usage"]["total_tokens"]), ("Hel".into(), &json!(8)));
    }
}

#[tokio::test]
async fn what_fails_before_its_first_word_is_a_real_status() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let role = || chunk(json!({"role": "assistant", "content": ""}));
    let limit = Step::Chunk(
        json!({"error": {"message": "Slow down", "type": "rate_limit_error", "code": "slow_down"}}),
    );
    for (name, steps, status, code) in [
        (
            "an error object first (Perplexity)",
            vec![Step::Chunk(json!({"error": {"message": "No", "code": 400}}))],
            400,
            "upstream_rejected_request",
        ),
        (
            "an error behind the role",
            vec![role(), Step::Chunk(json!({"error": "boom"}))],
            502,
            "upstream_error",
        ),
        ("a rate limit without its status", vec![limit], 429, "slow_down"),
        ("nothing at all", vec![], 502, "upstream_malformed"),
        ("nothing but the end", vec![done()], 502, "upstream_malformed"),
        ("nothing but a role", vec![role(), done()], 502, "upstream_malformed"),
        ("no events", vec![raw("I am a teapot")], 502, "upstream_malformed"),
    ] {
        // What may be worth a retry gets the same answer again.
        for _ in 0..if status == 429 { 3 } else { 1 } {
            upstream.reply(Reply::Stream(steps.clone()));
        }
        let mut body = ask();
        body["stream"] = true.into();
        let error = gateway.refuse(body, status, code).await;
        assert!(error["message"].as_str().unwrap().len() > 1, "{name}");
    }
}

#[tokio::test]
async fn answers_that_are_no_streams_are_read_as_strictly() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let typed = |kind, text: &str| Reply::Typed(kind, vec![raw(text)]);
    for (name, reply, status, code) in [
        ("no JSON", typed("application/json", "Hello!"), 502, "upstream_malformed"),
        ("nothing", typed("application/json", ""), 502, "upstream_malformed"),
        ("half of it", typed("application/json", "{\"choices\":[{\"mess"), 502, "upstream_malformed"),
        ("another object", typed("application/json", "{\"hello\":\"world\"}"), 502, "upstream_malformed"),
        ("a list", typed("application/json", "[]"), 502, "upstream_malformed"),
        ("no choices", typed("application/json", "{\"choices\":[]}"), 502, "upstream_malformed"),
        ("an error", typed("application/json", "{\"error\":{\"message\":\"boom\"}}"), 502, "upstream_error"),
        (
            "vLLM's error",
            typed("application/json", "{\"object\":\"error\",\"message\":\"No\",\"code\":400}"),
            400,
            "upstream_rejected_request",
        ),
        ("a web page", typed("text/html; charset=utf-8", "<html>Log in</html>"), 502, "upstream_malformed"),
    ] {
        upstream.reply(reply);
        let error = gateway.refuse(ask(), status, code).await;
        assert!(!error["message"].as_str().unwrap().is_empty(), "{name}");
    }
    let cut = || Reply::Typed("application/json", vec![raw("{\"choices\":[{\"mess"), pause(), Step::Cut]);
    upstream.reply(cut()).reply(cut()).reply(cut());
    gateway.refuse(ask(), 502, "upstream_disconnected").await;
}

#[tokio::test]
async fn a_stream_nobody_asked_for_and_a_stream_that_was_refused_are_answers_all_the_same() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(Reply::Stream(vec![text("Hel"), text("lo"), finish("stop"), usage(5, 3), done()]));
    assert_eq!(text_of(&gateway.create(ask()).await), "Hello");
    let message = json!({"role": "assistant", "content": "Hello"});
    upstream
        .reply(Reply::Whole(json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})));
    assert_eq!(outcome(&gateway, ask()).await, ("completed".into(), String::new(), "Hello".into()));
}

#[tokio::test]
async fn halves_of_characters_are_joined_or_replaced_and_never_end_a_stream() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let piece = |text: &str| {
        raw(format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n"))
    };
    for (pieces, expected) in [
        (vec!["a\\ud83d", "\\ude00b"], "a😀b"),
        (vec!["\\ud83d", "\\ude00\\ud83d", "\\ude00"], "😀😀"),
        (vec!["a\\ud800b"], "a\u{fffd}b"),
        (vec!["a\\ud800", "b"], "a\u{fffd}b"),
        (vec!["a\\ud800"], "a\u{fffd}"),
        (vec!["\\ude00a"], "\u{fffd}a"),
    ] {
        let mut steps: Vec<Step> = pieces.iter().map(|text| piece(text)).collect();
        steps.extend([finish("stop"), done()]);
        upstream.reply(Reply::Stream(steps));
        let response = gateway.stream(ask()).await.response;
        assert_eq!((response["status"].as_str(), text_of(&response).as_str()), (Some("completed"), expected));
        // The same, in one body.
        let text = pieces.concat();
        let body = format!(r#"{{"choices":[{{"message":{{"content":"{text}"}},"finish_reason":"stop"}}]}}"#);
        upstream.reply(Reply::Typed("application/json", vec![raw(body)]));
        assert_eq!(text_of(&gateway.create(ask()).await), expected);
    }
}
