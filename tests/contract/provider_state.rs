//! What providers want back with their answers: thought signatures of Gemini, encrypted reasoning of OpenRouter. It
//! reaches them again word for word, with the answer that it came with, however a client goes on.

use antwort::config::{Preset, ProviderSettings};
use serde_json::{Value, json};

use antwort_test_support::gateway::Gateway;
use antwort_test_support::upstream::{Reply, Upstream, chunk, done, finish, usage};

/// Who answers, in whose way.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Server {
    Gemini,
    OpenRouter,
    /// In front of Gemini.
    LiteLlm,
}

/// What it answers.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Answer {
    Text,
    Call,
    Calls,
    TextAndCall,
}

/// How the client goes on.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Continued {
    ById,
    /// It sends what it was sent; the response is stored.
    ByReplay,
    /// The same, without the reasoning.
    ByReplayOfTheRest,
    /// It asked for what is sealed.
    ByReplayOfAll,
    /// Nothing is stored.
    Unstored,
    /// Both are in a conversation.
    InConversation,
}

const SERVERS: [Server; 3] = [Server::Gemini, Server::OpenRouter, Server::LiteLlm];
const ANSWERS: [Answer; 4] = [Answer::Text, Answer::Call, Answer::Calls, Answer::TextAndCall];
const CONTINUED: [Continued; 6] = [
    Continued::ById,
    Continued::ByReplay,
    Continued::ByReplayOfTheRest,
    Continued::ByReplayOfAll,
    Continued::Unstored,
    Continued::InConversation,
];

fn signature(mark: &str) -> Value {
    json!({"google": {"thought_signature": format!("sig-{mark}")}})
}

fn encrypted(mark: &str) -> Value {
    json!({"type": "reasoning.encrypted", "data": format!("enc-{mark}"), "format": "x", "index": 1})
}

fn call(n: usize) -> Value {
    json!({"index": n, "id": format!("call_{n}"), "type": "function",
        "function": {"name": "f", "arguments": format!("{{\"n\":{n}}}")}})
}

/// The message as a body has it.
fn message(server: Server, answer: Answer, visible: bool, mark: &str) -> Value {
    let mut message = json!({"role": "assistant", "content": null});
    if answer == Answer::Text || answer == Answer::TextAndCall {
        message["content"] = "Well.".into();
    }
    let calls = match answer {
        Answer::Text => 0,
        Answer::Call | Answer::TextAndCall => 1,
        Answer::Calls => 2,
    };
    if calls > 0 {
        message["tool_calls"] = (0..calls).map(call).collect();
    }
    if visible {
        message["reasoning"] = "Hm.".into();
    }
    match server {
        Server::Gemini if calls > 0 => {
            for n in 0..calls {
                message["tool_calls"][n]["extra_content"] = signature(&format!("{mark}{n}"));
            }
        }
        Server::Gemini => message["extra_content"] = signature(mark),
        Server::LiteLlm if calls > 0 => {
            for n in 0..calls {
                let call = &mut message["tool_calls"][n];
                call["provider_specific_fields"] = json!({"thought_signature": format!("sig-{mark}{n}")});
                call["function"]["provider_specific_fields"] = call["provider_specific_fields"].clone();
            }
        }
        Server::LiteLlm => {
            message["provider_specific_fields"] =
                json!({"refusal": null, "thought_signatures": [format!("sig-{mark}")]});
        }
        Server::OpenRouter => {
            let mut details = Vec::new();
            if visible {
                details.push(json!({"type": "reasoning.text", "text": "Hm.", "index": 0}));
            }
            details.push(encrypted(mark));
            message["reasoning_details"] = details.into();
        }
    }
    message
}

