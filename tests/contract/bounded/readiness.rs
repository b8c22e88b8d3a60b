//! Readiness probes, for which nobody needs a key: however many ask, store and provider are asked once a second.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use antwort::config::{ReadyRequirement, Settings};
use futures_util::future::join_all;
use tokio::net::TcpListener;

use antwort_test_support::gateway::Gateway;

/// One page and its header in the write-ahead log.
const FRAME: u64 = 4096 + 24;

fn requires_provider(settings: &mut Settings) {
    settings.server.ready_requires = vec![ReadyRequirement::Store, ReadyRequirement::Provider];
}

#[tokio::test]
async fn probes_ask_provider_and_store_once_a_second_however_many_they_are() {
    let down = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", down.local_addr().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    #[expect(clippy::disallowed_methods, reason = "the task ends with the test's runtime")]
    tokio::spawn(async move {
        while let Ok((stream, _)) = down.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            drop(stream);
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("test.db");
    let gateway =
        Gateway::with_upstream_url(&url).set(requires_provider).database(database.clone()).spawn().await;
    let log = || std::fs::metadata(database.with_extension("db-wal")).map_or(0, |file| file.len());

    let first = gateway.get("/readyz").await;
    assert_eq!((first.status, &first.body["checks"]["provider"]), (503, &"unavailable".into()));
    let (started, before) = (Instant::now(), log());
    asked.store(0, Ordering::Relaxed);
    for _ in 0..20 {
        let answers = join_all((0..20).map(|_| gateway.get("/readyz"))).await;
        assert!(answers.iter().all(|answer| answer.body == first.body));
    }
    let looks = started.elapsed().as_secs() as usize + 2;
    // A library may try a connection that was closed under its request twice.
    assert!(asked.load(Ordering::Relaxed) <= 2 * looks, "{asked:?} connections to the provider");
    let grown = log().saturating_sub(before);
    assert!(grown <= 4 * FRAME * looks as u64, "{grown} bytes were written");
}

/// What was found was kept from the beginning of a look, and so not at all where that takes three seconds.
#[tokio::test]
async fn a_provider_that_hangs_makes_one_probe_of_a_series_wait_and_not_each() {
    const PROBES: usize = 20;
    let hangs = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", hangs.local_addr().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    #[expect(clippy::disallowed_methods, reason = "the task ends with the test's runtime")]
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((stream, _)) = hangs.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            open.push(stream);
        }
    });
    let gateway = Gateway::with_upstream_url(&url).set(requires_provider).spawn().await;
    let started = Instant::now();
    for _ in 0..PROBES {
        let answer = gateway.get("/readyz").await;
        assert_eq!((answer.status, &answer.body["checks"]["provider"]), (503, &"unavailable".into()));
    }
    // A look takes three seconds, and what it found is kept for one.
    let looks = started.elapsed().as_secs() as usize / 4 + 1;
    let asked = asked.load(Ordering::Relaxed);
    assert!((1..=looks).contains(&asked), "{asked} requests to the provider for {PROBES} probes");
}
