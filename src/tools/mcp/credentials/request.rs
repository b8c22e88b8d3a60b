//! What a request says about who the gateway is to a server that it brings.

use std::sync::Arc;

use reqwest::header::{AUTHORIZATION, HeaderMap};

use super::{Credentials, StaticHeaders};
use crate::config::mcp::headers;
use crate::protocol::parse::truncate_for_display;

/// Headers of one server.
const MAX_HEADERS: usize = 64;

/// A header that cannot be sent. Names it, and never its value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the header `{name}` {problem}")]
pub(crate) struct InvalidHeader {
    /// Its name; `authorization` also for the field of that name.
    pub name: String,
    /// What is wrong, to be said behind its name.
    pub problem: &'static str,
}

impl InvalidHeader {
    fn new(name: &str, problem: &'static str) -> Self {
        Self { name: truncate_for_display(name).into_owned(), problem }
    }
}

/// Credentials of a server that a request brings: its `authorization`, a token with or without the word `Bearer`,
/// and its `headers`.
///
/// # Errors
/// If one of them cannot be sent, or belongs to the gateway.
pub(crate) fn for_request<'a>(
    authorization: Option<&str>,
    said: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<Arc<dyn Credentials>, InvalidHeader> {
    let mut all = HeaderMap::new();
    if let Some(token) = authorization {
        let token = bearer_token(token).unwrap_or(token).trim();
        let value = headers::bearer(token).map_err(|problem| InvalidHeader::new("authorization", problem))?;
        all.insert(AUTHORIZATION, value);
    }
    for (name, value) in said {
        let (header, value) =
            headers::read(name, value).map_err(|problem| InvalidHeader::new(name, problem))?;
        if all.contains_key(&header) {
            let problem = if header == AUTHORIZATION && authorization.is_some() {
                "is there beside the field `authorization`: one is enough"
            } else {
                "is there twice"
            };
            return Err(InvalidHeader::new(name, problem));
        }
        if all.len() == MAX_HEADERS {
            return Err(InvalidHeader::new(name, "is one too many"));
        }
        all.insert(header, value);
    }
    Ok(Arc::new(StaticHeaders::new(all)))
}

/// The token of an `Authorization` with the scheme `Bearer`.
pub(super) fn bearer_token(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
