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
use super::token::{Failure, Grant, Token, TokenClient, TokenPlace};
use super::{Challenged, Credentials, Fingerprint};
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
        let token = self.ask(state).await;
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

impl Kept {
    /// Asks with the scopes that the server wants. If they are refused, it is the same as if it had not wanted them: what
    /// a server asks for must not cost what could be had without.
    async fn ask(&self, state: &mut State) -> Result<Option<Token>, Failure> {
        let token = self.asks.ask(&self.grant, &state.scopes.wanted).await;
        if state.scopes.wanted.is_empty() || !matches!(token, Err(Failure::Refused(_))) {
            return token;
        }
        let denied = std::mem::take(&mut state.scopes.wanted);
        state.scopes.denied.extend(denied);
        self.asks.ask(&self.grant, &[]).await
    }

    /// Whether the server asks for scopes that no token was asked for with yet. From now on they are.
    fn learn_scopes(&self, scopes: &mut Scopes, challenged: &Challenged) -> bool {
        let known = |scope: &&String| {
            [&self.asks.scopes, &scopes.wanted, &scopes.denied].iter().any(|known| known.contains(scope))
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
    /// use is thrown away only so often, so that a server that refuses all of them does not make us ask for ever; and once
    /// for each scope that is new.
    async fn rejected(&self, refused: &HeaderMap, challenged: &Challenged) -> bool {
        let learned = match &self.asks.place {
            TokenPlace::Found(discovery) => discovery.challenged(challenged).await,
            TokenPlace::Said(_) => false,
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
