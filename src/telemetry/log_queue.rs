//! The way of log lines to standard error: a bounded queue, and a thread of its own that writes.
//!
//! Standard error may be a pipe that nobody reads, or a disk that hangs. Whoever logs must never wait for it, least of all a worker
//! of the runtime: a line that finds the queue full is dropped and counted. Audit lines are dropped last: they take the room
//! of other lines.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tracing::Metadata;
use tracing_subscriber::fmt::MakeWriter;

use super::fields::{ACCESS_TARGET, AUDIT_TARGET};

/// Maximum bytes that wait, however few lines they are: lines at `trace`, and backtraces, may be long.
const MAX_QUEUED_BYTES: usize = 32 << 20;
/// Bytes from which no further line is added to a write.
const WRITE_BYTES: usize = 64 << 10;
/// Delay before the next try if standard error is in non-blocking mode and has no room.
const RETRY_DELAY: Duration = Duration::from_millis(10);
/// Minimum interval between lines that say how many were dropped.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// How long the end of the process waits for lines that are not written yet.
const MAX_EXIT_WAIT: Duration = Duration::from_secs(1);

/// The queue of the process.
static QUEUE: OnceLock<Arc<LogQueue>> = OnceLock::new();

/// The queue of the process, which writes to standard error. The first call determines how many lines it takes.
pub(super) fn of_process(max_lines: usize) -> io::Result<Arc<LogQueue>> {
    if let Some(queue) = QUEUE.get() {
        return Ok(Arc::clone(queue));
    }
    let queue = LogQueue::new(max_lines);
    queue.start_writer(io::stderr())?;
    Ok(Arc::clone(QUEUE.get_or_init(|| queue)))
}

/// Lines that the process has dropped.
pub(super) fn dropped() -> Counts {
    QUEUE.get().map(|queue| queue.dropped()).unwrap_or_default()
}

/// Waits until the log is written, for at most a second: nobody may read it.
pub(crate) fn wait_written() {
    if let Some(queue) = QUEUE.get() {
        queue.wait_written(MAX_EXIT_WAIT);
    }
}

/// What a line is, for the order in which lines are dropped, and for their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineKind {
    Access,
    Audit,
    Other,
}

impl LineKind {
    /// All of them, in the order of [`Counts`].
    pub(super) const ALL: [Self; 3] = [Self::Access, Self::Audit, Self::Other];

    fn of(target: &str) -> Self {
        match target {
            ACCESS_TARGET => Self::Access,
            AUDIT_TARGET => Self::Audit,
            _ => Self::Other,
        }
    }

    /// Its name in the metric.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Access => "access",
            Self::Audit => "audit",
            Self::Other => "other",
        }
    }
}

/// Numbers of lines, by kind.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    pub access: u64,
    pub audit: u64,
    pub other: u64,
}

impl Counts {
    fn of_mut(&mut self, kind: LineKind) -> &mut u64 {
        match kind {
            LineKind::Access => &mut self.access,
            LineKind::Audit => &mut self.audit,
            LineKind::Other => &mut self.other,
        }
    }

    /// The number of lines of a kind.
    pub(super) fn of(mut self, kind: LineKind) -> u64 {
        *self.of_mut(kind)
    }
}

/// Lines that wait to be written.
#[derive(Debug)]
pub(super) struct LogQueue {
    state: Mutex<State>,
    arrived: Condvar,
    written: Condvar,
    max_lines: usize,
    max_bytes: usize,
}

#[derive(Debug, Default)]
struct State {
    /// Apart, so that room for an audit line is found without a search.
    audit: VecDeque<Line>,
    others: VecDeque<Line>,
    bytes: usize,
    /// Number of the next line, by which the writer merges the two.
    next: u64,
    is_writing: bool,
    dropped: Counts,
}

#[derive(Debug)]
struct Line {
    number: u64,
    kind: LineKind,
    text: Box<[u8]>,
}

/// Lines of one write.
#[derive(Debug, Default)]
struct Batch {
    bytes: Vec<u8>,
    lines: Counts,
}

impl LogQueue {
    /// An empty queue for this many lines, without a writer.
    pub(super) fn new(max_lines: usize) -> Arc<Self> {
        Self::with_limits(max_lines, MAX_QUEUED_BYTES)
    }

