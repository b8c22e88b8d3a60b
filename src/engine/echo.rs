//! The echo of the request in its response: serialized once, shared by every snapshot.

use std::borrow::Cow;
use std::sync::Arc;

use crate::protocol::dialect::Dialect;
use crate::protocol::id::IdGenerator;
use crate::protocol::json::to_raw;
use crate::protocol::request::{CreateResponse, ServiceTier};
use crate::protocol::response::{
    OutputItems, RequestEcho, Response, ResponseConversation, ResponseStatus, RunReport,
};

/// The response as it is created, before its run begins.
pub(super) fn created(
    request: &CreateResponse,
    model: &str,
    ids: &IdGenerator,
    dialect: Dialect,
    now: i64,
    omitted_tools: &[&'static str],
) -> Response {
    Response {
        id: ids.response(),
        object: "response",
        created_at: now,
        completed_at: None,
        status: ResponseStatus::InProgress,
        error: None,
        incomplete_details: None,
        output: OutputItems::new(dialect),
        usage: None,
        // The requested tier until the response ends; then the tier that the provider reported.
        service_tier: request.service_tier.unwrap_or(ServiceTier::Auto).as_str().to_owned(),
        echo: Arc::new(echo(request, model, dialect)),
        antwort: RunReport::echo(
            request.antwort.clone(),
            omitted_tools.iter().map(|kind| Cow::Borrowed(*kind)).collect(),
        ),
    }
}

fn echo(request: &CreateResponse, model: &str, dialect: Dialect) -> RequestEcho {
    RequestEcho {
        background: request.background,
        conversation: request.conversation.clone().map(|id| ResponseConversation { id }),
        frequency_penalty: request.frequency_penalty.unwrap_or(0.0),
        instructions: request.instructions.clone(),
        max_output_tokens: request.max_output_tokens,
        max_tool_calls: request.max_tool_calls,
        metadata: to_raw(&request.metadata),
        model: model.to_owned(),
        parallel_tool_calls: request.parallel_tool_calls,
        presence_penalty: request.presence_penalty.unwrap_or(0.0),
        previous_response_id: request.previous_response_id.clone(),
        prompt_cache_key: request.prompt_cache_key.clone(),
        prompt_cache_retention: request.prompt_cache_retention.map(|kept| kept.as_str().to_owned()),
        reasoning: to_raw(&request.reasoning),
        safety_identifier: request.safety_identifier.clone(),
        store: request.store,
        temperature: request.temperature.unwrap_or(1.0),
        text: to_raw(&request.text.echo(dialect)),
        tool_choice: to_raw(&request.tool_choice),
        tools: to_raw(&request.tools),
        top_logprobs: request.top_logprobs.unwrap_or(0),
        top_p: request.top_p.unwrap_or(1.0),
        truncation: request.truncation,
        user: request.user.clone(),
        prompt: request.prompt.clone(),
        agent: request.agent.clone(),
    }
}
