//! The way of log lines to standard error: a bounded queue, and a thread of its own that writes.
//!
//! Standard error may be a pipe that nobody reads, or a disk that hangs. Whoever logs must never wait for it, least of all a worker
//! of the runtime: a line that finds the queue full is dropped and counted. Access lines are dropped first and audit lines last:
//! a warning or an error takes the room of an access line, and an audit line that of any other.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

use super::fields::{ACCESS_TARGET, AUDIT_TARGET};
use super::options::DEFAULT_QUEUE;

/// Maximum bytes that wait, however few lines they are: lines at `trace`, and backtraces, may be long.
const MAX_QUEUED_BYTES: usize = 32 << 20;
/// Bytes from which no further line is added to a write.
const WRITE_BYTES: usize = 64 << 10;
/// Delay before the next try if standard error is in non-blocking mode and has no room.
const RETRY_DELAY: Duration = Duration::from_millis(10);
/// Minimum interval between lines that say how many were dropped.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// How long the end of the process waits for lines that are not written yet, and a command for what it prints.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// The queue of the process.
static QUEUE: OnceLock<Arc<LogQueue>> = OnceLock::new();

/// The queue of the process, which writes to standard error and takes so many lines.
pub(super) fn of_process(max_lines: usize) -> io::Result<Arc<LogQueue>> {
    let queue = started()?;
    queue.state.lock().max_lines = max_lines;
    Ok(queue)
}

/// The queue of the process. Commands print before there are settings, and some need none.
fn started() -> io::Result<Arc<LogQueue>> {
    if let Some(queue) = QUEUE.get() {
        return Ok(Arc::clone(queue));
    }
    let queue = LogQueue::new(DEFAULT_QUEUE);
    queue.start_writer(io::stderr())?;
    Ok(Arc::clone(QUEUE.get_or_init(|| queue)))
}

/// Writes what a command says to standard error, behind the log lines of what has happened before.
pub fn print(text: &str) {
    match started() {
        Ok(queue) => queue.print(text.as_bytes(), MAX_WAIT),
        // No thread can be started.
        Err(_) => _ = io::stderr().write_all(text.as_bytes()),
    }
}

/// Lines that the process has dropped.
pub(super) fn dropped() -> Counts {
    QUEUE.get().map(|queue| queue.dropped()).unwrap_or_default()
}

/// Waits until the log is written, for at most a second: nobody may read it.
pub fn wait_written() {
    wait_written_for(MAX_WAIT);
}

/// Waits until the log is written, but no longer than this.
pub(super) fn wait_written_for(at_most: Duration) {
    if let Some(queue) = QUEUE.get() {
        queue.wait_written(at_most);
    }
}

/// What a line is, for the order in which lines are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineClass {
    Access,
    /// At `INFO` or below.
    Other,
    /// At `WARN` or `ERROR`.
    Problem,
    Audit,
}

impl LineClass {
    fn of(metadata: &Metadata<'_>) -> Self {
        match metadata.target() {
            ACCESS_TARGET => Self::Access,
            AUDIT_TARGET => Self::Audit,
            _ if *metadata.level() <= Level::WARN => Self::Problem,
            _ => Self::Other,
        }
    }

    fn kind(self) -> LineKind {
        match self {
            Self::Access => LineKind::Access,
            Self::Audit => LineKind::Audit,
            Self::Other | Self::Problem => LineKind::Other,
        }
    }

    /// The kinds whose room such a line takes, in this order.
    fn takes_room_of(self) -> &'static [LineKind] {
        match self {
            Self::Access | Self::Other => &[],
            Self::Problem => &[LineKind::Access],
            Self::Audit => &[LineKind::Access, LineKind::Other],
        }
    }
}

/// What a line is, in the metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineKind {
    Access,
    Audit,
    Other,
}

impl LineKind {
    /// All of them.
    pub(super) const ALL: [Self; 3] = [Self::Access, Self::Audit, Self::Other];

    /// Its name in the metric.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Access => "access",
            Self::Audit => "audit",
            Self::Other => "other",
        }
    }
}

/// A value for each kind of line.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct PerKind<T> {
    pub access: T,
    pub audit: T,
    pub other: T,
}

/// Numbers of lines.
pub(super) type Counts = PerKind<u64>;

impl<T> PerKind<T> {
    fn of_mut(&mut self, kind: LineKind) -> &mut T {
        match kind {
            LineKind::Access => &mut self.access,
            LineKind::Audit => &mut self.audit,
            LineKind::Other => &mut self.other,
        }
    }
}

