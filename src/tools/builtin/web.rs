//! What tools that ask a server on the web have in common: its address, and what its failures mean for a call.

use reqwest::Url;
use serde::de::DeserializeOwned;

use crate::net::egress::{EgressError, EgressResponse};
use crate::tools::{FailureStage, ToolError, ToolErrorCode};

/// A server's base URL, without a slash at its end. `Err` says what is wrong with it.
pub(super) fn base_url(text: &str) -> Result<String, &'static str> {
    let url = Url::parse(text).map_err(|_| "is no URL")?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("must begin with http:// or https://");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("must not hold a query or fragment");
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// A query string, from pairs.
pub(super) fn query<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
}

/// A request that was refused or failed. `doing` begins the message, such as `failed to fetch weather`.
pub(super) fn failure(doing: &str, error: EgressError) -> ToolError {
    let (code, fault) = match &error {
        EgressError::BadUrl(_)
        | EgressError::DomainNotAllowed { .. }
        | EgressError::AddressNotAllowed { .. } => (ToolErrorCode::DomainNotAllowed, FailureStage::NotSent),
        // Whoever may name hosts is not to learn which ones there are inside.
        EgressError::NameNotAllowed { .. }
        | EgressError::Connect { .. }
        | EgressError::Proxy { .. }
        | EgressError::NoClient => (ToolErrorCode::ToolUnavailable, FailureStage::NotSent),
        EgressError::Timeout { .. } => (ToolErrorCode::ToolTimeout, FailureStage::Transport),
        EgressError::TooLarge { .. } => (ToolErrorCode::ResultTooLarge, FailureStage::Tool),
        EgressError::TooManyRedirects { .. } => (ToolErrorCode::ToolExecutionFailed, FailureStage::Tool),
        _ => (ToolErrorCode::ToolUnavailable, FailureStage::Transport),
    };
    ToolError::new(code, fault, format!("{doing}: {error}")).with_cause(error)
}

/// The JSON of an answer with status 200. `who` and `what` are for messages: `weather API`, `weather response`.
pub(super) fn json<T: DeserializeOwned>(
    answer: &EgressResponse,
    who: &str,
    what: &str,
) -> Result<T, ToolError> {
    match answer.status {
        200 => serde_json::from_slice(&answer.body)
            .map_err(|error| ToolError::failed(format!("failed to parse {what}: {}", problem(&error)))),
        status @ 500.. => Err(ToolError::transport(format!("{who} returned status {status}"))),
        status => Err(ToolError::failed(format!("{who} returned status {status}"))),
    }
}

/// What is wrong with a body. The library's words quote it, and it may quote the request with its key.
fn problem(error: &serde_json::Error) -> &'static str {
    if error.is_data() { "it has not the expected fields" } else { "it is no JSON" }
}
