//! The state of a circuit breaker: closed, open or half-open. Pure; the time is handed in.

use parking_lot::Mutex;
use tokio::time::Instant;

use antwort_config::BreakerSettings;

/// Counts consecutive failures and opens the circuit.
pub(super) struct Circuit {
    settings: BreakerSettings,
    state: Mutex<CircuitState>,
}

#[derive(Default)]
struct CircuitState {
    failures: u32,
    open_until: Option<Instant>,
    probing: bool,
}

impl Circuit {
    pub(super) fn new(settings: BreakerSettings) -> Self {
        Self { settings, state: Mutex::default() }
    }

    /// Whether a call may be made; if so, whether it is the probe of a half-open circuit.
    pub(super) fn admit(&self, now: Instant) -> Option<bool> {
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

    pub(super) fn record(&self, outcome: CallOutcome, probe: bool, now: Instant) {
        let mut state = self.state.lock();
        if probe {
            state.probing = false;
        }
        match outcome {
            CallOutcome::Unknown => {}
            // A call that started before the circuit opened says nothing about the present.
            CallOutcome::Reached if state.open_until.is_some() && !probe => {}
            CallOutcome::Reached => *state = CircuitState::default(),
            CallOutcome::Failed => {
                state.failures = state.failures.saturating_add(1);
                let opens = probe || state.open_until.is_none();
                if opens && self.settings.failures > 0 && state.failures >= self.settings.failures {
                    state.open_until = now.checked_add(self.settings.open_for);
                }
            }
        }
    }

    #[cfg(test)]
    pub(super) fn failures(&self) -> u32 {
        self.state.lock().failures
    }
}

/// The outcome of a call for the circuit breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallOutcome {
    /// The executor answered, if only with an error.
    Reached,
    /// The executor could not be reached.
    Failed,
    /// Says nothing about the executor: rejected before it, or cancelled by the caller.
    Unknown,
}
