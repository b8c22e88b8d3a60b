//! Credentials for an MCP server: headers, tokens and OAuth clients.

use std::collections::BTreeSet;

use secrecy::{ExposeSecret, SecretString};
use url::Url;

use crate::mcp::{headers, signing};
use crate::resolve::checker::{Checker, parse_http};
use crate::settings::{ClientCredentials, McpAuth, McpServerSettings};

pub(super) fn check(label: &str, server: &McpServerSettings, check: &mut Checker<'_>) {
    let mut seen = BTreeSet::new();
    for (name, value) in &server.headers {
        let path = ["mcp", "servers", label, "headers", name];
        if let Err(problem) = headers::read(name, value.expose_secret()) {
            check.error(&path, problem);
        }
        let name = name.to_ascii_lowercase();
        if name == "authorization" && !matches!(server.auth, McpAuth::None) {
            check.error(&path, "is also sent by `auth`: remove one of the two");
        }
        if !seen.insert(name) {
            check.error(&path, "is a duplicate: header names are case-insensitive");
        }
    }
    let mut auth = AuthChecker { label, check };
    match &server.auth {
        McpAuth::None | McpAuth::Forward => {}
        McpAuth::Bearer { token } => auth.token(token),
        McpAuth::ClientCredentials(client) => {
            auth.check_client_and_scopes(&client.client_id, &client.scopes);
            auth.key(client);
            auth.urls(client.token_url.as_deref(), client.resource.as_deref());
        }
        McpAuth::TokenExchange(exchange) => {
            auth.check_client_and_scopes(&exchange.client_id, &exchange.scopes);
            auth.secret(exchange.client_secret.as_ref());
            auth.require_token_url(exchange.token_url.as_deref());
            auth.urls(exchange.token_url.as_deref(), exchange.resource.as_deref());
        }
    }
}

/// The section of one server.
struct AuthChecker<'a, 'b> {
    label: &'a str,
    check: &'a mut Checker<'b>,
}

impl AuthChecker<'_, '_> {
    fn error(&mut self, key: &str, message: &str) {
        self.check.error(&["mcp", "servers", self.label, "auth", key], message);
    }

    fn token(&mut self, token: &SecretString) {
        let token = token.expose_secret();
        if token.len() > 7 && token.get(..7).is_some_and(|word| word.eq_ignore_ascii_case("bearer ")) {
            self.error("token", "must not include the prefix `Bearer`");
        } else if let Err(problem) = headers::bearer(token) {
            self.error("token", problem);
        }
    }

    fn check_client_and_scopes(&mut self, client_id: &str, scopes: &[String]) {
        if client_id.is_empty() {
            self.error("client_id", "is empty");
        }
        for (index, scope) in scopes.iter().enumerate() {
            let known = |c: char| c.is_ascii_graphic() && c != '"' && c != '\\';
            if scope.is_empty() || !scope.chars().all(known) {
                let path = ["mcp", "servers", self.label, "auth", "scopes", &index.to_string()];
                self.check.error(&path, "expected one scope: a word without spaces and quotes");
            }
        }
    }

    fn secret(&mut self, secret: Option<&SecretString>) {
        if secret.is_some_and(|secret| secret.expose_secret().contains(|c: char| c.is_control())) {
            self.error("client_secret", "contains line ends or control characters");
        }
    }

    fn key(&mut self, client: &ClientCredentials) {
        self.secret(client.client_secret.as_ref());
        let known = |name: &String| signing::ALGORITHMS.contains(&name.as_str());
        let algorithm = client.algorithm.as_ref();
        if algorithm.is_some_and(|name| !known(name)) {
            self.error("algorithm", &format!("expected one of {}", signing::ALGORITHMS.join(", ")));
        }
        match (&client.client_secret, &client.private_key) {
            (Some(_), Some(_)) => {
                self.error("private_key", "cannot be combined with `client_secret`: remove one of the two");
            }
            (None, None) => {
                let path = ["mcp", "servers", self.label, "auth"];
                self.check.missing(&path, "needs `client_secret` or `private_key`");
            }
            (Some(_), None) => {
                for (key, is_set) in [("algorithm", algorithm.is_some()), ("key_id", client.key_id.is_some())]
                {
                    if is_set {
                        self.error(key, "requires `private_key`");
                    }
                }
            }
            (None, Some(pem)) if algorithm.is_none_or(known) => {
                if let Err(problem) = signing::key(pem.expose_secret(), algorithm.map(String::as_str)) {
                    self.error("private_key", problem);
                }
            }
            (None, Some(_)) => {}
        }
    }

    /// Callers' tokens must not be sent to an endpoint that the server chooses.
    fn require_token_url(&mut self, token_url: Option<&str>) {
        if token_url.is_none() {
            let path = ["mcp", "servers", self.label, "auth", "token_url"];
            self.check.missing(
                &path,
                "is missing: callers' tokens are never sent to an endpoint that the server names",
            );
        }
    }

    fn urls(&mut self, token_url: Option<&str>, resource: Option<&str>) {
        if let Some(problem) = token_url.and_then(|url| wrong_token_url(parse_http(url).as_ref())) {
            self.error("token_url", problem);
        }
        // RFC 8707: an absolute URI without a fragment, of any kind.
        if resource.is_some_and(|uri| !Url::parse(uri).is_ok_and(|uri| uri.fragment().is_none())) {
            self.error("resource", "expected an absolute URI without `#`");
        }
    }
}

fn wrong_token_url(url: Option<&Url>) -> Option<&'static str> {
    let Some(url) = url else { return Some("expected an https URL") };
    if !url.username().is_empty() || url.password().is_some() {
        Some("must not hold a user or password")
    } else if url.fragment().is_some() {
        Some("must not have `#`")
    } else if !crate::mcp::is_safe_for_secrets(url) {
        Some("must be https: secrets are sent there (http is for this machine only)")
    } else {
        None
    }
}
