//! Timeouts and graceful shutdown of one connection.
//!
//! The HTTP library only has a header timeout for HTTP/1: it bounds neither the wait for the first bytes, by which it
//! detects the version, nor idle HTTP/2 connections. So these timeouts are enforced here, for both versions. While a
//! request is active, other timeouts apply: of its body, of its run, and the write timeout.

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, Version, header};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;

use crate::transport::{ConnectionShare, ShutdownFlag};
use antwort_telemetry::request_log::RequestOutcome;

/// How long a connection that is closing may stay idle before it is dropped.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeouts of an idle connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConnectionTimeouts {
    /// To the first byte of a new connection.
    pub first_byte: Duration,
    /// From the first byte of a request's headers to their end.
    pub header: Duration,
    /// From the end of a response to the next request.
    pub keep_alive: Duration,
}

/// What an idle connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdlePhase {
    FirstByte,
    Header,
    NextRequest,
}

impl IdlePhase {
    /// The label `reason` in metrics.
    fn reason(self) -> &'static str {
        match self {
            Self::FirstByte => "first_byte_timeout",
            Self::Header => "header_timeout",
            Self::NextRequest => "keep_alive_timeout",
        }
    }
}

/// The activity of a connection, as its timeouts need it. Written by its socket, its requests and the connection limit; read
/// by its task, with one atomic load while requests are active.
#[derive(Debug)]
pub(super) struct ConnectionActivity {
    timeouts: ConnectionTimeouts,
    /// Active requests: those whose response has not ended.
    requests: AtomicUsize,
    /// The peer does not read what is sent to it; the write timeout applies.
    blocked: AtomicBool,
    http2: AtomicBool,
    waiting: Mutex<(IdlePhase, Instant)>,
    /// Why this connection is closed, for metrics; unset if all are closed.
    reason: OnceLock<&'static str>,
    /// Why the gateway aborts the connection in the middle of responses.
    abort_reason: OnceLock<RequestOutcome>,
    /// Closes it once its active requests have ended.
    close: CancellationToken,
    stopping: ShutdownFlag,
    /// Whose connection it is while requests are active.
    share: Arc<ConnectionShare>,
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
            share: Arc::default(),
        })
    }

    /// Bytes were received.
    pub(super) fn on_read(&self) {
        if self.is_busy() {
            return;
        }
        let mut waiting = self.waiting();
        match waiting.0 {
            // An idle HTTP/2 connection still receives pings and their acknowledgements.
            IdlePhase::NextRequest if self.http2.load(Ordering::Relaxed) => {}
            IdlePhase::FirstByte | IdlePhase::NextRequest => *waiting = (IdlePhase::Header, Instant::now()),
            IdlePhase::Header => {}
        }
    }

    /// The peer has stopped reading, or has read everything that was pending.
    pub(super) fn set_blocked(&self, blocked: bool) {
        self.blocked.store(blocked, Ordering::Relaxed);
        let mut waiting = self.waiting();
        if waiting.0 == IdlePhase::NextRequest {
            waiting.1 = Instant::now();
        }
    }

    /// All that was written is sent. A request ends before its last bytes are, which its client may leave unread.
    pub(super) fn on_flushed(&self) {
        if self.requests.load(Ordering::Acquire) == 0 {
            self.share.release_if(|| self.requests.load(Ordering::Acquire) == 0);
        }
    }

    /// A request has begun; it ends when the returned guard is dropped.
    pub(super) fn begin_request(self: &Arc<Self>, version: Version) -> ActiveRequest {
        if version == Version::HTTP_2 {
            self.http2.store(true, Ordering::Relaxed);
        }
        self.requests.fetch_add(1, Ordering::AcqRel);
        ActiveRequest(Arc::clone(self))
    }

    /// Closes it: at once if it is idle, otherwise when its active requests have ended.
    pub(super) fn close(&self, reason: &'static str) {
        // The first reason counts.
        _ = self.reason.set(reason);
        self.close.cancel();
    }

    pub(super) fn share(&self) -> &Arc<ConnectionShare> {
        &self.share
    }

    /// Records why it is about to be aborted with its active requests.
    pub(super) fn abort(&self, why: RequestOutcome) {
        // The first reason counts.
        _ = self.abort_reason.set(why);
    }

    /// Why the gateway aborted it; `None`: the peer disconnected.
    pub(super) fn abort_reason(&self) -> Option<RequestOutcome> {
        self.abort_reason.get().copied()
    }

    /// Since when it has been idle; `None` if it has active requests or is closing.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        (!self.is_busy() && !self.close.is_cancelled()).then(|| self.waiting().1)
    }

    /// Whether a request is active or sent bytes are still pending.
    fn is_busy(&self) -> bool {
        self.requests.load(Ordering::Acquire) > 0 || self.blocked.load(Ordering::Relaxed)
    }

    /// When its idle timeout ends, and in which phase; `None` while it is busy.
    fn deadline(&self, closing: Option<Instant>) -> Option<(Instant, IdlePhase)> {
        if self.is_busy() {
            return None;
        }
        let (awaited, since) = *self.waiting();
        let deadline = match closing {
            Some(closing_since) => since.max(closing_since) + CLOSE_TIMEOUT,
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

    fn waiting(&self) -> MutexGuard<'_, (IdlePhase, Instant)> {
        self.waiting.lock()
    }
}