    fn with_limits(max_lines: usize, max_bytes: usize) -> Arc<Self> {
        let (state, arrived, written) = (Mutex::default(), Condvar::new(), Condvar::new());
        Arc::new(Self { state, arrived, written, max_lines, max_bytes })
    }

    /// Starts the thread that writes the lines, for as long as the process lives.
    pub(super) fn start_writer(self: &Arc<Self>, to: impl Write + Send + 'static) -> io::Result<()> {
        let queue = Arc::clone(self);
        thread::Builder::new().name("log".into()).spawn(move || queue.write_lines(to))?;
        Ok(())
    }

    /// Adds a line, or drops it.
    fn push(&self, kind: LineKind, text: &[u8]) {
        let mut state = self.state.lock();
        while !state.has_room(text.len(), self) {
            let oldest = if kind == LineKind::Audit { state.others.pop_front() } else { None };
            let Some(oldest) = oldest else {
                *state.dropped.of_mut(kind) += 1;
                return;
            };
            state.bytes -= oldest.text.len();
            *state.dropped.of_mut(oldest.kind) += 1;
        }
        let line = Line { number: state.next, kind, text: text.into() };
        state.next += 1;
        state.bytes += text.len();
        if kind == LineKind::Audit {
            state.audit.push_back(line);
        } else {
            state.others.push_back(line);
        }
        self.arrived.notify_one();
    }

    /// Lines that were dropped since the start of the process.
    pub(super) fn dropped(&self) -> Counts {
        self.state.lock().dropped
    }

    /// Waits until all lines are written, but no longer than this.
    pub(super) fn wait_written(&self, at_most: Duration) {
        let deadline = Instant::now() + at_most;
        let mut state = self.state.lock();
        while state.is_pending() && !self.written.wait_until(&mut state, deadline).timed_out() {}
    }

    fn write_lines(&self, mut to: impl Write) {
        let (mut reported, mut is_read): ((Counts, Option<Instant>), bool) = Default::default();
        loop {
            let batch = self.next_batch();
            // Now that the queue has room, if somebody reads.
            if is_read && reported.1.is_none_or(|at| at.elapsed() >= REPORT_INTERVAL) {
                let dropped = self.dropped();
                if dropped != reported.0 {
                    reported = (dropped, Some(Instant::now()));
                    report(dropped);
                }
            }
            is_read = write(&mut to, &batch.bytes).is_ok();
            if !is_read {
                // A closed pipe, or a full disk.
                self.state.lock().add_dropped(batch.lines);
            }
        }
    }

    /// The next lines. Whoever waits is told first, if there are none.
    fn next_batch(&self) -> Batch {
        let mut state = self.state.lock();
        state.is_writing = false;
        while !state.is_pending() {
            self.written.notify_all();
            self.arrived.wait(&mut state);
        }
        state.is_writing = true;
        state.take_batch()
    }
}

impl State {
    fn has_room(&self, bytes: usize, limits: &LogQueue) -> bool {
        let lines = self.audit.len() + self.others.len();
        // A line longer than all the room is written if it is alone.
        lines == 0 || lines < limits.max_lines && self.bytes.saturating_add(bytes) <= limits.max_bytes
    }

    fn is_pending(&self) -> bool {
        self.is_writing || !self.audit.is_empty() || !self.others.is_empty()
    }

    fn take_batch(&mut self) -> Batch {
        let mut batch = Batch::default();
        while batch.bytes.len() < WRITE_BYTES {
            let number = |line: Option<&Line>| line.map_or(u64::MAX, |line| line.number);
            let audit_is_older = number(self.audit.front()) < number(self.others.front());
            let from = if audit_is_older { &mut self.audit } else { &mut self.others };
            let Some(line) = from.pop_front() else { break };
            self.bytes -= line.text.len();
            batch.bytes.extend_from_slice(&line.text);
            *batch.lines.of_mut(line.kind) += 1;
        }
        batch
    }

