//! Helpers for tools that call a web API: base URL, query string, error mapping, JSON response.

use reqwest::Url;
use serde::de::DeserializeOwned;

use crate::{FailureStage, ToolError, ToolErrorCode};
use antwort_net::egress::{EgressError, EgressResponse};

/// Validates a base URL and strips the trailing slash.
pub(super) fn base_url(text: &str) -> Result<String, &'static str> {
    let url = Url::parse(text).map_err(|_| "is not a URL")?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("must begin with http:// or https://");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("must not have a query or fragment");
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// Encodes pairs as a query string.
pub(super) fn query<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
}

/// Maps a failed request to a tool error. `action` starts the message, such as `failed to fetch weather`.
pub(super) fn failure(action: &str, error: EgressError) -> ToolError {
    let (code, stage) = match &error {
        EgressError::BadUrl(_)
        | EgressError::DomainNotAllowed { .. }
        | EgressError::AddressNotAllowed { .. } => (ToolErrorCode::DomainNotAllowed, FailureStage::NotSent),
        // Not distinguished, so that callers who choose hosts cannot probe which internal names exist.
        EgressError::NameNotAllowed { .. }
        | EgressError::Connect { .. }
        | EgressError::Proxy { .. }
        | EgressError::NoClient => (ToolErrorCode::ToolUnavailable, FailureStage::NotSent),
        EgressError::Timeout { .. } => (ToolErrorCode::ToolTimeout, FailureStage::Transport),
        EgressError::TooLarge { .. } => (ToolErrorCode::ResultTooLarge, FailureStage::Tool),
        EgressError::TooManyRedirects { .. } => (ToolErrorCode::ToolExecutionFailed, FailureStage::Tool),
        _ => (ToolErrorCode::ToolUnavailable, FailureStage::Transport),
    };
    ToolError::new(code, stage, format!("{action}: {error}")).with_cause(error)
}

/// Parses the body of a response with status 200. `service` and `what` appear in messages: `weather API`,
/// `weather response`.
pub(super) fn json<T: DeserializeOwned>(
    answer: &EgressResponse,
    service: &str,
    what: &str,
) -> Result<T, ToolError> {
    match answer.status {
        200 => serde_json::from_slice(&answer.body)
            .map_err(|error| ToolError::failed(format!("failed to parse {what}: {}", problem(&error)))),
        status @ 500.. => Err(ToolError::transport(format!("{service} returned status {status}"))),
        status => Err(ToolError::failed(format!("{service} returned status {status}"))),
    }
}

/// What is wrong with a body. Not serde's message, which quotes the body, which may quote the API key.
fn problem(error: &serde_json::Error) -> &'static str {
    if error.is_data() { "expected fields are missing" } else { "it is not JSON" }
}
