//! Signals between the processes that share a store: that a job was queued, that a run was asked to end, that the log of
//! a run has grown.
//!
//! A signal is a hint that makes somebody look into the store sooner. It may be lost, come twice, or come from anybody
//! who can reach the bus; the store is the truth. So whoever waits for one also looks from time to time by itself, after
//! [`Bus::poll_interval`].
//!
//! [`Bus::local`] is the bus of a store that one process has. `nats` reaches the others, and so does the bus of a PostgreSQL store: a
//! task sends what was published, in batches, and reconnects by itself. Without a way to others (`poll:`) everybody only looks.

mod link;
mod local;
#[cfg(feature = "nats")]
mod nats;
mod signal;
mod watchers;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

pub use self::link::{Inbound, LinkStatus, lose, next_message};
#[cfg(feature = "nats")]
pub use self::nats::NatsOptions;
pub use self::signal::Signal;
pub use self::watchers::RunWatch;

use self::local::LocalBus;
use antwort_protocol::id::Id;
use antwort_telemetry::metrics::Metrics;

/// Signals that wait to be sent. When there are more, the oldest are still sent, and new ones are lost.
const MAX_OUTGOING: usize = 4096;
/// How often is looked while the other processes can tell of themselves, or where all is in one process.
const CONNECTED_POLL: Duration = Duration::from_secs(2);

/// A process's end of the bus. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Bus {
    local: Arc<LocalBus>,
    link: Link,
    poll_interval: Duration,
}

/// How other processes are reached.
#[derive(Debug, Clone)]
enum Link {
    /// There are no others.
    SingleProcess,
    /// Not at all: all processes poll the store.
    PollOnly,
    /// By a task.
    Task { outgoing: mpsc::Sender<Signal>, status: Arc<LinkStatus> },
}

impl Bus {
    /// The bus of a process that shares its store with nobody.
    pub fn local() -> Self {
        Self { local: LocalBus::new(), link: Link::SingleProcess, poll_interval: CONNECTED_POLL }
    }

    /// A bus that reaches nobody: others are found out about by looking.
    pub fn poll(interval: Duration) -> Self {
        Self { link: Link::PollOnly, poll_interval: interval, ..Self::local() }
    }

    /// A bus over NATS. Connects in the background, and again whenever the connection is lost.
    #[cfg(feature = "nats")]
    pub fn nats(options: NatsOptions, poll_interval: Duration, metrics: &Arc<Metrics>) -> Self {
        Self::linked(poll_interval, metrics, |signals, inbound, status| {
            nats::run(options, signals, inbound, status)
        })
    }

    /// A bus that a task links to the other processes: it sends the signals, passes on what it receives, and says whether it is
    /// connected. The task ends when the bus is gone, which is when there are no more signals.
    pub fn linked<T: Future<Output = ()> + Send + 'static>(
        poll_interval: Duration,
        metrics: &Arc<Metrics>,
        task: impl FnOnce(mpsc::Receiver<Signal>, Inbound, Arc<LinkStatus>) -> T,
    ) -> Self {
        let (outgoing, signals) = mpsc::channel(MAX_OUTGOING);
        let (local, status) = (LocalBus::new(), LinkStatus::connecting(metrics));
        let inbound = Inbound::new(&local);
        let link = Link::Task { outgoing, status: Arc::clone(&status) };
        #[expect(clippy::disallowed_methods, reason = "ends when the last handle of the bus is dropped")]
        tokio::spawn(task(signals, inbound, status));
        Self { local, link, poll_interval }
    }

    /// Tells all processes that a job was queued.
    pub fn job_queued(&self) {
        self.publish(Signal::JobQueued);
    }

    /// Tells this process alone that there is room for a job.
    pub fn job_queued_here(&self) {
        self.local.accept(&Signal::JobQueued);
    }

    /// Tells all processes that a run was asked to end: the store knows which.
    pub fn cancel_requested(&self) {
        self.publish(Signal::CancelRequested);
    }

    /// Tells all processes that the events of a run before `next` are logged.
    pub fn run_advanced(&self, id: &Id, next: u64) {
        self.publish(Signal::Advanced { id: id.clone(), next });
    }

    /// Tells this process that the events of a run before `next` are logged.
    pub fn run_advanced_here(&self, id: &Id, next: u64) {
        self.local.runs.advanced(id, next);
    }

    /// Tells the other processes the same.
    pub fn run_advanced_elsewhere(&self, id: &Id, next: u64) {
        if matches!(self.link, Link::Task { .. }) {
            self.send(Signal::Advanced { id: id.clone(), next });
        }
    }

    /// Tells all processes that a run was given an answer: the store has it.
    pub fn run_answered(&self, id: &Id) {
        self.publish(Signal::Answered(id.clone()));
    }

    /// Tells all processes that a run has ended in the process that executed it: the store knows how.
    pub fn run_ended(&self, id: &Id) {
        self.publish(Signal::Ended(id.clone()));
    }

    fn publish(&self, signal: Signal) {
        self.local.accept(&signal);
        self.send(signal);
    }

    fn send(&self, signal: Signal) {
        if let Link::Task { outgoing, status } = &self.link
            && outgoing.try_send(signal).is_err()
        {
            status.signal_lost();
        }
    }

    /// Returns when a job was queued, if nobody else of this process was told, or after [`Bus::poll_interval`].
    pub async fn job_or_poll(&self) {
        _ = tokio::time::timeout(self.poll_interval(), self.local.jobs.notified()).await;
    }

    /// Returns when some run was asked to end, whoever executes it: the store knows which. For one waiter.
    pub async fn cancellation(&self) {
        self.local.cancellations.notified().await;
    }

    /// Waits for signals of one run.
    pub fn watch_run(&self, id: &Id) -> RunWatch {
        self.local.runs.watch(id)
    }

    /// How often to look into the store for what signals may have failed to tell.
    pub fn poll_interval(&self) -> Duration {
        if self.is_connected() { CONNECTED_POLL.max(self.poll_interval) } else { self.poll_interval }
    }

    /// Whether all other processes that there may be are reached now.
    pub fn is_connected(&self) -> bool {
        match &self.link {
            Link::SingleProcess => true,
            Link::PollOnly => false,
            Link::Task { status, .. } => status.is_connected(),
        }
    }
}

impl Bus {
    /// A bus for tests, whose signals to others are counted by the function, and go nowhere.
    pub fn counted() -> (Self, impl FnMut() -> usize) {
        let (outgoing, mut signals) = mpsc::channel(MAX_OUTGOING);
        let status = LinkStatus::connecting(&Metrics::new());
        let bus = Self { link: Link::Task { outgoing, status }, ..Self::local() };
        (bus, move || std::iter::from_fn(|| signals.try_recv().ok()).count())
    }
}
