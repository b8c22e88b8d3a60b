//! The one line that a request leaves in the log, at its end.
//!
//! Those who work on a request share a [`RequestLog`] and put into it what they know, once each. The line is written
//! when the last of them has let go: of a stream that its client has left that is when its run has ended, too, so
//! that the line has its tokens.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use http::Method;

use super::fields::{
    BYTES, CACHED_TOKENS, CLIENT_ADDRESS, CODE, ENDED, FIRST_BYTE_MS, FIRST_DELTA_MS, INPUT_TOKENS, KEY,
    METHOD, MODEL, MS, OUTPUT_TOKENS, PARAM, PROVIDER, REQUEST_ID, RESPONSE_ID, ROUTE, STATUS, TENANT,
    TOOL_CALLS, TURNS,
};
use super::milliseconds;
use crate::protocol::id::Id;
use crate::protocol::parse::truncate_for_display;
use crate::protocol::response::Usage;

/// The target of the lines, for filters.
const TARGET: &str = "antwort::access";

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestOutcome {
    /// All of its answer was given to the connection.
    Done,
    /// The client closed the connection, or its stream of HTTP/2, before that.
    ClientGone,
    /// The gateway was told to stop.
    Drained,
    /// A time limit was over: of the run, of the provider, of the request's body, or of a client that takes nothing.
    TimedOut,
    /// The answer broke off: its provider did, or there was no room for it.
    Cut,
}

impl RequestOutcome {
    /// Its name in the log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::ClientGone => "client_gone",
            Self::Drained => "drained",
            Self::TimedOut => "timed_out",
            Self::Cut => "cut",
        }
    }

    /// How a request ended whose answer is whole, by the code in it.
    fn from_code(code: Option<&str>) -> Self {
        match code {
            Some("server_shutting_down") => Self::Drained,
            // Limits of a run: for all, or for one request.
            Some("run_timeout" | "max_seconds") => Self::TimedOut,
            Some(code) if code.ends_with("_timeout") => Self::TimedOut,
            _ => Self::Done,
        }
    }
}

/// What is known of a request. What is not, or does not apply, is left out of its line.
#[derive(Debug, Default)]
pub struct RequestFacts {
    /// Pattern of the path, once a router has seen it.
    pub route: Option<Box<str>>,
    /// Where it came from.
    pub client_address: Option<IpAddr>,
    /// HTTP status, unless the client left before there was one.
    pub status: Option<u16>,
    /// Name of the API key, and its tenant.
    pub key: Option<(Arc<str>, Arc<str>)>,
    /// Of an error.
    pub code: Option<Cow<'static, str>>,
    /// The refused field.
    pub param: Option<String>,
    /// What the request was about, where a provider was asked.
    pub model: Option<ModelTarget>,
    /// What a run came to.
    pub run: Option<RunStats>,
    /// Calls of tools that the gateway made.
    pub tool_calls: Option<u32>,
    /// How it ended, where that is no matter of the connection.
    pub ended: Option<RequestOutcome>,
}

/// The model that was asked.
#[derive(Debug)]
pub struct ModelTarget {
    /// Key of the provider.
    pub provider: Box<str>,
    /// The provider's name of the model.
    pub model: Box<str>,
}

impl ModelTarget {
    /// This model of this provider. Names that clients invented are cut to a usual length.
    pub fn new(provider: &str, model: &str) -> Self {
        Self { provider: provider.into(), model: truncate_for_display(model).into() }
    }
}

/// Figures of a run.
#[derive(Debug)]
pub struct RunStats {
    /// The response.
    pub response_id: Id,
    /// Inferences.
    pub turns: u32,
    /// Where the provider said.
    pub usage: Option<Usage>,
    /// When the model's first word came, of a stream.
    pub first_delta: Option<Instant>,
}

/// What went over the connection.
#[derive(Debug, Clone, Copy)]
pub struct DeliveryStats {
    /// Bytes of the body.
    pub bytes: u64,
    /// When the first of them went.
    pub first_byte: Option<Instant>,
    /// How it ended, as far as the connection knows.
    pub ended: RequestOutcome,
}

/// A request on its way to its line in the log.
#[derive(Debug)]
pub struct RequestLog {
    request_id: Arc<str>,
    method: Method,
    started: Instant,
    facts: Mutex<RequestFacts>,
    /// What went over the connection, and when that was over.
    sent: Mutex<Option<(DeliveryStats, Instant)>>,
}

