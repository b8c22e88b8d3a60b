//! Answers in a form that was asked for: what becomes of one that misses it, and what the response says of that.

use antwort::config::{AgentSettings, OnMismatch};
use serde_json::{Value, json};

use antwort_test_support::gateway::Gateway;
use antwort_test_support::transcript::transcript;
use antwort_test_support::upstream::{Reply, Step, Upstream, chunk, done, finish, usage};

fn format(strict: Value) -> Value {
    json!({"type": "json_schema", "name": "answer", "strict": strict, "schema": {"type": "object",
        "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false}})
}

fn ask(format: Value, extra: Value) -> Value {
    let mut body = json!({"model": "test-model", "input": "Hi", "text": {"format": format}});
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    body
}

fn on_mismatch(mode: &str) -> Value {
    json!({"antwort": {"structured": {"on_mismatch": mode}}})
}

/// What the answer was found to be.
fn verdict(response: &Value) -> Value {
    response["antwort"]["structured"].clone()
}

#[tokio::test]
async fn an_answer_that_misses_its_form_fails_only_where_the_form_is_strict() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for (format, status) in [
        (format(json!(true)), "failed"),
        (format(json!(false)), "completed"),
        (format(Value::Null), "completed"),
        (json!({"type": "json_object"}), "completed"),
    ] {
        for answer in ["[1, \"secret words\"]", "secret words"] {
            upstream.text(answer).text(answer);
            for response in gateway.both(ask(format.clone(), json!({}))).await {
                assert_eq!(response["status"], status, "{format}");
                let code = if status == "failed" { json!("invalid_structured_output") } else { Value::Null };
                assert_eq!(response["error"]["code"], code);
                let verdict = verdict(&response);
                assert_eq!((&verdict["on_mismatch"], &verdict["valid"]), (&json!("auto"), &json!(false)));
                assert_eq!(verdict["repaired"], false);
                let error = verdict["error"].as_str().unwrap();
                assert!(!error.contains("secret"), "the answer is not quoted: {error}");
            }
        }
    }
}

#[tokio::test]
async fn a_code_fence_around_an_answer_that_is_to_be_json_is_no_part_of_it() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let pieces = ["``", "`js", "on\n{\"n\"", ": 7}", "\n`", "``\n"];
    let fenced = || {
        let text = pieces.iter().map(|piece| chunk(json!({"content": piece})));
        Reply::Stream(text.chain([finish("stop"), done()]).collect())
    };
    for format in [format(json!(true)), json!({"type": "json_object"})] {
        upstream.reply(fenced()).text(&pieces.concat());
        for response in gateway.both(ask(format.clone(), json!({}))).await {
            assert_eq!(response["status"], "completed", "{response:#}");
            assert_eq!(response["output"][0]["content"][0]["text"], "{\"n\": 7}");
            assert_eq!(verdict(&response)["valid"], true);
        }
    }
    // A text is whatever the model writes, and so is an answer with words before the fence.
    upstream.reply(fenced());
    let text = gateway.create(ask(json!({"type": "text"}), json!({}))).await;
    assert_eq!(text["output"][0]["content"][0]["text"], pieces.concat());
    let words = format!("Here it is: {}", pieces.concat());
    upstream.text(&words);
    let response = gateway.create(ask(format(json!(false)), json!({}))).await;
    assert_eq!(response["output"][0]["content"][0]["text"], words);
}

#[tokio::test]
async fn what_is_wrong_with_an_answer_is_said_with_its_place_and_kept_in_the_store() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let long = "secret ".repeat(5000);
    upstream.text(&json!({"n": long}).to_string()).text("{\"n\": 7}");
    let response = gateway.create(ask(format(json!(false)), json!({}))).await;
    let error = verdict(&response)["error"].as_str().unwrap().to_owned();
    assert!(error.starts_with("/n: ") && error.contains("integer"), "{error}");
    assert!(error.len() < 300 && !error.contains("secret"), "{error}");
    let stored = gateway.get(&format!("/v1/responses/{}", response["id"].as_str().unwrap())).await.body;
    assert_eq!(stored, response);
    let response = gateway.create(ask(format(json!(false)), json!({}))).await;
    let expected = json!({"on_mismatch": "auto", "valid": true, "error": null, "repaired": false});
    assert_eq!((verdict(&response), response["status"].as_str()), (expected, Some("completed")));
}