/// The same, streamed: reasoning, text, and then each call with what comes with it.
fn reply(server: Server, answer: Answer, visible: bool, stream: bool, mark: &str) -> Reply {
    let message = message(server, answer, visible, mark);
    if !stream {
        return Reply::Whole(json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}));
    }
    let mut steps = vec![chunk(json!({"role": "assistant", "content": ""}))];
    let mut details = message["reasoning_details"].as_array().cloned().unwrap_or_default();
    if visible {
        let mut thought = json!({"reasoning": "Hm."});
        if !details.is_empty() {
            thought["reasoning_details"] = json!([details.remove(0)]);
        }
        steps.push(chunk(thought));
    }
    let mut last = if let Some(text) = message["content"].as_str() {
        steps.push(chunk(json!({"content": text})));
        json!({"content": ""})
    } else {
        json!({})
    };
    for name in ["extra_content", "provider_specific_fields", "tool_calls"] {
        if !message[name].is_null() {
            last[name] = message[name].clone();
        }
    }
    if !details.is_empty() {
        last["reasoning_details"] = details.into();
    }
    steps.extend([chunk(last), finish("stop"), usage(1, 1), done()]);
    Reply::Stream(steps)
}

fn body(input: Value) -> Value {
    let f = json!({"type": "function", "name": "f", "parameters": {"type": "object"}});
    json!({"model": "test-model", "input": input, "tools": [f]})
}

/// What is in an assistant message beside the calls' own fields.
fn answers(request: &Value) -> Vec<Value> {
    let messages = request["messages"].as_array().unwrap().iter();
    messages.filter(|message| message["role"] == "assistant").cloned().collect()
}

fn outputs(response: &Value) -> Vec<Value> {
    let calls = response["output"].as_array().unwrap().iter().filter(|item| item["type"] == "function_call");
    let output =
        |call: &Value| json!({"type": "function_call_output", "call_id": call["call_id"], "output": "ok"});
    calls.map(output).collect()
}

/// The request that goes on from a response.
fn next(continued: Continued, response: &Value, question: &Value) -> Value {
    let mut more = outputs(response);
    more.push(json!({"role": "user", "content": "And?"}));
    let mut replayed = vec![question.clone()];
    let items = response["output"].as_array().unwrap().iter();
    match continued {
        Continued::ById => {
            let mut next = body(more.into());
            next["previous_response_id"] = response["id"].clone();
            return next;
        }
        Continued::InConversation => {
            let mut next = body(more.into());
            next["conversation"] = response["conversation"].clone();
            return next;
        }
        Continued::ByReplayOfTheRest => {
            replayed.extend(items.filter(|item| item["type"] != "reasoning").cloned());
        }
        Continued::ByReplay | Continued::ByReplayOfAll | Continued::Unstored => {
            replayed.extend(items.cloned());
        }
    }
    replayed.extend(more);
    let mut next = body(replayed.into());
    next["store"] = (continued != Continued::Unstored).into();
    next
}

/// The request that begins.
async fn first(gateway: &Gateway, continued: Continued, question: &Value) -> Value {
    let mut first = body(json!([question]));
    first["store"] = (continued != Continued::Unstored).into();
    if continued == Continued::ByReplayOfAll {
        first["include"] = json!(["reasoning.encrypted_content"]);
    }
    if continued == Continued::InConversation {
        first["conversation"] = gateway.post("/v1/conversations", &json!({})).await.body["id"].clone();
    }
    first
}

async fn ask(gateway: &Gateway, body: Value, stream: bool) -> Value {
    if stream { gateway.stream(body).await.response } else { gateway.create(body).await }
}

#[tokio::test]
async fn state_comes_back_word_for_word_however_a_client_goes_on() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let mut n = 0;
    for server in SERVERS {
        for answer in ANSWERS {
            for continued in CONTINUED {
                for (visible, stream) in [(false, false), (false, true), (true, false), (true, true)] {
                    n += 1;
                    let case =
                        format!("{server:?} {answer:?} {continued:?} visible={visible} stream={stream}");
                    // Ids of calls are the same each time, as some servers have it; state is not.
                    let mark = format!("{n}-");
                    upstream.reply(reply(server, answer, visible, stream, &mark)).text("So.");
                    let question = json!({"role": "user", "content": case});
                    let first = first(&gateway, continued, &question).await;
                    let response = ask(&gateway, first, stream).await;
                    let shown = response.to_string();
                    // With its mark: sealed text may have four letters by chance.
                    let is_shown = |state: &str| shown.contains(&format!("{state}-{mark}"));
                    assert!(!is_shown("sig") && !is_shown("enc"), "{case}: {response:#}");
                    let carried = shown.contains("\"encrypted_content\":\"aw1.");
                    let carries = matches!(continued, Continued::ByReplayOfAll | Continued::Unstored);
                    assert_eq!(carried, carries, "{case}: {response:#}");
                    ask(&gateway, next(continued, &response, &question), stream).await;
                    let mut wanted = message(server, answer, visible, &mark);
                    let expected = wanted.as_object_mut().unwrap();
                    let thought = expected.remove("reasoning");
                    if server != Server::OpenRouter && continued != Continued::ByReplayOfTheRest {
                        // It signs what it thought, and says no more of it.
                        expected.extend(thought.map(|thought| ("reasoning_content".to_owned(), thought)));
                    }
                    for call in
                        expected.get_mut("tool_calls").and_then(Value::as_array_mut).into_iter().flatten()
                    {
                        call.as_object_mut().unwrap().remove("index");
                    }
                    assert_eq!(answers(&upstream.last()), [wanted], "{case}: {response:#}");
                }
            }
        }
    }
    assert_eq!(n, 288);
}

