//! One connection: how long it may be silent, and how it ends.
//!
//! The HTTP library bounds the headers of HTTP/1 alone: neither the bytes by which it tells HTTP/1 from HTTP/2, nor
//! an HTTP/2 connection on which nothing is asked. So time is kept here, for both. While a request is worked on,
//! other limits hold: of its body, of its run, and of what its client does not read.

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, Version, header};
use hyper_util::server::graceful::GracefulConnection;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;

use crate::telemetry::request_log::RequestOutcome;
use crate::transport::ShutdownFlag;

/// A connection that was told to close and is not asked for anything is cut after this.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// For how long what may be absent.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConnectionTimeouts {
    /// Anything at all on a new connection.
    pub first_byte: Duration,
    /// The end of a request's headers after their first byte.
    pub header: Duration,
    /// The next request after a response.
    pub keep_alive: Duration,
}

/// What is waited for while no request is worked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdlePhase {
    FirstByte,
    Header,
    NextRequest,
}

impl IdlePhase {
    /// For metrics.
    fn reason(self) -> &'static str {
        match self {
            Self::FirstByte => "first_byte_timeout",
            Self::Header => "header_timeout",
            Self::NextRequest => "keep_alive_timeout",
        }
    }
}

/// What happens on a connection, as far as its time is concerned. Its socket, its requests and whoever looks for
/// room write it, its own task reads it; while requests are worked on, reading is one atomic load.
#[derive(Debug)]
pub(super) struct ConnectionActivity {
    timeouts: ConnectionTimeouts,
    /// Requests whose response has not ended.
    requests: AtomicUsize,
    /// The peer does not take what is being sent to it, for which another time runs.
    blocked: AtomicBool,
    http2: AtomicBool,
    waiting: Mutex<(IdlePhase, Instant)>,
    /// Why it was told to close, for metrics; unset where all are.
    reason: OnceLock<&'static str>,
    /// Why it is cut in the middle of its responses, if it is the gateway that does it.
    abort_reason: OnceLock<RequestOutcome>,
    /// Ends it, as soon as what it works on is done.
    close: CancellationToken,
    stopping: ShutdownFlag,
}

impl ConnectionActivity {
    pub(super) fn new(
        timeouts: ConnectionTimeouts,
        close: CancellationToken,
        stopping: ShutdownFlag,
    ) -> Arc<Self> {
        Arc::new(Self {
            timeouts,
            requests: AtomicUsize::new(0),
            blocked: AtomicBool::new(false),
            http2: AtomicBool::new(false),
            waiting: Mutex::new((IdlePhase::FirstByte, Instant::now())),
            reason: OnceLock::new(),
            abort_reason: OnceLock::new(),
            close,
            stopping,
        })
    }

    /// Bytes have come.
    pub(super) fn on_read(&self) {
        if self.is_busy() {
            return;
        }
        let mut waiting = self.waiting();
        match waiting.0 {
            // Between the requests of an HTTP/2 connection there are pings and their answers, too.
            IdlePhase::NextRequest if self.http2.load(Ordering::Relaxed) => {}
            IdlePhase::FirstByte | IdlePhase::NextRequest => *waiting = (IdlePhase::Header, Instant::now()),
            IdlePhase::Header => {}
        }
    }

    /// The peer has stopped taking what is sent, or has taken all of it.
    pub(super) fn set_blocked(&self, blocked: bool) {
        self.blocked.store(blocked, Ordering::Relaxed);
        let mut waiting = self.waiting();
        if waiting.0 == IdlePhase::NextRequest {
            waiting.1 = Instant::now();
        }
    }

    /// A request has begun; it ends with what is returned.
    pub(super) fn begin_request(self: &Arc<Self>, version: Version) -> ActiveRequest {
        if version == Version::HTTP_2 {
            self.http2.store(true, Ordering::Relaxed);
        }
        self.requests.fetch_add(1, Ordering::AcqRel);
        ActiveRequest(Arc::clone(self))
    }

    /// Makes it close at once if it works on nothing, and otherwise when that is done.
    pub(super) fn close(&self, reason: &'static str) {
        // The first one counts.
        _ = self.reason.set(reason);
        self.close.cancel();
    }

    /// It is about to be cut, with all that it works on.
    pub(super) fn abort(&self, why: RequestOutcome) {
        // The first one counts.
        _ = self.abort_reason.set(why);
    }

    /// Why it was cut, if it was not its peer that went.
    pub(super) fn abort_reason(&self) -> Option<RequestOutcome> {
        self.abort_reason.get().copied()
    }

