//! Counts by the tokenizer of the model's own server, whatever that answers.

use std::time::Duration;

use antwort::config::{Preset, ProviderSettings, TokenizerUse};
use serde_json::{Value, json};

use super::{ask, count, with};
use antwort_test_support::gateway::{Builder, Gateway};
use antwort_test_support::tokenizer::Answer;
use antwort_test_support::upstream::Upstream;

fn before(upstream: &Upstream, preset: Preset) -> Builder {
    Gateway::with_upstream(upstream).provider(|provider| {
        let changed =
            ProviderSettings { default: true, ..ProviderSettings::new(preset, provider.url.clone()) };
        *provider = changed;
        provider.api_key = Some("sk-upstream".to_owned().into());
    })
}

fn request() -> Value {
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    with(
        ask("How is the weather in Oslo?"),
        json!({"instructions": "Be brief.", "reasoning": {"effort": "low"}, "chat_template_kwargs": {"thinking": true},
            "tools": [{"type": "function", "name": "weather", "parameters": parameters}]}),
    )
}

#[tokio::test]
async fn vllm_is_asked_about_the_very_prompt_of_the_completion() {
    let upstream = Upstream::spawn().await;
    let gateway = before(&upstream, Preset::Vllm).spawn().await;
    let tokens: Vec<u32> = (0..50).collect();
    upstream.tokenizer.json("/tokenize", &json!({"count": 1234, "max_model_len": 4096, "tokens": tokens}));
    assert_eq!(count(&gateway, &request()).await, (1234, "exact".to_owned()));
    assert!(upstream.requests().is_empty(), "the model is not asked");
    let (path, headers, asked) = upstream.tokenizer.requests().remove(0);
    assert_eq!(
        (path.as_str(), &headers["authorization"]),
        ("/tokenize", &"Bearer sk-upstream".parse().unwrap())
    );
    gateway.create(request()).await;
    let completion = upstream.last();
    assert_eq!(
        asked,
        json!({"model": completion["model"], "messages": completion["messages"], "add_generation_prompt": true,
            "tools": completion["tools"],
            "chat_template_kwargs": {"thinking": true, "reasoning_effort": "low"}})
    );
    assert_eq!(asked["messages"][0]["content"], "Be brief.");
}

#[tokio::test]
async fn llama_cpp_makes_the_prompt_and_then_tokens_of_it() {
    let upstream = Upstream::spawn().await;
    let gateway = before(&upstream, Preset::LlamaCpp).spawn().await;
    upstream.tokenizer.json("/apply-template", &json!({"prompt": "<|user|>How is it?<|assistant|>"}));
    upstream.tokenizer.json("/tokenize", &json!({"tokens": [1, 2, 3, 4, 5, 6, 7]}));
    assert_eq!(count(&gateway, &request()).await, (7, "exact".to_owned()));
    let asked = upstream.tokenizer.requests();
    let paths: Vec<_> = asked.iter().map(|(path, ..)| path.as_str()).collect();
    assert_eq!(paths, ["/apply-template", "/tokenize"]);
    gateway.create(request()).await;
    let completion = upstream.last();
    for field in ["messages", "tools", "chat_template_kwargs"] {
        assert_eq!(asked[0].2[field], completion[field], "{field}");
    }
    assert_eq!(
        asked[1].2,
        json!({"content": "<|user|>How is it?<|assistant|>", "add_special": true, "parse_special": true})
    );
}

#[tokio::test]
async fn a_tokenizer_that_does_not_count_gives_way_to_the_estimate() {
    for (preset, path) in [(Preset::Vllm, "/tokenize"), (Preset::LlamaCpp, "/apply-template")] {
        let upstream = Upstream::spawn().await;
        let gateway = before(&upstream, preset).provider(|provider| {
            provider.timeouts.first_byte = Duration::from_millis(100);
            provider.max_answer_bytes = 4096;
        });
        let gateway = gateway.spawn().await;
        // Not served at all.
        let estimate = count(&gateway, &request()).await;
        assert_eq!(estimate.1, "estimate");
        let long = json!({"count": 3, "prompt": "x", "tokens": "x".repeat(5000)}).to_string();
        let body = |text: &str| Answer::Body(200, text.to_owned());
        for answer in [
            body(""),
            body("<html></html>"),
            body("[]"),
            body("{}"),
            body("null"),
            body(r#"{"count": "12", "prompt": 12}"#),
            body(r#"{"count": -1, "prompt": null}"#),
            body(r#"{"count": 0, "prompt": ["x"]}"#),
            body(r#"{"count": 1e300, "prompt": {}}"#),
            body(r#"{"count": 99999999999, "tokens": [1]}"#),
            Answer::Body(200, long),
            Answer::Body(500, r#"{"count": 3, "prompt": "x"}"#.to_owned()),
            Answer::Body(401, r#"{"error": {"message": "sk-upstream"}}"#.to_owned()),
            Answer::Body(302, String::new()),
            Answer::Silence,
        ] {
            upstream.tokenizer.answer(path, answer.clone());
            assert_eq!(count(&gateway, &request()).await, estimate, "{preset:?} {answer:?}");
        }
        // Half of it works.
        upstream.tokenizer.json("/apply-template", &json!({"prompt": "x"}));
        for answer in [body("{}"), body(r#"{"tokens": []}"#), body(r#"{"tokens": 7}"#), Answer::Silence] {
            upstream.tokenizer.answer("/tokenize", answer.clone());
            assert_eq!(count(&gateway, &request()).await, estimate, "{preset:?} {answer:?}");
        }
        upstream.kill().await;
        assert_eq!(count(&gateway, &request()).await, estimate, "{preset:?} is down");
    }
}

#[tokio::test]
async fn images_are_always_estimated_and_a_tokenizer_can_be_left_alone() {
    let upstream = Upstream::spawn().await;
    upstream.tokenizer.json("/tokenize", &json!({"count": 5}));
    let gateway = before(&upstream, Preset::Vllm).spawn().await;
    let image = json!({"type": "input_image", "image_url": "data:image/png;base64,aGk="});
    let (tokens, precision) = count(&gateway, &ask(json!([{"role": "user", "content": [image]}]))).await;
    assert!(tokens > 1000 && precision == "estimate", "{tokens} {precision}");
    let gateway =
        before(&upstream, Preset::Vllm).provider(|provider| provider.tokenizer = TokenizerUse::None);
    assert_eq!(count(&gateway.spawn().await, &request()).await.1, "estimate");
    // Other kinds of servers have none.
    for preset in [Preset::Generic, Preset::OpenAi, Preset::Ollama, Preset::OpenRouter, Preset::LiteLlm] {
        let gateway = before(&upstream, preset).spawn().await;
        assert_eq!(count(&gateway, &ask("Hi")).await.1, "estimate", "{preset:?}");
    }
    assert!(upstream.tokenizer.requests().is_empty());
    // What a completion is refused for is refused before the tokenizer is asked.
    let gateway =
        before(&upstream, Preset::Vllm).provider(|provider| provider.supports.response_format = false);
    let formatted = with(ask("Hi"), json!({"text": {"format": {"type": "json_object"}}}));
    let refused = gateway.spawn().await.post(super::PATH, &formatted).await;
    assert_eq!((refused.status, &refused.body["error"]["param"]), (400, &json!("text.format")));
    assert!(upstream.tokenizer.requests().is_empty());
}
