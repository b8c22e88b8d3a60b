//! What passes through the layers around a call. One file a concern; in which order they lie, and why, is
//! said in `stack`.
//!
//! The layers have no settings of their own: those of a tool travel with the request in its [`Plan`], so that
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
use super::error::{Code, Fault, ToolError};
use super::executor::Progress;
use super::output::{OutputMeta, ToolOutput};
use super::plan::Plan;

/// What comes of a call, in time. Boxed once a layer: a layer that has nothing to do hands on the inner one's.
pub(super) type Answer = Pin<Box<dyn Future<Output = Result<ToolOutput, ToolError>> + Send>>;

/// An inner layer. None ever refuses to be called: what must wait waits in its future.
pub(super) trait Next:
    Service<ToolRequest, Response = ToolOutput, Error = ToolError, Future = Answer> + Clone + Send + 'static
{
}

impl<S> Next for S where
    S: Service<ToolRequest, Response = ToolOutput, Error = ToolError, Future = Answer>
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
    pub plan: Arc<Plan>,
    pub trace: Arc<Trace>,
    /// It stands in for a call of another tool that failed.
    pub stands_in: bool,
    /// When it has to be over; set by the layer of timeouts.
    pub deadline: Option<Instant>,
}

/// What the layers leave for each other in the course of a call.
#[derive(Debug, Default)]
pub(super) struct Trace {
    /// Executors in the order in which they were asked, one entry an attempt.
    asked: Mutex<Vec<Arc<str>>>,
    unreached: OnceLock<Arc<str>>,
    stood_in: AtomicBool,
    running_since: Mutex<Option<Instant>>,
    first_failure: OnceLock<Code>,
}

impl Trace {
    /// An executor is asked.
    pub(super) fn attempt(&self, executor: &Arc<str>) {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(executor));
    }

    /// Who was asked last.
    pub(super) fn executor(&self) -> Option<Arc<str>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).last().cloned()
    }

    /// All that were asked, one entry an attempt.
    pub(super) fn take_asked(&self) -> Vec<Arc<str>> {
        std::mem::take(&mut *self.asked.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// An executor could not be reached, and another one may take over.
    pub(super) fn set_unreached(&self, executor: &Arc<str>) {
        // The first one is the one that should have run the call.
        _ = self.unreached.set(Arc::clone(executor));
    }

    /// The executor that should have run the call and could not.
    pub(super) fn unreached(&self) -> Option<&Arc<str>> {
        self.unreached.get()
    }

    /// Another tool is called instead, and gives the account of the result.
    pub(super) fn set_stood_in(&self) {
        self.stood_in.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_stood_in(&self) -> bool {
        self.stood_in.load(Ordering::Relaxed)
    }

    /// How often executors were asked.
    pub(super) fn attempts(&self) -> u32 {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner).len();
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
    pub(super) fn has_run_for(&self) -> Duration {
        let since = *self.running_since.lock().unwrap_or_else(PoisonError::into_inner);
        since.map(|since| since.elapsed()).unwrap_or_default()
    }

    /// Keeps why the call failed where the caller is not told.
    pub(super) fn failed(&self, code: Code) {
        // Of several failures the first one counts.
        _ = self.first_failure.set(code);
    }

    pub(super) fn failure(&self) -> Option<Code> {
        self.first_failure.get().copied()
    }
}

/// An answer that is there at once.
pub(super) fn ready(result: Result<ToolOutput, ToolError>) -> Answer {
    Box::pin(std::future::ready(result))
}

/// Whether another executor, or the same one later, may fare better: it could not be reached.
pub(super) fn is_unreachable(error: &ToolError) -> bool {
    match error.fault {
        Fault::Before => error.code == Code::ToolUnavailable,
        Fault::Transport => true,
        Fault::Tool | Fault::Fatal => false,
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
    ToolError::new(Code::ToolPanicked, Fault::Tool, "the tool crashed")
}

/// `poll_ready` of every layer, see [`Next`].
macro_rules! always_ready {
    () => {
        type Response = crate::tools::output::ToolOutput;
        type Error = crate::tools::error::ToolError;
        type Future = crate::tools::layers::Answer;

        fn poll_ready(
            &mut self,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Result<(), crate::tools::error::ToolError>> {
            std::task::Poll::Ready(Ok(()))
        }
    };
}
pub(super) use always_ready;
