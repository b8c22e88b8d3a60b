//! A token that is kept as long as it holds, and had anew by one of those who wait for it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::token::{Failure, Grant, TokenClient, TokenPlace};
use super::{Credentials, Fingerprint};
use crate::tools::mcp::error::McpError;

/// A token is had anew this long before it expires, or earlier by a tenth of its life, whichever is less.
const AHEAD: Duration = Duration::from_secs(30);
/// Between two tokens that were thrown away because the server refused them.
const BETWEEN_REFUSALS: Duration = Duration::from_secs(30);

/// Headers with a token in them.
pub(super) struct Kept {
    asks: Arc<TokenClient>,
    grant: Grant,
    /// What is sent beside the token.
    beside: HeaderMap,
    fingerprint: Fingerprint,
    /// How often a token was asked for: those who waited meanwhile share what came of it.
    asked: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    token: Option<Held>,
    failure: Option<Failure>,
    /// When a token was last thrown away because it was refused.
    refused: Option<Instant>,
}

struct Held {
    value: HeaderValue,
    headers: Arc<HeaderMap>,
    until: Instant,
}

impl Kept {
    pub(super) fn new(
        asks: Arc<TokenClient>,
        grant: Grant,
        beside: HeaderMap,
        fingerprint: Fingerprint,
    ) -> Self {
        Self { asks, grant, beside, fingerprint, asked: AtomicU64::new(0), state: Mutex::default() }
    }

    async fn renew(&self, state: &mut State) -> Result<Arc<HeaderMap>, Failure> {
        let begun = Instant::now();
        let token = self.asks.ask(&self.grant).await;
        self.asked.fetch_add(1, Ordering::Relaxed);
        let token = token.inspect_err(|failure| state.failure = Some(failure.clone()))?;
        state.failure = None;
        let mut headers = self.beside.clone();
        let Some(token) = token else { return Ok(Arc::new(headers)) };
        headers.insert(AUTHORIZATION, token.value.clone());
        let headers = Arc::new(headers);
        let until = begun + token.life.saturating_sub(AHEAD.min(token.life / 10));
        state.token = Some(Held { value: token.value, headers: Arc::clone(&headers), until });
        Ok(headers)
    }
}

#[async_trait]
impl Credentials for Kept {
    fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    async fn headers(&self) -> Result<Arc<HeaderMap>, McpError> {
        let seen = self.asked.load(Ordering::Relaxed);
        let mut state = self.state.lock().await;
        if let Some(held) = state.token.as_ref().filter(|held| Instant::now() < held.until) {
            return Ok(Arc::clone(&held.headers));
        }
        state.token = None;
        // Somebody asked while this one waited: asking again at once would end no better.
        if self.asked.load(Ordering::Relaxed) != seen
            && let Some(failure) = &state.failure
        {
            return Err(failure.clone().into());
        }
        Ok(self.renew(&mut state).await?)
    }

    /// True for a token that is no longer the one in use: somebody has had, or will have, a newer one. The one in
    /// use is thrown away only so often, so that a server that refuses all of them does not make us ask for ever.
    async fn rejected(&self, refused: &HeaderMap, challenge: Option<&str>) -> bool {
        let learned = match (&self.asks.place, challenge) {
            (TokenPlace::Found(discovery), Some(challenge)) => discovery.challenged(challenge).await,
            _ => false,
        };
        let mut state = self.state.lock().await;
        match (refused.get(AUTHORIZATION), &state.token) {
            (Some(refused), Some(held)) if held.value == *refused => {
                if state.refused.is_some_and(|at| at.elapsed() < BETWEEN_REFUSALS) {
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

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kept(…)")
    }
}