#[tokio::test]
async fn a_second_continuation_has_the_state_of_the_first_answer_too() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for (server, continued) in [
        (Server::Gemini, Continued::ByReplay),
        (Server::OpenRouter, Continued::ByReplay),
        (Server::Gemini, Continued::ById),
        (Server::OpenRouter, Continued::ById),
        (Server::Gemini, Continued::InConversation),
        (Server::OpenRouter, Continued::InConversation),
        (Server::LiteLlm, Continued::ById),
    ] {
        let question = json!({"role": "user", "content": "1"});
        upstream.reply(reply(server, Answer::Call, false, true, "a"));
        let first = gateway.stream(first(&gateway, continued, &question).await).await.response;
        upstream.reply(reply(server, Answer::Call, false, true, "b"));
        let second = gateway.stream(next(continued, &first, &question)).await.response;
        // What was replayed is part of a stored response now.
        upstream.text("So.");
        gateway.create(next(Continued::ById, &second, &question)).await;
        let answers = answers(&upstream.last());
        let state = |mark: &str| match server {
            Server::Gemini => signature(&format!("{mark}0")),
            Server::LiteLlm => json!({"thought_signature": format!("sig-{mark}0")}),
            Server::OpenRouter => json!([encrypted(mark)]),
        };
        let of = |answer: &Value| match server {
            Server::Gemini => answer["tool_calls"][0]["extra_content"].clone(),
            Server::LiteLlm => answer["tool_calls"][0]["function"]["provider_specific_fields"].clone(),
            Server::OpenRouter => answer["reasoning_details"].clone(),
        };
        let found: Vec<Value> = answers.iter().map(of).collect();
        assert_eq!(found, [state("a"), state("b")], "{server:?} {continued:?}");
    }
}

/// A signature of a call that has begun long ago: the text that follows is on its way.
#[tokio::test]
async fn state_that_comes_late_finds_its_call() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for continued in CONTINUED {
        let extra =
            |n: usize| json!({"tool_calls": [{"index": n, "extra_content": signature(&n.to_string())}]});
        upstream.reply(Reply::Stream(vec![
            chunk(json!({"tool_calls": [call(0)]})),
            chunk(json!({"tool_calls": [call(1)]})),
            chunk(extra(0)),
            chunk(extra(1)),
            chunk(json!({"reasoning_details": [encrypted("late")]})),
            finish("tool_calls"),
            done(),
        ]));
        let question = json!({"role": "user", "content": "1"});
        let first = first(&gateway, continued, &question).await;
        let response = gateway.stream(first).await.response;
        upstream.text("So.");
        gateway.create(next(continued, &response, &question)).await;
        let answers = answers(&upstream.last());
        assert_eq!(answers.len(), 1, "{continued:?}");
        let calls = &answers[0]["tool_calls"];
        assert_eq!(calls[0]["extra_content"], signature("0"), "{continued:?}: {response:#}");
        assert_eq!(calls[1]["extra_content"], signature("1"), "{continued:?}: {response:#}");
        assert_eq!(answers[0]["reasoning_details"], json!([encrypted("late")]), "{continued:?}");
    }
}

