//! What a server says about its models: its list, and the properties that llama.cpp and Ollama have beside it.

use serde_json::Value;

use super::exchange::Exchange;
use super::reply::token_count;
use antwort_config::Preset;
use antwort_provider::model_choice::first_chat_model;

/// Models that are kept of a list.
const MAX_MODELS: usize = 10_000;
/// Names of the field with the context window.
const WINDOW_FIELDS: [&str; 7] = [
    "/max_model_len",               // vLLM, SGLang
    "/context_length",              // OpenRouter and others
    "/context_window",              // Groq
    "/max_context_length",          // Mistral, LM Studio
    "/top_provider/context_length", // OpenRouter
    "/meta/n_ctx",                  // llama.cpp
    "/model_info/max_input_tokens", // LiteLLM
];

/// The list of models.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// What was wrong with it, if it could not be read.
    pub problem: Option<String>,
    pub models: Vec<String>,
    entries: Vec<Value>,
}

impl Listing {
    /// Reads the answer to `GET /models`.
    pub(super) fn read(exchange: &Exchange, body: Option<&Value>) -> Self {
        let data = body.and_then(|body| body.get("data")).and_then(Value::as_array);
        match data {
            Some(data) if exchange.is_success() => {
                let id = |entry: &Value| Some(entry.get("id")?.as_str()?.to_owned());
                let entries = data.iter().filter(|entry| id(entry).is_some()).take(MAX_MODELS).cloned();
                let entries: Vec<_> = entries.collect();
                Self { problem: None, models: entries.iter().filter_map(id).collect(), entries }
            }
            _ => Self { problem: Some(problem(exchange)), ..Self::default() },
        }
    }

    /// The model to ask if none is named.
    pub(super) fn first_model(&self) -> Option<&str> {
        let names: Vec<_> = self.models.iter().map(String::as_str).collect();
        first_chat_model(&names)
    }

    /// The context window of a model, and where it stands.
    pub(super) fn context_window(&self, model: &str) -> Option<(u64, &'static str)> {
        let entry = self.entry(model)?;
        WINDOW_FIELDS.iter().find_map(|field| {
            let tokens = token_count(entry.pointer(field)?).filter(|tokens| *tokens > 0)?;
            Some((tokens, field.trim_start_matches('/')))
        })
    }

    fn entry(&self, model: &str) -> Option<&Value> {
        self.entries.iter().find(|entry| entry.get("id").and_then(Value::as_str) == Some(model))
    }

    /// The kind of server that makes such entries.
    pub(super) fn preset(&self, model: &str) -> Option<Preset> {
        let owner = self.entry(model).or_else(|| self.entries.first())?.get("owned_by")?.as_str()?;
        match owner {
            "vllm" => Some(Preset::Vllm),
            "llamacpp" => Some(Preset::LlamaCpp),
            "library" => Some(Preset::Ollama),
            _ => None,
        }
    }
}

/// The context window in llama.cpp's `GET /props`, of one of its slots.
pub(super) fn window_of_props(props: &Value) -> Option<u64> {
    let slot = props.pointer("/default_generation_settings/n_ctx").or_else(|| props.get("n_ctx"))?;
    token_count(slot).filter(|tokens| *tokens > 0)
}

fn problem(exchange: &Exchange) -> String {
    match (exchange.status, &exchange.failure) {
        (None, Some(failure)) => failure.clone(),
        (Some(status @ 300..400), _) => {
            let target = exchange.header("location").unwrap_or("an unknown address");
            format!("status {status}: a redirect to {target}, which is not followed")
        }
        (Some(200), _) if exchange.garbage.is_none() => "status 200 without a list `data`".to_owned(),
        _ => exchange.refusal(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Exchange, Listing, Preset, window_of_props};

    #[test]
    fn windows_and_kinds_under_the_names_of_many_servers() {
        let rows = [
            (json!({"max_model_len": 4096, "owned_by": "vllm"}), Some(4096), Some(Preset::Vllm)),
            (
                json!({"meta": {"n_ctx": 512, "n_ctx_train": 8192}, "owned_by": "llamacpp"}),
                Some(512),
                Some(Preset::LlamaCpp),
            ),
            (json!({"owned_by": "library"}), None, Some(Preset::Ollama)),
            (json!({"context_length": 0, "top_provider": {"context_length": 9}}), Some(9), None),
            (json!({"context_length": "many"}), None, None),
        ];
        for (mut entry, window, preset) in rows {
            entry["id"] = json!("m");
            let exchange = Exchange { status: Some(200), ..Exchange::default() };
            let listing = Listing::read(&exchange, Some(&json!({"data": [{"id": 7}, entry]})));
            assert_eq!(listing.models, ["m"]);
            assert_eq!(listing.context_window("m").map(|(tokens, _)| tokens), window);
            assert_eq!(listing.preset("m"), preset);
        }
        assert_eq!(window_of_props(&json!({"default_generation_settings": {"n_ctx": 256}})), Some(256));
    }

    #[test]
    fn a_model_that_chats_is_asked() {
        let exchange = Exchange { status: Some(200), ..Exchange::default() };
        let body = json!({"data": [{"id": "text-embedding-3"}, {"id": "Whisper"}, {"id": "qwen"}]});
        let listing = Listing::read(&exchange, Some(&body));
        assert_eq!(listing.first_model(), Some("qwen"));
    }
}
