//! A weighted semaphore with a fair queue.
//!
//! Waiting tenants are served round robin, then the waiting keys of a tenant; a key's own requests first in, first
//! out. A waiter that is blocked by its own share lets others pass; the next one in turn that waits for capacity does
//! not, so that large weights do not starve. When the queue is full, the longest queue loses its newest waiter to a
//! shorter one. Has no timers or tasks: timeouts are the caller's.

mod queue;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;
use tokio::sync::oneshot;

pub use self::queue::AcquireError;
#[cfg(test)]
use self::queue::Snapshot;
use self::queue::{Granted, SemaphoreState, Slot, Ticket};
use super::shares::Shares;
use antwort_identity::Requester;

/// The length of the queue.
const MAX_WAITING: usize = 1024;

/// How a waiter is answered.
type Waiter = oneshot::Sender<Result<Permit, AcquireError>>;

/// The state that all clones and permits share.
type State = Arc<Mutex<SemaphoreState<Waiter>>>;

/// The semaphore; clones share its state.
#[derive(Debug, Clone)]
pub struct FairSemaphore(State);

/// What comes of a request for units: they are granted at once, or it waits.
#[derive(Debug)]
pub enum AcquireOutcome {
    /// There was room: the units are held until the permit is dropped.
    Granted(Permit),
    /// The request is queued.
    Queued(PendingPermit),
}

/// Permits for a part of the resource, released when dropped.
#[derive(Debug)]
pub struct Permit {
    state: State,
    slot: Slot,
    weight: u64,
}

/// A place in the queue, left when dropped.
#[derive(Debug)]
pub struct PendingPermit {
    state: State,
    ticket: Ticket,
    outcome: oneshot::Receiver<Result<Permit, AcquireError>>,
}

impl FairSemaphore {
    /// A semaphore with all capacity free.
    pub fn new(shares: Shares) -> Self {
        Self::with_queue(shares, MAX_WAITING)
    }

    pub(super) fn with_queue(shares: Shares, max_waiting: usize) -> Self {
        Self(Arc::new(Mutex::new(SemaphoreState::new(shares, max_waiting))))
    }

    /// Requests `weight` units; more than the requester may ever hold is clamped to that.
    ///
    /// # Errors
    /// If the semaphore is closed, or the queue is full and this requester's part of it is not shorter than others.
    pub fn acquire(&self, requester: &Requester, weight: u64) -> Result<AcquireOutcome, AcquireError> {
        let mut state = self.0.lock();
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
        // Sent without the lock: a permit that nobody receives is released, which locks.
        if let Some(dropped) = dropped {
            _ = dropped.send(Err(AcquireError::QueueFull));
        }
        deliver(&self.0, granted);
        Ok(AcquireOutcome::Queued(PendingPermit { state: Arc::clone(&self.0), ticket, outcome }))
    }

    /// Replaces the limits. Permits that are held stay valid, and count.
    pub fn resize(&self, shares: Shares) {
        let granted = self.0.lock().resize(shares);
        deliver(&self.0, granted);
    }

    /// Rejects new and waiting requests from now on. Permits that are held stay valid.
    pub fn close(&self) {
        let waiters = self.0.lock().close();
        for waiter in waiters {
            _ = waiter.send(Err(AcquireError::Closed));
        }
    }

    #[cfg(test)]
    pub(super) fn snapshot(&self) -> Snapshot {
        self.0.lock().snapshot()
    }
}

impl Permit {
    /// Releases all but `weight` units.
    pub fn shrink_to(&mut self, weight: u64) {
        let weight = weight.max(1);
        if weight < self.weight {
            let granted = self.state.lock().release(self.slot, self.weight - weight);
            self.weight = weight;
            deliver(&self.state, granted);
        }
    }

    /// Splits off at most `weight` units as a permit of its own.
    #[must_use]
    pub fn split(&mut self, weight: u64) -> Self {
        let weight = weight.min(self.weight);
        self.weight -= weight;
        Self { state: Arc::clone(&self.state), slot: self.slot, weight }
    }

    /// The weight of the permit.
    pub fn weight(&self) -> u64 {
        self.weight
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let granted = self.state.lock().release(self.slot, self.weight);
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
        // Waiters behind this one may fit now. A permit that was granted meanwhile is released with `outcome`.
        let granted = self.state.lock().leave(self.ticket);
        deliver(&self.state, granted);
    }
}

fn deliver(state: &State, granted: Vec<Granted<Waiter>>) {
    for Granted { slot, weight, sender } in granted {
        // A waiter that is just leaving does not receive it: it is dropped, and goes to the next one.
        _ = sender.send(Ok(Permit { state: Arc::clone(state), slot, weight }));
    }
}
