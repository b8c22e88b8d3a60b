//! The law of interruption: a run that is interrupted, and continued by another process, is the run that was never interrupted.
//! What the provider and the tools see, the items, the usage, the status and the trace are the same.
//!
//! The process is lost at a commit, before anything that follows is sent, or anywhere else. Then two things may differ: the
//! inference in flight is asked for again with the same bytes, and a call that was begun is repeated under its key, or has an
//! unknown outcome if it must not be.

mod client;
mod observation;
mod outages;
mod process;
mod regressions;
mod scenario;
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use antwort::store::Store;
use antwort_store_sqlite::{Location, SqliteOptions, SqliteStore};
use antwort_test_support::hooked_store::HookedStore;
use antwort_test_support::postgres::Database;
use futures_util::future::join_all;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use self::client::Client;
use self::observation::{Difference, Observation};
use self::process::Process;
use self::regressions::{everywhere, regressions};
use self::scenario::{Scenario, scenarios};
use self::world::{Case, StopsAtCommits, World};

/// Cases that share their processes.
const BATCH: usize = 100;
/// The seed of the cases; `ANTWORT_LAW_SEED` sets another.
const SEED: u64 = 44;
/// How long a case may take.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Opens the store of a process, which has the name of the one before it: its leases need not expire.
trait Backend {
    async fn open(&self) -> Arc<dyn Store>;
}

struct Sqlite(tempfile::TempDir);

impl Backend for Sqlite {
    async fn open(&self) -> Arc<dyn Store> {
        let file = Location::File(self.0.path().join("antwort.db"));
        Arc::new(SqliteStore::open(SqliteOptions::new(file, "process")).unwrap())
    }
}

impl Backend for Database {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(self.open(|options| options.instance = "process".to_owned()).await)
    }
}

/// Plays scenarios.
struct Harness {
    world: Arc<World>,
    http: reqwest::Client,
    played: AtomicUsize,
    interrupted: AtomicUsize,
}

impl Harness {
    async fn new() -> Self {
        let world = World::new().await;
        let http = reqwest::Client::builder().user_agent("antwort-tests").build().unwrap();
        Self { world, http, played: AtomicUsize::new(0), interrupted: AtomicUsize::new(0) }
    }

    async fn process(&self, database: &impl Backend) -> Process {
        let hooks = Arc::new(StopsAtCommits(Arc::clone(&self.world)));
        let store = HookedStore::new(database.open().await, hooks);
        Process::start(&self.world, store).await
    }

    /// Plays scenarios at the same time, each twice: as a whole, and interrupted. Returns how the two differ.
    async fn play(&self, database: &impl Backend, scenarios: &[Scenario]) -> Vec<Vec<Difference>> {
        let first = self.process(database).await;
        let wholes = join_all(scenarios.iter().map(|scenario| self.whole(scenario, &first.base))).await;
        self.world.delivers.store(false, Ordering::SeqCst);
        let mut clients: Vec<_> = scenarios
            .iter()
            .zip(&wholes)
            .map(|(scenario, (_, seen))| {
                let case = self.case(scenario);
                case.interrupt_like(seen);
                (Client::new(Arc::clone(&case), self.http.clone()), case)
            })
            .collect();
        join_all(clients.iter_mut().map(|(client, case)| async {
            tokio::select! {
                () = case.stopped() => { self.interrupted.fetch_add(1, Ordering::Relaxed); }
                () = in_time(case, client.go_on(&first.base)) => {}
            }
        }))
        .await;
        first.kill().await;
        self.world.delivers.store(true, Ordering::SeqCst);
        let second = self.process(database).await;
        join_all(clients.iter_mut().map(|(client, case)| {
            case.go_on();
            in_time(case, async {
                client.go_on(&second.base).await;
                client.settle(&second.base).await;
            })
        }))
        .await;
        second.kill().await;
        let observed =
            clients.iter().map(|(client, case)| Observation::of(case, &self.world.seen(case), client));
        let found = observed.zip(wholes).zip(scenarios).map(|((interrupted, (whole, _)), scenario)| {
            let allowing = |observation: Observation| observation.allowing(scenario);
            allowing(whole).differences(&allowing(interrupted))
        });
        let found = found.collect();
        clients.iter().for_each(|(_, case)| self.world.remove(case));
        found
    }

