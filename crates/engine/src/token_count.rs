//! Counts the tokens of a request's prompt without asking the model.
//!
//! The request is prepared as for a run, so that both count and refuse the same, but it changes nothing.

use std::pin::pin;
use std::sync::Arc;

use super::context::{EngineParts, RunContext};
use super::prepare::{self, Purpose};
use super::prompt::Prompt;
use crate::start;
use antwort_identity::Requester;
use antwort_protocol::error::ApiError;
use antwort_protocol::request::CreateResponse;
use antwort_provider::{CallContext, Provider, ProviderError};
use antwort_response::turn::ModelRequest;
use antwort_telemetry::request_log::ModelTarget;

/// The size of a prompt.
pub struct TokenCount {
    pub tokens: u64,
    pub precision: Precision,
    /// Request fields that were ignored.
    pub ignored: Vec<String>,
    /// Tools that the model is not offered.
    pub omitted_tools: Vec<&'static str>,
}

/// How exact a count is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// By the model's own tokenizer.
    Exact,
    /// By the bundled tokenizer.
    Estimate,
}

impl Precision {
    /// Its name in the response header.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Estimate => "estimate",
        }
    }
}

/// [`Engine::count_tokens`](crate::Engine::count_tokens).
pub(crate) async fn count_tokens(
    parts: &EngineParts,
    request: Box<CreateResponse>,
    caller: RunContext,
) -> Result<TokenCount, ApiError> {
    let admitted = start::admit(parts, &caller.requester()).await?;
    admitted.run_until_aborted(pin!(count(parts, request, &caller))).await?
}

async fn count(
    parts: &EngineParts,
    request: Box<CreateResponse>,
    caller: &RunContext,
) -> Result<TokenCount, ApiError> {
    // It holds the memory that the prompt takes.
    let prepared = Box::new(prepare::prepare(parts, request, caller, Purpose::Check).await?);
    let prompt = &prepared.prompt;
    if let Some(log) = &caller.log {
        let asked = ModelTarget::new(prompt.provider.name(), &prompt.request.model);
        log.update(|facts| facts.model = Some(asked));
    }
    let (tokens, precision) = match count_exactly(parts, prompt, caller).await? {
        Some(tokens) => (tokens, Precision::Exact),
        None => {
            let estimated =
                on_thread(parts, caller, prompt, |provider, request| provider.estimate_tokens(request));
            (estimated.await?, Precision::Estimate)
        }
    };
    Ok(TokenCount {
        tokens,
        precision,
        ignored: prepared.ignored,
        omitted_tools: prepared.tools.offer.omitted,
    })
}

/// The count of the provider's tokenizer, if it has one that answers.
async fn count_exactly(
    parts: &EngineParts,
    prompt: &Prompt,
    caller: &RunContext,
) -> Result<Option<u64>, ApiError> {
    let encoded =
        on_thread(parts, caller, prompt, |provider, request| provider.encode_for_tokenizer(request));
    let Some(encoded) = encoded.await? else { return Ok(None) };
    let call = CallContext {
        deadline: None,
        traceparent: caller.traceparent.clone(),
        request_id: caller.request_id.clone(),
        response_id: None,
    };
    Ok(prompt.provider.count_tokens(encoded, &call).await)
}

/// Runs work that takes time in proportion to the prompt on a blocking thread.
async fn on_thread<T: Send + 'static>(
    parts: &EngineParts,
    caller: &RunContext,
    prompt: &Prompt,
    work: impl FnOnce(&dyn Provider, &ModelRequest) -> Result<T, ProviderError> + Send + 'static,
) -> Result<T, ApiError> {
    let (provider, request) = (Arc::clone(&prompt.provider), Arc::clone(&prompt.request));
    let requester: Requester = caller.requester();
    let done = parts.admission.blocking.run(&requester, move || work(provider.as_ref(), &request)).await?;
    done.map_err(|error| prompt.redact(error))
}
