//! A cached access token: renewed before it expires, by one caller on behalf of all who wait.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::challenge::MAX_SCOPES;
use super::token::{Grant, Token, TokenClient, TokenEndpoint};
use super::token_error::TokenError;
use super::{Credentials, Fingerprint, WwwAuthenticate};
use crate::error::McpError;

/// A token is renewed this long before it expires, or a tenth of its lifetime before, whichever is shorter.
const REFRESH_MARGIN: Duration = Duration::from_secs(30);
/// Minimum interval between two tokens discarded because the server rejected them.
const MIN_REFUSAL_INTERVAL: Duration = Duration::from_secs(30);

/// Credentials with a bearer token.
pub(super) struct CachedToken {
    token_client: Arc<TokenClient>,
    grant: Grant,
    /// Headers sent beside the token.
    extra_headers: HeaderMap,
    fingerprint: Fingerprint,
    /// Number of token requests so far: callers that waited for one share its result.
    attempts: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    token: Option<BearerToken>,
    failure: Option<TokenError>,
    /// When a token was last discarded because the server rejected it.
    refused: Option<Instant>,
    scopes: Scopes,
}

/// Scopes requested by the MCP server, beside the configured ones.
#[derive(Default)]
struct Scopes {
    /// Scopes added to token requests.
    wanted: Vec<String>,
    /// Scopes that the authorization server refused.
    denied: Vec<String>,
}

struct BearerToken {
    value: HeaderValue,
    headers: Arc<HeaderMap>,
    refresh_at: Instant,
}

impl CachedToken {
    pub(super) fn new(
        token_client: Arc<TokenClient>,
        grant: Grant,
        extra_headers: HeaderMap,
        fingerprint: Fingerprint,
    ) -> Self {
        Self {
            token_client,
            grant,
            extra_headers,
            fingerprint,
            attempts: AtomicU64::new(0),
            state: Mutex::default(),
        }
    }

    async fn renew(&self, state: &mut State) -> Result<Arc<HeaderMap>, TokenError> {
        let requested_at = Instant::now();
        let token = self.request_token(state).await;
        self.attempts.fetch_add(1, Ordering::Relaxed);
        let token = token.inspect_err(|failure| state.failure = Some(failure.clone()))?;
        state.failure = None;
        let mut headers = self.extra_headers.clone();
        let Some(token) = token else { return Ok(Arc::new(headers)) };
        headers.insert(AUTHORIZATION, token.value.clone());
        let headers = Arc::new(headers);
        let refresh_at = requested_at + token.ttl.saturating_sub(REFRESH_MARGIN.min(token.ttl / 10));
        state.token = Some(BearerToken { value: token.value, headers: Arc::clone(&headers), refresh_at });
        Ok(headers)
    }
}

impl CachedToken {
    /// Requests a token with the scopes that the MCP server asked for. If those are refused, requests one without them:
    /// a server's wish must not cost the token that is available without it.
    async fn request_token(&self, state: &mut State) -> Result<Option<Token>, TokenError> {
        let token = self.token_client.request_token(&self.grant, &state.scopes.wanted).await;
        if state.scopes.wanted.is_empty() || !matches!(token, Err(TokenError::Refused(_))) {
            return token;
        }
        let denied = std::mem::take(&mut state.scopes.wanted);
        state.scopes.denied.extend(denied);
        self.token_client.request_token(&self.grant, &[]).await
    }

    /// Adds new scopes of a challenge to future token requests; returns whether there were any.
    fn add_challenged_scopes(&self, scopes: &mut Scopes, challenged: &WwwAuthenticate) -> bool {
        let known = |scope: &&String| {
            [&self.token_client.scopes, &scopes.wanted, &scopes.denied]
                .iter()
                .any(|known| known.contains(scope))
        };
        let new_scopes: Vec<String> =
            challenged.scopes.iter().filter(|scope| !known(scope)).cloned().collect();
        if new_scopes.is_empty() || scopes.wanted.len() + scopes.denied.len() + new_scopes.len() > MAX_SCOPES
        {
            return false;
        }
        scopes.wanted.extend(new_scopes);
        true
    }
}

#[async_trait]
impl Credentials for CachedToken {
    fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    async fn headers(&self) -> Result<Arc<HeaderMap>, McpError> {
        let seen = self.attempts.load(Ordering::Relaxed);
        let mut state = self.state.lock().await;
        if let Some(current) = state.token.as_ref().filter(|current| Instant::now() < current.refresh_at) {
            return Ok(Arc::clone(&current.headers));
        }
        state.token = None;
        // Another caller's request failed while this one waited for the lock: share that failure.
        if self.attempts.load(Ordering::Relaxed) != seen
            && let Some(failure) = &state.failure
        {
            return Err(failure.clone().into());
        }
        Ok(self.renew(&mut state).await?)
    }

    /// Whether the request should be repeated with other credentials. True if the rejected token is no longer the
    /// current one. The current token is discarded at most every [`MIN_REFUSAL_INTERVAL`], so that a server that rejects
    /// every token does not cause endless token requests, and once for each new scope.
    async fn rejected(&self, refused: &HeaderMap, challenged: &WwwAuthenticate) -> bool {
        let learned = match &self.token_client.endpoint {
            TokenEndpoint::Discovered(discovery) => discovery.on_challenge(challenged).await,
            TokenEndpoint::Configured(_) => false,
        };
        let mut state = self.state.lock().await;
        let new_scope = self.add_challenged_scopes(&mut state.scopes, challenged);
        if new_scope {
            state.token = None;
            return true;
        }
        match (refused.get(AUTHORIZATION), &state.token) {
            (Some(refused), Some(current)) if current.value == *refused => {
                if challenged.insufficient {
                    return false;
                }
                if state.refused.is_some_and(|at| at.elapsed() < MIN_REFUSAL_INTERVAL) {
                    return false;
                }
                state.token = None;
                state.refused = Some(Instant::now());
                true
            }
            (Some(_), _) | (None, Some(_)) => true,
            // No token was sent, because the token endpoint was unknown.
            (None, None) => learned,
        }
    }
}

impl fmt::Debug for CachedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CachedToken(…)")
    }
}
