//! The circuit breaker around one executor of a tool.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tower::Service;

use super::{CallTrace, ToolFuture, ToolRequest, ToolService, always_ready, is_unreachable, ready};
use crate::circuit::CallOutcome;
use crate::error::{FailureStage, ToolError, ToolErrorCode};
use crate::executor_state::ExecutorState;
use crate::output::ToolOutput;
use crate::pause::PauseClock;

/// Rejects calls while the circuit is open.
#[derive(Clone)]
pub(crate) struct Breaker<S> {
    inner: S,
    state: Arc<ExecutorState>,
}

impl<S> Breaker<S> {
    pub(crate) fn new(inner: S, state: Arc<ExecutorState>) -> Self {
        Self { inner, state }
    }
}

impl<S: ToolService> Service<ToolRequest> for Breaker<S> {
    always_ready!();

    fn call(&mut self, request: ToolRequest) -> ToolFuture {
        let Some(probe) = self.state.circuit.admit(Instant::now()) else { return ready(Err(circuit_open())) };
        request.trace.set_waiting();
        let mut guard = CallGuard {
            state: Arc::clone(&self.state),
            trace: Arc::clone(&request.trace),
            deadline: request.deadline,
            pauses: request.call.asker.as_ref().map(|asker| asker.clock().clone()),
            min_running_time: request.plan.timeout / 2,
            probe,
            recorded: false,
        };
        let answer = self.inner.call(request);
        Box::pin(async move {
            let result = answer.await;
            guard.record(outcome_of(&result));
            result
        })
    }
}

fn outcome_of(result: &Result<ToolOutput, ToolError>) -> CallOutcome {
    match result {
        Err(error) if is_unreachable(error) => CallOutcome::Failed,
        Err(error) if matches!(error.stage, FailureStage::NotSent | FailureStage::Fatal) => {
            CallOutcome::Unknown
        }
        _ => CallOutcome::Reached,
    }
}

/// A call in flight. If it is dropped without an outcome, it was abandoned: that counts as a failure only if the
/// deadline has passed and the executor had the call for at least half of its timeout. Time spent in a queue, or a
/// run that was about to end anyway, are not the executor's fault.
struct CallGuard {
    state: Arc<ExecutorState>,
    trace: Arc<CallTrace>,
    deadline: Option<Instant>,
    /// The time for which the call has waited for the user.
    pauses: Option<PauseClock>,
    min_running_time: Duration,
    probe: bool,
    recorded: bool,
}

impl CallGuard {
    fn record(&mut self, outcome: CallOutcome) {
        self.recorded = true;
        self.state.circuit.record(outcome, self.probe, Instant::now());
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        if self.recorded {
            return;
        }
        let paused = self.pauses.as_ref().map(PauseClock::so_far).unwrap_or_default();
        let late = self.deadline.is_some_and(|end| Instant::now() >= end + paused);
        let had_time = self.trace.running_time().saturating_sub(paused) >= self.min_running_time;
        self.record(if late && had_time { CallOutcome::Failed } else { CallOutcome::Unknown });
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
pub(crate) fn is_circuit_open(error: &ToolError) -> bool {
    error.cause.as_deref().is_some_and(|cause| cause.is::<CircuitOpen>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::circuit::Circuit;
    use antwort_config::BreakerSettings;

    /// The deadline may pass while a recorded failure is on its way out.
    #[test]
    fn a_failure_that_was_counted_is_not_counted_again_when_the_call_is_over() {
        let settings = BreakerSettings { failures: 2, ..BreakerSettings::default() };
        let state = Arc::new(ExecutorState::new(Circuit::new(settings)));
        for (expected, records) in [(1, true), (2, false)] {
            let trace = Arc::<CallTrace>::default();
            trace.set_running();
            let mut guard = CallGuard {
                state: Arc::clone(&state),
                trace,
                deadline: Some(Instant::now()),
                pauses: None,
                min_running_time: Duration::ZERO,
                probe: false,
                recorded: false,
            };
            if records {
                guard.record(CallOutcome::Failed);
            }
            drop(guard);
            assert_eq!(state.circuit.failures(), expected);
        }
    }
}