    fn add_dropped(&mut self, lines: Counts) {
        for kind in LineKind::ALL {
            *self.dropped.of_mut(kind) += lines.of(kind);
        }
    }
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

/// Tells whoever reads again what is missing. The line goes through the queue, as all do.
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
pub(super) struct LineWriter {
    queue: Arc<LogQueue>,
    kind: LineKind,
}

impl Write for LineWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.queue.push(self.kind, line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Makes the writers of the log layer, which writes each event at once.
pub(super) struct QueueWriter(pub(super) Arc<LogQueue>);

impl MakeWriter<'_> for QueueWriter {
    type Writer = LineWriter;

    fn make_writer(&self) -> LineWriter {
        LineWriter { queue: Arc::clone(&self.0), kind: LineKind::Other }
    }

    fn make_writer_for(&self, metadata: &Metadata<'_>) -> LineWriter {
        LineWriter { queue: Arc::clone(&self.0), kind: LineKind::of(metadata.target()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(queue: &LogQueue) -> String {
        String::from_utf8(queue.state.lock().take_batch().bytes).unwrap()
    }

    #[test]
    fn a_full_queue_drops_what_comes_and_audit_lines_take_the_room_of_others() {
        let queue = LogQueue::new(4);
        queue.push(LineKind::Access, b"a1 ");
        queue.push(LineKind::Other, b"o1 ");
        queue.push(LineKind::Audit, b"u1 ");
        queue.push(LineKind::Access, b"a2 ");
        // Full.
        queue.push(LineKind::Access, b"a3 ");
        queue.push(LineKind::Other, b"o2 ");
        assert_eq!(queue.dropped(), Counts { access: 1, audit: 0, other: 1 });
        for line in [b"u2 ", b"u3 ", b"u4 "] {
            queue.push(LineKind::Audit, line);
        }
        assert_eq!(queue.dropped(), Counts { access: 3, audit: 0, other: 2 });
        // Audit lines alone.
        queue.push(LineKind::Audit, b"u5 ");
        assert_eq!(queue.dropped(), Counts { access: 3, audit: 1, other: 2 });
        assert_eq!(texts(&queue), "u1 u2 u3 u4 ");
        for (kind, line) in [(LineKind::Other, b"o3 "), (LineKind::Audit, b"u6 "), (LineKind::Access, b"a4 ")]
        {
            queue.push(kind, line);
        }
        assert_eq!(texts(&queue), "o3 u6 a4 ", "in their order");
        assert_eq!(queue.state.lock().bytes, 0);
    }

    #[test]
    fn long_lines_fill_the_queue_by_their_bytes() {
        let queue = LogQueue::with_limits(100, 10);
        queue.push(LineKind::Other, b"longer than all the room");
        queue.push(LineKind::Other, b"x");
        assert_eq!(texts(&queue), "longer than all the room");
        queue.push(LineKind::Other, b"123456789 ");
        queue.push(LineKind::Access, b"x");
        queue.push(LineKind::Audit, b"u");
        assert_eq!(queue.dropped(), Counts { access: 1, audit: 0, other: 2 });
        assert_eq!(texts(&queue), "u");
    }

    /// Takes a byte at a time, is interrupted, has no room, and then is closed.
    struct Reluctant {
        calls: usize,
        to: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Reluctant {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.calls += 1;
            match self.calls {
                2 => Err(ErrorKind::Interrupted.into()),
                3 => Err(ErrorKind::WouldBlock.into()),
                6.. => Err(ErrorKind::BrokenPipe.into()),
                _ => self.to.lock().write(&bytes[..1]),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn whoever_waits_is_told_when_all_is_written_and_lines_that_cannot_be_are_counted() {
        let (queue, to) = (LogQueue::new(8), Arc::new(Mutex::default()));
        queue.push(LineKind::Other, b"abc");
        queue.start_writer(Reluctant { calls: 0, to: Arc::clone(&to) }).unwrap();
        queue.wait_written(Duration::from_secs(60));
        assert_eq!(*to.lock(), b"abc");
        queue.push(LineKind::Audit, b"lost");
        queue.wait_written(Duration::from_secs(60));
        assert_eq!(queue.dropped(), Counts { access: 0, audit: 1, other: 0 });
    }

    #[test]
    fn nobody_waits_for_a_writer_that_hangs() {
        struct Hangs;
        impl Write for Hangs {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                loop {
                    thread::park();
                }
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let queue = LogQueue::new(2);
        queue.start_writer(Hangs).unwrap();
        for _ in 0..10_000 {
            queue.push(LineKind::Access, b"line");
        }
        queue.wait_written(Duration::from_millis(10));
        assert!(queue.dropped().access >= 9_000, "{:?}", queue.dropped());
    }
}
