//! Handles requests of servers to the gateway: sampling, elicitation, roots.
#![expect(deprecated, reason = "most servers use a protocol version that has sampling")]

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::handler::client::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestMethod, CreateMessageRequestParams,
    CreateMessageResult, ElicitRequestParams, ElicitResult, ElicitationCapability,
    ElicitationCreateRequestMethod, ErrorData, FormElicitationCapability, Implementation, JsonObject,
    ListRootsRequestMethod, ListRootsResult, ProtocolVersion, Role, SamplingCapability, SamplingMessage,
    SamplingMessageContentBlock, TASKS_EXTENSION_ID, UrlElicitationCapability,
};
use rmcp::service::RequestContext;

use super::elicitation;
use super::message_router::MessageRouter;
use super::pending::CallQuestion;
use crate::sampler::{SampleContent, SampleMessage, SampleRequest, Sampler};
use antwort_config::ElicitationPolicy;
use antwort_protocol::elicitation::{ElicitationAction, ElicitationAnswer, ElicitationModes};

/// Interval at which the idle timeout of calls is reset while the model works for the server.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_millis(200);

/// Handles the requests of one server.
#[derive(Clone)]
pub(super) struct Handler {
    /// Router of the connection.
    pub router: Arc<MessageRouter>,
    /// How elicitation requests are answered.
    pub elicitation: ElicitationPolicy,
    /// The questions to the user that clients show.
    pub shows: ElicitationModes,
    /// Serves sampling requests; `None`: not permitted.
    pub sampler: Option<Arc<dyn Sampler>>,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = self.elicitation_capability();
        if self.sampler.is_some() {
            capabilities.sampling = Some(SamplingCapability::default());
        }
        // A server may make any call a task: one that cannot go on without its run is waited for.
        capabilities.extensions = Some([(TASKS_EXTENSION_ID.to_owned(), JsonObject::new())].into());
        ClientConfig::new(capabilities, Implementation::new("antwort", env!("CARGO_PKG_VERSION")))
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn create_elicitation(
        &self,
        _params: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        // The router has read the question as the server wrote it.
        let Some(CallQuestion { question, call }) = self.router.pending.take_question(&context.id) else {
            return elicitation::policy_action(self.elicitation)
                .map(|action| elicitation::result(&ElicitationAnswer::without_content(action)))
                .ok_or_else(ErrorData::method_not_found::<ElicitationCreateRequestMethod>);
        };
        let answer = tokio::select! {
            answer = call.ask(question) => answer,
            () = context.ct.cancelled() => None,
            () = self.router.closed.cancelled() => None,
        };
        let cancelled = || ElicitationAnswer::without_content(ElicitationAction::Cancel);
        Ok(elicitation::result(&answer.unwrap_or_else(cancelled)))
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let Some(sampler) = &self.sampler else {
            return Err(ErrorData::method_not_found::<CreateMessageRequestMethod>());
        };
        let request = self.sample(params)?;
        let answer = tokio::select! {
            answer = sampler.sample(request) => answer,
            () = context.ct.cancelled() => Err("the request was cancelled".to_owned()),
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
    /// Where the policy answers, servers may ask with forms, as they may have no other way.
    fn elicitation_capability(&self) -> Option<ElicitationCapability> {
        let (form, url) = (self.shows.form, self.shows.url);
        let form = form || elicitation::policy_action(self.elicitation).is_some();
        (form || url).then(|| {
            let mut capability = ElicitationCapability::new();
            capability.form = form.then(FormElicitationCapability::new);
            capability.url = url.then(UrlElicitationCapability::new);
            capability
        })
    }

    /// Resets the idle timeout of all calls: while the server waits for the model, it is not idle. Never returns.
    async fn keep_alive(&self) {
        let mut time = tokio::time::interval(KEEP_ALIVE_INTERVAL);
        loop {
            time.tick().await;
            self.router.pending.touch_all();
        }
    }

    fn sample(&self, params: CreateMessageRequestParams) -> Result<SampleRequest, ErrorData> {
        let hints = params.model_preferences.and_then(|preferences| preferences.hints).unwrap_or_default();
        Ok(SampleRequest {
            server: Arc::clone(&self.router.server),
            system: params.system_prompt,
            messages: params.messages.iter().map(message).collect::<Result<_, _>>()?,
            max_tokens: u64::from(params.max_tokens),
            temperature: params.temperature,
            stop: params.stop_sequences.unwrap_or_default(),
            models: hints.into_iter().filter_map(|hint| hint.name).collect(),
        })
    }
}

fn message(message: &SamplingMessage) -> Result<SampleMessage, ErrorData> {
    let content = message.content.iter().map(|block| match block {
        SamplingMessageContentBlock::Text(text) => Ok(SampleContent::Text(text.text.clone())),
        SamplingMessageContentBlock::Image(image) => {
            Ok(SampleContent::Image { mime_type: image.mime_type.clone(), data: image.data.clone() })
        }
        SamplingMessageContentBlock::Audio(audio) => {
            Ok(SampleContent::Audio { mime_type: audio.mime_type.clone(), data: audio.data.clone() })
        }
        _ => Err(ErrorData::invalid_params("tools are not supported in sampling requests", None)),
    });
    Ok(SampleMessage {
        by_model: message.role == Role::Assistant,
        content: content.collect::<Result<_, _>>()?,
    })
}