#[tokio::test]
async fn what_becomes_of_a_mismatch_is_chosen_by_request_then_agent_then_configuration() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream)
        .set(|settings| {
            settings.engine.structured.on_mismatch = OnMismatch::Fail;
            let mut agent = AgentSettings::default();
            agent.structured.on_mismatch = Some(OnMismatch::Keep);
            settings.agents.insert("helper".into(), agent);
        })
        .spawn()
        .await;
    upstream.always(Reply::Text("no JSON".into()));
    for (extra, status, mode) in [
        (json!({}), "failed", "fail"),
        (json!({"agent": "helper"}), "completed", "keep"),
        (on_mismatch("keep"), "completed", "keep"),
        (on_mismatch("auto"), "completed", "auto"),
        (json!({"agent": "helper", "antwort": {"structured": {"on_mismatch": "fail"}}}), "failed", "fail"),
        (json!({"agent": "helper", "antwort": {"structured": {}}}), "completed", "keep"),
    ] {
        let response = gateway.stream(ask(format(json!(false)), extra.clone())).await.response;
        assert_eq!(
            (&response["status"], &verdict(&response)["on_mismatch"]),
            (&json!(status), &json!(mode)),
            "{extra}"
        );
    }
    let strict = gateway.create(ask(format(json!(true)), on_mismatch("keep"))).await;
    assert_eq!(strict["status"], "completed", "'keep' holds for strict formats, too");
    let error = gateway.refuse(ask(format(json!(true)), on_mismatch("mend")), 400, "invalid_value").await;
    assert!(error["param"].as_str().unwrap().starts_with("antwort"), "{error}");
}

#[tokio::test]
async fn a_repair_tells_the_model_what_is_wrong_and_asks_once_more() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.text("{\"n\": \"seven\"}").text("{\"n\": 7}");
    let streamed = gateway.stream(ask(format(json!(true)), on_mismatch("repair"))).await;
    insta::assert_snapshot!("repair", transcript(&streamed.events));
    let response = &streamed.response;
    assert_eq!(response["usage"]["total_tokens"], 16, "both inferences are counted");
    // Helpers of SDKs parse messages without a phase, and final answers.
    let phases: Vec<_> =
        response["output"].as_array().unwrap().iter().map(|item| item["phase"].clone()).collect();
    assert_eq!(phases, [json!("commentary"), Value::Null]);
    let messages = upstream.last()["messages"].clone();
    assert_eq!(messages[1], json!({"role": "assistant", "content": "{\"n\": \"seven\"}"}));
    assert_eq!(messages[2]["role"], "user");
    assert!(messages[2]["content"].as_str().unwrap().contains("/n: "), "{messages}");
    let stored = gateway.get(&format!("/v1/responses/{}", response["id"].as_str().unwrap())).await.body;
    assert_eq!(&stored, response);
    // What the model was told is no part of the conversation.
    let items = gateway.get(&format!("/v1/responses/{}/input_items", response["id"].as_str().unwrap())).await;
    assert_eq!(items.body["data"].as_array().unwrap().len(), 1);
    gateway
        .create(json!({"model": "test-model", "previous_response_id": response["id"], "input": "And?"}))
        .await;
    assert!(!upstream.last().to_string().contains("does not have the form"));
    upstream.text("seven").text("{\"n\": 7}");
    let body = gateway.create(ask(format(json!(true)), on_mismatch("repair"))).await;
    assert_eq!((&body["status"], &body["antwort"]["turns"]), (&json!("completed"), &json!(2)));
}

#[tokio::test]
async fn a_repair_that_fails_ends_as_if_there_had_been_none() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.always(Reply::Text("seven".into()));
    for (strict, status) in [(true, "failed"), (false, "completed")] {
        let before = upstream.requests().len();
        let response = gateway.stream(ask(format(json!(strict)), on_mismatch("repair"))).await.response;
        assert_eq!(response["status"], status);
        assert_eq!(
            (&verdict(&response)["valid"], &verdict(&response)["repaired"]),
            (&json!(false), &json!(false))
        );
        assert_eq!((response["antwort"]["turns"].as_u64(), upstream.requests().len() - before), (Some(2), 2));
        assert_eq!(response["output"].as_array().unwrap().len(), 2, "both answers stay");
    }
}

