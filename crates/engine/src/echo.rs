//! The echo of the request in its response: serialized once, shared by every snapshot.

use std::borrow::Cow;
use std::sync::Arc;

use antwort_protocol::dialect::Dialect;
use antwort_protocol::error::{ApiError, ErrorBody};
use antwort_protocol::id::IdGenerator;
use antwort_protocol::json::to_raw;
use antwort_protocol::request::{CreateResponse, ServiceTier};
use antwort_protocol::response::{
    OutputItems, RequestEcho, Response, ResponseConversation, ResponseStatus, RunReport, Usage,
};

/// The response as it is created, before its run begins.
pub(super) fn created(
    request: &CreateResponse,
    ids: &IdGenerator,
    dialect: Dialect,
    now: i64,
    omitted_tools: &[&'static str],
) -> Result<Response, ApiError> {
    Ok(Response {
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
        echo: Arc::new(echo(request, request.model()?, dialect)),
        antwort: RunReport::echo(
            request.antwort.clone(),
            omitted_tools.iter().map(|kind| Cow::Borrowed(*kind)).collect(),
        ),
    })
}

/// The longest code of a provider that is kept of a request which failed. A longer one may be a text.
const MAX_CODE_BYTES: usize = 64;
/// What is kept in place of such a code.
const OTHER_CODE: &str = "upstream_rejected_request";

/// The response of a request that failed before its first output. Of the request it has the model; the provider's words may
/// quote the rest, and are left out, too.
pub(super) fn failed_request(created: &Response, error: &ApiError, usage: Option<Usage>) -> Response {
    let dialect = created.output.dialect();
    let is_code = |code: &&str| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        code.len() <= MAX_CODE_BYTES && code.bytes().all(is_part)
    };
    let message = format!(
        "The request failed before its first output, and its client got an error with status {}. Nothing of its content is \
         kept.",
        error.kind.status()
    );
    Response {
        status: ResponseStatus::Failed,
        error: Some(ErrorBody {
            message,
            kind: error.body.kind.clone(),
            param: None,
            code: Some(Cow::Owned(Some(error.code()).filter(is_code).unwrap_or(OTHER_CODE).to_owned())),
        }),
        output: OutputItems::new(dialect),
        usage,
        service_tier: ServiceTier::Auto.as_str().to_owned(),
        echo: Arc::new(echo(&CreateResponse::default(), &created.echo.model, dialect)),
        antwort: None,
        ..created.clone()
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
