//! The middleware around tool calls, one file per concern. Their order, and the reasons for it, are in `stack`.
//!
//! Layers are stateless: a tool's settings travel with the request in its [`CallPlan`], so one stack serves all tools
//! and is cheap to clone.

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

pub use truncate::shorten;

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tower::Service;

use super::call::ToolCall;
use super::context::ToolContext;
use super::error::{FailureStage, ToolError, ToolErrorCode};
use super::executor::Progress;
use super::output::{OutputMeta, ToolOutput};
use super::plan::CallPlan;

/// The future of a call. A layer boxes at most once; one that has nothing to do returns the inner future.
pub(super) type ToolFuture = Pin<Box<dyn Future<Output = Result<ToolOutput, ToolError>> + Send>>;

/// An inner layer. Always ready to be called: layers that must wait do so in their future.
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

/// A call on its way through the layers. Clones share their state.
#[derive(Clone)]
pub(super) struct ToolRequest {
    pub call: Arc<ToolCall>,
    pub context: Arc<ToolContext>,
    pub progress: Progress,
    pub plan: Arc<CallPlan>,
    pub trace: Arc<CallTrace>,
    /// Whether this is the fallback for a failed call of another tool.
    pub(crate) is_fallback: bool,
    /// Deadline, set by the `timeout` layer.
    pub deadline: Option<Instant>,
}

impl ToolRequest {
    /// The deadline, later by the time for which the call has waited for the user.
    pub(super) fn end(&self) -> Option<Instant> {
        let paused = self.call.asker.as_ref().map(|asker| asker.clock().so_far()).unwrap_or_default();
        self.deadline?.checked_add(paused)
    }
}

/// An attempt at an executor.
#[derive(Debug)]
pub(super) struct Attempt {
    pub executor: Arc<str>,
    at: Instant,
}

/// State that the layers of one call share.
#[derive(Debug, Default)]
pub(super) struct CallTrace {
    /// Executors in the order of the attempts, one entry per attempt.
    attempted: Mutex<Vec<Attempt>>,
    unreachable: OnceLock<Arc<str>>,
    used_fallback: AtomicBool,
    running_since: Mutex<Option<Instant>>,
    first_failure: OnceLock<ToolErrorCode>,
}

impl CallTrace {
    /// Records an attempt at an executor.
    pub(super) fn record_attempt(&self, executor: &Arc<str>) {
        self.attempted.lock().push(Attempt { executor: Arc::clone(executor), at: Instant::now() });
    }

    /// Executor of the last attempt.
    pub(super) fn executor(&self) -> Option<Arc<str>> {
        self.attempted.lock().last().map(|attempt| Arc::clone(&attempt.executor))
    }

    /// When each attempt behind the first was made.
    pub(super) fn retried(&self) -> Vec<std::time::Instant> {
        self.attempted.lock().iter().skip(1).map(|attempt| attempt.at.into_std()).collect()
    }

    /// Takes all attempts.
    pub(super) fn take_attempted(&self) -> Vec<Attempt> {
        std::mem::take(&mut *self.attempted.lock())
    }

    /// Records that an executor could not be reached, before failover.
    pub(super) fn set_unreachable(&self, executor: &Arc<str>) {
        // Only the first, which is the preferred one, is kept.
        _ = self.unreachable.set(Arc::clone(executor));
    }

    /// The preferred executor, if it could not be reached.
    pub(super) fn unreachable(&self) -> Option<&Arc<str>> {
        self.unreachable.get()
    }

    /// Records that a fallback tool is called, whose metadata describe the result.
    pub(super) fn set_used_fallback(&self) {
        self.used_fallback.store(true, Ordering::Relaxed);
    }

    pub(super) fn used_fallback(&self) -> bool {
        self.used_fallback.load(Ordering::Relaxed)
    }

    /// Number of attempts.
    pub(super) fn attempts(&self) -> u32 {
        let attempts = self.attempted.lock().len();
        u32::try_from(attempts).unwrap_or(u32::MAX)
    }

    /// The call waits for a permit.
    pub(super) fn set_waiting(&self) {
        *self.running_since.lock() = None;
    }

    /// The call was handed to its executor.
    pub(super) fn set_running(&self) {
        *self.running_since.lock() = Some(Instant::now());
    }

    /// Time since the call was handed to its executor.
    pub(super) fn running_time(&self) -> Duration {
        let since = *self.running_since.lock();
        since.map(|since| since.elapsed()).unwrap_or_default()
    }

    /// Records why the call failed, for cases in which the caller is not told.
    pub(super) fn record_failure(&self, code: ToolErrorCode) {
        // The first failure counts.
        _ = self.first_failure.set(code);
    }

    pub(super) fn failure(&self) -> Option<ToolErrorCode> {
        self.first_failure.get().copied()
    }
}

/// A future that is ready at once.
pub(super) fn ready(result: Result<ToolOutput, ToolError>) -> ToolFuture {
    Box::pin(std::future::ready(result))
}

/// Whether the executor could not be reached, so that another one, or a retry, may succeed.
pub(super) fn is_unreachable(error: &ToolError) -> bool {
    match error.stage {
        FailureStage::NotSent => error.code == ToolErrorCode::ToolUnavailable,
        FailureStage::Transport => true,
        FailureStage::Tool | FailureStage::Fatal => false,
    }
}

/// The metadata of a result, also of an error.
pub(super) fn meta_of(result: &mut Result<ToolOutput, ToolError>) -> &mut OutputMeta {
    match result {
        Ok(output) => &mut output.meta,
        Err(error) => error.meta.get_or_insert_default(),
    }
}

/// The error for a panic, without its message, which may hold anything.
pub(super) fn panicked() -> ToolError {
    ToolError::new(ToolErrorCode::ToolPanicked, FailureStage::Tool, "the tool crashed")
}

/// `poll_ready` of every layer, see [`ToolService`].
macro_rules! always_ready {
    () => {
        type Response = crate::output::ToolOutput;
        type Error = crate::error::ToolError;
        type Future = crate::layers::ToolFuture;

        fn poll_ready(
            &mut self,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Result<(), crate::error::ToolError>> {
            std::task::Poll::Ready(Ok(()))
        }
    };
}
pub(super) use always_ready;
