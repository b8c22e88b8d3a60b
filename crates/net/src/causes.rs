//! Causes of failures outside of the gateway, for the log: the error chain without URLs, which may hold secrets.

use std::error::Error;
use std::fmt::Write;
use std::io;
use std::time::Duration;

use reqwest::Url;

/// Length at which a chain of causes is truncated.
const MAX_CHARS: usize = 500;
/// Explanations of terse errors of the TLS library.
const EXPLANATIONS: [(&str, &str); 2] = [
    (
        "UnknownIssuer",
        "the certificate was not issued by a trusted authority; see providers.<name>.ca_file, egress.ca_file and tls.ca_file",
    ),
    ("InvalidContentType", "the server does not speak TLS on this port"),
];

/// Why something outside of the gateway failed. For logs only: it may name internal hosts. Errors carry it as their last
/// source, so that it can be logged together with the request that it belongs to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct FailureCause {
    /// The kind of failure, from a fixed set; a metric label and log field.
    pub kind: &'static str,
    /// Scheme, host and port; without the path, which may hold a secret.
    pub url: Option<Box<str>>,
    /// The error chain, or the timeout that ended the call.
    pub text: Box<str>,
}

impl FailureCause {
    /// A cause of this kind.
    pub fn new(kind: &'static str, text: impl Into<Box<str>>) -> Self {
        Self { kind, url: None, text: text.into() }
    }

    /// A timeout, named by its setting.
    pub fn from_timeout(kind: &'static str, setting: &str, after: Duration) -> Self {
        Self::new(kind, format!("{setting}, {} s", after.as_secs_f64()))
    }

    /// Sets the origin of the failed call.
    pub(crate) fn with_url(self, url: &Url) -> Self {
        Self { url: Some(url.origin().ascii_serialization().into()), ..self }
    }

    /// The cause in an error's chain of sources, the error itself included.
    pub fn find_in<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Self> {
        std::iter::successors(Some(error), |error| (*error).source()).find_map(|error| error.downcast_ref())
    }
}

/// Why a connection could not be established.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectFailure {
    /// DNS resolution failed.
    NameNotFound,
    /// The host refused the connection, for example because nothing listens on the port.
    Refused,
    /// The TLS handshake failed, for example because of the server's certificate.
    Tls,
    /// Anything else.
    Other,
}

impl ConnectFailure {
    /// The kind in logs and metrics.
    pub fn kind(self) -> &'static str {
        match self {
            Self::NameNotFound => "name_not_found",
            Self::Refused => "connection_refused",
            Self::Tls => "tls",
            Self::Other => "connect",
        }
    }

    /// Classifies a connect error.
    pub fn from_error(error: &dyn Error) -> Self {
        let mut found = Self::Other;
        for cause in causes(error) {
            let mut failed = cause.downcast_ref::<io::Error>();
            while let Some(error) = failed {
                match error.kind() {
                    io::ErrorKind::ConnectionRefused => return Self::Refused,
                    // The TLS library reports handshake failures this way.
                    io::ErrorKind::InvalidData => return Self::Tls,
                    _ => {}
                }
                // A nested `io::Error` is not reported by `source`.
                failed = error.get_ref().and_then(|inner| inner.downcast_ref());
            }
            // By its text, as the HTTP library's type is private.
            if cause.to_string() == "dns error" {
                found = Self::NameNotFound;
            }
        }
        found
    }
}

/// The chain of causes of an error, the outermost first. The error's own text is left out, as it contains the URL.
pub fn chain(error: &dyn Error) -> String {
    let mut text = String::new();
    for cause in causes(error) {
        let cause = cause.to_string();
        // Many errors repeat the text of their cause.
        if text.ends_with(&cause) {
            continue;
        }
        let separator = if text.is_empty() { "" } else { ": " };
        // Writing to a string cannot fail.
        _ = write!(text, "{separator}{cause}");
    }
    let explained = EXPLANATIONS.iter().find(|(word, _)| text.ends_with(word)).map(|(_, meaning)| *meaning);
    if let Some((end, _)) = text.char_indices().nth(MAX_CHARS) {
        text.truncate(end);
        text.push('…');
    }
    match explained {
        Some(meaning) => format!("{text} ({meaning})"),
        None => text,
    }
}

fn causes(error: &dyn Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(error.source(), |cause: &&'_ (dyn Error + 'static)| (*cause).source())
}
