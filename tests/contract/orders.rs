//! Orders of messages that chat templates refuse: `roles.alternate` and `roles.assistant_after_tool`, with a server whose
//! template raises as the strictest do.

use antwort::config::{Preset, RoleChanges};
use serde_json::{Value, json};

use antwort_test_support::gateway::{Gateway, text_of};
use antwort_test_support::upstream::{Reply, Upstream, chunk, done, finish, usage};

/// The rules of Mistral's templates and of its API: the user is first, outputs and calls aside user and assistant alternate,
/// and the user never speaks directly behind an output.
fn strict(body: &Value) -> Result<(), &'static str> {
    let messages = body["messages"].as_array().unwrap();
    let roles: Vec<&str> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    if roles.windows(2).any(|pair| pair == ["tool", "user"]) {
        return Err("Unexpected role 'user' after role 'tool'");
    }
    let is_counted = |message: &&Value| message["role"] != "tool" && message["tool_calls"].is_null();
    let begin = usize::from(roles.first() == Some(&"system"));
    for (place, message) in messages[begin..].iter().filter(is_counted).enumerate() {
        if (message["role"] == "user") != (place % 2 == 0) {
            return Err(
                "After the optional system message, conversation roles must alternate user/assistant",
            );
        }
    }
    Ok(())
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn call() -> Vec<Value> {
    vec![
        json!({"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}),
        json!({"type": "function_call_output", "call_id": "c1", "output": "seen"}),
    ]
}

/// Inputs by what happens in them, with the roles that are sent for them.
fn rows() -> Vec<(&'static str, Vec<Value>, &'static str)> {
    let instructions = json!({"role": "developer", "content": "You are an agent."});
    let picture = json!([{"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]);
    let mut shown = call();
    shown[1]["output"] = picture;
    vec![
        (
            "the first request of Codex",
            vec![instructions, user("<environment_context>"), user("Mend it.")],
            "system user",
        ),
        (
            "a message behind an output",
            [vec![user("Look.")], call(), vec![user("Go on.")]].concat(),
            "user assistant tool assistant user",
        ),
        (
            "a picture as a function's output",
            [vec![user("Look.")], shown.clone()].concat(),
            "user assistant tool assistant user",
        ),
        (
            "a picture, and a message behind it",
            [vec![user("Look.")], shown, vec![user("And?")]].concat(),
            "user assistant tool assistant user",
        ),
        (
            "an answer that says nothing",
            vec![user("Hi"), json!({"role": "assistant", "content": ""}), user("Hello?")],
            "user",
        ),
        (
            "two answers",
            vec![
                user("Hi"),
                json!({"role": "assistant", "content": "Hello."}),
                json!({"role": "assistant", "content": "Well?"}),
                user("Yes."),
            ],
            "user assistant user",
        ),
        (
            "a conversation whose beginning was left out",
            vec![json!({"role": "assistant", "content": "Hello."}), user("Yes.")],
            "user assistant user",
        ),
    ]
}

/// A server of Mistral's kind.
async fn gateway(upstream: &Upstream) -> Gateway {
    upstream.refuse(strict);
    let builder = Gateway::with_upstream(upstream);
    builder
        .provider(|provider| {
            let mistral = antwort::config::ProviderSettings::new(Preset::Mistral, "");
            assert!(mistral.roles.all.alternate && mistral.roles.all.assistant_after_tool);
            provider.roles = mistral.roles;
        })
        .spawn()
        .await
}

fn sent_roles(upstream: &Upstream) -> String {
    let sent = upstream.last();
    let roles: Vec<_> = sent["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    roles.join(" ")
}

#[tokio::test]
async fn every_order_is_sent_as_strict_templates_want_it() {
    let upstream = Upstream::spawn().await;
    let strict_gateway = gateway(&upstream).await;
    let as_it_is = Gateway::with_upstream(&upstream).spawn().await;
    for (name, input, roles) in rows() {
        let body = json!({"model": "test-model", "input": input});
        let refused = as_it_is.post("/v1/responses", &body).await;
        assert_eq!(refused.status, 400, "{name}: {}", refused.body);
        for response in strict_gateway.both(body.clone()).await {
            assert_eq!(text_of(&response), "Hello there!", "{name}");
            assert_eq!(sent_roles(&upstream), roles, "{name}");
            // What was inserted is not stored.
            let id = response["id"].as_str().unwrap();
            let items = strict_gateway.get(&format!("/v1/responses/{id}/input_items")).await.body;
            assert_eq!(items["data"].as_array().unwrap().len(), input.len(), "{name}: {items:#}");
            assert!(!items.to_string().contains("OK."), "{name}: {items:#}");
        }
    }
}

#[tokio::test]
async fn texts_are_joined_with_a_blank_line_and_parts_follow_one_another() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream).await;
    gateway.create(json!({"model": "test-model", "input": [user("a"), user("b")]})).await;
    assert_eq!(upstream.last()["messages"], json!([{"role": "user", "content": "a\n\nb"}]));
    let picture = json!({"role": "user", "content": [{"type": "input_text", "text": "b"},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]});
    gateway.create(json!({"model": "test-model", "input": [user("a"), picture]})).await;
    let parts = upstream.last()["messages"][0]["content"].take();
    let kinds: Vec<_> = parts.as_array().unwrap().iter().map(|part| part["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["text", "text", "image_url"]);
}

#[tokio::test]
async fn a_chat_goes_on_after_max_turns_and_after_an_empty_answer() {
    let upstream = Upstream::spawn().await;
    upstream.refuse(strict);
    let (builder, _) = Gateway::with_upstream(&upstream).probe();
    let gateway = builder
        .provider(|provider| {
            provider.roles.all.alternate = true;
            provider.roles.all.assistant_after_tool = true;
        })
        .set(|settings| settings.engine.limits.max_turns = 1)
        .spawn()
        .await;
    upstream.reply(Reply::Calls(vec![("echo", json!({"text": "x"}))]));
    let ended = gateway
        .create(json!({"model": "test-model", "input": "Go.", "tools": [{"type": "antwort:echo"}]}))
        .await;
    assert_eq!(ended["status"], "incomplete", "{ended:#}");
    let next = json!({"model": "test-model", "input": "And?", "previous_response_id": ended["id"]});
    assert_eq!(text_of(&gateway.create(next).await), "Hello there!");
    assert_eq!(sent_roles(&upstream), "user assistant tool assistant user");
    // An answer with nothing in it: the user speaks twice.
    upstream.reply(Reply::Stream(vec![chunk(json!({"content": ""})), finish("stop"), usage(5, 0), done()]));
    let empty = gateway.stream(json!({"model": "test-model", "input": "Hi"})).await.response;
    let next = json!({"model": "test-model", "input": "Hello?", "previous_response_id": empty["id"]});
    assert_eq!(text_of(&gateway.create(next).await), "Hello there!");
    assert_eq!(upstream.last()["messages"], json!([{"role": "user", "content": "Hi\n\nHello?"}]));
}

#[tokio::test]
async fn roles_are_those_of_the_model_and_what_is_inserted_is_not_counted() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream)
        .provider(|provider| {
            let strict = RoleChanges {
                alternate: Some(true),
                assistant_after_tool: Some(true),
                ..RoleChanges::default()
            };
            provider.roles.models.insert("mistral*".to_owned(), strict);
            provider.aliases.insert("small".to_owned(), "mistral-small".to_owned());
        })
        .spawn()
        .await;
    let input = [vec![user("Look.")], call(), vec![user("Go on.")]].concat();
    for (model, roles) in [
        ("mistral-7b", "user assistant tool assistant user"),
        ("small", "user assistant tool assistant user"),
        ("qwen", "user assistant tool user"),
    ] {
        gateway.create(json!({"model": model, "input": input})).await;
        assert_eq!(sent_roles(&upstream), roles, "{model}");
    }
    let count = async |model: &str| {
        let counted =
            gateway.post("/v1/responses/input_tokens", &json!({"model": model, "input": input})).await;
        counted.body["input_tokens"].as_u64().unwrap()
    };
    assert_eq!(count("mistral-7b").await, count("qwen").await);
}
