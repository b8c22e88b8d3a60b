//! Counts the tokens of a request's prompt without asking the model.
//!
//! The request is prepared as for a run, so that both count and refuse the same, but it changes nothing.

use std::pin::pin;
use std::sync::Arc;

use super::Engine;
use super::context::{EngineParts, RunContext};
use super::prepare::{self, PreparedRun, Purpose};
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

impl Engine {
    /// Counts the tokens of the prompt that the request would make, once it is admitted as a run is.
    pub async fn count_tokens(
        &self,
        request: Box<CreateResponse>,
        caller: RunContext,
    ) -> Result<TokenCount, ApiError> {
        let admitted = self.admit(&caller.requester()).await?;
        admitted.run_until_aborted(pin!(count(&self.parts, request, &caller))).await?
    }
}

async fn count(
    parts: &EngineParts,
    request: Box<CreateResponse>,
    caller: &RunContext,
) -> Result<TokenCount, ApiError> {
    let prepared = Box::new(prepare::prepare(parts, request, caller, Purpose::Check).await?);
    if let Some(log) = &caller.log {
        let asked = ModelTarget::new(prepared.provider.name(), &prepared.model_request.model);
        log.update(|facts| facts.model = Some(asked));
    }
    let (tokens, precision) = match count_exactly(parts, &prepared, caller).await? {
        Some(tokens) => (tokens, Precision::Exact),
        None => {
            let estimated =
                on_thread(parts, caller, &prepared, |provider, request| provider.estimate_tokens(request));
            (estimated.await?, Precision::Estimate)
        }
    };
    Ok(TokenCount { tokens, precision, ignored: prepared.ignored, omitted_tools: prepared.offer.omitted })
}

/// The count of the provider's tokenizer, if it has one that answers.
async fn count_exactly(
    parts: &EngineParts,
    prepared: &PreparedRun,
    caller: &RunContext,
) -> Result<Option<u64>, ApiError> {
    let encoded =
        on_thread(parts, caller, prepared, |provider, request| provider.encode_for_tokenizer(request));
    let Some(prompt) = encoded.await? else { return Ok(None) };
    let call = CallContext {
        deadline: None,
        traceparent: caller.traceparent.clone(),
        request_id: caller.request_id.clone(),
        response_id: None,
    };
    Ok(prepared.provider.count_tokens(prompt, &call).await)
}

/// Runs work that takes time in proportion to the prompt on a blocking thread.
async fn on_thread<T: Send + 'static>(
    parts: &EngineParts,
    caller: &RunContext,
    prepared: &PreparedRun,
    work: impl FnOnce(&dyn Provider, &ModelRequest) -> Result<T, ProviderError> + Send + 'static,
) -> Result<T, ApiError> {
    let (provider, request) = (Arc::clone(&prepared.provider), Arc::clone(&prepared.model_request));
    let requester: Requester = caller.requester();
    let done = parts.admission.blocking.run(&requester, move || work(provider.as_ref(), &request)).await?;
    done.map_err(|error| match &prepared.redaction {
        Some(redaction) => redaction.apply(error).into(),
        None => error.into(),
    })
}
