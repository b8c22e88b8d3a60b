//! Making responses: text, pictures, files, structure, reasoning; whole and streamed.

use serde_json::{Value, json};

use antwort_test_support::gateway::{Gateway, text_of};
use antwort_test_support::upstream::{Reply, Step, Upstream, chunk, done, finish, usage};

#[tokio::test]
async fn text_comes_whole_and_streamed_alike() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for response in gateway.both(json!({"model": "test-model", "input": "Hi"})).await {
        assert_eq!(response["status"], "completed");
        assert_eq!(text_of(&response), "Hello there!");
        assert_eq!(response["usage"]["input_tokens"], 5);
        assert_eq!(response["usage"]["total_tokens"], 8);
        assert!(response["completed_at"].is_i64());
    }
    let asked = upstream.requests();
    assert_eq!(asked[0].body["messages"], json!([{"role": "user", "content": "Hi"}]));
    assert_ne!(asked[0].body["stream"], true, "a whole answer is asked for whole");
    assert_eq!(asked[1].body["stream_options"]["include_usage"], true);
}

#[tokio::test]
async fn the_request_is_echoed_in_every_snapshot() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let body = json!({"model": "test-model", "input": "Hi", "instructions": "Be brief.", "temperature": 0.5,
        "top_p": 0.9, "max_output_tokens": 99, "metadata": {"a": "b"}, "user": "u", "safety_identifier": "s",
        "prompt_cache_key": "k", "parallel_tool_calls": false, "truncation": "auto", "top_logprobs": 2,
        "reasoning": {"effort": "low"}, "text": {"verbosity": "low"},
        "tools": [{"type": "function", "name": "f"}], "tool_choice": "none"});
    let streamed = gateway.stream(body.clone()).await;
    let created = &streamed.events[0]["response"];
    let ended = &streamed.response;
    for key in [
        "instructions",
        "temperature",
        "top_p",
        "max_output_tokens",
        "metadata",
        "user",
        "safety_identifier",
        "prompt_cache_key",
        "parallel_tool_calls",
        "truncation",
        "top_logprobs",
        "tool_choice",
    ] {
        assert_eq!(created[key], body[key], "{key}");
        assert_eq!(ended[key], body[key], "{key}");
    }
    assert_eq!(created["reasoning"], json!({"effort": "low", "summary": null}));
    assert_eq!(created["text"], json!({"format": {"type": "text"}, "verbosity": "low"}));
    assert_eq!(
        created["tools"],
        json!([{"type": "function", "name": "f", "description": null, "parameters": null, "strict": null}])
    );
    let keys = |snapshot: &Value| snapshot.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let mut expected = keys(created);
    expected.push("antwort".into());
    assert_eq!(keys(ended), expected, "all keys in every snapshot, and at the end what came of the run");
}

#[tokio::test]
async fn system_and_developer_messages_become_one_leading_system_message() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let input = json!([{"role": "developer", "content": "Two."}, {"role": "user", "content": "Hi"},
        {"role": "system", "content": "Three."}, {"role": "user", "content": "Again"}]);
    gateway.create(json!({"model": "test-model", "instructions": "One.", "input": input})).await;
    let messages = upstream.last()["messages"].clone();
    assert_eq!(messages[0]["role"], "system");
    let system = messages[0]["content"].as_str().unwrap();
    for word in ["One.", "Two.", "Three."] {
        assert!(system.contains(word), "{system}");
    }
    assert!(messages.as_array().unwrap()[1..].iter().all(|message| message["role"] == "user"));
}