impl Counts {
    /// The number of lines of a kind.
    pub(super) fn of(mut self, kind: LineKind) -> u64 {
        *self.of_mut(kind)
    }

    fn since(self, earlier: Self) -> Self {
        Self {
            access: self.access - earlier.access,
            audit: self.audit - earlier.audit,
            other: self.other - earlier.other,
        }
    }
}

/// Lines that wait to be written.
#[derive(Debug)]
pub(super) struct LogQueue {
    state: Mutex<State>,
    arrived: Condvar,
    written: Condvar,
    max_bytes: usize,
}

#[derive(Debug, Default)]
struct State {
    /// Apart, so that a line to drop is found without a search.
    lines: PerKind<VecDeque<Line>>,
    max_lines: usize,
    bytes: usize,
    /// Number of the next line, by which the writer merges the kinds.
    next: u64,
    is_writing: bool,
    /// A command has waited in vain.
    is_stuck: bool,
    dropped: Counts,
}

#[derive(Debug)]
struct Line {
    number: u64,
    kind: LineKind,
    text: Box<[u8]>,
}

impl LogQueue {
    /// An empty queue for this many lines, without a writer.
    pub(super) fn new(max_lines: usize) -> Arc<Self> {
        Self::with_limits(max_lines, MAX_QUEUED_BYTES)
    }

    fn with_limits(max_lines: usize, max_bytes: usize) -> Arc<Self> {
        let state = Mutex::new(State { max_lines, ..State::default() });
        Arc::new(Self { state, arrived: Condvar::new(), written: Condvar::new(), max_bytes })
    }

    /// Starts the thread that writes the lines, for as long as the process lives.
    pub(super) fn start_writer(self: &Arc<Self>, to: impl Write + Send + 'static) -> io::Result<()> {
        let queue = Arc::clone(self);
        thread::Builder::new().name("log".into()).spawn(move || queue.write_lines(to))?;
        Ok(())
    }

    /// Adds a line, or drops it.
    fn push(&self, class: LineClass, text: &[u8]) {
        // Every thread that logs takes the lock: it covers neither copies nor frees of lines.
        let text: Box<[u8]> = text.into();
        let mut displaced = Vec::new();
        let mut state = self.state.lock();
        while !state.has_room(text.len(), self.max_bytes) {
            let Some(line) = state.displace(class) else {
                *state.dropped.of_mut(class.kind()) += 1;
                return;
            };
            displaced.push(line);
        }
        state.bytes += text.len();
        let line = Line { number: state.next, kind: class.kind(), text };
        state.next += 1;
        state.lines.of_mut(line.kind).push_back(line);
        self.arrived.notify_one();
    }

    /// Adds what a command says, and waits until it is written: what is printed or drawn next comes behind it. Once that was in
    /// vain, nothing is waited for until standard error takes lines again.
    fn print(&self, text: &[u8], at_most: Duration) {
        self.push(LineClass::Problem, text);
        let is_stuck = self.state.lock().is_stuck;
        if !is_stuck && !self.wait_written(at_most) {
            self.state.lock().is_stuck = true;
        }
    }

    /// Lines that were dropped since the start of the process.
    pub(super) fn dropped(&self) -> Counts {
        self.state.lock().dropped
    }

    /// Waits until all lines are written, but no longer than this. Whether they are.
    pub(super) fn wait_written(&self, at_most: Duration) -> bool {
        let deadline = Instant::now() + at_most;
        let mut state = self.state.lock();
        while state.is_pending() && !self.written.wait_until(&mut state, deadline).timed_out() {}
        !state.is_pending()
    }

    fn write_lines(&self, mut to: impl Write) {
        let (mut lines, mut bytes) = (Vec::new(), Vec::new());
        let (mut reported, mut reported_at, mut is_read) = (Counts::default(), None::<Instant>, false);
        loop {
            // What is missing is told although nothing more may be logged.
            let is_unreported = is_read && self.dropped() != reported;
            let report_at = is_unreported
                .then(|| reported_at.map_or_else(Instant::now, |at: Instant| at + REPORT_INTERVAL));
            self.next_lines(&mut lines, report_at);
            // Now that the queue has room, if somebody reads.
            if is_read && reported_at.is_none_or(|at| at.elapsed() >= REPORT_INTERVAL) {
                let dropped = self.dropped();
                if dropped != reported {
                    report(dropped.since(reported));
                    (reported, reported_at) = (dropped, Some(Instant::now()));
                }
            }
            if lines.is_empty() {
                continue;
            }
            let count = join(&mut lines, &mut bytes);
            is_read = write(&mut to, &bytes).is_ok();
            if !is_read {
                // A closed pipe, or a full disk.
                self.state.lock().add_dropped(count);
            }
        }
    }

