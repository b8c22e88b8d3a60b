//! The head of requests: what every request of a client begins with is encoded once.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{self, HeaderMap, HeaderName};
use percent_encoding::percent_decode_str;
use url::{Position, Url};

/// Headers that frame the message or concern the connection, which are the client's own.
const RESERVED: [HeaderName; 7] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::EXPECT,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// The head of every request, except for its own headers and the length of its body.
pub(super) struct RequestHead(Vec<u8>);

impl RequestHead {
    /// Request line, `host`, the credentials of the URL and these headers. `host` and `authorization` among them replace
    /// those of the URL.
    pub(super) fn new(url: &Url, headers: &HeaderMap) -> Result<Self, String> {
        let mut head =
            format!("POST {} HTTP/1.1\r\n", &url[Position::BeforePath..Position::AfterQuery]).into_bytes();
        if !headers.contains_key(header::HOST) {
            let host = &url[Position::BeforeHost..Position::AfterPort];
            push(&mut head, "host", host.as_bytes());
        }
        if !headers.contains_key(header::AUTHORIZATION)
            && let Some(credentials) = credentials(url)
        {
            push(&mut head, "authorization", credentials.as_bytes());
        }
        for (name, value) in headers {
            if !Self::allows(name) {
                return Err(format!("the header {name} cannot be set"));
            }
            push(&mut head, name.as_str(), value.as_bytes());
        }
        Ok(Self(head))
    }

    /// Whether a header may be configured.
    pub(super) fn allows(name: &HeaderName) -> bool {
        !RESERVED.contains(name)
    }

    /// The head of a request with these headers of its own; those that cannot be sent are left out.
    pub(super) fn encode(&self, headers: &[(&'static str, Option<&str>)], body_bytes: usize) -> Vec<u8> {
        let own: usize =
            headers.iter().map(|(name, value)| name.len() + value.unwrap_or_default().len() + 4).sum();
        let mut head = Vec::with_capacity(self.0.len() + own + 48);
        head.extend_from_slice(&self.0);
        for (name, value) in headers {
            if let Some(value) = value.filter(|value| is_field_value(value)) {
                push(&mut head, name, value.as_bytes());
            }
        }
        // Writing to a vector cannot fail.
        _ = write!(head, "content-length: {body_bytes}\r\n\r\n");
        head
    }
}

/// Whether a header can have this value: visible ASCII, spaces and tabs.
fn is_field_value(value: &str) -> bool {
    value.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~'))
}

fn push(head: &mut Vec<u8>, name: &str, value: &[u8]) {
    head.extend_from_slice(name.as_bytes());
    head.extend_from_slice(b": ");
    head.extend_from_slice(value);
    head.extend_from_slice(b"\r\n");
}

/// The value of `authorization` for the user and password of a URL.
fn credentials(url: &Url) -> Option<String> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let mut pair: Vec<u8> = percent_decode_str(url.username()).collect();
    pair.push(b':');
    pair.extend(percent_decode_str(url.password().unwrap_or_default()));
    Some(format!("Basic {}", STANDARD.encode(pair)))
}
