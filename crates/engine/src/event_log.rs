//! Writes the events of a run to the store while the run goes on, so that its stream can be sent again.
//!
//! A task of its own collects what is logged and commits it a few times a second: the run does not wait for these
//! commits, but for the one before a turn, whose state must not be ahead of the log. While the database is away, what is
//! logged waits in memory, up to a limit. A log that cannot be written in the end, or becomes too large, is given up; the run
//! goes on without it.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::live_runs::{LiveRun, ProgressTeller};
use antwort_protocol::event::{EventEncoder, StreamEvent};
use antwort_response::machine::{ClosedResponse, Events};
use antwort_store::{Lease, LogEnd, LoggedEvents, Store, StoreError};
use antwort_telemetry::fields::RESPONSE_ID;

/// How long events are collected for one commit.
const COLLECT_TIME: Duration = Duration::from_millis(50);
/// Events of so many bytes are committed at once.
const COLLECT_BYTES: usize = 64 * 1024;
/// Batches between a run and the task.
const CHANNEL_CAPACITY: usize = 16;
/// So much is taken from the run while a commit is under way; then the run waits for the database.
const MAX_BACKLOG_BYTES: usize = 1024 * 1024;
/// A log may have so many times the bytes of a response: each delta is a frame of its own, and the text of an item is in
/// four events besides.
const LOG_FACTOR: usize = 4;

/// The log of one run.
pub(super) struct EventLogger {
    encoder: EventEncoder,
    to: mpsc::Sender<Command>,
    live: Arc<LiveRun>,
    /// The number of the first event that is not logged.
    next: u64,
    /// The number behind the events that were logged with the run's row.
    begun: u64,
    bytes: usize,
    max_bytes: usize,
    is_lost: bool,
}

enum Command {
    Write(LoggedEvents),
    /// Tells when all before it is committed.
    Settle(oneshot::Sender<()>),
}

impl EventLogger {
    /// The log of a run whose row was written with the events before `next`.
    pub(super) fn start(
        store: Arc<dyn Store>,
        live: Arc<LiveRun>,
        encoder: EventEncoder,
        lease: Lease,
        next: u64,
        max_response_bytes: usize,
    ) -> Self {
        let (to, commands) = mpsc::channel(CHANNEL_CAPACITY);
        let teller = ProgressTeller::new(Arc::clone(&live));
        let backlog = Backlog::default();
        let writer = LogWriter { store, live: Arc::clone(&live), teller, lease, commands, backlog };
        #[expect(clippy::disallowed_methods, reason = "ends with the run, which waits for it")]
        tokio::spawn(writer.run());
        let max_bytes = max_response_bytes.saturating_mul(LOG_FACTOR);
        Self { encoder, to, live, next, begun: next, bytes: 0, max_bytes, is_lost: false }
    }

    /// Logs those of these events that are not logged yet.
    pub(super) async fn log(&mut self, events: &[StreamEvent]) {
        let is_new = |event: &&StreamEvent| event.sequence_number >= self.next;
        let Some(last) = events.last().filter(|event| !self.is_lost && is_new(event)) else { return };
        let bytes = encode(self.encoder, events.iter().filter(is_new));
        self.push(LoggedEvents { first: self.next, last: last.sequence_number, bytes }).await;
    }

    async fn push(&mut self, events: LoggedEvents) {
        self.bytes += events.bytes.len();
        self.next = events.last + 1;
        if self.bytes > self.max_bytes {
            tracing::info!("the events of a response are too many to be sent again");
            self.give_up();
        } else if self.to.send(Command::Write(events)).await.is_err() {
            self.give_up();
        }
    }

    fn give_up(&mut self) {
        self.is_lost = true;
        self.live.log_lost();
    }

    /// The events that the run was begun with may be seen.
    pub(super) fn show_begun(&self) {
        self.live.logged(self.begun);
    }

    /// Waits until all that was logged is committed.
    pub(super) async fn settle(&mut self) {
        if self.is_lost {
            return;
        }
        let (done, settled) = oneshot::channel();
        let is_sent = self.to.send(Command::Settle(done)).await.is_ok();
        if !is_sent || settled.await.is_err() {
            self.give_up();
        }
    }

