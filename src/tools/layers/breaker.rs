//! The circuit breaker around one executor of a tool.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tower::Service;

use super::{CallTrace, ToolFuture, ToolRequest, ToolService, always_ready, is_unreachable, ready};
use crate::config::BreakerSettings;
use crate::tools::error::{FailureStage, ToolError, ToolErrorCode};
use crate::tools::output::ToolOutput;
use crate::tools::plan::ExecutorState;

/// Rejects calls while the circuit is open.
#[derive(Clone)]
pub(in crate::tools) struct Breaker<S> {
    inner: S,
    state: Arc<ExecutorState>,
}

impl<S> Breaker<S> {
    pub(in crate::tools) fn new(inner: S, state: Arc<ExecutorState>) -> Self {
        Self { inner, state }
    }
}

impl<S: ToolService> Service<ToolRequest> for Breaker<S> {
    always_ready!();

    fn call(&mut self, request: ToolRequest) -> ToolFuture {
        let Some(probe) = self.state.breaker.admit(Instant::now()) else { return ready(Err(circuit_open())) };
        request.trace.set_waiting();
        let mut guard = CallGuard {
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
            guard.record(BreakerOutcome::from_result(&result));
            result
        })
    }
}

/// The outcome of a call for the breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BreakerOutcome {
    /// The executor answered, if only with an error.
    Reached,
    /// The executor could not be reached.
    Failed,
    /// Says nothing about the executor: rejected before it, or cancelled by the caller.
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

/// A call in flight. If it is dropped without an outcome, it was abandoned: that counts as a failure only if the
/// deadline has passed and the executor had the call for at least half of its timeout. Time spent in a queue, or a
/// run that was about to end anyway, are not the executor's fault.
struct CallGuard {
    state: Arc<ExecutorState>,
    trace: Arc<CallTrace>,
    deadline: Option<Instant>,
    min_running_time: Duration,
    probe: bool,
    recorded: bool,
}

impl CallGuard {
    fn record(&mut self, outcome: BreakerOutcome) {
        self.recorded = true;
        self.state.breaker.record(outcome, self.probe, Instant::now());
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

/// The breaker: counts consecutive failures and opens the circuit.
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

    /// Whether a call may be made; if so, whether it is the probe of a half-open circuit.
    fn admit(&self, now: Instant) -> Option<bool> {
        let mut state = self.state.lock();
        match state.open_until {
            None => Some(false),
            Some(until) if now < until || state.probing => None,
            Some(_) => {
                state.probing = true;
                Some(true)
            }
        }
    }

    fn record(&self, outcome: BreakerOutcome, probe: bool, now: Instant) {
        let mut state = self.state.lock();
        if probe {
            state.probing = false;
        }
        match outcome {
            BreakerOutcome::Unknown => {}
            // A call that started before the circuit opened says nothing about the present.
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

/// Marks errors of an open circuit, for the outer layers.
#[derive(Debug)]
struct CircuitOpen;

impl fmt::Display for CircuitOpen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("circuit breaker open")
    }
}

impl std::error::Error for CircuitOpen {}

fn circuit_open() -> ToolError {
    let message = "the tool could not be reached several times: its circuit breaker is open, try again later";
    ToolError::refused(ToolErrorCode::ToolUnavailable, message).with_cause(CircuitOpen)
}

/// Whether an error comes from an open circuit.
pub(in crate::tools) fn is_circuit_open(error: &ToolError) -> bool {
    error.cause.as_deref().is_some_and(|cause| cause.is::<CircuitOpen>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The deadline may pass while a recorded failure is on its way out.
    #[test]
    fn a_failure_that_was_counted_is_not_counted_again_when_the_call_is_over() {
        let settings = BreakerSettings { failures: 2, ..BreakerSettings::default() };
        let state = Arc::new(ExecutorState::new(BreakerState::new(settings)));
        for (expected, records) in [(1, true), (2, false)] {
            let trace = Arc::<CallTrace>::default();
            trace.set_running();
            let mut guard = CallGuard {
                state: Arc::clone(&state),
                trace,
                deadline: Some(Instant::now()),
                min_running_time: Duration::ZERO,
                probe: false,
                recorded: false,
            };
            if records {
                guard.record(BreakerOutcome::Failed);
            }
            drop(guard);
            assert_eq!(state.breaker.state.lock().failures, expected);
        }
    }
}