impl RequestLog {
    /// A request that begins now. Even if its client leaves before anything else is known of it, it has its line.
    pub fn begin(request_id: Arc<str>, method: Method) -> Arc<Self> {
        let (facts, sent) = (Mutex::default(), Mutex::new(None));
        Arc::new(Self { request_id, method, started: Instant::now(), facts, sent })
    }

    /// As in `x-request-id`.
    pub fn request_id(&self) -> &Arc<str> {
        &self.request_id
    }

    /// When it began.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Adds to what is known.
    pub fn update(&self, add: impl FnOnce(&mut RequestFacts)) {
        add(&mut self.facts.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Says how it ended. The first one who knows counts.
    pub fn set_outcome(&self, ended: RequestOutcome) {
        self.update(|facts| _ = facts.ended.get_or_insert(ended));
    }

    /// Nothing more goes over the connection.
    pub fn set_delivery(&self, sent: DeliveryStats) {
        *self.sent.lock().unwrap_or_else(PoisonError::into_inner) = Some((sent, Instant::now()));
    }
}

impl Drop for RequestLog {
    fn drop(&mut self) {
        let sent = self.sent.get_mut().unwrap_or_else(PoisonError::into_inner);
        let (sent, over) = sent.take().unzip();
        self.write(sent, over.unwrap_or_else(Instant::now));
    }
}

impl RequestLog {
    fn write(&mut self, sent: Option<DeliveryStats>, over: Instant) {
        let facts = &*self.facts.get_mut().unwrap_or_else(PoisonError::into_inner);
        let code = facts.code.as_deref();
        let ended = match (facts.ended, sent.map(|sent| sent.ended)) {
            (Some(ended), _) => Some(ended),
            (None, Some(RequestOutcome::Done)) => Some(RequestOutcome::from_code(code)),
            (None, ended) => ended,
        };
        let (key, tenant) = facts.key.as_ref().map(|(key, tenant)| (&**key, &**tenant)).unzip();
        let (provider, model) = facts.model.as_ref().map(|asked| (&*asked.provider, &*asked.model)).unzip();
        let run = facts.run.as_ref();
        let usage = run.and_then(|run| run.usage);
        let ms = |until: Instant| milliseconds(until.saturating_duration_since(self.started));
        tracing::info!(
            target: TARGET,
            // Whoever lets go last may be in any span.
            parent: None,
            {
                { REQUEST_ID } = &*self.request_id,
                { RESPONSE_ID } = run.map(|run| run.response_id.as_str()),
                { METHOD } = self.method.as_str(),
                { ROUTE } = facts.route.as_deref(),
                { CLIENT_ADDRESS } = facts.client_address.map(tracing::field::display),
                { STATUS } = facts.status,
                { CODE } = code.map(truncate_for_display).as_deref(),
                { PARAM } = facts.param.as_deref().map(truncate_for_display).as_deref(),
                { ENDED } = ended.map(RequestOutcome::as_str),
                { KEY } = key,
                { TENANT } = tenant,
                { PROVIDER } = provider,
                { MODEL } = model,
                { TURNS } = run.map(|run| run.turns),
                { TOOL_CALLS } = facts.tool_calls,
                { INPUT_TOKENS } = usage.map(|usage| usage.input_tokens),
                { CACHED_TOKENS } = usage.map(|usage| usage.input_tokens_details.cached_tokens),
                { OUTPUT_TOKENS } = usage.map(|usage| usage.output_tokens),
                { BYTES } = sent.map(|sent| sent.bytes),
                { MS } = ms(over),
                { FIRST_BYTE_MS } = sent.and_then(|sent| sent.first_byte).map(ms),
                { FIRST_DELTA_MS } = run.and_then(|run| run.first_delta).map(ms),
            },
            "request"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::RequestOutcome;

    #[test]
    fn a_whole_answer_ended_as_its_code_says() {
        for (code, ended) in [
            (None, RequestOutcome::Done),
            (Some("rate_limit_exceeded"), RequestOutcome::Done),
            (Some("max_output_tokens"), RequestOutcome::Done),
            (Some("server_shutting_down"), RequestOutcome::Drained),
            (Some("run_timeout"), RequestOutcome::TimedOut),
            (Some("max_seconds"), RequestOutcome::TimedOut),
            (Some("request_timeout"), RequestOutcome::TimedOut),
            (Some("upstream_idle_timeout"), RequestOutcome::TimedOut),
        ] {
            assert_eq!(RequestOutcome::from_code(code), ended, "{code:?}");
        }
    }
}
