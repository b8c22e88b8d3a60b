//! The bus between processes: what one is told reaches the others, and a lost connection is only slower.

use std::sync::Arc;
use std::time::{Duration, Instant};

use antwort::protocol::id::Id;
use antwort_bus::{Bus, NatsOptions};
use antwort_telemetry::metrics::Metrics;

use antwort_test_support::eventually;
use antwort_test_support::nats::NatsServer;
use antwort_test_support::postgres::Database;

const POLL: Duration = Duration::from_millis(50);

fn on_nats(server: &NatsServer, subject: &str) -> Bus {
    with_metrics(server, subject).0
}

fn with_metrics(server: &NatsServer, subject: &str) -> (Bus, Arc<Metrics>) {
    let servers = vec![server.url().parse().unwrap()];
    let metrics = Metrics::new();
    (Bus::nats(NatsOptions { servers, subject: subject.to_owned() }, POLL, &metrics), metrics)
}

async fn connected(buses: &[&Bus], expected: bool) {
    assert!(eventually(async || buses.iter().all(|bus| bus.is_connected() == expected)).await);
}

/// All kinds of signals, from one to the other.
async fn holds(from: &Bus, to: &Bus) {
    let (a, b) = (Id::from("resp_a"), Id::from("resp_b"));
    let (mut first, mut second) = (to.watch_run(&a), to.watch_run(&b));
    // The subscription may be younger than the connection: signals are hints.
    let told = async {
        loop {
            from.run_advanced(&a, 7);
            from.run_ended(&b);
            from.cancel_requested();
            from.job_queued();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let heard = async {
        first.advanced_beyond(6).await;
        second.ended().await;
        to.cancellation().await;
        let began = Instant::now();
        to.job_or_poll().await;
        assert!(began.elapsed() < to.poll_interval(), "it was told, and did not only look");
    };
    tokio::select! {
        () = told => {}
        heard = tokio::time::timeout(Duration::from_secs(30), heard) => heard.unwrap(),
    }
}

#[tokio::test]
async fn a_process_hears_itself_without_any_server() {
    for bus in [Bus::local(), Bus::poll(POLL)] {
        holds(&bus, &bus).await;
    }
    assert!(Bus::local().is_connected() && !Bus::poll(POLL).is_connected());
    assert_eq!(Bus::poll(POLL).poll_interval(), POLL);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_hear_each_other_over_nats_and_again_after_it_was_killed() {
    let mut server = NatsServer::start();
    let ((one, metrics), other) = (with_metrics(&server, "a.signals"), on_nats(&server, "a.signals"));
    let shows = |line: &str| metrics.render().lines().any(|shown| shown == line);
    connected(&[&one, &other], true).await;
    assert!(shows("antwort_bus_connected 1"));
    holds(&one, &other).await;
    assert!(one.poll_interval() > POLL, "with the bus it is enough to look now and then");

    server.kill();
    connected(&[&one, &other], false).await;
    assert_eq!(one.poll_interval(), POLL);
    one.job_queued();
    assert!(
        eventually(async || shows("antwort_bus_signals_lost_total 1")).await,
        "nothing is kept for later"
    );
    assert!(shows("antwort_bus_connected 0"));
    // This process hears itself all the same.
    holds(&one, &one).await;

    server.restart();
    connected(&[&one, &other], true).await;
    holds(&one, &other).await;
    holds(&other, &one).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_hear_each_other_over_postgresql_and_again_after_their_connections_were_cut() {
    let database = Database::empty().await;
    let bus = || antwort_store_postgres::bus(&database.url(), POLL, &Metrics::new()).unwrap();
    let (one, other) = (bus(), bus());
    connected(&[&one, &other], true).await;
    holds(&one, &other).await;
    assert!(one.poll_interval() > POLL);

    let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let cut = database.sql().await.query(cut, &[]).await.unwrap();
    assert_eq!(cut.len(), 2, "each has one connection");
    connected(&[&one, &other], false).await;
    holds(&one, &one).await;
    connected(&[&one, &other], true).await;
    holds(&one, &other).await;
    holds(&other, &one).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fleets_with_other_subjects_do_not_hear_each_other() {
    let server = NatsServer::start();
    let (one, other) = (on_nats(&server, "a.signals"), on_nats(&server, "b.signals"));
    connected(&[&one, &other], true).await;
    let mut watch = other.watch_run(&"resp_a".into());
    for _ in 0..10 {
        one.run_ended(&"resp_a".into());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let heard = tokio::time::timeout(Duration::from_millis(200), watch.ended()).await;
    assert!(heard.is_err());
}

/// A bus may be configured before its server runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_starts_later_is_found() {
    let mut server = NatsServer::start();
    server.kill();
    let bus = on_nats(&server, "a.signals");
    assert!(!bus.is_connected());
    server.restart();
    connected(&[&bus], true).await;
}
