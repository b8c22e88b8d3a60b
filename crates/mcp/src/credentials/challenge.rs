//! Parses the `WWW-Authenticate` header of a server that rejected a request.

use reqwest::header::{HeaderMap, WWW_AUTHENTICATE};
use reqwest::{Response, StatusCode, Url};

use super::discovery::{challenged_url, parameter};
use crate::error::McpError;
use antwort_tools::AuthChallenge;

/// Maximum bytes of all challenges.
const MAX_CHALLENGE: usize = 8 * 1024;
/// Maximum bytes of a URL that is passed on to clients.
const MAX_URL: usize = 2 * 1024;
/// Maximum number of scopes adopted from challenges.
pub(super) const MAX_SCOPES: usize = 32;
/// Maximum total bytes of the scopes.
const MAX_SCOPE_BYTES: usize = 1024;

/// A rejected request: 401, or 403 with `insufficient_scope`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WwwAuthenticate {
    /// 403: the credentials are valid but lack a scope.
    pub(crate) insufficient: bool,
    /// URL of the resource metadata, if the gateway may fetch it.
    pub metadata: Option<Url>,
    /// Requested scopes.
    pub scopes: Vec<String>,
    /// URL of the resource metadata, for clients.
    resource_metadata: Option<String>,
}

impl WwwAuthenticate {
    /// The challenge of a response; `None` if the response is not a rejection.
    pub(crate) fn from_response(response: &Response, server: &Url) -> Option<Self> {
        match response.status() {
            StatusCode::UNAUTHORIZED => Some(Self::parse(&text(response.headers()), server, false)),
            StatusCode::FORBIDDEN => {
                let text = text(response.headers());
                let insufficient = parameter(&text, "error").as_deref() == Some("insufficient_scope");
                insufficient.then(|| Self::parse(&text, server, true))
            }
            _ => None,
        }
    }

    /// Parses a `WWW-Authenticate` header.
    pub fn parse(text: &str, server: &Url, insufficient: bool) -> Self {
        let scopes = parameter(text, "scope").map(|scope| scopes(&scope)).unwrap_or_default();
        let resource_metadata = parameter(text, "resource_metadata").filter(|url| may_be_shown(url));
        Self { insufficient, metadata: challenged_url(text, server), scopes, resource_metadata }
    }

    /// The error of the rejected request.
    pub fn into_error(self, why: &str) -> McpError {
        let scope = (!self.scopes.is_empty()).then(|| self.scopes.join(" "));
        let challenge = AuthChallenge { resource_metadata: self.resource_metadata, scope };
        if self.insufficient {
            return McpError::InsufficientScope { challenge: Box::new(challenge) };
        }
        let challenge = (challenge != AuthChallenge::default()).then(|| Box::new(challenge));
        McpError::Unauthorized { why: why.to_owned(), challenge }
    }
}

/// All challenges of a response, joined.
fn text(headers: &HeaderMap) -> String {
    let mut all = String::new();
    for value in headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok()) {
        if all.len().saturating_add(value.len()) > MAX_CHALLENGE {
            break;
        }
        if !all.is_empty() {
            all.push_str(", ");
        }
        all.push_str(value);
    }
    all
}

/// The valid scope tokens (RFC 6749, appendix A.4) without duplicates.
fn scopes(text: &str) -> Vec<String> {
    let is_scope = |word: &&str| word.bytes().all(|byte| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e));
    let mut words: Vec<String> = Vec::new();
    let mut bytes = 0;
    for word in text.split(' ').filter(|word| !word.is_empty()).filter(is_scope) {
        bytes += word.len() + 1;
        if words.len() >= MAX_SCOPES || bytes > MAX_SCOPE_BYTES {
            break;
        }
        if !words.iter().any(|known| known == word) {
            words.push(word.to_owned());
        }
    }
    words
}

/// Whether a URL may be passed on to clients, which then fetch it; the gateway does not.
fn may_be_shown(url: &str) -> bool {
    url.len() <= MAX_URL
        && !url.contains(char::is_control)
        && Url::parse(url).is_ok_and(|url| {
            matches!(url.scheme(), "http" | "https") && url.username().is_empty() && url.password().is_none()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> WwwAuthenticate {
        WwwAuthenticate::parse(text, &Url::parse("https://h/mcp").unwrap(), false)
    }

    #[test]
    fn scopes_are_words_of_the_standard_and_not_too_many() {
        assert_eq!(
            read(r#"Bearer scope="files:read  files:write files:read""#).scopes,
            ["files:read", "files:write"]
        );
        assert_eq!(read("Bearer scope=one, error=x").scopes, ["one"]);
        assert_eq!(
            read("Bearer scope=\"a\u{e9} b\\\"c d\"").scopes,
            ["d"],
            "neither quotes nor other letters"
        );
        assert!(read(r#"Bearer error_description="scope=x""#).scopes.is_empty());
        let many = (0..1000).map(|i| format!("s{i} ")).collect::<String>();
        assert_eq!(read(&format!("Bearer scope=\"{many}\"")).scopes.len(), MAX_SCOPES);
        assert!(read(&format!("Bearer scope=\"{}\"", "x".repeat(5000))).scopes.is_empty());
    }

    #[test]
    fn an_error_has_what_a_client_needs_to_log_in() {
        let said = r#"Bearer resource_metadata="https://m/x", scope="a b""#;
        let error = read(said).into_error("");
        assert_eq!(
            error.to_string(),
            "the server refused the credentials; log in for the scope `a b`, see https://m/x"
        );
        assert_eq!(
            read("Bearer").into_error(" again").to_string(),
            "the server refused the credentials again"
        );
        for bad in ["file:///x", "https://u:p@m/x", "no url", &format!("https://m/{}", "x".repeat(3000))] {
            let error = read(&format!("Bearer resource_metadata=\"{bad}\"")).into_error("");
            assert!(matches!(&error, McpError::Unauthorized { challenge: None, .. }), "{error:?}");
        }
    }
}