    async fn whole(&self, scenario: &Scenario, base: &str) -> (Observation, world::Seen) {
        let case = self.case(scenario);
        let mut client = Client::new(Arc::clone(&case), self.http.clone());
        in_time(&case, async {
            client.go_on(base).await;
            client.settle(base).await;
        })
        .await;
        self.world.remove(&case);
        let seen = self.world.seen(&case);
        (Observation::of(&case, &seen, &client), seen)
    }

    fn case(&self, scenario: &Scenario) -> Arc<Case> {
        let number = self.played.fetch_add(1, Ordering::Relaxed);
        self.world.add(format!("model-{number:08}"), scenario.clone())
    }
}

async fn in_time(case: &Case, played: impl Future<Output = ()>) {
    let is_done = tokio::time::timeout(TIMEOUT, played).await.is_ok();
    let waits_for = *case.waits_for.lock();
    assert!(is_done, "it does not end: {}, for {waits_for}: {:#?}", case.name, case.scenario);
}

/// The scenario in its shortest form that differs, and how.
async fn shrunk(
    harness: &Harness,
    database: &impl Backend,
    mut tree: impl ValueTree<Value = Scenario>,
    found: Vec<Difference>,
) -> (Scenario, Vec<Difference>) {
    let mut worst = (tree.current(), found);
    for _ in 0..200 {
        let scenario = tree.current();
        let found = harness.play(database, std::slice::from_ref(&scenario)).await.remove(0);
        let goes_on = match found.is_empty() {
            false => {
                worst = (scenario, found);
                tree.simplify()
            }
            true => tree.complicate(),
        };
        if !goes_on {
            break;
        }
    }
    worst
}

async fn hold(database: &impl Backend, cases: usize) {
    let number =
        |name: &str, otherwise: u64| std::env::var(name).map_or(otherwise, |text| text.parse().unwrap());
    let seed = number("ANTWORT_LAW_SEED", SEED);
    let cases = usize::try_from(number("ANTWORT_LAW_CASES", cases as u64)).unwrap();
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut runner =
        TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let harness = Harness::new().await;
    let mut played = 0;
    while played < cases {
        let trees: Vec<_> = (0..BATCH).map(|_| scenarios().new_tree(&mut runner).unwrap()).collect();
        let batch: Vec<_> = trees.iter().map(ValueTree::current).collect();
        let found = harness.play(database, &batch).await;
        for (tree, found) in trees.into_iter().zip(found) {
            if !found.is_empty() {
                let (scenario, found) = shrunk(&harness, database, tree, found).await;
                let found: Vec<_> = found.iter().map(ToString::to_string).collect();
                panic!(
                    "seed {seed}: a run that was interrupted differs: {scenario:#?}\n{}",
                    found.join("\n")
                );
            }
        }
        played += BATCH;
    }
    let interrupted = harness.interrupted.load(Ordering::Relaxed);
    // Some have no calls that could be interrupted.
    assert!(interrupted * 10 > played * 8, "{interrupted} of {played} were interrupted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_that_went_on_otherwise_go_on_as_they_have_begun() {
    let (database, harness) = (Sqlite(tempfile::tempdir().unwrap()), Harness::new().await);
    let named = regressions().into_iter();
    let scenarios: Vec<_> =
        named.flat_map(|(broken, of)| everywhere(&of).into_iter().map(move |at| (broken, at))).collect();
    for named in scenarios.chunks(BATCH) {
        let batch: Vec<_> = named.iter().map(|(_, scenario)| scenario.clone()).collect();
        for (found, (broken, at)) in harness.play(&database, &batch).await.iter().zip(named) {
            let found: Vec<_> = found.iter().map(ToString::to_string).collect();
            assert!(found.is_empty(), "{broken}, at {:?}: {}", at.interruption, found.join("\n"));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_run_is_the_run_that_was_not_interrupted_on_sqlite() {
    hold(&Sqlite(tempfile::tempdir().unwrap()), 2000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_run_is_the_run_that_was_not_interrupted_on_postgres() {
    hold(&Database::new().await, 200).await;
}
