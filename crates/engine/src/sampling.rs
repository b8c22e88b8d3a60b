//! MCP sampling: a server's request for the model becomes a response of its own, without tools, that is not stored.
//! The operator's settings limit the requests per minute and the length of answers.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::Engine;
use super::context::{EventReader, OnUnservedTool, RunContext};
use antwort_config::{SamplingSettings, StorePolicy};
use antwort_identity::Owner;
use antwort_mcp::{SampleAnswer, SampleContent, SampleMessage, SampleRequest, Sampler};
use antwort_protocol::content::ContentPart;
use antwort_protocol::dialect::Dialect;
use antwort_protocol::item::Item;
use antwort_protocol::request::CreateResponse;
use antwort_protocol::response::{Response, ResponseStatus};

/// The window of the rate limit.
const RATE_WINDOW: Duration = Duration::from_mins(1);

/// Answers sampling requests by the engine, which is set after the servers are made.
pub struct EngineSampler {
    engine: Mutex<Weak<Engine>>,
    settings: SamplingSettings,
    /// Requests of each server in the current window, with its beginning. Bounded by the number of configured
    /// servers.
    windows: Mutex<HashMap<Arc<str>, (Instant, u32)>>,
}

impl EngineSampler {
    /// `None` if servers may not use the model.
    pub fn new(settings: &SamplingSettings) -> Option<Arc<Self>> {
        settings.enabled.then(|| {
            Arc::new(Self { engine: Mutex::default(), settings: settings.clone(), windows: Mutex::default() })
        })
    }

    /// Uses this engine from now on.
    pub fn set_engine(&self, engine: &Arc<Engine>) {
        *self.engine.lock() = Arc::downgrade(engine);
    }

    /// Takes one request from a server's rate limit.
    fn take_permit(&self, server: &Arc<str>) -> Result<(), String> {
        let mut windows = self.windows.lock();
        windows.retain(|_, (since, _)| since.elapsed() < RATE_WINDOW);
        let (_, times) = windows.entry(Arc::clone(server)).or_insert_with(|| (Instant::now(), 0));
        if *times >= self.settings.max_requests {
            return Err("the rate limit of sampling requests per minute is reached".to_owned());
        }
        *times += 1;
        Ok(())
    }

    fn body(&self, request: &SampleRequest) -> Result<Value, String> {
        if !request.stop.is_empty() {
            return Err("stop sequences are not supported".to_owned());
        }
        let input = request.messages.iter().map(message).collect::<Result<Vec<_>, String>>()?;
        // Absent values become `null`, which the API treats as absent.
        let body = json!({
            "model": self.settings.model,
            "instructions": request.system,
            "input": input,
            "store": false,
            "max_output_tokens": request.max_tokens.clamp(1, self.settings.max_tokens),
            "temperature": request.temperature,
        });
        Ok(body)
    }
}

#[async_trait]
impl Sampler for EngineSampler {
    async fn sample(&self, request: SampleRequest) -> Result<SampleAnswer, String> {
        let engine = self.engine.lock().upgrade();
        let Some(engine) = engine else {
            return Err("the gateway is shutting down".to_owned());
        };
        self.take_permit(&request.server)?;
        let body = self.body(&request)?.to_string();
        let asked = CreateResponse::parse(body.as_bytes()).map_err(|error| error.body.message)?;
        let caller = RunContext {
            connection: None,
            chain: None,
            generates: true,
            owner: Owner { tenant: "mcp".into(), principal: Arc::clone(&request.server) },
            key: Arc::clone(&request.server),
            key_hash: None,
            dialect: Dialect::OpenAi,
            client_action_status: None,
            store: StorePolicy::Never,
            request_id: format!("mcp-{}", request.server),
            log: None,
            traceparent: None,
            unserved_tools: OnUnservedTool::Refuse,
            lists_unserved_fields: false,
            events: EventReader::Process,
            keepalive: None,
            authorization: None,
        };
        let failed = |error: antwort_protocol::error::ApiError| error.body.message;
        let mut run = engine.start(asked, caller).await.map_err(failed)?;
        answer(&run.response().await.map_err(failed)?.response)
    }
}

fn message(message: &SampleMessage) -> Result<Value, String> {
    let kind = if message.by_model { "output_text" } else { "input_text" };
    let content = message.content.iter().map(|part| match part {
        SampleContent::Text(text) => Ok(json!({"type": kind, "text": text})),
        SampleContent::Image { mime_type, data } if !message.by_model => {
            Ok(json!({"type": "input_image", "image_url": format!("data:{mime_type};base64,{data}")}))
        }
        SampleContent::Image { .. } => Err("images of the assistant are not supported".to_owned()),
        SampleContent::Audio { .. } => Err("audio is not supported".to_owned()),
    });
    let role = if message.by_model { "assistant" } else { "user" };
    Ok(json!({"role": role, "content": content.collect::<Result<Vec<_>, String>>()?}))
}

fn answer(response: &Response) -> Result<SampleAnswer, String> {
    let stop_reason = match response.status {
        ResponseStatus::Completed => "endTurn",
        ResponseStatus::Incomplete => "maxTokens",
        _ => {
            let message = response.error.as_ref().map(|error| error.message.clone());
            return Err(message.unwrap_or_else(|| "the model gave no answer".to_owned()));
        }
    };
    let texts = response.output.iter().filter_map(|item| match item {
        Item::Message(message) => {
            Some(message.content.iter().filter_map(ContentPart::text).collect::<String>())
        }
        _ => None,
    });
    Ok(SampleAnswer {
        model: response.echo.model.clone(),
        text: texts.collect(),
        stop_reason: Some(stop_reason.to_owned()),
    })
}
