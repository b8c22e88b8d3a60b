//! Why something outside of the gateway failed, for the log: the causes of an error, without the URL, which may hold secrets.

use std::error::Error;
use std::fmt::Write;
use std::io;

use reqwest::Url;

/// More of a chain of causes is no help.
const MAX_CHARS: usize = 500;
/// What the TLS library says in one word, and what that means.
const EXPLAINED: [(&str, &str); 2] = [
    (
        "UnknownIssuer",
        "no authority that is trusted has issued the certificate; see providers.<name>.ca_file, egress.ca_file and tls.ca_file",
    ),
    ("InvalidContentType", "what answers there does not speak TLS"),
];

/// Why something outside of the gateway failed. For the log alone: it may name what clients are not told of. Errors have it as
/// their last source, so that whoever logs one in the name of a request finds it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct FailureCause {
    /// One of few words.
    pub kind: &'static str,
    /// Scheme, host and port; a path may be a secret.
    pub url: Option<Box<str>>,
    /// What happened.
    pub text: Box<str>,
}

impl FailureCause {
    /// A cause of this kind.
    pub(crate) fn new(kind: &'static str, text: impl Into<Box<str>>) -> Self {
        Self { kind, url: None, text: text.into() }
    }

    /// What was asked there.
    pub(crate) fn with_url(self, url: &Url) -> Self {
        Self { url: Some(url.origin().ascii_serialization().into()), ..self }
    }

    /// The one that an error is, or has among its sources.
    pub(crate) fn find_in<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Self> {
        std::iter::successors(Some(error), |error| (*error).source()).find_map(|error| error.downcast_ref())
    }
}

/// Why a connection could not be made, as far as its causes tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectFailure {
    /// The host's name has no address.
    NameNotFound,
    /// Nobody listens there.
    Refused,
    /// The server's certificate, or the agreement on TLS, is not acceptable.
    Tls,
    /// Anything else.
    Other,
}

impl ConnectFailure {
    /// Its kind in logs and metrics.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::NameNotFound => "name_not_found",
            Self::Refused => "connection_refused",
            Self::Tls => "tls",
            Self::Other => "connect",
        }
    }

    /// Of an error of a connection that was not made.
    pub(crate) fn from_reqwest(error: &reqwest::Error) -> Self {
        let mut found = Self::Other;
        for cause in causes(error) {
            let mut failed = cause.downcast_ref::<io::Error>();
            while let Some(error) = failed {
                match error.kind() {
                    io::ErrorKind::ConnectionRefused => return Self::Refused,
                    // How the TLS library reports what it does not accept.
                    io::ErrorKind::InvalidData => return Self::Tls,
                    _ => {}
                }
                // One within another is no source of it.
                failed = error.get_ref().and_then(|inner| inner.downcast_ref());
            }
            // The HTTP library's own type is private.
            if cause.to_string() == "dns error" {
                found = Self::NameNotFound;
            }
        }
        found
    }
}

/// The causes of an error, the outermost first. The error's own text is left out: it has the URL.
pub(crate) fn chain(error: &reqwest::Error) -> String {
    let mut text = String::new();
    for cause in causes(error) {
        let cause = cause.to_string();
        // Many errors repeat their cause.
        if text.ends_with(&cause) {
            continue;
        }
        let separator = if text.is_empty() { "" } else { ": " };
        // Writing to a string cannot fail.
        _ = write!(text, "{separator}{cause}");
    }
    let explained = EXPLAINED.iter().find(|(word, _)| text.ends_with(word)).map(|(_, meaning)| *meaning);
    if let Some((end, _)) = text.char_indices().nth(MAX_CHARS) {
        text.truncate(end);
        text.push('…');
    }
    match explained {
        Some(meaning) => format!("{text} ({meaning})"),
        None => text,
    }
}

fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(error.source(), |cause: &&'_ (dyn Error + 'static)| (*cause).source())
}