#[tokio::test]
async fn pictures_files_and_recordings_reach_the_provider() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let picture = "data:image/png;base64,iVBORw0KGgo=";
    let file = "data:application/pdf;base64,JVBERi0=";
    gateway
        .create(json!({"model": "test-model", "input": [{"role": "user", "content": [
            {"type": "input_text", "text": "Look"},
            {"type": "input_image", "image_url": picture, "detail": "original"},
            {"type": "input_file", "filename": "a.pdf", "file_data": file},
            {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
        ]}]}))
        .await;
    let content = upstream.last()["messages"][0]["content"].clone();
    assert_eq!(content[0], json!({"type": "text", "text": "Look"}));
    assert_eq!(content[1], json!({"type": "image_url", "image_url": {"url": picture, "detail": "high"}}));
    assert_eq!(content[2], json!({"type": "file", "file": {"filename": "a.pdf", "file_data": file}}));
    assert_eq!(
        content[3],
        json!({"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}})
    );
}

fn schema() -> Value {
    json!({"type": "json_schema", "name": "answer", "strict": true, "schema": {"type": "object",
        "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false}})
}

#[tokio::test]
async fn structured_output_is_asked_for_and_checked() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let body = json!({"model": "test-model", "input": "Hi", "text": {"format": schema()}});
    upstream.text("{\"n\": 7}").text("{\"n\": 7}");
    for response in gateway.both(body.clone()).await {
        assert_eq!(response["status"], "completed");
    }
    let format = upstream.last()["response_format"].clone();
    assert_eq!(format["type"], "json_schema");
    assert_eq!(format["json_schema"]["name"], "answer");
    assert_eq!(format["json_schema"]["schema"], schema()["schema"]);

    upstream.text("{\"n\": \"seven\"}").text("seven");
    for response in gateway.both(body).await {
        assert_eq!(response["status"], "failed");
        assert_eq!(response["error"]["code"], "invalid_structured_output");
        assert!(text_of(&response).contains("seven"), "the text is kept");
    }
}

#[tokio::test]
async fn a_truncated_structured_answer_is_incomplete_not_invalid() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(Reply::Stream(vec![
        chunk(json!({"content": "{\"n\":"})),
        finish("length"),
        usage(1, 2),
        done(),
    ]));
    let streamed =
        gateway.stream(json!({"model": "test-model", "input": "Hi", "text": {"format": schema()}})).await;
    assert_eq!(streamed.response["status"], "incomplete");
    assert_eq!(streamed.response["incomplete_details"]["reason"], "max_output_tokens");
    assert_eq!(streamed.response["output"][0]["status"], "incomplete");
}

#[tokio::test]
async fn a_schema_that_is_none_is_refused_before_the_model_is_asked() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let format = json!({"type": "json_schema", "name": "x", "schema": {"type": "strnig"}});
    let error = gateway
        .refuse(
            json!({"model": "test-model", "input": "Hi", "text": {"format": format}}),
            400,
            "invalid_json_schema",
        )
        .await;
    assert_eq!(error["param"], "text.format.schema");
    assert!(upstream.requests().is_empty());
}

fn thinking() -> Reply {
    Reply::Stream(vec![
        chunk(json!({"role": "assistant", "reasoning_content": "Let me "})),
        chunk(json!({"reasoning_content": "think."})),
        chunk(json!({"content": "42"})),
        finish("stop"),
        usage(3, 9),
        done(),
    ])
}

#[tokio::test]
async fn reasoning_is_shown_as_text_or_as_a_summary_when_asked() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(thinking()).reply(thinking());
    let streamed = gateway.stream(json!({"model": "test-model", "input": "Hi"})).await;
    let item = &streamed.response["output"][0];
    assert_eq!(item["type"], "reasoning");
    assert_eq!(item["content"], json!([{"type": "reasoning_text", "text": "Let me think."}]));
    let streamed =
        gateway.stream(json!({"model": "test-model", "input": "Hi", "reasoning": {"summary": "auto"}})).await;
    let item = &streamed.response["output"][0];
    assert_eq!(item["summary"], json!([{"type": "summary_text", "text": "Let me think."}]));
}

#[tokio::test]
async fn the_open_responses_dialect_renames_raw_reasoning() {
    let upstream = Upstream::spawn().await;
    let gateway =
        Gateway::with_upstream(&upstream).spawn().await.with_header("antwort-dialect", "open_responses");
    upstream.reply(thinking());
    let streamed = gateway.stream(json!({"model": "test-model", "input": "Hi"})).await;
    let types: Vec<_> = streamed.events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert!(
        types.contains(&"response.reasoning.delta") && types.contains(&"response.reasoning.done"),
        "{types:?}"
    );
    upstream.text("{\"n\": 7}");
    let response =
        gateway.create(json!({"model": "test-model", "input": "Hi", "text": {"format": schema()}})).await;
    assert_eq!(response["text"]["format"]["schema"], Value::Null);
}

#[tokio::test]
async fn sealed_reasoning_goes_back_to_its_provider_and_to_no_one_else() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(thinking());
    let body = json!({"model": "test-model", "input": "Hi", "store": false, "include": ["reasoning.encrypted_content"]});
    let first = gateway.stream(body).await.response;
    let blob = first["output"][0]["encrypted_content"].as_str().unwrap();
    assert!(!blob.contains("think"));

    let replay = |item: Value| {
        json!({"model": "test-model", "store": false, "input": [
        {"role": "user", "content": "Hi"}, item, first["output"][1], {"role": "user", "content": "And?"}]})
    };
    // Clients that keep only the blob: the reasoning comes from inside it.
    let sealed = json!({"type": "reasoning", "summary": [], "encrypted_content": blob});
    gateway.create(replay(sealed)).await;
    assert_eq!(upstream.last()["messages"][1]["reasoning_content"], "Let me think.");
    let foreign = json!({"type": "reasoning", "summary": [], "encrypted_content": "gAAAAABforeign"});
    gateway.create(replay(foreign)).await;
    assert!(!upstream.last().to_string().contains("gAAAAAB"), "what cannot be opened is never forwarded");
}

