//! What a server may ask of the gateway, and what it is told.
#![expect(deprecated, reason = "the protocol of most servers has sampling")]

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::handler::client::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestMethod, CreateMessageRequestParams,
    CreateMessageResult, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability,
    ElicitationCreateRequestMethod, ErrorData, FormElicitationCapability, Implementation,
    ListRootsRequestMethod, ListRootsResult, ProtocolVersion, Role, SamplingCapability, SamplingMessage,
    SamplingMessageContentBlock,
};
use rmcp::service::RequestContext;

use super::message_router::MessageRouter;
use crate::config::Elicitation;
use crate::tools::mcp::sampler::{SampleContent, SampleMessage, SampleRequest, Sampler};

/// How often calls are kept from being given up while the model thinks.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_millis(200);

/// Answers a server.
#[derive(Clone)]
pub(super) struct Handler {
    /// What else is known of the connection.
    pub router: Arc<MessageRouter>,
    /// What it is told that asks the user for something.
    pub elicitation: Elicitation,
    /// What it may use the model through.
    pub sampler: Option<Arc<dyn Sampler>>,
}

/// What a server is told that asks the user for something; `None`: that nobody can be asked.
pub(super) fn elicitation_action(elicitation: Elicitation) -> Option<ElicitationAction> {
    match elicitation {
        Elicitation::Decline => Some(ElicitationAction::Decline),
        Elicitation::Cancel => Some(ElicitationAction::Cancel),
        Elicitation::Off => None,
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        if elicitation_action(self.elicitation).is_some() {
            let form = FormElicitationCapability::new();
            capabilities.elicitation = Some(ElicitationCapability::new().with_form(form));
        }
        if self.sampler.is_some() {
            capabilities.sampling = Some(SamplingCapability::default());
        }
        ClientConfig::new(capabilities, Implementation::new("antwort", env!("CARGO_PKG_VERSION")))
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn create_elicitation(
        &self,
        _asked: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        elicitation_action(self.elicitation)
            .map(ElicitResult::new)
            .ok_or_else(ErrorData::method_not_found::<ElicitationCreateRequestMethod>)
    }

    async fn create_message(
        &self,
        asked: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let Some(sampler) = &self.sampler else {
            return Err(ErrorData::method_not_found::<CreateMessageRequestMethod>());
        };
        let request = self.sample(asked)?;
        let answer = tokio::select! {
            answer = sampler.sample(request) => answer,
            () = context.ct.cancelled() => Err("it was cancelled".to_owned()),
            () = self.router.closed.cancelled() => Err("the connection was closed".to_owned()),
            () = self.keep_alive() => Err(String::new()),
        };
        let answer = answer.map_err(|why| ErrorData::internal_error(why, None))?;
        let mut result = CreateMessageResult::new(SamplingMessage::assistant_text(answer.text), answer.model);
        result.stop_reason = answer.stop_reason;
        Ok(result)
    }

    async fn list_roots(&self, _context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListRootsRequestMethod>())
    }
}

impl Handler {
    /// While the model thinks it is not the server that is silent. Never ends.
    async fn keep_alive(&self) {
        let mut time = tokio::time::interval(KEEP_ALIVE_INTERVAL);
        loop {
            time.tick().await;
            self.router.pending.touch_all();
        }
    }

    fn sample(&self, asked: CreateMessageRequestParams) -> Result<SampleRequest, ErrorData> {
        let hints = asked.model_preferences.and_then(|preferences| preferences.hints).unwrap_or_default();
        Ok(SampleRequest {
            server: Arc::clone(&self.router.server),
            system: asked.system_prompt,
            messages: asked.messages.iter().map(message).collect::<Result<_, _>>()?,
            max_tokens: u64::from(asked.max_tokens),
            temperature: asked.temperature,
            stop: asked.stop_sequences.unwrap_or_default(),
            models: hints.into_iter().filter_map(|hint| hint.name).collect(),
        })
    }
}

fn message(said: &SamplingMessage) -> Result<SampleMessage, ErrorData> {
    let content = said.content.iter().map(|block| match block {
        SamplingMessageContentBlock::Text(text) => Ok(SampleContent::Text(text.text.clone())),
        SamplingMessageContentBlock::Image(image) => {
            Ok(SampleContent::Image { mime_type: image.mime_type.clone(), data: image.data.clone() })
        }
        SamplingMessageContentBlock::Audio(audio) => {
            Ok(SampleContent::Audio { mime_type: audio.mime_type.clone(), data: audio.data.clone() })
        }
        _ => Err(ErrorData::invalid_params("tools cannot be used in sampling", None)),
    });
    Ok(SampleMessage { by_model: said.role == Role::Assistant, content: content.collect::<Result<_, _>>()? })
}
