//! Headers that are sent to a server, besides those of the transport.

use http::header::{HeaderName, HeaderValue};

/// Headers of the connection, the body or the protocol.
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

/// Parses a header.
///
/// # Errors
/// What is wrong with it, as text behind its name. Never contains the value.
pub fn read(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), &'static str> {
    let name = HeaderName::try_from(name).map_err(|_| "is not a valid header name")?;
    if RESERVED_HEADERS.contains(&name.as_str()) {
        return Err("is set by the gateway");
    }
    let mut value = HeaderValue::try_from(value).map_err(|_| "has an invalid header value")?;
    value.set_sensitive(true);
    Ok((name, value))
}

/// The `Authorization` header of a token.
///
/// # Errors
/// Why the token is invalid, as text behind its name.
pub fn bearer(token: &str) -> Result<HeaderValue, &'static str> {
    if token.is_empty() || token.contains(|c: char| c.is_whitespace() || !c.is_ascii()) {
        return Err("is empty, or contains white space or other invalid characters");
    }
    let value = HeaderValue::try_from(format!("Bearer {token}"));
    let mut value = value.map_err(|_| "cannot be sent in a header")?;
    value.set_sensitive(true);
    Ok(value)
}