#[tokio::test]
async fn logprobs_come_when_asked_for() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let entry = json!({"token": "Hi", "logprob": -0.25, "bytes": [72, 105], "top_logprobs": []});
    let with_logprobs = || {
        Reply::Stream(vec![
            Step::Chunk(
                json!({"choices": [{"index": 0, "delta": {"content": "Hi"}, "logprobs": {"content": [entry]}}]}),
            ),
            finish("stop"),
            done(),
        ])
    };
    upstream.reply(with_logprobs()).reply(with_logprobs());
    let body = json!({"model": "test-model", "input": "x", "include": ["message.output_text.logprobs"]});
    let streamed = gateway.stream(body).await;
    assert_eq!(streamed.response["output"][0]["content"][0]["logprobs"], json!([entry]));
    assert_eq!(upstream.last()["logprobs"], true);
    let streamed = gateway.stream(json!({"model": "test-model", "input": "x"})).await;
    assert_eq!(streamed.response["output"][0]["content"][0]["logprobs"], json!([]));
}

#[tokio::test]
async fn obfuscation_pads_deltas_on_request() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let body = json!({"model": "test-model", "input": "x", "stream_options": {"include_obfuscation": true}});
    let streamed = gateway.stream(body).await;
    let delta = streamed.events.iter().find(|event| event["type"] == "response.output_text.delta").unwrap();
    assert!(delta["obfuscation"].is_string());
}

#[tokio::test]
async fn a_refusal_is_a_part_of_its_own() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(Reply::Stream(vec![chunk(json!({"refusal": "I can't."})), finish("stop"), done()]));
    let streamed = gateway.stream(json!({"model": "test-model", "input": "x"})).await;
    assert_eq!(streamed.response["status"], "completed");
    assert_eq!(
        streamed.response["output"][0]["content"],
        json!([{"type": "refusal", "refusal": "I can't."}])
    );
}

#[tokio::test]
async fn old_items_are_dropped_to_fit_and_only_when_allowed() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream)
        .provider(|p| p.context_window = antwort::config::ContextWindow::All(100))
        .spawn()
        .await;
    let long = "word ".repeat(60);
    let input = json!([{"role": "user", "content": long}, {"role": "assistant", "content": long},
        {"role": "user", "content": "short"}]);
    gateway.refuse(json!({"model": "test-model", "input": input}), 400, "context_length_exceeded").await;
    assert!(upstream.requests().is_empty());
    gateway.create(json!({"model": "test-model", "input": input, "truncation": "auto"})).await;
    let messages = upstream.last()["messages"].clone();
    assert_eq!(messages.as_array().unwrap().last().unwrap()["content"], "short");
    assert!(messages.as_array().unwrap().len() < 3);
}

#[tokio::test]
async fn an_overflow_that_the_provider_reports_is_met_once() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let overflow = || {
        let error = json!({"error": {"message": "This model's maximum context length is 10 tokens.",
            "type": "invalid_request_error", "code": "context_length_exceeded"}});
        Reply::Status(400, vec![("content-type", "application/json")], error.to_string())
    };
    let input = json!([{"role": "user", "content": "one ".repeat(50)}, {"role": "user", "content": "two"}]);
    upstream.reply(overflow());
    let response = gateway.create(json!({"model": "test-model", "input": input, "truncation": "auto"})).await;
    assert_eq!(response["status"], "completed");
    assert_eq!(upstream.requests().len(), 2);
    assert_eq!(upstream.last()["messages"], json!([{"role": "user", "content": "two"}]));
    upstream.reply(overflow());
    gateway.refuse(json!({"model": "test-model", "input": input}), 400, "context_length_exceeded").await;
}