/// Calls of the gateway's own tools in two turns, the second of which pauses for the client.
#[tokio::test]
async fn each_call_of_several_turns_has_its_own_signature() {
    let upstream = Upstream::spawn().await;
    let (builder, _) = Gateway::with_upstream(&upstream).probe();
    let gateway = builder.spawn().await;
    let tools = json!([{"type": "mcp", "server_label": "antwort"},
        {"type": "function", "name": "f", "parameters": {"type": "object"}}]);
    let named = |n: usize, name: &str, mark: &str| {
        let mut call = call(n);
        call["function"]["name"] = name.into();
        call["extra_content"] = signature(mark);
        call
    };
    for continued in CONTINUED.into_iter().filter(|how| *how != Continued::ByReplayOfTheRest) {
        for visibility in ["full", "items"] {
            let turn = |calls: Value| {
                Reply::Stream(vec![chunk(json!({"tool_calls": calls})), finish("stop"), done()])
            };
            upstream.reply(turn(json!([named(0, "noop", "a"), named(1, "echo", "b")])));
            upstream.reply(turn(json!([named(0, "noop", "c"), named(1, "f", "d")])));
            let question = json!({"role": "user", "content": "1"});
            let mut first = first(&gateway, continued, &question).await;
            first["tools"] = tools.clone();
            first["antwort"] = json!({"stream_visibility": visibility});
            let response = gateway.stream(first).await.response;
            assert_eq!(response["status"], "requires_action", "{response:#}");
            let signatures = |request: &Value| -> Vec<Vec<Value>> {
                let of = |answer: &Value| {
                    let calls = answer["tool_calls"].as_array().unwrap().iter();
                    calls.map(|call| call["extra_content"].clone()).collect()
                };
                answers(request).iter().map(of).collect()
            };
            assert_eq!(signatures(&upstream.last()), [[signature("a"), signature("b")]]);
            upstream.text("So.");
            let mut next = next(continued, &response, &question);
            next["tools"] = tools.clone();
            gateway.create(next).await;
            assert_eq!(
                signatures(&upstream.last()),
                [[signature("a"), signature("b")], [signature("c"), signature("d")]],
                "{continued:?}: {response:#}"
            );
        }
    }
}

#[tokio::test]
async fn state_of_another_provider_is_dropped() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream)
        .set(|settings| {
            let mut other = ProviderSettings::new(Preset::Generic, &upstream.url);
            other.prefix = Some("other".into());
            settings.providers.insert("other".into(), other);
        })
        .spawn()
        .await;
    for continued in CONTINUED {
        let question = json!({"role": "user", "content": "1"});
        let first = first(&gateway, continued, &question).await;
        upstream.reply(reply(Server::Gemini, Answer::Call, false, true, "x")).text("So.");
        let response = gateway.stream(first).await.response;
        let mut next = next(continued, &response, &question);
        next["model"] = "other/test-model".into();
        gateway.create(next).await;
        let asked = upstream.last().to_string();
        assert!(!asked.contains("sig-") && !asked.contains("aw1."), "{continued:?}: {asked}");
        assert_eq!(answers(&upstream.last())[0]["tool_calls"][0]["id"], "call_0");
    }
}

#[tokio::test]
async fn a_call_of_another_conversation_with_the_same_id_keeps_its_state_to_itself() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(reply(Server::Gemini, Answer::Call, false, true, "x")).text("So.");
    let question = json!({"role": "user", "content": "1"});
    let response = gateway.stream(body(json!([question]))).await.response;
    let mut next = next(Continued::ByReplay, &response, &question);
    // Many clients drop the ids of items, and write arguments anew.
    let call = next["input"].as_array_mut().unwrap().iter_mut().find(|item| item["type"] == "function_call");
    let call = call.unwrap().as_object_mut().unwrap();
    call.remove("id");
    call.insert("arguments".into(), "{ \"n\": 0 }".into());
    gateway.create(next.clone()).await;
    assert!(upstream.last().to_string().contains("sig-x0"));
    let call = next["input"].as_array_mut().unwrap().iter_mut().find(|item| item["type"] == "function_call");
    call.unwrap()["arguments"] = "{\"n\":7}".into();
    gateway.create(next).await;
    assert!(!upstream.last().to_string().contains("sig-"), "its arguments are others");
}