#[tokio::test]
async fn limits_hold_for_a_repair() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.always(Reply::Text("seven".into()));
    for (limits, reason) in
        [(json!({"max_turns": 1}), "max_turns"), (json!({"max_total_tokens": 1}), "max_total_tokens")]
    {
        let options = json!({"antwort": {"limits": limits, "structured": {"on_mismatch": "repair"}}});
        let response = gateway.stream(ask(format(json!(false)), options)).await.response;
        assert_eq!(
            (&response["status"], &response["incomplete_details"]["reason"]),
            (&json!("incomplete"), &json!(reason))
        );
        assert_eq!((&verdict(&response)["valid"], &response["antwort"]["turns"]), (&json!(false), &json!(1)));
    }
    let tokens = json!({"max_output_tokens": 3, "antwort": {"structured": {"on_mismatch": "repair"}}});
    let response = gateway.stream(ask(format(json!(false)), tokens)).await.response;
    assert_eq!(
        response["incomplete_details"]["reason"], "max_output_tokens",
        "the first answer took them all"
    );
}

#[tokio::test]
async fn a_repair_calls_nothing() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.text("seven").reply(Reply::Calls(vec![("look", json!({}))]));
    let mut body = ask(format(json!(false)), on_mismatch("repair"));
    body["tools"] = json!([{"type": "function", "name": "look", "parameters": {"type": "object"}}]);
    let response = gateway.stream(body).await.response;
    assert_eq!(upstream.last()["tool_choice"], "none");
    assert!(response["output"].as_array().unwrap().iter().all(|item| item["type"] == "message"));
    assert_eq!((&response["status"], &verdict(&response)["valid"]), (&json!("completed"), &json!(false)));
}

#[tokio::test]
async fn a_single_shot_request_is_repaired_where_it_asks_for_it() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).set(|s| s.tools.execution_enabled = false).spawn().await;
    upstream.text("seven").text("{\"n\": 7}");
    let response = gateway.create(ask(format(json!(true)), on_mismatch("repair"))).await;
    assert_eq!((&response["status"], &verdict(&response)["repaired"]), (&json!("completed"), &json!(true)));
}

#[tokio::test]
async fn only_the_turn_that_ends_the_work_is_judged() {
    let upstream = Upstream::spawn().await;
    let (builder, _) = Gateway::with_upstream(&upstream).probe();
    let gateway = builder.spawn().await;
    let talk = chunk(json!({"content": "Let me see."}));
    let call = chunk(json!({"tool_calls": [{"index": 0, "id": "c1", "type": "function",
        "function": {"name": "noop", "arguments": "{}"}}]}));
    upstream.reply(Reply::Stream(vec![talk, call, finish("tool_calls"), usage(1, 1), done()]));
    upstream.text("{\"n\": 7}");
    let mut body = ask(format(json!(true)), json!({}));
    body["tools"] = json!([{"type": "mcp", "server_label": "antwort"}]);
    let response = gateway.stream(body).await.response;
    assert_eq!((&response["status"], &verdict(&response)["valid"]), (&json!("completed"), &json!(true)));
}

#[tokio::test]
async fn what_is_no_whole_answer_is_not_judged() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let piece = || chunk(json!({"content": "{\"n\":"}));
    let refusal =
        || Reply::Stream(vec![chunk(json!({"refusal": "No."})), finish("stop"), usage(1, 1), done()]);
    let cut = || Reply::Stream(vec![piece(), finish("length"), usage(1, 1), done()]);
    let filtered = || Reply::Stream(vec![piece(), finish("content_filter"), usage(1, 1), done()]);
    for (reply, status) in [(refusal(), "completed"), (cut(), "incomplete"), (filtered(), "incomplete")] {
        upstream.reply(reply);
        let response = gateway.stream(ask(format(json!(true)), on_mismatch("repair"))).await.response;
        let expected = json!({"on_mismatch": "repair", "valid": null, "error": null, "repaired": false});
        assert_eq!((response["status"].as_str(), verdict(&response)), (Some(status), expected));
    }
    // Nor is the first answer what counts where the second is none.
    for (reply, status) in [(refusal(), "completed"), (cut(), "incomplete")] {
        upstream.text("seven").reply(reply);
        let response = gateway.stream(ask(format(json!(true)), on_mismatch("repair"))).await.response;
        assert_eq!((response["status"].as_str(), &verdict(&response)["valid"]), (Some(status), &Value::Null));
    }
    upstream.reply(Reply::Calls(vec![("look", json!({}))]));
    let mut body = ask(format(json!(true)), json!({}));
    body["tools"] = json!([{"type": "function", "name": "look", "parameters": {"type": "object"}}]);
    let response = gateway.stream(body).await.response;
    assert_eq!(
        (response["status"].as_str(), &verdict(&response)["valid"]),
        (Some("requires_action"), &Value::Null)
    );
}

