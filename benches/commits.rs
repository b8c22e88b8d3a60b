//! How long commits of the SQLite store take while responses are stored at a steady rate, and what one costs.
//!
//! `cargo bench --bench commits -- --seconds 60` stores 250 groups of 4 responses per second in a folder for temporary
//! files, which must be on a disk, and prints how long a response waited for its commit, the longest log, and CPU and
//! bytes written per response. `--group N` and `--rate N` (groups per second; 0: one group behind the other) change the
//! load. `--readers N` adds tasks that read responses all the time. `--runs N` tells the store that so few runs are in
//! flight (100): up to two, a caller commits its write itself.

#![allow(
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stdout,
    missing_docs,
    reason = "a benchmark"
)]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use antwort::protocol::id::IdGenerator;
use antwort::protocol::response::ResponseStatus;
use antwort::store::{
    Direction, Lease, ModelView, Owner, ResponseRecord, ResponseStore, RunLog, Store, StoredItem,
};
use antwort_store_sqlite::{Location, SqliteOptions, SqliteStore};

/// The load.
struct Load {
    seconds: u64,
    group: usize,
    rate: u64,
    readers: usize,
    runs: usize,
}

impl Load {
    fn from_args() -> Self {
        let args: Vec<String> = std::env::args().collect();
        let number = |name: &str, default| {
            let at = args.iter().position(|arg| arg == name);
            at.and_then(|at| args.get(at + 1)).map_or(default, |value| value.parse().expect("a number"))
        };
        Self {
            seconds: number("--seconds", 10),
            group: usize::try_from(number("--group", 4)).expect("few"),
            rate: number("--rate", 250),
            readers: usize::try_from(number("--readers", 0)).expect("few"),
            runs: usize::try_from(number("--runs", 100)).expect("few"),
        }
    }
}

fn main() {
    let load = Load::from_args();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async { tokio::spawn(run(load)).await.expect("no panic") });
}

async fn run(load: Load) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("responses.db");
    let store =
        SqliteStore::open(SqliteOptions::new(Location::File(file.clone()), "bench")).expect("a store");
    let runs = load.runs;
    store.set_runs_in_flight(Arc::new(move || runs));
    let store = Arc::new(store);
    let done = Arc::new(AtomicBool::new(false));
    let reads = Arc::new(AtomicU64::new(0));
    let first = record();
    let id = first.lease.id.clone();
    store.finish(first).await.expect("stored");
    for _ in 0..load.readers {
        let (store, done, reads, id) =
            (Arc::clone(&store), Arc::clone(&done), Arc::clone(&reads), id.clone());
        tokio::spawn(async move {
            while !done.load(Ordering::Relaxed) {
                store.response(&owner(), id.as_str(), u64::MAX).await.expect("read");
                reads.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let (mut waits, mut longest_log) = (Vec::new(), 0);
    let (started, cpu, written) = (Instant::now(), cpu_micros(), bytes_written());
    while started.elapsed() < Duration::from_secs(load.seconds) {
        let groups = u32::try_from(waits.len() / load.group).expect("few");
        if let Some(pause) = Duration::from_secs(1).checked_div(u32::try_from(load.rate).expect("a rate")) {
            tokio::time::sleep_until((started + pause * groups).into()).await;
        }
        let records: Vec<_> = (0..load.group).map(|_| record()).collect();
        let queued = Instant::now();
        let stored = records.into_iter().map(|record| {
            let store = Arc::clone(&store);
            async move {
                store.finish(record).await.expect("stored");
                queued.elapsed()
            }
        });
        waits.extend(futures_util::future::join_all(stored).await);
        longest_log = longest_log.max(log_bytes(&file));
    }
    let (cpu, written) = (cpu_micros() - cpu, bytes_written() - written);
    done.store(true, Ordering::Relaxed);
    print(&load, &mut waits, longest_log);
    let count = waits.len() as u64;
    println!(
        "process: {} us CPU, {} KiB written per response; {} reads",
        cpu / count,
        written / count / 1024,
        reads.load(Ordering::Relaxed)
    );
    threads(count);
    store.close().await;
}

fn print(load: &Load, waits: &mut [Duration], longest_log: u64) {
    waits.sort_unstable();
    let at = |per_mille: usize| waits.get(waits.len() * per_mille / 1000).copied().unwrap_or_default();
    let longest = waits.last().copied().unwrap_or_default();
    println!("{} responses in groups of {}, {} groups/s", waits.len(), load.group, load.rate);
    println!("p50 {:?}  p99 {:?}  p99.9 {:?}  longest {longest:?}", at(500), at(990), at(999));
    println!("longest log {:.1} MiB", longest_log as f64 / f64::from(1 << 20));
}

fn log_bytes(file: &Path) -> u64 {
    fs::metadata(file.with_extension("db-wal")).map_or(0, |log| log.len())
}

/// CPU time of all threads, of those that live.
fn cpu_micros() -> u64 {
    of_threads().map(|(_, micros)| micros).sum()
}

fn of_threads() -> impl Iterator<Item = (String, u64)> {
    fs::read_dir("/proc/self/task").into_iter().flatten().flatten().filter_map(|task| {
        let name = fs::read_to_string(task.path().join("comm")).ok()?;
        let times = fs::read_to_string(task.path().join("schedstat")).ok()?;
        let nanos: u64 = times.split_whitespace().next()?.parse().ok()?;
        Some((name.trim().to_owned(), nanos / 1000))
    })
}

fn threads(responses: u64) {
    for (name, micros) in of_threads().filter(|(name, _)| name.starts_with("antwort")) {
        println!("{name}: {:.1} us CPU per response", micros as f64 / responses as f64);
    }
}

/// Bytes that this process has given to `write`.
fn bytes_written() -> u64 {
    let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = io.lines().find_map(|line| line.strip_prefix("wchar: "));
    line.and_then(|bytes| bytes.parse().ok()).unwrap_or_default()
}

fn owner() -> Owner {
    Owner { tenant: "acme".into(), principal: "ann".into() }
}

/// A completed response of 2.8 KB, whose items have ids of the gateway.
fn record() -> ResponseRecord {
    let mut ids = IdGenerator::new();
    let id = ids.response();
    let mut item = |direction, role: &str, part: &str, length| {
        let id = ids.next("msg");
        let text = "x".repeat(length);
        StoredItem {
            wire: format!(r#"{{"type":"message","id":"{id}","status":"completed","role":"{role}","content":[{{"type":"{part}","text":"{text}"}}]}}"#).into(),
            id,
            direction,
            model_view: ModelView::Same,
            state: None,
        }
    };
    let items = vec![
        item(Direction::Input, "user", "input_text", 200),
        item(Direction::Output, "assistant", "output_text", 500),
    ];
    let body =
        format!(r#"{{"id":"{id}","object":"response","status":"completed","text":"{}"}}"#, "y".repeat(1700));
    ResponseRecord {
        lease: Lease::first(id),
        owner: owner(),
        status: ResponseStatus::Completed,
        model: "m".to_owned(),
        created_at: 1_700_000_000,
        previous: None,
        conversation: None,
        body: body.into(),
        items,
        outbox: Vec::new(),
        approvals: Vec::new(),
        trace: None,
        is_unlisted: false,
    }
}
