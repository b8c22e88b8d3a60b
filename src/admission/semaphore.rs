//! A weighted semaphore with a fair queue.
//!
//! Turns go round robin among the tenants that wait, then among the keys of the tenant, and first in, first out within
//! a key. Who is kept by a share of their own lets others pass; who has its turn and waits for capacity does not, so
//! that no large weight starves. When the queue is full, the longest queue loses its newest waiter to a shorter one.
//! Has no timers and no tasks: whoever waits decides for how long.

mod queue;

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::sync::oneshot;

#[cfg(test)]
use self::queue::Snapshot;
use self::queue::{Granted, SemaphoreState, Slot, Ticket};
use super::shares::{Requester, Shares};

/// Requests that may wait at a time.
const MAX_WAITING: usize = 1024;

/// The semaphore. Clones are the same one.
#[derive(Debug, Clone)]
pub(crate) struct FairSemaphore(Arc<Mutex<SemaphoreState>>);

/// Why nothing is granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AcquireError {
    /// The queue is full.
    QueueFull,
    /// The semaphore was closed.
    Closed,
}

/// What came of asking.
#[derive(Debug)]
pub(crate) enum AcquireOutcome {
    /// It is granted.
    Granted(Permit),
    /// It has to be waited for.
    Queued(PendingPermit),
}

/// A part of the resource; goes back when it is dropped.
#[derive(Debug)]
pub struct Permit {
    state: Arc<Mutex<SemaphoreState>>,
    slot: Slot,
    weight: u64,
}

/// A place in the queue, left when it is dropped.
#[derive(Debug)]
pub(crate) struct PendingPermit {
    state: Arc<Mutex<SemaphoreState>>,
    ticket: Ticket,
    outcome: oneshot::Receiver<Result<Permit, AcquireError>>,
}

impl FairSemaphore {
    /// All of it is free.
    pub(crate) fn new(shares: Shares) -> Self {
        Self::with_queue(shares, MAX_WAITING)
    }

    pub(super) fn with_queue(shares: Shares, max_waiting: usize) -> Self {
        Self(Arc::new(Mutex::new(SemaphoreState::new(shares, max_waiting))))
    }

    /// Asks for so much. More than the requester may ever hold counts as all that it may hold.
    ///
    /// # Errors
    /// If the semaphore is closed, or the queue is full of others who have waited for no longer.
    pub(crate) fn acquire(&self, requester: &Requester, weight: u64) -> Result<AcquireOutcome, AcquireError> {
        let mut state = lock(&self.0);
        if state.is_closed() {
            return Err(AcquireError::Closed);
        }
        let slot = state.slot(requester);
        let weight = state.clamp(slot, weight);
        if state.take_at_once(slot, weight) {
            return Ok(AcquireOutcome::Granted(Permit { state: Arc::clone(&self.0), slot, weight }));
        }
        let (sender, outcome) = oneshot::channel();
        let dropped = state.make_room(slot)?;
        let ticket = state.enqueue(slot, weight, sender);
        let granted = state.dispatch();
        drop(state);
        // Sent without the lock: a permit that nobody takes goes back, and locks.
        if let Some(dropped) = dropped {
            _ = dropped.send(Err(AcquireError::QueueFull));
        }
        deliver(&self.0, granted);
        Ok(AcquireOutcome::Queued(PendingPermit { state: Arc::clone(&self.0), ticket, outcome }))
    }

    /// Shares it out otherwise from now on; what was granted stays, and counts.
    pub(crate) fn resize(&self, shares: Shares) {
        let granted = lock(&self.0).resize(shares);
        deliver(&self.0, granted);
    }

    /// Refuses whoever waits or asks from now on. What was granted stays.
    pub(crate) fn close(&self) {
        let waiters = lock(&self.0).close();
        for waiter in waiters {
            _ = waiter.send(Err(AcquireError::Closed));
        }
    }

    #[cfg(test)]
    pub(super) fn snapshot(&self) -> Snapshot {
        lock(&self.0).snapshot()
    }
}

impl Permit {
    /// Gives back all but so much.
    pub fn shrink_to(&mut self, weight: u64) {
        let weight = weight.max(1);
        if weight < self.weight {
            let granted = lock(&self.state).release(self.slot, self.weight - weight);
            self.weight = weight;
            deliver(&self.state, granted);
        }
    }

    /// So much of it, at most all, as a permit that goes back on its own.
    #[must_use]
    pub fn split(&mut self, weight: u64) -> Self {
        let weight = weight.min(self.weight);
        self.weight -= weight;
        Self { state: Arc::clone(&self.state), slot: self.slot, weight }
    }

    /// How much it is.
    pub fn weight(&self) -> u64 {
        self.weight
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let granted = lock(&self.state).release(self.slot, self.weight);
        deliver(&self.state, granted);
    }
}

impl Future for PendingPermit {
    type Output = Result<Permit, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // The sender is dropped unused only together with the semaphore.
        Pin::new(&mut self.outcome).poll(context).map(|outcome| outcome.unwrap_or(Err(AcquireError::Closed)))
    }
}

impl Drop for PendingPermit {
    fn drop(&mut self) {
        // What it stood in front of may fit now. A permit that was granted meanwhile goes back with `outcome`.
        let granted = lock(&self.state).leave(self.ticket);
        deliver(&self.state, granted);
    }
}

fn deliver(state: &Arc<Mutex<SemaphoreState>>, granted: Vec<Granted>) {
    for Granted { slot, weight, sender } in granted {
        // To a waiter that is just leaving it cannot be sent, and is dropped: the next one gets it.
        _ = sender.send(Ok(Permit { state: Arc::clone(state), slot, weight }));
    }
}

fn lock(state: &Mutex<SemaphoreState>) -> MutexGuard<'_, SemaphoreState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
