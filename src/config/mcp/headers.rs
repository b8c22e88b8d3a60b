//! Headers that a server is sent beside those of its transport.

use http::header::{HeaderName, HeaderValue};

/// Headers that belong to the connection, to the body or to the protocol.
const RESERVED_HEADERS: [&str; 22] = [
    "host",
    "content-length",
    "content-type",
    "content-encoding",
    "transfer-encoding",
    "connection",
    "proxy-connection",
    "keep-alive",
    "upgrade",
    "http2-settings",
    "accept",
    "accept-encoding",
    "expect",
    "te",
    "trailer",
    "proxy-authorization",
    "proxy-authenticate",
    "mcp-session-id",
    "mcp-protocol-version",
    "mcp-method",
    "mcp-name",
    "last-event-id",
];

/// Reads a header.
///
/// # Errors
/// What is wrong with it, to be said behind its name. Never holds the value.
pub(crate) fn read(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), &'static str> {
    let name = HeaderName::try_from(name).map_err(|_| "is not a valid header name")?;
    if RESERVED_HEADERS.contains(&name.as_str()) {
        return Err("is set by the gateway");
    }
    let mut value = HeaderValue::try_from(value).map_err(|_| "has an invalid header value")?;
    value.set_sensitive(true);
    Ok((name, value))
}

/// The `Authorization` of a token.
///
/// # Errors
/// Why there can be none; to be said behind the token's name.
pub(crate) fn bearer(token: &str) -> Result<HeaderValue, &'static str> {
    if token.is_empty() || token.contains(|c: char| c.is_whitespace() || !c.is_ascii()) {
        return Err("is empty, or contains white space or other invalid characters");
    }
    let value = HeaderValue::try_from(format!("Bearer {token}"));
    let mut value = value.map_err(|_| "cannot be sent in a header")?;
    value.set_sensitive(true);
    Ok(value)
}
