//! Leaves executors alone that could not be reached time and again.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tower::Service;

use super::{CallTrace, ToolFuture, ToolRequest, ToolService, always_ready, is_unreachable, ready};
use crate::config::BreakerSettings;
use crate::tools::error::{FailureStage, ToolError, ToolErrorCode};
use crate::tools::output::ToolOutput;
use crate::tools::plan::BackendState;

/// Refuses calls while the breaker is open.
#[derive(Clone)]
pub(in crate::tools) struct Breaker<S> {
    inner: S,
    state: Arc<BackendState>,
}

impl<S> Breaker<S> {
    pub(in crate::tools) fn new(inner: S, state: Arc<BackendState>) -> Self {
        Self { inner, state }
    }
}

impl<S: ToolService> Service<ToolRequest> for Breaker<S> {
    always_ready!();

    fn call(&mut self, request: ToolRequest) -> ToolFuture {
        let Some(probe) = self.state.breaker.admit(Instant::now()) else { return ready(Err(circuit_open())) };
        request.trace.set_waiting();
        let mut watch = CallGuard {
            state: Arc::clone(&self.state),
            trace: Arc::clone(&request.trace),
            deadline: request.deadline,
            min_running_time: request.plan.timeout / 2,
            probe,
            recorded: false,
        };
        let answer = self.inner.call(request);
        Box::pin(async move {
            let result = answer.await;
            watch.record(BreakerOutcome::from_result(&result));
            result
        })
    }
}

/// What a breaker makes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BreakerOutcome {
    /// The executor answered, be it with an error.
    Reached,
    /// It could not be reached.
    Failed,
    /// It was not tried: refused on the way, or given up by the caller.
    Unknown,
}

impl BreakerOutcome {
    fn from_result(result: &Result<ToolOutput, ToolError>) -> Self {
        match result {
            Err(error) if is_unreachable(error) => Self::Failed,
            Err(error) if matches!(error.stage, FailureStage::NotSent | FailureStage::Fatal) => Self::Unknown,
            _ => Self::Reached,
        }
    }
}

/// A call under way. Dropped unsettled it was given up: that is the executor's fault only if it had the call for
/// a good part of its timeout and let the time run out. A queue, or a run that is about to end, is not.
struct CallGuard {
    state: Arc<BackendState>,
    trace: Arc<CallTrace>,
    deadline: Option<Instant>,
    min_running_time: Duration,
    probe: bool,
    recorded: bool,
}

impl CallGuard {
    fn record(&mut self, verdict: BreakerOutcome) {
        self.recorded = true;
        self.state.breaker.record(verdict, self.probe, Instant::now());
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        if self.recorded {
            return;
        }
        let late = self.deadline.is_some_and(|end| Instant::now() >= end);
        let had_time = self.trace.running_time() >= self.min_running_time;
        self.record(if late && had_time { BreakerOutcome::Failed } else { BreakerOutcome::Unknown });
    }
}

/// Failures in a row, and what follows from them.
pub(in crate::tools) struct BreakerState {
    settings: BreakerSettings,
    state: Mutex<CircuitState>,
}

#[derive(Default)]
struct CircuitState {
    failures: u32,
    open_until: Option<Instant>,
    probing: bool,
}

impl BreakerState {
    pub(in crate::tools) fn new(settings: BreakerSettings) -> Self {
        Self { settings, state: Mutex::default() }
    }

    /// Whether a call may be made, and if so, whether the breaker's fate hangs on it.
    fn admit(&self, now: Instant) -> Option<bool> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.open_until {
            None => Some(false),
            Some(until) if now < until || state.probing => None,
            Some(_) => {
                state.probing = true;
                Some(true)
            }
        }
    }

    fn record(&self, verdict: BreakerOutcome, probe: bool, now: Instant) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if probe {
            state.probing = false;
        }
        match verdict {
            BreakerOutcome::Unknown => {}
            // A call that began before the breaker opened says nothing of now.
            BreakerOutcome::Reached if state.open_until.is_some() && !probe => {}
            BreakerOutcome::Reached => *state = CircuitState::default(),
            BreakerOutcome::Failed => {
                state.failures = state.failures.saturating_add(1);
                let opens = probe || state.open_until.is_none();
                if opens && self.settings.failures > 0 && state.failures >= self.settings.failures {
                    state.open_until = now.checked_add(self.settings.open_for);
                }
            }
        }
    }
}

/// Why a call was refused, for the layers outside.
#[derive(Debug)]
struct CircuitOpen;

impl fmt::Display for CircuitOpen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the breaker is open")
    }
}

impl std::error::Error for CircuitOpen {}

fn circuit_open() -> ToolError {
    let message = "the tool could not be reached several times and is left alone for a while";
    ToolError::refused(ToolErrorCode::ToolUnavailable, message).with_cause(CircuitOpen)
}

/// Whether an error says that a breaker is open.
pub(in crate::tools) fn is_circuit_open(error: &ToolError) -> bool {
    error.cause.as_deref().is_some_and(|cause| cause.is::<CircuitOpen>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The timeout may pass while a failure is on its way out.
    #[test]
    fn a_failure_that_was_counted_is_not_counted_again_when_the_call_is_over() {
        let settings = BreakerSettings { failures: 2, ..BreakerSettings::default() };
        let state = Arc::new(BackendState::new(BreakerState::new(settings)));
        for (expected, settles) in [(1, true), (2, false)] {
            let trace = Arc::<CallTrace>::default();
            trace.set_running();
            let mut watch = CallGuard {
                state: Arc::clone(&state),
                trace,
                deadline: Some(Instant::now()),
                min_running_time: Duration::ZERO,
                probe: false,
                recorded: false,
            };
            if settles {
                watch.record(BreakerOutcome::Failed);
            }
            drop(watch);
            assert_eq!(state.breaker.state.lock().unwrap().failures, expected);
        }
    }
}
