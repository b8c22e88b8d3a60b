//! What passes through the layers around a call. One file a concern; in which order they lie, and why, is
//! said in `stack`.
//!
//! The layers have no settings of their own: those of a tool travel with the request in its [`CallPlan`], so that
//! one stack serves all tools and costs nothing to clone.

pub(super) mod attempt;
pub(super) mod breaker;
pub(super) mod budget;
pub(super) mod cache;
pub(super) mod cancel;
pub(super) mod concurrency;
pub(super) mod execute;
pub(super) mod journal;
pub(super) mod observe;
pub(super) mod on_error;
pub(super) mod panic;
pub(super) mod policy;
pub(super) mod retry;
pub(super) mod returns;
pub(super) mod timeout;
pub(super) mod truncate;
pub(super) mod validate;

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tower::Service;

use super::call::ToolCall;
use super::context::ToolContext;
use super::error::{FailureStage, ToolError, ToolErrorCode};
use super::executor::Progress;
use super::output::{OutputMeta, ToolOutput};
use super::plan::CallPlan;

/// What comes of a call, in time. Boxed once a layer: a layer that has nothing to do hands on the inner one's.
pub(super) type ToolFuture = Pin<Box<dyn Future<Output = Result<ToolOutput, ToolError>> + Send>>;

/// An inner layer. None ever refuses to be called: what must wait waits in its future.
pub(super) trait ToolService:
    Service<ToolRequest, Response = ToolOutput, Error = ToolError, Future = ToolFuture> + Clone + Send + 'static
{
}

impl<S> ToolService for S where
    S: Service<ToolRequest, Response = ToolOutput, Error = ToolError, Future = ToolFuture>
        + Clone
        + Send
        + 'static
{
}

/// A call on its way. Clones share everything.
#[derive(Clone)]
pub(super) struct ToolRequest {
    pub call: Arc<ToolCall>,
    pub context: Arc<ToolContext>,
    pub progress: Progress,
    pub plan: Arc<CallPlan>,
    pub trace: Arc<CallTrace>,
    /// It stands in for a call of another tool that failed.
    pub is_fallback: bool,
    /// When it has to be over; set by the layer of timeouts.
    pub deadline: Option<Instant>,
}

/// What the layers leave for each other in the course of a call.
#[derive(Debug, Default)]
pub(super) struct CallTrace {
    /// Executors in the order in which they were asked, one entry an attempt.
    attempted: Mutex<Vec<Arc<str>>>,
    unreachable: OnceLock<Arc<str>>,
    used_fallback: AtomicBool,
    running_since: Mutex<Option<Instant>>,
    first_failure: OnceLock<ToolErrorCode>,
}

impl CallTrace {
    /// An executor is asked.
    pub(super) fn record_attempt(&self, executor: &Arc<str>) {
        self.attempted.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(executor));
    }

    /// Who was asked last.
    pub(super) fn executor(&self) -> Option<Arc<str>> {
        self.attempted.lock().unwrap_or_else(PoisonError::into_inner).last().cloned()
    }

    /// All that were asked, one entry an attempt.
    pub(super) fn take_attempted(&self) -> Vec<Arc<str>> {
        std::mem::take(&mut *self.attempted.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// An executor could not be reached, and another one may take over.
    pub(super) fn set_unreachable(&self, executor: &Arc<str>) {
        // The first one is the one that should have run the call.
        _ = self.unreachable.set(Arc::clone(executor));
    }

    /// The executor that should have run the call and could not.
    pub(super) fn unreachable(&self) -> Option<&Arc<str>> {
        self.unreachable.get()
    }

    /// Another tool is called instead, and gives the account of the result.
    pub(super) fn set_used_fallback(&self) {
        self.used_fallback.store(true, Ordering::Relaxed);
    }

    pub(super) fn used_fallback(&self) -> bool {
        self.used_fallback.load(Ordering::Relaxed)
    }

    /// How often executors were asked.
    pub(super) fn attempts(&self) -> u32 {
        let asked = self.attempted.lock().unwrap_or_else(PoisonError::into_inner).len();
        u32::try_from(asked).unwrap_or(u32::MAX)
    }

    /// The call waits for its turn at an executor.
    pub(super) fn set_waiting(&self) {
        *self.running_since.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The call is with an executor.
    pub(super) fn set_running(&self) {
        *self.running_since.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// How long the call has been with its executor.
    pub(super) fn running_time(&self) -> Duration {
        let since = *self.running_since.lock().unwrap_or_else(PoisonError::into_inner);
        since.map(|since| since.elapsed()).unwrap_or_default()
    }

    /// Keeps why the call failed where the caller is not told.
    pub(super) fn record_failure(&self, code: ToolErrorCode) {
        // Of several failures the first one counts.
        _ = self.first_failure.set(code);
    }

    pub(super) fn failure(&self) -> Option<ToolErrorCode> {
        self.first_failure.get().copied()
    }
}

/// An answer that is there at once.
pub(super) fn ready(result: Result<ToolOutput, ToolError>) -> ToolFuture {
    Box::pin(std::future::ready(result))
}

/// Whether another executor, or the same one later, may fare better: it could not be reached.
pub(super) fn is_unreachable(error: &ToolError) -> bool {
    match error.stage {
        FailureStage::NotSent => error.code == ToolErrorCode::ToolUnavailable,
        FailureStage::Transport => true,
        FailureStage::Tool | FailureStage::Fatal => false,
    }
}

/// A result's account of how the call went, be it a failure.
pub(super) fn meta_of(result: &mut Result<ToolOutput, ToolError>) -> &mut OutputMeta {
    match result {
        Ok(output) => &mut output.meta,
        Err(error) => error.meta.get_or_insert_default(),
    }
}

/// A panic, in words that say nothing of its text, which may hold anything.
pub(super) fn panicked() -> ToolError {
    ToolError::new(ToolErrorCode::ToolPanicked, FailureStage::Tool, "the tool crashed")
}

/// `poll_ready` of every layer, see [`ToolService`].
macro_rules! always_ready {
    () => {
        type Response = crate::tools::output::ToolOutput;
        type Error = crate::tools::error::ToolError;
        type Future = crate::tools::layers::ToolFuture;

        fn poll_ready(
            &mut self,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Result<(), crate::tools::error::ToolError>> {
            std::task::Poll::Ready(Ok(()))
        }
    };
}
pub(super) use always_ready;
