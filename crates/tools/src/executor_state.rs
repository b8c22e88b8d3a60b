//! Runtime state of the executors of each tool: circuit breaker, semaphores, calls in flight. Survives catalogue refreshes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::circuit::Circuit;
use antwort_config::{ToolOverride, ToolsSettings};

/// Runtime state of one executor of a tool.
pub struct ExecutorState {
    pub(super) circuit: Circuit,
    /// Shared by all executors of the tool; `None`: unlimited.
    pub(super) tool_semaphore: Option<Arc<Semaphore>>,
    /// Shared by all tools of the executor; `None`: unlimited.
    pub(super) executor_semaphore: Option<Arc<Semaphore>>,
    /// Timeout of one attempt at this executor.
    pub(super) attempt_timeout: Option<Duration>,
    inflight: AtomicUsize,
}

impl ExecutorState {
    pub(super) fn new(circuit: Circuit) -> Self {
        Self {
            circuit,
            tool_semaphore: None,
            executor_semaphore: None,
            attempt_timeout: None,
            inflight: AtomicUsize::new(0),
        }
    }

    /// Number of calls in flight.
    pub(crate) fn inflight(&self) -> usize {
        self.inflight.load(Ordering::Relaxed)
    }

    /// Counts a call as in flight until the guard is dropped.
    pub(crate) fn enter(self: &Arc<Self>) -> Inflight {
        self.inflight.fetch_add(1, Ordering::Relaxed);
        Inflight(Arc::clone(self))
    }
}

/// Guard of an in-flight call.
pub(crate) struct Inflight(Arc<ExecutorState>);

impl Drop for Inflight {
    fn drop(&mut self) {
        self.0.inflight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runtime state by tool and executor, kept across catalogues: a refresh must not close circuits or free permits.
#[derive(Default)]
pub struct ExecutorStates {
    tools: Mutex<BTreeMap<String, ToolState>>,
    /// Semaphores of executors with a configured limit.
    executors: Mutex<HashMap<Arc<str>, Arc<Semaphore>>>,
}

#[derive(Default)]
struct ToolState {
    semaphore: Option<Arc<Semaphore>>,
    executors: HashMap<Arc<str>, Arc<ExecutorState>>,
}

impl ExecutorStates {
    /// The state of one executor of a tool, created on first use.
    pub fn state(&self, tool: &str, executor: &Arc<str>, settings: &ToolsSettings) -> Arc<ExecutorState> {
        let overrides = settings.overrides.get(tool);
        let mut tools = self.tools.lock();
        let state = tools.entry(tool.to_owned()).or_insert_with(|| ToolState {
            semaphore: overrides.and_then(tool_semaphore),
            executors: HashMap::new(),
        });
        let executor_state = state.executors.entry(Arc::clone(executor)).or_insert_with(|| {
            let breaker =
                overrides.and_then(|overrides| overrides.breaker.as_ref()).unwrap_or(&settings.breaker);
            let executor_settings = settings.executors.get(&**executor);
            Arc::new(ExecutorState {
                tool_semaphore: state.semaphore.clone(),
                executor_semaphore: executor_settings
                    .and_then(|limits| self.executor_semaphore(executor, limits.max_parallel?)),
                attempt_timeout: executor_settings.and_then(|limits| limits.timeout),
                ..ExecutorState::new(Circuit::new(breaker.clone()))
            })
        });
        Arc::clone(executor_state)
    }

    fn executor_semaphore(&self, executor: &Arc<str>, max: usize) -> Option<Arc<Semaphore>> {
        let mut executors = self.executors.lock();
        let semaphore = executors
            .entry(Arc::clone(executor))
            .or_insert_with(|| Arc::new(Semaphore::new(max.clamp(1, Semaphore::MAX_PERMITS))));
        Some(Arc::clone(semaphore))
    }

    /// Drops the state of tools that no longer exist: servers may invent new names without end.
    pub(crate) fn retain(&self, is_there: impl Fn(&str) -> bool) {
        self.retain_beyond(0, is_there);
    }

    /// As [`Self::retain`], but only if more than `max` tools are known.
    pub fn retain_beyond(&self, max: usize, is_there: impl Fn(&str) -> bool) {
        let mut tools = self.tools.lock();
        if tools.len() > max {
            tools.retain(|tool, _| is_there(tool));
        }
    }
}

fn tool_semaphore(overrides: &ToolOverride) -> Option<Arc<Semaphore>> {
    let max = if overrides.serial { 1 } else { overrides.max_parallel?.clamp(1, Semaphore::MAX_PERMITS) };
    Some(Arc::new(Semaphore::new(max)))
}
