//! Rows of runs that cannot be read. One of them once stopped each claim, or each recovery, of all processes.

use antwort::store::{ClaimedJob, OrphanedRun, ResponseRecord, Store};

use super::jobs::job;
use super::{Folder, owner, replica, running, turn};
use antwort_test_support::postgres::Database;

/// Queues a run, and begins one that will be an orphan.
async fn left(store: &dyn Store) {
    store.enqueue(job()).await.unwrap();
    store.begin(running(), Some(b"state"[..].into())).await.unwrap();
}

async fn found(store: &dyn Store) -> (Vec<ClaimedJob>, Vec<OrphanedRun>) {
    (store.claim_jobs(10).await.unwrap(), store.take_orphaned(10).await.unwrap())
}

/// The first of each has damaged items, and the last ones are whole.
async fn ends_what_is_damaged(store: &dyn Store) {
    let (jobs, orphans) = found(store).await;
    assert_eq!((jobs.len(), orphans.len()), (2, 2));
    assert_eq!((&*jobs[0].spec, &*jobs[1].spec), (&b""[..], &b"spec"[..]), "without a job it fails");
    let states = [&jobs[0].run, &jobs[1].run, &orphans[0], &orphans[1]].map(|run| run.state.is_some());
    assert_eq!(states, [false, true, false, true]);
    for run in [&jobs[0].run, &orphans[0]] {
        let end = ResponseRecord { lease: run.lease.clone(), ..turn(None, "q", "a") };
        store.finish(end).await.unwrap();
        assert!(store.response(&owner(), run.lease.id.as_str(), u64::MAX).await.unwrap().is_some());
    }
}

/// The first of each cannot be named, and is asked for once.
async fn passes_over_what_has_no_name(store: &dyn Store) {
    let (jobs, orphans) = found(store).await;
    assert_eq!((jobs.len(), orphans.len()), (1, 1));
    let (jobs, orphans) = found(store).await;
    assert_eq!((jobs.len(), orphans.len()), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_file_others_are_claimed_and_ended() {
    for (damage, is_named) in [
        ("UPDATE responses SET item_index = x'ff'", true),
        ("UPDATE owners SET tenant = CAST(x'ff' AS TEXT)", false),
    ] {
        let folder = Folder::new();
        for (name, damage) in [("gone", damage), ("gone too", "")] {
            let gone = folder.instance(name);
            left(&*gone).await;
            gone.close().await;
            folder.sql().execute_batch(damage).unwrap();
        }
        let store = folder.instance("other");
        match is_named {
            true => ends_what_is_damaged(&*store).await,
            false => passes_over_what_has_no_name(&*store).await,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_postgres_others_are_claimed_and_ended() {
    for (damage, is_named) in
        [(r"UPDATE responses SET item_index = '\xff'", true), (r"UPDATE owners SET tenant = '\xff'", false)]
    {
        let database = Database::new().await;
        for (name, damage) in [("gone", damage), ("gone too", "")] {
            let gone = replica(&database, name);
            left(&*gone).await;
            gone.close().await;
            database.sql().await.batch_execute(damage).await.unwrap();
        }
        let store = replica(&database, "other");
        match is_named {
            true => ends_what_is_damaged(&*store).await,
            false => passes_over_what_has_no_name(&*store).await,
        }
    }
}
