//! The access log: one line for each request, at its end.
//!
//! All parts that handle a request share a [`RequestLog`] and add what they know. The line is written when the last one drops
//! it: for a stream whose client has disconnected, after its run has ended, so that the line has its tokens.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use http::Method;
use parking_lot::Mutex;

use super::fields::{
    ACCESS_TARGET, BYTES, CACHED_TOKENS, CLIENT_ADDRESS, CODE, ENDED, FIRST_BYTE_MS, FIRST_DELTA_MS,
    IDEMPOTENCY, INPUT_TOKENS, KEY, METHOD, MODEL, MS, OUTPUT_TOKENS, PARAM, PROVIDER, REQUEST_ID,
    RESPONSE_ID, ROUTE, STATUS, TENANT, TOOL_CALLS, TURNS,
};
use super::milliseconds;
use antwort_protocol::id::Id;
use antwort_protocol::parse::truncate_for_display;
use antwort_protocol::response::Usage;

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestOutcome {
    /// The whole response was handed to the connection.
    Done,
    /// The client closed the connection or its HTTP/2 stream first.
    ClientGone,
    /// Shutdown ended it.
    Drained,
    /// A timeout ended it: of the run, the provider or the request body, or the write timeout.
    TimedOut,
    /// The response was aborted: the provider disconnected, or the budget for buffered bytes was exhausted.
    Cut,
}

impl RequestOutcome {
    /// All of them.
    pub(super) const ALL: [Self; 5] =
        [Self::Done, Self::ClientGone, Self::Drained, Self::TimedOut, Self::Cut];

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

    /// The outcome of a request whose response was sent as a whole, by its error code.
    fn from_code(code: Option<&str>) -> Self {
        match code {
            Some("server_shutting_down") => Self::Drained,
            // Time limits of runs: the setting's, and the request's.
            Some("run_timeout" | "max_seconds") => Self::TimedOut,
            Some(code) if code.ends_with("_timeout") => Self::TimedOut,
            _ => Self::Done,
        }
    }
}

/// The fields of an access log line. Unknown ones are left out.
#[derive(Debug, Default)]
pub struct RequestFacts {
    /// Pattern of the path, once the request was routed.
    pub route: Option<Box<str>>,
    /// The client's address, by trusted proxies.
    pub client_address: Option<IpAddr>,
    /// HTTP status, unless the client left before there was one.
    pub status: Option<u16>,
    /// Name of the API key, and its tenant.
    pub key: Option<(Arc<str>, Arc<str>)>,
    /// The code of the error, or the reason why the response is incomplete.
    pub code: Option<Cow<'static, str>>,
    /// The field at fault.
    pub param: Option<String>,
    /// The provider and model that served it.
    pub model: Option<ModelTarget>,
    /// Set when its run ends; `None`: it has made none.
    pub run: Option<RunStats>,
    /// Tool calls that the gateway made.
    pub tool_calls: Option<u32>,
    /// What its idempotency key has led to.
    pub idempotency: Option<&'static str>,
    /// Its outcome, if something else than the connection determined it.
    pub ended: Option<RequestOutcome>,
}

/// The model that served a request.
#[derive(Debug)]
pub struct ModelTarget {
    /// The provider's key in the configuration.
    pub provider: Box<str>,
    /// The provider's name of the model.
    pub model: Box<str>,
}

impl ModelTarget {
    /// Truncates the model, whose name may come from the client.
    pub fn new(provider: &str, model: &str) -> Self {
        Self { provider: provider.into(), model: truncate_for_display(model).into() }
    }
}

/// Figures of a run.
#[derive(Debug)]
pub struct RunStats {
    /// The response that the run has made.
    pub response_id: Id,
    /// Inferences that were started.
    pub turns: u32,
    /// If the provider reported it.
    pub usage: Option<Usage>,
    /// When the first delta of a stream arrived.
    pub first_delta: Option<Instant>,
}

/// What was sent over the connection.
#[derive(Debug, Clone, Copy)]
pub struct DeliveryStats {
    /// Bytes of the response body.
    pub bytes: u64,
    /// When the first byte of the body was sent.
    pub first_byte: Option<Instant>,
    /// The outcome, as the connection sees it.
    pub ended: RequestOutcome,
}

/// Collects the fields of a request's access log line; written on drop.
#[derive(Debug)]
pub struct RequestLog {
    request_id: Arc<str>,
    method: Method,
    started: Instant,
    facts: Mutex<RequestFacts>,
    /// What was sent over the connection, and when that ended.
    delivery: Mutex<Option<(DeliveryStats, Instant)>>,
}

impl RequestLog {
    /// Begins with the request. A line is written even if the client disconnects before anything else is known.
    pub fn begin(request_id: Arc<str>, method: Method) -> Arc<Self> {
        let (facts, delivery) = (Mutex::default(), Mutex::new(None));
        Arc::new(Self { request_id, method, started: Instant::now(), facts, delivery })
    }

    /// The `x-request-id`.
    pub fn request_id(&self) -> &Arc<str> {
        &self.request_id
    }

    /// When the request began.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Sets what the caller has found out, under a lock.
    pub fn update(&self, set: impl FnOnce(&mut RequestFacts)) {
        set(&mut self.facts.lock());
    }

    /// Sets the outcome, unless it is set already.
    pub fn set_outcome(&self, ended: RequestOutcome) {
        self.update(|facts| _ = facts.ended.get_or_insert(ended));
    }

    /// Sets what was sent over the connection, at the end.
    pub fn set_delivery(&self, delivery: DeliveryStats) {
        *self.delivery.lock() = Some((delivery, Instant::now()));
    }
}

impl Drop for RequestLog {
    fn drop(&mut self) {
        let delivery = self.delivery.get_mut();
        let (delivery, end) = delivery.take().unzip();
        self.write(delivery, end.unwrap_or_else(Instant::now));
    }
}

impl RequestLog {
    fn write(&mut self, delivery: Option<DeliveryStats>, end: Instant) {
        let facts = &*self.facts.get_mut();
        let code = facts.code.as_deref();
        let ended = match (facts.ended, delivery.map(|delivery| delivery.ended)) {
            (Some(ended), _) => Some(ended),
            (None, Some(RequestOutcome::Done)) => Some(RequestOutcome::from_code(code)),
            (None, ended) => ended,
        };
        let (key, tenant) = facts.key.as_ref().map(|(key, tenant)| (&**key, &**tenant)).unzip();
        let (provider, model) =
            facts.model.as_ref().map(|target| (&*target.provider, &*target.model)).unzip();
        let run = facts.run.as_ref();
        let usage = run.and_then(|run| run.usage);
        let ms = |until: Instant| milliseconds(until.saturating_duration_since(self.started));
        tracing::info!(
            target: ACCESS_TARGET,
            // The last holder may be in any span.
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
                { IDEMPOTENCY } = facts.idempotency,
                { KEY } = key,
                { TENANT } = tenant,
                { PROVIDER } = provider,
                { MODEL } = model,
                { TURNS } = run.map(|run| run.turns),
                { TOOL_CALLS } = facts.tool_calls,
                { INPUT_TOKENS } = usage.map(|usage| usage.input_tokens),
                { CACHED_TOKENS } = usage.map(|usage| usage.input_tokens_details.cached_tokens),
                { OUTPUT_TOKENS } = usage.map(|usage| usage.output_tokens),
                { BYTES } = delivery.map(|delivery| delivery.bytes),
                { MS } = ms(end),
                { FIRST_BYTE_MS } = delivery.and_then(|delivery| delivery.first_byte).map(ms),
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
