//! Leaves executors alone that could not be reached time and again.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tower::Service;

use super::{Answer, Next, ToolRequest, Trace, always_ready, is_unreachable, ready};
use crate::config::BreakerSettings;
use crate::tools::error::{Code, Fault, ToolError};
use crate::tools::output::ToolOutput;
use crate::tools::plan::LegState;

/// Refuses calls while the breaker is open.
#[derive(Clone)]
pub(in crate::tools) struct Breaker<S> {
    inner: S,
    state: Arc<LegState>,
}

impl<S> Breaker<S> {
    pub(in crate::tools) fn new(inner: S, state: Arc<LegState>) -> Self {
        Self { inner, state }
    }
}

impl<S: Next> Service<ToolRequest> for Breaker<S> {
    always_ready!();

    fn call(&mut self, request: ToolRequest) -> Answer {
        let Some(probe) = self.state.breaker.admit(Instant::now()) else { return ready(Err(left_alone())) };
        request.trace.set_waiting();
        let mut watch = Watch {
            state: Arc::clone(&self.state),
            trace: Arc::clone(&request.trace),
            deadline: request.deadline,
            patience: request.plan.timeout / 2,
            probe,
            settled: false,
        };
        let answer = self.inner.call(request);
        Box::pin(async move {
            let result = answer.await;
            watch.settle(Verdict::of(&result));
            result
        })
    }
}

/// What a breaker makes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// The executor answered, be it with an error.
    Reached,
    /// It could not be reached.
    Failed,
    /// It was not tried: refused on the way, or given up by the caller.
    Unknown,
}

impl Verdict {
    fn of(result: &Result<ToolOutput, ToolError>) -> Self {
        match result {
            Err(error) if is_unreachable(error) => Self::Failed,
            Err(error) if matches!(error.fault, Fault::Before | Fault::Fatal) => Self::Unknown,
            _ => Self::Reached,
        }
    }
}

/// A call under way. Dropped unsettled it was given up: that is the executor's fault only if it had the call for
/// a good part of its timeout and let the time run out. A queue, or a run that is about to end, is not.
struct Watch {
    state: Arc<LegState>,
    trace: Arc<Trace>,
    deadline: Option<Instant>,
    patience: Duration,
    probe: bool,
    settled: bool,
}

impl Watch {
    fn settle(&mut self, verdict: Verdict) {
        self.settled = true;
        self.state.breaker.settle(verdict, self.probe, Instant::now());
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.settled {
            return;
        }
        let late = self.deadline.is_some_and(|end| Instant::now() >= end);
        let had_time = self.trace.has_run_for() >= self.patience;
        self.settle(if late && had_time { Verdict::Failed } else { Verdict::Unknown });
    }
}

/// Failures in a row, and what follows from them.
pub(in crate::tools) struct BreakerState {
    settings: BreakerSettings,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
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

    fn settle(&self, verdict: Verdict, probe: bool, now: Instant) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if probe {
            state.probing = false;
        }
        match verdict {
            Verdict::Unknown => {}
            // A call that began before the breaker opened says nothing of now.
            Verdict::Reached if state.open_until.is_some() && !probe => {}
            Verdict::Reached => *state = State::default(),
            Verdict::Failed => {
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
struct Open;

impl fmt::Display for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the breaker is open")
    }
}

impl std::error::Error for Open {}

fn left_alone() -> ToolError {
    let message = "the tool could not be reached several times and is left alone for a while";
    ToolError::refused(Code::ToolUnavailable, message).because(Open)
}

/// Whether an error says that a breaker is open.
pub(in crate::tools) fn is_open(error: &ToolError) -> bool {
    error.cause.as_deref().is_some_and(|cause| cause.is::<Open>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The timeout may pass while a failure is on its way out.
    #[test]
    fn a_failure_that_was_counted_is_not_counted_again_when_the_call_is_over() {
        let settings = BreakerSettings { failures: 2, ..BreakerSettings::default() };
        let state = Arc::new(LegState::new(BreakerState::new(settings)));
        for (expected, settles) in [(1, true), (2, false)] {
            let trace = Arc::<Trace>::default();
            trace.set_running();
            let mut watch = Watch {
                state: Arc::clone(&state),
                trace,
                deadline: Some(Instant::now()),
                patience: Duration::ZERO,
                probe: false,
                settled: false,
            };
            if settles {
                watch.settle(Verdict::Failed);
            }
            drop(watch);
            assert_eq!(state.breaker.state.lock().unwrap().failures, expected);
        }
    }
}
