//! The law of a living process: runs whose database is away for a while are the runs whose database was always there. No other
//! process takes them over, although their leases have expired.

use std::sync::Arc;
use std::time::Duration;

use antwort::store::Store;
use antwort_store_postgres::{PostgresOptions, PostgresStore};
use antwort_test_support::postgres::Cluster;
use futures_util::future::join_all;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use rusqlite::Connection;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use super::client::Client;
use super::observation::Observation;
use super::process::Process;
use super::scenario::{Scenario, scenarios};
use super::{Backend, Harness, SEED, Sqlite, in_time};

/// Longer than the store waits for a lock.
const LOCKED: Duration = Duration::from_secs(7);
/// Between two outages: all processes have renewed their leases.
const BETWEEN: Duration = Duration::from_secs(2);
/// The runs have begun by then.
const FIRST_DELAY: Duration = Duration::from_millis(500);
const MAX_OUTAGES: usize = 2;
const LEASE: Duration = Duration::from_secs(8);
const CASES: usize = 100;

/// A process of this name.
struct Named<'a>(&'a str, &'static str);

impl Backend for Named<'_> {
    async fn open(&self) -> Arc<dyn Store> {
        let mut options = PostgresOptions::new(self.0, self.1);
        options.lease = LEASE;
        options.statement_timeout = Duration::from_secs(1);
        Arc::new(PostgresStore::open(options).await.unwrap())
    }
}

fn generated(count: usize) -> Vec<Scenario> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&SEED.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    (0..count).map(|_| scenarios().new_tree(&mut runner).unwrap().current()).collect()
}

/// What is out of service at times.
trait Outage: Send + 'static {
    fn begin(&mut self);
    fn end(&mut self);
}

impl Outage for Cluster {
    fn begin(&mut self) {
        self.stop();
    }

    fn end(&mut self) {
        self.restart();
    }
}

/// Another program that locks the file.
struct Locking(Connection);

impl Outage for Locking {
    fn begin(&mut self) {
        self.0.busy_timeout(LOCKED).unwrap();
        self.0.execute_batch("BEGIN IMMEDIATE").unwrap();
    }

    fn end(&mut self) {
        self.0.execute_batch("ROLLBACK").unwrap();
    }
}

/// Takes the database out of service and back a few times, as long as there is somebody who needs it.
async fn outages(mut database: impl Outage, lasting: Duration, mut is_done: watch::Receiver<bool>) -> usize {
    for count in 0..MAX_OUTAGES {
        let delay = if count == 0 { FIRST_DELAY } else { BETWEEN };
        if tokio::time::timeout(delay, is_done.wait_for(|is_done| *is_done)).await.is_ok() {
            return count;
        }
        tokio::task::block_in_place(|| database.begin());
        tokio::time::sleep(lasting).await;
        tokio::task::block_in_place(|| database.end());
    }
    _ = is_done.wait_for(|is_done| *is_done).await;
    MAX_OUTAGES
}

/// Plays scenarios at these processes during outages, and compares them with those that were played without any.
async fn hold(harness: &Harness, processes: &[&Process], outage: impl Outage, lasting: Duration) {
    let scenarios = generated(CASES);
    let wholes = join_all(scenarios.iter().map(|scenario| harness.whole(scenario, &processes[0].base))).await;
    let (done, is_done) = watch::channel(false);
    let outages = TaskTracker::new().spawn(outages(outage, lasting, is_done));
    let played = scenarios.iter().zip(processes.iter().cycle()).enumerate();
    let played = played.map(|(number, (scenario, process))| {
        let case = harness.case(scenario);
        let mut client = Client::new(Arc::clone(&case), harness.http.clone());
        async move {
            // Begun at different times, so that each kind of write meets an outage.
            tokio::time::sleep(Duration::from_millis(10) * u32::try_from(number).unwrap()).await;
            in_time(&case, async {
                client.go_on(&process.base).await;
                client.settle(&process.base).await;
            })
            .await;
            (case, client)
        }
    });
    let played = join_all(played).await;
    done.send_replace(true);
    assert!(outages.await.unwrap() > 0, "there were outages");
    let mut differing = Vec::new();
    for ((case, client), ((whole, _), scenario)) in played.iter().zip(wholes.iter().zip(&scenarios)) {
        let found = whole.differences(&Observation::of(case, &harness.world.seen(case), client));
        let found: Vec<_> = found.iter().map(ToString::to_string).collect();
        differing.extend((!found.is_empty()).then(|| format!("{scenario:#?}: {}", found.join("\n"))));
    }
    assert!(differing.is_empty(), "{} of {CASES} differ: {}", differing.len(), differing[0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_server_was_away_is_the_run_whose_server_was_there() {
    let cluster = Cluster::start(&[]);
    let (url, harness) = (cluster.url("postgres"), Harness::new().await);
    // Each would take over what the other has left.
    let one = harness.process(&Named(&url, "one")).await;
    let other = harness.process(&Named(&url, "other")).await;
    hold(&harness, &[&one, &other], cluster, LEASE + Duration::from_secs(1)).await;
    one.kill().await;
    other.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_file_was_locked_is_the_run_whose_file_was_free() {
    let (database, harness) = (Sqlite(tempfile::tempdir().unwrap()), Harness::new().await);
    let process = harness.process(&database).await;
    let locking = Locking(Connection::open(database.0.path().join("antwort.db")).unwrap());
    hold(&harness, &[&process], locking, LOCKED).await;
    process.kill().await;
}