    /// How the log ends with this response. All other events are logged and settled.
    pub(super) fn end(self, closed: &ClosedResponse) -> LogEnd {
        if self.is_lost {
            return LogEnd { keep_below: Some(0), events: None, is_unlisted: false };
        }
        let mut events = Events::new();
        closed.emit_terminal_event(true, &mut events);
        LogEnd { keep_below: None, events: logged(self.encoder, &events), is_unlisted: false }
    }
}

/// Events as they are logged; `None` if there are none.
pub(super) fn logged(encoder: EventEncoder, events: &[StreamEvent]) -> Option<LoggedEvents> {
    let (first, last) = (events.first()?.sequence_number, events.last()?.sequence_number);
    Some(LoggedEvents { first, last, bytes: encode(encoder, events.iter()) })
}

fn encode<'a>(encoder: EventEncoder, events: impl Iterator<Item = &'a StreamEvent>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for event in events {
        encoder.write_sse(event, &mut bytes);
    }
    bytes
}

/// The task.
struct LogWriter {
    store: Arc<dyn Store>,
    live: Arc<LiveRun>,
    teller: ProgressTeller,
    lease: Lease,
    commands: mpsc::Receiver<Command>,
    backlog: Backlog,
}

/// What came while a commit was under way.
#[derive(Default)]
struct Backlog {
    commands: VecDeque<Command>,
    bytes: usize,
}

impl Backlog {
    fn push(&mut self, command: Command) {
        if let Command::Write(events) = &command {
            self.bytes += events.bytes.len();
        }
        self.commands.push_back(command);
    }

    fn pop(&mut self) -> Option<Command> {
        let command = self.commands.pop_front()?;
        if let Command::Write(events) = &command {
            self.bytes -= events.bytes.len();
        }
        Some(command)
    }
}

impl LogWriter {
    /// Writes until the run has ended, or a commit fails.
    async fn run(mut self) {
        while let Some(command) = self.next().await {
            let (events, settled) = match command {
                Command::Write(events) => self.collect(events).await,
                Command::Settle(done) => {
                    _ = done.send(());
                    continue;
                }
            };
            let next = events.last + 1;
            if let Err(error) = self.commit(events).await {
                tracing::warn!({ RESPONSE_ID } = self.lease.id.as_str(), %error, "the events of a response are no longer logged");
                self.live.log_lost();
                return;
            }
            self.teller.logged(next);
            if let Some(done) = settled {
                _ = done.send(());
            }
        }
        self.teller.tell();
    }

    async fn next(&mut self) -> Option<Command> {
        match self.backlog.pop() {
            Some(command) => Some(command),
            None => self.teller.tell_while(self.commands.recv()).await,
        }
    }

    /// Adds what comes within [`COLLECT_TIME`], up to [`COLLECT_BYTES`], or until somebody waits.
    async fn collect(&mut self, mut events: LoggedEvents) -> (LoggedEvents, Option<oneshot::Sender<()>>) {
        let until = Instant::now() + COLLECT_TIME;
        while events.bytes.len() < COLLECT_BYTES {
            let next = match self.backlog.pop() {
                Some(command) => Ok(Some(command)),
                None => tokio::time::timeout_at(until, self.commands.recv()).await,
            };
            match next {
                Ok(Some(Command::Write(more))) => {
                    events.bytes.extend_from_slice(&more.bytes);
                    events.last = more.last;
                }
                Ok(Some(Command::Settle(done))) => return (events, Some(done)),
                Ok(None) | Err(_) => break,
            }
        }
        (events, None)
    }

    /// Commits events, and takes what the run logs meanwhile: a database that is away for a while does not hold up its stream.
    async fn commit(&mut self, events: LoggedEvents) -> Result<(), StoreError> {
        let mut commit = pin!(self.store.log_events(&self.lease, events));
        loop {
            tokio::select! {
                biased;
                done = &mut commit => return done,
                Some(command) = self.commands.recv(), if self.backlog.bytes < MAX_BACKLOG_BYTES => {
                    self.backlog.push(command);
                }
            }
        }
    }
}
