//! The request for a response.

use serde_json::{Map, Value, json};

use super::arguments::{Gateway, PromptArgs, Protocol};
use super::{images, tools_file};
use crate::app::Assembly;
use antwort_config::Settings;
use antwort_provider::model_choice::{self, NoModel, Remedy};

/// The model: of the flag, of the agent, or the first for conversations that a provider lists.
pub(super) async fn model(
    args: &PromptArgs,
    agent: Option<&str>,
    settings: &Settings,
    assembly: &Assembly,
) -> Result<String, String> {
    let of_agent = || settings.agents.get(agent?)?.model.clone();
    if let Some(model) = args.model.clone().or_else(of_agent) {
        return Ok(model);
    }
    let suits: fn(&str) -> bool = match args.protocol {
        // Which models are for embeddings, their names do not say reliably.
        Protocol::Embeddings => |_| true,
        _ => model_choice::holds_conversations,
    };
    let chosen = model_choice::choose(&assembly.router, &settings.providers, suits).await;
    chosen.map_err(|failures| no_model(&failures))
}

/// Why there is no model, and what helps.
fn no_model(failures: &[NoModel]) -> String {
    let each = failures.iter().map(|failure| {
        let helps = match failure.remedy() {
            Remedy::Address => {
                "Check that the model server runs, and that host and port are right.".to_owned()
            }
            Remedy::ApiKey => "The API key is missing or not accepted: set it with --token KEY.".to_owned(),
            Remedy::BaseUrl(url) => format!(
                "The URL of most servers ends in /v1: try --base-url {url}. If the server has no list of models, name one \
                 with --model NAME."
            ),
            Remedy::Name => "Name a model with --model NAME.".to_owned(),
        };
        format!("{}. {helps}", failure.problem())
    });
    format!("Error: no model is named, and {}", each.collect::<Vec<_>>().join("\n"))
}

/// The request body.
pub(super) fn body(
    args: &PromptArgs,
    model: &str,
    options: Map<String, Value>,
    gateway: Gateway<'_>,
) -> Result<Map<String, Value>, String> {
    let mut body = options;
    body.insert("model".into(), model.into());
    body.insert("stream".into(), args.stream.into());
    body.extend(gateway.agent.map(|agent| ("agent".to_owned(), agent.into())));
    body.extend(args.system_prompt.clone().map(|text| ("instructions".to_owned(), text.into())));
    let mut content = vec![json!({"type": "input_text", "text": args.prompt})];
    if args.protocol == Protocol::Vision || !args.images.is_empty() {
        for image in &args.images {
            content.push(json!({"type": "input_image", "image_url": images::url(image)?}));
        }
    }
    body.insert("input".into(), json!([{"role": "user", "content": content}]));
    let tools = args.tools_file.as_deref().map(tools_file::read).transpose()?;
    if let Some(tools) = tools {
        let tools = tools_file::offer(tools, |name| gateway.serves(name), args.execute_tools);
        body.insert("tools".into(), tools.into());
    }
    // Only a stored response can be continued. The store is in memory and ends with this process.
    body.insert("store".into(), args.execute_tools.into());
    Ok(body)
}
