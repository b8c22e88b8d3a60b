use super::*;

fn texts(queue: &LogQueue) -> String {
    let (mut lines, mut bytes) = (Vec::new(), Vec::new());
    queue.state.lock().take(&mut lines);
    join(&mut lines, &mut bytes);
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_full_queue_drops_what_comes_and_audit_lines_take_the_room_of_others() {
    let queue = LogQueue::new(4);
    queue.push(LineClass::Access, b"a1 ");
    queue.push(LineClass::Other, b"o1 ");
    queue.push(LineClass::Audit, b"u1 ");
    queue.push(LineClass::Access, b"a2 ");
    // Full.
    queue.push(LineClass::Access, b"a3 ");
    queue.push(LineClass::Other, b"o2 ");
    assert_eq!(queue.dropped(), Counts { access: 1, audit: 0, other: 1 });
    for line in [b"u2 ", b"u3 ", b"u4 "] {
        queue.push(LineClass::Audit, line);
    }
    assert_eq!(queue.dropped(), Counts { access: 3, audit: 0, other: 2 });
    // Audit lines alone.
    queue.push(LineClass::Audit, b"u5 ");
    assert_eq!(queue.dropped(), Counts { access: 3, audit: 1, other: 2 });
    assert_eq!(texts(&queue), "u1 u2 u3 u4 ");
    for (kind, line) in [(LineClass::Other, b"o3 "), (LineClass::Audit, b"u6 "), (LineClass::Access, b"a4 ")]
    {
        queue.push(kind, line);
    }
    assert_eq!(texts(&queue), "o3 u6 a4 ", "in their order");
    assert_eq!(queue.state.lock().bytes, 0);
}

#[test]
fn warnings_take_the_room_of_access_lines_and_of_no_others() {
    let queue = LogQueue::new(4);
    for (class, line) in [
        (LineClass::Access, b"a1 "),
        (LineClass::Other, b"o1 "),
        (LineClass::Access, b"a2 "),
        (LineClass::Audit, b"u1 "),
        (LineClass::Problem, b"w1 "),
        (LineClass::Other, b"o2 "),
        (LineClass::Problem, b"w2 "),
    ] {
        queue.push(class, line);
    }
    assert_eq!(queue.dropped(), Counts { access: 2, audit: 0, other: 1 });
    // Neither an audit line nor another one makes room for it.
    queue.push(LineClass::Problem, b"w3 ");
    assert_eq!(queue.dropped(), Counts { access: 2, audit: 0, other: 2 });
    assert_eq!(texts(&queue), "o1 u1 w1 w2 ");

    // An audit line takes the room of an access line, though another one is older.
    for (class, line) in [
        (LineClass::Other, b"o3 "),
        (LineClass::Problem, b"w4 "),
        (LineClass::Access, b"a3 "),
        (LineClass::Access, b"a4 "),
        (LineClass::Audit, b"u2 "),
    ] {
        queue.push(class, line);
    }
    assert_eq!(texts(&queue), "o3 w4 a4 u2 ");
}

#[test]
fn target_and_level_determine_whose_room_a_line_takes() {
    let (queue, seen) = (LogQueue::new(1), Arc::new(Mutex::new(Vec::new())));
    let to = Arc::clone(&seen);
    let layer = tracing_subscriber::fmt::layer().with_writer(Classes { queue: QueueWriter(queue), to });
    let subscriber = tracing_subscriber::layer::SubscriberExt::with(tracing_subscriber::registry(), layer);
    tracing::subscriber::with_default(subscriber, || {
        tracing::error!(target: ACCESS_TARGET, "");
        tracing::info!(target: AUDIT_TARGET, "");
        tracing::error!("");
        tracing::warn!("");
        tracing::info!("");
    });
    use LineClass::{Access, Audit, Other, Problem};
    assert_eq!(*seen.lock(), [Access, Audit, Problem, Problem, Other]);
}

/// Notes the class of each line.
struct Classes {
    queue: QueueWriter,
    to: Arc<Mutex<Vec<LineClass>>>,
}

impl<'a> MakeWriter<'a> for Classes {
    type Writer = LineWriter<'a>;

    fn make_writer(&'a self) -> LineWriter<'a> {
        self.queue.make_writer()
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> LineWriter<'a> {
        let writer = self.queue.make_writer_for(metadata);
        self.to.lock().push(writer.class);
        writer
    }
}

#[test]
fn long_lines_fill_the_queue_by_their_bytes() {
    let queue = LogQueue::with_limits(100, 10);
    queue.push(LineClass::Other, b"longer than all the room");
    queue.push(LineClass::Other, b"x");
    assert_eq!(texts(&queue), "longer than all the room");
    queue.push(LineClass::Other, b"123456789 ");
    queue.push(LineClass::Access, b"x");
    queue.push(LineClass::Audit, b"u");
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
    queue.push(LineClass::Other, b"abc");
    queue.start_writer(Reluctant { calls: 0, to: Arc::clone(&to) }).unwrap();
    queue.wait_written(Duration::from_secs(60));
    assert_eq!(*to.lock(), b"abc");
    queue.push(LineClass::Audit, b"lost");
    queue.wait_written(Duration::from_secs(60));
    assert_eq!(queue.dropped(), Counts { access: 0, audit: 1, other: 0 });
}

/// Never returns.
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

#[test]
fn nobody_waits_for_a_writer_that_hangs() {
    let queue = LogQueue::new(2);
    queue.start_writer(Hangs).unwrap();
    for _ in 0..10_000 {
        queue.push(LineClass::Access, b"line");
    }
    assert!(!queue.wait_written(Duration::from_millis(10)));
    assert!(queue.dropped().access >= 9_000, "{:?}", queue.dropped());
}

#[test]
fn what_a_command_says_is_written_when_it_goes_on_and_waited_for_once_only_if_nobody_reads() {
    let (queue, to) = (LogQueue::new(8), Arc::new(Mutex::default()));
    queue.start_writer(Reluctant { calls: 0, to: Arc::clone(&to) }).unwrap();
    queue.print(b"abc", Duration::from_secs(60));
    assert_eq!(*to.lock(), b"abc");

    let queue = LogQueue::new(8);
    queue.start_writer(Hangs).unwrap();
    queue.print(b"first", Duration::from_millis(10));
    for _ in 0..100 {
        queue.print(b"more", Duration::from_secs(86_400));
    }
    assert!(queue.dropped().other >= 92, "{:?}", queue.dropped());
}
