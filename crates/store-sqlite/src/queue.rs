//! The queue of the writer thread, and how a group of writes is taken from it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::error::closed;
use antwort_store::StoreError;
use antwort_store::failed_requests::MAX_WAITING_WRITES;
use antwort_store::operation::{Write, WriteOutcome};

/// Commands that may be queued; further callers wait.
pub(super) const QUEUE_CAPACITY: usize = 1024;

/// A group ends with this many writes, or
const MAX_GROUP_WRITES: usize = 256;

/// with this many bytes.
const MAX_GROUP_BYTES: usize = 8 << 20;

/// How long a write that nobody waits for may wait for one that shares its commit.
const COALESCE_TIMEOUT: Duration = Duration::from_millis(5);

pub(super) type Reply = oneshot::Sender<Result<WriteOutcome, StoreError>>;
/// A task of maintenance; it may be tried again.
pub(super) type MaintenanceJob = Box<dyn FnMut(&mut Connection) -> Result<bool, StoreError> + Send>;
pub(super) type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// A command to the writer thread.
pub(super) enum Command {
    Write(Write, Reply),
    /// A write without a reply.
    FireAndForget(Write),
    Job(Job),
    /// A maintenance task, for which the reserve is released on a full disk. Replies whether there may be more to do.
    Maintenance(MaintenanceJob, oneshot::Sender<Result<bool, StoreError>>),
    /// Checks whether responses can be stored.
    Check(oneshot::Sender<Result<(), StoreError>>),
    /// A checkpoint is due, or the other thread has run one.
    Checkpoint,
    Close(oneshot::Sender<()>),
}

/// The sending end of the queue, which knows how many of its commands are not finished.
pub(super) struct Queue {
    commands: mpsc::Sender<Command>,
    unfinished: Unfinished,
}

/// Commands that were queued and are not finished; checkpoints do not count.
#[derive(Clone, Default)]
pub(super) struct Unfinished(Arc<AtomicUsize>);

impl Unfinished {
    /// So many commands are finished.
    pub(super) fn finished(&self, commands: usize) {
        self.0.fetch_sub(commands, Ordering::Release);
    }
}

impl Queue {
    /// A queue, and its receiving end.
    pub(super) fn new() -> (Self, mpsc::Receiver<Command>, Unfinished) {
        let (commands, received) = mpsc::channel(QUEUE_CAPACITY);
        let unfinished = Unfinished::default();
        (Self { commands, unfinished: unfinished.clone() }, received, unfinished)
    }

    /// Queues a command, once there is room.
    pub(super) async fn send(&self, command: Command) -> Result<(), StoreError> {
        let room = self.commands.reserve().await.map_err(|_| closed())?;
        self.unfinished.0.fetch_add(1, Ordering::Relaxed);
        room.send(command);
        Ok(())
    }

    /// Queues a command if there is room. Returns whether there was.
    pub(super) fn try_send(&self, command: Command) -> bool {
        let Ok(room) = self.commands.try_reserve() else { return false };
        self.unfinished.0.fetch_add(1, Ordering::Relaxed);
        room.send(command);
        true
    }

    /// Queues a command that nobody waits for, once there is room. There must be few of these.
    pub(super) fn send_detached(&self, command: Command) {
        let (commands, unfinished) = (self.commands.clone(), self.unfinished.clone());
        let send = move |room: mpsc::Permit<'_, Command>| {
            unfinished.0.fetch_add(1, Ordering::Relaxed);
            room.send(command);
        };
        if let Ok(room) = self.commands.try_reserve() {
            return send(room);
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "ends when the queue has room or its thread has ended"
        )]
        tokio::spawn(async move {
            if let Ok(room) = commands.reserve().await {
                send(room);
            }
        });
    }

    /// Whether all that was queued is finished. What a caller has queued before is seen by it.
    pub(super) fn is_idle(&self) -> bool {
        self.unfinished.0.load(Ordering::Acquire) == 0
    }

    /// Whether so few writes wait that one may be added which can be dropped.
    pub(super) fn has_few(&self) -> bool {
        self.unfinished.0.load(Ordering::Relaxed) < MAX_WAITING_WRITES
    }

    /// Has the writer thread run a checkpoint if one is due. A full queue needs no further command: it does so after each.
    pub(super) fn request_checkpoint(&self) {
        let _ = self.commands.try_send(Command::Checkpoint);
    }

    /// The same, for the checkpoint thread. It does not keep the writer thread alive.
    pub(super) fn checkpoint_waker(&self) -> impl Fn() + Send + use<> + 'static {
        let commands = self.commands.downgrade();
        move || {
            if let Some(commands) = commands.upgrade() {
                let _ = commands.try_send(Command::Checkpoint);
            }
        }
    }
}

/// The reply channel of a write that nobody waits for.
pub(super) fn discard_reply() -> Reply {
    oneshot::channel().0
}

/// Wakes a parked thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// What has come of waiting for a command.
#[expect(clippy::large_enum_variant, reason = "it is a command as a rule, and is taken apart at once")]
pub(super) enum Received {
    Command(Command),
    /// Nothing has come in time.
    Nothing,
    /// There will be no more.
    Closed,
}

/// Waits for the next command, not longer than until then.
pub(super) fn receive(commands: &mut mpsc::Receiver<Command>, until: Option<Instant>) -> Received {
    let Some(until) = until else {
        return commands.blocking_recv().map_or(Received::Closed, Received::Command);
    };
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match commands.poll_recv(&mut context) {
            Poll::Ready(command) => return command.map_or(Received::Closed, Received::Command),
            Poll::Pending => match until.saturating_duration_since(Instant::now()) {
                Duration::ZERO => return Received::Nothing,
                left => thread::park_timeout(left),
            },
        }
    }
}

/// Collects writes without a waiter until one with a waiter comes, which is returned, or another command, or nothing
/// for a while.
pub(super) fn coalesce(
    group: &mut Vec<(Write, Reply)>,
    commands: &mut mpsc::Receiver<Command>,
) -> Option<Command> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let until = Instant::now() + COALESCE_TIMEOUT;
    while group.len() < MAX_GROUP_WRITES {
        match commands.poll_recv(&mut context) {
            Poll::Ready(Some(Command::FireAndForget(write))) => group.push((write, discard_reply())),
            Poll::Ready(other) => return other,
            Poll::Pending => match until.saturating_duration_since(Instant::now()) {
                Duration::ZERO => break,
                left => thread::park_timeout(left),
            },
        }
    }
    None
}

/// Adds the writes that are queued; returns the first command that is none.
pub(super) fn fill_group(
    group: &mut Vec<(Write, Reply)>,
    commands: &mut mpsc::Receiver<Command>,
) -> Option<Command> {
    let mut bytes: usize = group.iter().map(|(write, _)| write.size()).sum();
    while group.len() < MAX_GROUP_WRITES && bytes < MAX_GROUP_BYTES {
        match commands.try_recv() {
            Ok(Command::Write(write, answer)) => {
                bytes += write.size();
                group.push((write, answer));
            }
            Ok(Command::FireAndForget(write)) => {
                bytes += write.size();
                group.push((write, discard_reply()));
            }
            Ok(other) => return Some(other),
            Err(_) => break,
        }
    }
    None
}
