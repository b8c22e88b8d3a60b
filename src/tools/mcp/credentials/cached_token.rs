//! A token that is kept as long as it holds, and had anew by one of those who wait for it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::challenge::MAX_SCOPES;
use super::token::{Grant, Token, TokenClient, TokenEndpoint, TokenError};
use super::{Credentials, Fingerprint, WwwAuthenticate};
use crate::tools::mcp::error::McpError;

/// A token is had anew this long before it expires, or earlier by a tenth of its life, whichever is less.
const REFRESH_MARGIN: Duration = Duration::from_secs(30);
/// Between two tokens that were thrown away because the server refused them.
const MIN_REFUSAL_INTERVAL: Duration = Duration::from_secs(30);

/// Headers with a token in them.
pub(super) struct CachedToken {
    token_client: Arc<TokenClient>,
    grant: Grant,
    /// What is sent beside the token.
    extra_headers: HeaderMap,
    fingerprint: Fingerprint,
    /// How often a token was asked for: those who waited meanwhile share what came of it.
    attempts: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    token: Option<BearerToken>,
    failure: Option<TokenError>,
    /// When a token was last thrown away because it was refused.
    refused: Option<Instant>,
    scopes: Scopes,
}

/// The scopes that the server asked for, beside those of the configuration.
#[derive(Default)]
struct Scopes {
    /// What tokens are asked for with.
    wanted: Vec<String>,
    /// What the authorization server would not give.
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
        let begun = Instant::now();
        let token = self.ask(state).await;
        self.attempts.fetch_add(1, Ordering::Relaxed);
        let token = token.inspect_err(|failure| state.failure = Some(failure.clone()))?;
        state.failure = None;
        let mut headers = self.extra_headers.clone();
        let Some(token) = token else { return Ok(Arc::new(headers)) };
        headers.insert(AUTHORIZATION, token.value.clone());
        let headers = Arc::new(headers);
        let until = begun + token.ttl.saturating_sub(REFRESH_MARGIN.min(token.ttl / 10));
        state.token =
            Some(BearerToken { value: token.value, headers: Arc::clone(&headers), refresh_at: until });
        Ok(headers)
    }
}

impl CachedToken {
    /// Asks with the scopes that the server wants. If they are refused, it is the same as if it had not wanted them: what
    /// a server asks for must not cost what could be had without.
    async fn ask(&self, state: &mut State) -> Result<Option<Token>, TokenError> {
        let token = self.token_client.ask(&self.grant, &state.scopes.wanted).await;
        if state.scopes.wanted.is_empty() || !matches!(token, Err(TokenError::Refused(_))) {
            return token;
        }
        let denied = std::mem::take(&mut state.scopes.wanted);
        state.scopes.denied.extend(denied);
        self.token_client.ask(&self.grant, &[]).await
    }

    /// Whether the server asks for scopes that no token was asked for with yet. From now on they are.
    fn learn_scopes(&self, scopes: &mut Scopes, challenged: &WwwAuthenticate) -> bool {
        let known = |scope: &&String| {
            [&self.token_client.scopes, &scopes.wanted, &scopes.denied]
                .iter()
                .any(|known| known.contains(scope))
        };
        let news: Vec<String> = challenged.scopes.iter().filter(|scope| !known(scope)).cloned().collect();
        if news.is_empty() || scopes.wanted.len() + scopes.denied.len() + news.len() > MAX_SCOPES {
            return false;
        }
        scopes.wanted.extend(news);
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
        if let Some(held) = state.token.as_ref().filter(|held| Instant::now() < held.refresh_at) {
            return Ok(Arc::clone(&held.headers));
        }
        state.token = None;
        // Somebody asked while this one waited: asking again at once would end no better.
        if self.attempts.load(Ordering::Relaxed) != seen
            && let Some(failure) = &state.failure
        {
            return Err(failure.clone().into());
        }
        Ok(self.renew(&mut state).await?)
    }

    /// True for a token that is no longer the one in use: somebody has had, or will have, a newer one. The one in
    /// use is thrown away only so often, so that a server that refuses all of them does not make us ask for ever; and once
    /// for each scope that is new.
    async fn rejected(&self, refused: &HeaderMap, challenged: &WwwAuthenticate) -> bool {
        let learned = match &self.token_client.endpoint {
            TokenEndpoint::Discovered(discovery) => discovery.on_challenge(challenged).await,
            TokenEndpoint::Configured(_) => false,
        };
        let mut state = self.state.lock().await;
        let wants_more = self.learn_scopes(&mut state.scopes, challenged);
        if wants_more {
            state.token = None;
            return true;
        }
        match (refused.get(AUTHORIZATION), &state.token) {
            (Some(refused), Some(held)) if held.value == *refused => {
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
            // Nothing was sent, for nobody knew where to get it.
            (None, None) => learned,
        }
    }
}

impl fmt::Debug for CachedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kept(…)")
    }
}