#[tokio::test]
async fn the_number_of_turns_is_in_every_last_snapshot_and_in_no_other() {
    let upstream = Upstream::spawn().await;
    let (builder, _) = Gateway::with_upstream(&upstream).probe();
    let gateway = builder.spawn().await;
    let call = |name| Reply::Calls(vec![(name, json!({}))]);
    let tools = json!([{"type": "mcp", "server_label": "antwort"},
        {"type": "function", "name": "ask_user", "parameters": {"type": "object"}}]);
    let ask =
        |options: Value| json!({"model": "test-model", "input": "Go.", "tools": tools, "antwort": options});
    let error = || Step::Raw(b"data: {\"error\": {\"message\": \"no more\"}}\n\n".to_vec());
    let broken = || Reply::Stream(vec![chunk(json!({"content": "Hm"})), error()]);
    for (replies, options, status, turns) in [
        (vec![], Value::Null, "completed", 1),
        (vec![call("noop"), call("noop")], Value::Null, "completed", 3),
        (vec![call("noop"), call("ask_user")], Value::Null, "requires_action", 2),
        (vec![call("noop"), call("noop")], json!({"limits": {"max_turns": 2}}), "incomplete", 2),
        (vec![call("noop"), call("hang")], json!({"limits": {"max_seconds": 0.5}}), "incomplete", 2),
        (vec![call("noop"), broken()], Value::Null, "failed", 2),
        (vec![call("noop"), call("fatal")], Value::Null, "failed", 2),
    ] {
        for reply in replies {
            upstream.reply(reply);
        }
        let streamed = gateway.stream(ask(options.clone())).await;
        assert_eq!(streamed.response["status"], status, "{:#}", streamed.response);
        assert_eq!(streamed.response["antwort"]["turns"], turns, "{status}");
        assert!(streamed.response["antwort"].get("structured").is_none(), "no form was asked for");
        for event in &streamed.events[..2] {
            assert_eq!(
                event["response"].get("antwort").is_some(),
                !options.is_null(),
                "the echo and nothing else"
            );
            assert!(event["response"]["antwort"].get("turns").is_none());
        }
        let path = format!("/v1/responses/{}", streamed.response["id"].as_str().unwrap());
        assert_eq!(gateway.get(&path).await.body, streamed.response);
    }
}

#[tokio::test]
async fn a_response_that_resumes_another_counts_its_own_turns() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(Reply::Calls(vec![("look", json!({}))])).text("Done.");
    let tools = json!([{"type": "function", "name": "look", "parameters": {"type": "object"}}]);
    let first = gateway.create(json!({"model": "test-model", "input": "Go.", "tools": tools})).await;
    let output =
        json!([{"type": "function_call_output", "call_id": first["output"][0]["call_id"], "output": "x"}]);
    let again =
        json!({"model": "test-model", "previous_response_id": first["id"], "input": output, "tools": tools});
    let second = gateway.create(again).await;
    assert_eq!((&first["antwort"]["turns"], &second["antwort"]["turns"]), (&json!(1), &json!(1)));
}

#[tokio::test]
async fn a_cancelled_run_says_how_many_turns_it_had() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(Reply::Stream(vec![chunk(json!({"content": "Hm"})), Step::Hang]));
    let mut stream = gateway.open_stream(ask(format(json!(true)), json!({}))).await;
    let mut text = String::new();
    while !text.contains("output_text.delta") {
        text.push_str(std::str::from_utf8(&stream.chunk().await.unwrap().unwrap()).unwrap());
    }
    let id = text.split("\"id\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    drop(stream);
    let path = format!("/v1/responses/{id}");
    let ended = async || gateway.get(&path).await.body["status"] == "cancelled";
    assert!(antwort_test_support::eventually(ended).await);
    let stored = gateway.get(&path).await.body;
    assert_eq!((&stored["antwort"]["turns"], &verdict(&stored)["valid"]), (&json!(1), &Value::Null));
}