    /// Takes the next lines; none if there are none until then. Whoever waits is told first, if there are none.
    fn next_lines(&self, to: &mut Vec<Line>, until: Option<Instant>) {
        let mut state = self.state.lock();
        state.is_writing = false;
        while !state.is_pending() {
            state.is_stuck = false;
            self.written.notify_all();
            match until {
                Some(until) if self.arrived.wait_until(&mut state, until).timed_out() => return,
                Some(_) => {}
                None => self.arrived.wait(&mut state),
            }
        }
        state.is_writing = true;
        state.take(to);
    }
}

impl State {
    fn count(&self) -> usize {
        self.lines.access.len() + self.lines.audit.len() + self.lines.other.len()
    }

    fn has_room(&self, bytes: usize, max_bytes: usize) -> bool {
        let lines = self.count();
        // A line longer than all the room is written if it is alone.
        lines == 0 || lines < self.max_lines && self.bytes.saturating_add(bytes) <= max_bytes
    }

    fn is_pending(&self) -> bool {
        self.is_writing || self.count() > 0
    }

    /// Drops the oldest line whose room one of this class takes.
    fn displace(&mut self, class: LineClass) -> Option<Line> {
        let mut kinds = class.takes_room_of().iter();
        let line = kinds.find_map(|kind| self.lines.of_mut(*kind).pop_front())?;
        self.bytes -= line.text.len();
        *self.dropped.of_mut(line.kind) += 1;
        Some(line)
    }

    /// Moves the lines of one write.
    fn take(&mut self, to: &mut Vec<Line>) {
        let mut bytes = 0;
        while bytes < WRITE_BYTES
            && let Some(line) = self.pop_oldest()
        {
            bytes += line.text.len();
            to.push(line);
        }
        self.bytes -= bytes;
    }

    fn pop_oldest(&mut self) -> Option<Line> {
        let PerKind { access, audit, other } = &mut self.lines;
        let number = |lines: &VecDeque<Line>| lines.front().map_or(u64::MAX, |line| line.number);
        [access, audit, other].into_iter().min_by_key(|lines| number(lines))?.pop_front()
    }

    fn add_dropped(&mut self, lines: Counts) {
        for kind in LineKind::ALL {
            *self.dropped.of_mut(kind) += lines.of(kind);
        }
    }
}

/// Joins lines for one write. Returns their number.
fn join(lines: &mut Vec<Line>, bytes: &mut Vec<u8>) -> Counts {
    let mut count = Counts::default();
    bytes.clear();
    // It may have grown for a long line.
    bytes.shrink_to(2 * WRITE_BYTES);
    for line in lines.drain(..) {
        bytes.extend_from_slice(&line.text);
        *count.of_mut(line.kind) += 1;
    }
    count
}

/// Writes all, also to a pipe or terminal that another program has put in non-blocking mode.
fn write(to: &mut impl Write, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match to.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => pause(),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a thread of its own, not a worker")]
fn pause() {
    thread::sleep(RETRY_DELAY);
}

/// Tells whoever reads again what is missing since the last such line. The line goes through the queue, as all do.
fn report(dropped: Counts) {
    let Counts { access, audit, other } = dropped;
    tracing::warn!(
        access,
        audit,
        other,
        "log lines were dropped: standard error does not take them fast enough"
    );
}

/// Writes the lines of one event to the queue.
pub(super) struct LineWriter<'a> {
    queue: &'a LogQueue,
    class: LineClass,
}

impl Write for LineWriter<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.queue.push(self.class, line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Makes the writers of the log layer, which writes each event at once.
pub(super) struct QueueWriter(pub(super) Arc<LogQueue>);

impl<'a> MakeWriter<'a> for QueueWriter {
    type Writer = LineWriter<'a>;

    fn make_writer(&'a self) -> LineWriter<'a> {
        LineWriter { queue: &self.0, class: LineClass::Other }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> LineWriter<'a> {
        LineWriter { queue: &self.0, class: LineClass::of(metadata) }
    }
}

#[cfg(test)]
mod tests;