    /// Since when it has been working on nothing; `None` if it works on something, or is closing anyway.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        (!self.is_busy() && !self.close.is_cancelled()).then(|| self.waiting().1)
    }

    /// Whether a request is worked on, or its response still on its way.
    fn is_busy(&self) -> bool {
        self.requests.load(Ordering::Acquire) > 0 || self.blocked.load(Ordering::Relaxed)
    }

    /// When it has been silent for too long, and in what respect; `None` while it works on something.
    fn deadline(&self, closing: Option<Instant>) -> Option<(Instant, IdlePhase)> {
        if self.is_busy() {
            return None;
        }
        let (awaited, since) = *self.waiting();
        let deadline = match closing {
            Some(told) => since.max(told) + CLOSE_TIMEOUT,
            None => since + self.idle_timeout(awaited),
        };
        Some((deadline, awaited))
    }

    fn idle_timeout(&self, awaited: IdlePhase) -> Duration {
        match awaited {
            IdlePhase::FirstByte => self.timeouts.first_byte,
            IdlePhase::Header => self.timeouts.header,
            IdlePhase::NextRequest => self.timeouts.keep_alive,
        }
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, (IdlePhase, Instant)> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that is worked on, until it is dropped.
#[derive(Debug)]
pub(super) struct ActiveRequest(Arc<ConnectionActivity>);

impl ActiveRequest {
    /// What happens on its connection.
    pub(super) fn connection(&self) -> &Arc<ConnectionActivity> {
        &self.0
    }

    /// Its answer begins with these headers. In a process that is stopping, the client is told that its connection
    /// takes no further requests, so that it asks elsewhere before this one is closed.
    pub(super) fn prepare_response(&self, headers: &mut HeaderMap) {
        let connection = &self.0;
        if !connection.stopping.is_set() {
            return;
        }
        if connection.http2.load(Ordering::Relaxed) {
            // Sends GOAWAY; what is being answered goes on.
            connection.close("shutdown");
        } else {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        // Before the count: who sees that nothing is worked on must see since when.
        *self.0.waiting() = (IdlePhase::NextRequest, Instant::now());
        self.0.requests.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Serves a connection to its end. Says why, if it was the gateway that ended it.
pub(super) async fn drive<C>(connection: C, activity: &ConnectionActivity) -> Option<&'static str>
where
    C: GracefulConnection,
    C::Error: std::fmt::Display,
{
    let mut connection = pin!(connection);
    let mut alarm = pin!(tokio::time::sleep(activity.timeouts.first_byte));
    let mut closing: Option<Instant> = None;
    let mut why = None;
    loop {
        let silent =
            std::future::poll_fn(|context| poll_idle_timeout(activity, closing, alarm.as_mut(), context));
        tokio::select! {
            biased;
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection ended");
                }
                return why;
            }
            () = activity.close.cancelled(), if closing.is_none() => {
                if let Some(reason) = activity.reason.get() {
                    why = Some(*reason);
                    if activity.deadline(None).is_some_and(|(_, awaited)| awaited != IdlePhase::NextRequest) {
                        return why;
                    }
                }
            }
            awaited = silent => {
                if closing.is_some() {
                    return why;
                }
                why = Some(awaited.reason());
                // Whoever may still be about to ask is told that nothing will be answered: it may ask elsewhere.
                if awaited != IdlePhase::NextRequest {
                    return why;
                }
            }
        }
        closing = Some(Instant::now());
        connection.as_mut().graceful_shutdown();
    }
}

/// Ready once a connection has been silent for too long.
fn poll_idle_timeout(
    activity: &ConnectionActivity,
    closing: Option<Instant>,
    mut alarm: Pin<&mut Sleep>,
    context: &mut Context<'_>,
) -> Poll<IdlePhase> {
    loop {
        let deadline = activity.deadline(closing);
        // A deadline that moved away is found when the alarm rings: most requests touch no timer.
        if let Some((deadline, _)) = deadline.filter(|(deadline, _)| *deadline < alarm.deadline()) {
            alarm.as_mut().reset(deadline);
        }
        ready!(alarm.as_mut().poll(context));
        let now = Instant::now();
        match deadline {
            Some((deadline, awaited)) if deadline <= now => return Poll::Ready(awaited),
            Some((deadline, _)) => alarm.as_mut().reset(deadline),
            // No silence that begins while it sleeps can be too long before it wakes.
            None if closing.is_some() => alarm.as_mut().reset(now + CLOSE_TIMEOUT),
            None => alarm.as_mut().reset(now + activity.timeouts.keep_alive),
        }
    }
}