/// An active request, until it is dropped.
#[derive(Debug)]
pub(super) struct ActiveRequest(Arc<ConnectionActivity>);

impl ActiveRequest {
    pub(super) fn connection(&self) -> &Arc<ConnectionActivity> {
        &self.0
    }

    /// Adjusts the headers of its response: during shutdown, they tell the client that the connection takes no further
    /// requests, so that it moves to another instance before this one stops.
    pub(super) fn prepare_response(&self, headers: &mut HeaderMap) {
        let connection = &self.0;
        if !connection.stopping.is_set() {
            return;
        }
        if connection.http2.load(Ordering::Relaxed) {
            // Sends GOAWAY; active streams continue.
            connection.close("shutdown");
        } else {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        // Before the count: a reader that sees the connection idle must also see since when.
        *self.0.waiting() = (IdlePhase::NextRequest, Instant::now());
        self.0.requests.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Waits for the first bytes of a connection. If it is closed meanwhile, returns the reason, if the gateway has one.
pub(super) async fn first_bytes<T>(
    bytes: impl Future<Output = T>,
    activity: &ConnectionActivity,
) -> Result<T, Option<&'static str>> {
    tokio::select! {
        biased;
        bytes = bytes => Ok(bytes),
        () = activity.close.cancelled() => Err(activity.reason.get().copied()),
        () = tokio::time::sleep(activity.timeouts.first_byte) => Err(Some(IdlePhase::FirstByte.reason())),
    }
}

/// Serves a connection to its end. Returns the reason if the gateway closed it.
///
/// `shut_down` tells it to end once its active requests have ended. The connection is boxed: one that is passed by value and
/// then pinned takes its space twice.
pub(super) async fn drive<C, E>(
    mut connection: Pin<Box<C>>,
    shut_down: impl Fn(Pin<&mut C>),
    activity: &ConnectionActivity,
) -> Option<&'static str>
where
    C: Future<Output = Result<(), E>>,
    E: std::fmt::Display,
{
    let mut alarm = pin!(tokio::time::sleep(activity.timeouts.first_byte));
    let mut closing: Option<Instant> = None;
    let mut why = None;
    loop {
        let idle_timeout =
            std::future::poll_fn(|context| poll_idle_timeout(activity, closing, alarm.as_mut(), context));
        tokio::select! {
            biased;
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "connection ended with an error");
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
            awaited = idle_timeout => {
                if closing.is_some() {
                    return why;
                }
                why = Some(awaited.reason());
                // A client that may be about to send its next request is told by a graceful shutdown not to.
                if awaited != IdlePhase::NextRequest {
                    return why;
                }
            }
        }
        closing = Some(Instant::now());
        shut_down(connection.as_mut());
    }
}

/// Ready once the idle timeout of a connection is over.
fn poll_idle_timeout(
    activity: &ConnectionActivity,
    closing: Option<Instant>,
    mut alarm: Pin<&mut Sleep>,
    context: &mut Context<'_>,
) -> Poll<IdlePhase> {
    loop {
        let deadline = activity.deadline(closing);
        // A deadline that moved later is noticed when the timer fires: most requests touch no timer.
        if let Some((deadline, _)) = deadline.filter(|(deadline, _)| *deadline < alarm.deadline()) {
            alarm.as_mut().reset(deadline);
        }
        ready!(alarm.as_mut().poll(context));
        let now = Instant::now();
        match deadline {
            Some((deadline, awaited)) if deadline <= now => return Poll::Ready(awaited),
            Some((deadline, _)) => alarm.as_mut().reset(deadline),
            // Busy: no idle phase that begins before the timer fires can time out earlier.
            None if closing.is_some() => alarm.as_mut().reset(now + CLOSE_TIMEOUT),
            None => alarm.as_mut().reset(now + activity.timeouts.keep_alive),
        }
    }
}
