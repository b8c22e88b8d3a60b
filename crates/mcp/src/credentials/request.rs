//! Credentials for an MCP server that a request brings along.

use std::sync::Arc;

use reqwest::header::{AUTHORIZATION, HeaderMap};

use super::{Credentials, StaticHeaders};
use antwort_config::mcp::headers;
use antwort_protocol::parse::truncate_for_display;

/// Maximum number of headers of one server.
const MAX_HEADERS: usize = 64;

/// A header that cannot be sent. Names the header, never its value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the header `{name}` {problem}")]
pub(crate) struct InvalidHeader {
    /// Name of the header; `authorization` also for the request field of that name.
    pub name: String,
    /// What is wrong; completes the sentence that starts with the name.
    pub problem: &'static str,
}

impl InvalidHeader {
    fn new(name: &str, problem: &'static str) -> Self {
        Self { name: truncate_for_display(name).into_owned(), problem }
    }
}

/// Credentials from a request: `authorization` (a token with or without the scheme `Bearer`) and `headers`.
///
/// # Errors
/// If a header is invalid, duplicate, or reserved for the gateway.
pub(crate) fn for_request<'a>(
    authorization: Option<&str>,
    headers: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<Arc<dyn Credentials>, InvalidHeader> {
    let mut header_map = HeaderMap::new();
    if let Some(token) = authorization {
        let token = bearer_token(token).unwrap_or(token).trim();
        let value = headers::bearer(token).map_err(|problem| InvalidHeader::new("authorization", problem))?;
        header_map.insert(AUTHORIZATION, value);
    }
    for (name, value) in headers {
        let (header, value) =
            headers::read(name, value).map_err(|problem| InvalidHeader::new(name, problem))?;
        if header_map.contains_key(&header) {
            let problem = if header == AUTHORIZATION && authorization.is_some() {
                "conflicts with the field `authorization`: send only one of them"
            } else {
                "is given twice"
            };
            return Err(InvalidHeader::new(name, problem));
        }
        if header_map.len() == MAX_HEADERS {
            return Err(InvalidHeader::new(name, "exceeds the limit of 64 headers"));
        }
        header_map.insert(header, value);
    }
    Ok(Arc::new(StaticHeaders::new(header_map)))
}

/// The token of an `Authorization` header with the scheme `Bearer`.
pub(super) fn bearer_token(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