#[tokio::test]
async fn the_service_tier_is_a_wish_until_the_end_and_then_what_the_provider_reports() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for (asked, wish, reported, told) in [
        (json!(null), "auto", json!("flex"), "flex"),
        (json!("flex"), "flex", json!("default"), "default"),
        (json!("priority"), "priority", json!("on_demand"), "default"),
        (json!("flex"), "flex", json!(null), "default"),
    ] {
        let mut first = json!({"choices": [{"index": 0, "delta": {"content": "Hi"}}]});
        first["service_tier"] = reported.clone();
        upstream.reply(Reply::Stream(vec![Step::Chunk(first), finish("stop"), done()]));
        let body = json!({"model": "test-model", "input": "Hi", "service_tier": asked});
        let streamed = gateway.stream(body).await;
        for snapshot in &streamed.events[..2] {
            assert_eq!(snapshot["response"]["service_tier"], wish, "{asked} {reported}");
        }
        assert_eq!(streamed.response["service_tier"], told, "{asked} {reported}");
    }
}

#[tokio::test]
async fn reasoning_items_have_no_status_in_either_dialect_and_one_that_is_sent_is_accepted() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for dialect in ["openai", "open_responses"] {
        let gateway = Gateway::with_upstream(&upstream).spawn().await.with_header("antwort-dialect", dialect);
        upstream.reply(thinking());
        let streamed = gateway.stream(json!({"model": "test-model", "input": "Hi"})).await;
        assert_eq!(streamed.response["output"][0]["type"], "reasoning");
        assert_eq!(streamed.response["output"][0].get("status"), None, "{dialect}");
    }
    let old = json!({"type": "reasoning", "id": "rs_1", "status": "in_progress", "summary": []});
    let input = json!([{"role": "user", "content": "Hi"}, old, {"role": "assistant", "content": "Ho"},
        {"role": "user", "content": "And?"}]);
    let response = gateway.create(json!({"model": "test-model", "input": input})).await;
    let path = format!("/v1/responses/{}/input_items?order=asc", response["id"].as_str().unwrap());
    assert_eq!(gateway.get(&path).await.body["data"][1].get("status"), None);
}

#[tokio::test]
async fn efforts_that_the_open_responses_specification_does_not_know_are_refused_in_its_dialect() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let strict =
        Gateway::with_upstream(&upstream).spawn().await.with_header("antwort-dialect", "open_responses");
    for effort in ["minimal", "max"] {
        let body = json!({"model": "test-model", "input": "Hi", "reasoning": {"effort": effort}});
        assert_eq!(gateway.create(body.clone()).await["reasoning"]["effort"], effort);
        assert_eq!(strict.refuse(body, 400, "invalid_value").await["param"], "reasoning.effort");
    }
    let body = json!({"model": "test-model", "input": "Hi", "reasoning": {"effort": "low"}});
    assert_eq!(strict.create(body).await["reasoning"], json!({"effort": "low", "summary": null}));
}

#[tokio::test]
async fn a_video_is_the_output_of_a_tool_and_nothing_else() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let video = json!({"type": "input_video", "video_url": "https://x.example/film.mp4"});
    let call = json!({"type": "function_call", "call_id": "c", "name": "film", "arguments": "{}"});
    let output = json!({"type": "function_call_output", "call_id": "c", "output": [video]});
    let body = json!({"model": "test-model", "input": [call, output]});
    let response = gateway.create(body.clone()).await;
    let sent = upstream.last()["messages"][2]["content"].clone();
    assert_eq!(sent[1], json!({"type": "video_url", "video_url": {"url": "https://x.example/film.mp4"}}));
    let path = format!("/v1/responses/{}/input_items?order=asc", response["id"].as_str().unwrap());
    let items = gateway.get(&path).await.body;
    antwort_test_support::openapi::assert_items(&items);
    assert_eq!(items["data"][1]["output"][0], video);
    let said = json!({"model": "test-model", "input": [{"role": "user", "content": [video]}]});
    assert_eq!(gateway.refuse(said, 400, "invalid_value").await["param"], "input[0].content[0].type");
    let blind = Gateway::with_upstream(&upstream).provider(|provider| provider.supports.video = false);
    assert_eq!(blind.spawn().await.refuse(body, 400, "unsupported_parameter").await["param"], "input");
}
