//! What every store does with idempotency keys and the logs of their runs.

use antwort::protocol::response::ResponseStatus;
use antwort::store::{
    IdempotencyKey, KeyedRun, LogEnd, LogExtent, LogPage, LoggedEvents, Owner, ResponseRecord, Store,
    StoreError,
};
use futures_util::future::join_all;

use super::{LEASE, Open, SHORT, owned_by, owner, running};

fn key(name: &str) -> IdempotencyKey {
    IdempotencyKey { key: name.into(), fingerprint: [7; 32] }
}

/// Events of these numbers, encoded as such.
pub(super) fn events(first: u64, last: u64) -> LoggedEvents {
    let bytes = (first..=last).map(|number| format!("<{number}>")).collect::<String>().into_bytes();
    LoggedEvents { first, last, bytes }
}

/// A run with this key and the two events that it begins with.
pub(super) fn keyed(name: &str) -> KeyedRun {
    KeyedRun { key: key(name), record: running(), state: None, events: Some(events(0, 1)) }
}

fn ended(run: &KeyedRun) -> ResponseRecord {
    ResponseRecord { status: ResponseStatus::Completed, ..run.record.clone() }
}

/// The numbers of the next event, whether a page is the last, and whether the run goes on.
async fn page(
    store: &dyn Store,
    run: &KeyedRun,
    from: u64,
    max_bytes: u64,
) -> Option<(String, u64, bool, bool)> {
    let found =
        store.logged_events(&run.record.owner, &run.record.lease.id, from, max_bytes).await.unwrap()?;
    let LogPage { bytes, next, is_end, is_running } = found;
    Some((String::from_utf8(bytes).unwrap(), next, is_end, is_running))
}

async fn exists(store: &dyn Store, run: &KeyedRun) -> bool {
    store.response(&run.record.owner, run.record.lease.id.as_str(), u64::MAX).await.unwrap().is_some()
}

pub(super) async fn a_key_leads_to_the_response_that_it_was_begun_with(store: &dyn Store) {
    let run = keyed("k");
    assert_eq!(store.keyed_response(&owner(), "k").await.unwrap(), None);
    assert_eq!(store.begin_keyed(run.clone()).await.unwrap(), None);
    let found = store.keyed_response(&owner(), "k").await.unwrap().unwrap();
    assert_eq!((&found.id, found.fingerprint, found.is_running), (&run.record.lease.id, [7; 32], true));
    assert!(exists(store, &run).await);
    let second = keyed("k");
    assert_eq!(store.begin_keyed(second.clone()).await.unwrap().unwrap().id, run.record.lease.id);
    assert!(!exists(store, &second).await, "nothing is written of the second");
    store.finish_logged(ended(&run), LogEnd { keep_below: None, events: None }).await.unwrap();
    assert!(!store.keyed_response(&owner(), "k").await.unwrap().unwrap().is_running);
    assert!(store.begin_keyed(second).await.unwrap().is_some());
}

pub(super) async fn of_many_begins_with_one_key_one_is_made(store: &dyn Store) {
    let runs: Vec<_> = (0..50).map(|_| keyed("k")).collect();
    let begun = join_all(runs.iter().map(|run| store.begin_keyed(run.clone()))).await;
    let winners: Vec<_> =
        runs.iter().zip(&begun).filter(|(_, begun)| begun.as_ref().unwrap().is_none()).collect();
    let [(winner, _)] = &winners[..] else { panic!("{} were begun", winners.len()) };
    for found in begun.iter().filter_map(|begun| begun.as_ref().unwrap().as_ref()) {
        assert_eq!(found.id, winner.record.lease.id);
    }
    for run in &runs {
        assert_eq!(exists(store, run).await, run.record.lease == winner.record.lease);
    }
}

pub(super) async fn a_key_is_its_owners(store: &dyn Store) {
    let (mine, mut others) = (keyed("k"), keyed("k"));
    others.record.owner = owned_by("acme", "bob");
    assert_eq!(store.begin_keyed(mine.clone()).await.unwrap(), None);
    assert_eq!(store.keyed_response(&others.record.owner, "k").await.unwrap(), None);
    assert_eq!(store.begin_keyed(others.clone()).await.unwrap(), None);
    let of = async |owner: &Owner| store.keyed_response(owner, "k").await.unwrap().unwrap().id;
    assert_eq!(of(&owner()).await, mine.record.lease.id);
    assert_eq!(of(&others.record.owner).await, others.record.lease.id);
    let read = store.logged_events(&owner(), &others.record.lease.id, 0, u64::MAX).await.unwrap();
    assert_eq!(read, None, "nor can the log be read");
}

pub(super) async fn a_withdrawn_run_leaves_nothing_and_its_key_is_free(store: &dyn Store) {
    let run = keyed("k");
    store.begin_keyed(run.clone()).await.unwrap();
    store.withdraw(run.record.lease.clone()).await.unwrap();
    assert!(!exists(store, &run).await);
    assert_eq!(page(store, &run, 0, 100).await, None);
    let again = keyed("k");
    assert_eq!(store.begin_keyed(again.clone()).await.unwrap(), None);
    store.finish_logged(ended(&again), LogEnd { keep_below: None, events: None }).await.unwrap();
    let late = store.withdraw(again.record.lease.clone()).await;
    assert!(matches!(late, Err(StoreError::Superseded)), "what has ended stays: {late:?}");
    assert!(exists(store, &again).await);
}

pub(super) async fn deleting_a_response_deletes_its_key_and_its_log(store: &dyn Store) {
    for has_ended in [false, true] {
        let run = keyed("k");
        store.begin_keyed(run.clone()).await.unwrap();
        if has_ended {
            store.finish_logged(ended(&run), LogEnd { keep_below: None, events: None }).await.unwrap();
        }
        assert!(store.delete(&owner(), run.record.lease.id.as_str()).await.unwrap());
        assert_eq!(store.keyed_response(&owner(), "k").await.unwrap(), None);
        assert_eq!(page(store, &run, 0, 100).await, None);
    }
    assert_eq!(store.begin_keyed(keyed("k")).await.unwrap(), None);
}

pub(super) async fn a_log_is_read_in_pieces_as_it_was_written(store: &dyn Store) {
    let run = keyed("k");
    store.begin_keyed(run.clone()).await.unwrap();
    store.log_events(&run.record.lease, events(2, 3)).await.unwrap();
    store.log_events(&run.record.lease, events(4, 9)).await.unwrap();
    let all = "<0><1><2><3><4><5><6><7><8><9>".to_owned();
    assert_eq!(page(store, &run, 0, 1000).await, Some((all, 10, false, true)));
    assert_eq!(page(store, &run, 0, 12).await, Some(("<0><1><2><3>".to_owned(), 4, false, true)));
    let rest = store.logged_events(&owner(), &run.record.lease.id, 4, 12).await;
    assert!(matches!(rest, Err(StoreError::TooLarge { bytes: 18 })), "{rest:?}");
    assert_eq!(page(store, &run, 10, 1000).await, Some((String::new(), 10, false, true)), "more may come");
}

pub(super) async fn a_log_ends_with_its_response(store: &dyn Store) {
    let run = keyed("k");
    store.begin_keyed(run.clone()).await.unwrap();
    let extent = store.log_extent(&owner(), &run.record.lease.id).await.unwrap();
    assert_eq!(extent, Some(LogExtent { begun: 2, next: 2 }));
    let end = LogEnd { keep_below: None, events: Some(events(2, 2)) };
    store.finish_logged(ended(&run), end.clone()).await.unwrap();
    assert_eq!(page(store, &run, 0, 1000).await, Some(("<0><1><2>".to_owned(), 3, true, false)));
    assert!(matches!(store.finish_logged(ended(&run), end).await, Err(StoreError::Superseded)));
    let extent = store.log_extent(&owner(), &run.record.lease.id).await.unwrap();
    assert_eq!(extent, Some(LogExtent { begun: 2, next: 3 }));
}

pub(super) async fn a_log_is_cut_before_it_ends(store: &dyn Store) {
    let run = keyed("k");
    store.begin_keyed(run.clone()).await.unwrap();
    store.log_events(&run.record.lease, events(2, 5)).await.unwrap();
    let end = LogEnd { keep_below: Some(2), events: Some(events(2, 3)) };
    store.finish_logged(ended(&run), end).await.unwrap();
    assert_eq!(page(store, &run, 0, 1000).await, Some(("<0><1><2><3>".to_owned(), 4, true, false)));
    let other = keyed("other");
    store.begin_keyed(other.clone()).await.unwrap();
    store.finish_logged(ended(&other), LogEnd { keep_below: Some(0), events: None }).await.unwrap();
    assert_eq!(page(store, &other, 0, 1000).await, None, "the whole of it");
}

pub(super) async fn a_log_with_a_gap_is_read_up_to_it(store: &dyn Store) {
    let run = keyed("k");
    store.begin_keyed(run.clone()).await.unwrap();
    store.log_events(&run.record.lease, events(4, 5)).await.unwrap();
    store.finish_logged(ended(&run), LogEnd { keep_below: None, events: Some(events(6, 6)) }).await.unwrap();
    assert_eq!(page(store, &run, 0, 1000).await, Some(("<0><1>".to_owned(), 2, false, false)));
    assert_eq!(page(store, &run, 2, 1000).await, None);
}

pub(super) async fn events_of_a_run_that_was_deleted_or_has_ended_are_not_kept(store: &dyn Store) {
    let run = keyed("k");
    store.begin_keyed(run.clone()).await.unwrap();
    store.delete(&owner(), run.record.lease.id.as_str()).await.unwrap();
    store.log_events(&run.record.lease, events(2, 3)).await.unwrap();
    store.finish_logged(ended(&run), LogEnd { keep_below: None, events: Some(events(4, 4)) }).await.unwrap();
    assert_eq!((page(store, &run, 0, 100).await, exists(store, &run).await), (None, false));
    let run = keyed("k");
    store.begin_keyed(run.clone()).await.unwrap();
    store.finish_logged(ended(&run), LogEnd { keep_below: None, events: Some(events(2, 2)) }).await.unwrap();
    let late = store.log_events(&run.record.lease, events(3, 3)).await;
    assert!(matches!(late, Err(StoreError::Superseded)), "{late:?}");
}

pub(super) async fn a_key_does_not_outlive_its_response(store: &dyn Store) {
    let run = keyed("k");
    store.begin_keyed(run.clone()).await.unwrap();
    store.finish_logged(ended(&run), LogEnd { keep_below: None, events: None }).await.unwrap();
    tokio::time::sleep(SHORT + SHORT / 4).await;
    assert_eq!(store.keyed_response(&owner(), "k").await.unwrap(), None);
    assert_eq!(store.begin_keyed(keyed("k")).await.unwrap(), None, "before maintenance, too");
}

pub(super) async fn an_orphan_with_a_log_is_ended_by_another_process(open: Open<'_>) {
    let (gone, other) = (open("gone"), open("other"));
    let run = keyed("k");
    gone.begin_keyed(run.clone()).await.unwrap();
    gone.log_events(&run.record.lease, events(2, 5)).await.unwrap();
    tokio::time::sleep(LEASE + LEASE / 4).await;
    let orphans = other.take_orphaned(10).await.unwrap();
    let [orphan] = &orphans[..] else { panic!("{orphans:?}") };
    assert!(matches!(gone.log_events(&run.record.lease, events(6, 6)).await, Err(StoreError::Superseded)));
    assert!(matches!(gone.withdraw(run.record.lease.clone()).await, Err(StoreError::Superseded)));
    let record = ResponseRecord { lease: orphan.lease.clone(), ..ended(&run) };
    let end = LogEnd { keep_below: Some(2), events: Some(events(2, 2)) };
    other.finish_logged(record, end).await.unwrap();
    for store in [&gone, &other] {
        assert_eq!(page(&**store, &run, 0, 1000).await, Some(("<0><1><2>".to_owned(), 3, true, false)));
        assert!(store.keyed_response(&owner(), "k").await.unwrap().is_some());
    }
}

pub(super) async fn of_processes_that_begin_with_one_key_one_does(open: Open<'_>) {
    let (one, two) = (open("one"), open("two"));
    for number in 0..10 {
        let name = format!("k{number}");
        let runs: Vec<_> = (0..8).map(|_| keyed(&name)).collect();
        let begun = runs.iter().zip([&one, &two].into_iter().cycle());
        let begun = join_all(begun.map(|(run, store)| store.begin_keyed(run.clone()))).await;
        let winners: Vec<_> =
            runs.iter().zip(&begun).filter(|(_, begun)| begun.as_ref().unwrap().is_none()).collect();
        let [(winner, _)] = &winners[..] else { panic!("{} were begun", winners.len()) };
        for found in begun.iter().filter_map(|begun| begun.as_ref().unwrap().as_ref()) {
            assert_eq!(found.id, winner.record.lease.id);
        }
        for run in &runs {
            assert_eq!(exists(&*two, run).await, run.record.lease == winner.record.lease);
        }
    }
}

pub(super) async fn a_key_that_one_process_withdraws_is_free_for_another(open: Open<'_>) {
    let (one, two) = (open("one"), open("two"));
    for _ in 0..10 {
        let (first, second) = (keyed("k"), keyed("k"));
        assert_eq!(one.begin_keyed(first.clone()).await.unwrap(), None);
        let (withdrawn, begun) =
            tokio::join!(one.withdraw(first.record.lease.clone()), two.begin_keyed(second.clone()));
        withdrawn.unwrap();
        // Whichever was first: no key leads to what was withdrawn.
        assert!(!exists(&*two, &first).await);
        if begun.unwrap().is_none() {
            two.withdraw(second.record.lease).await.unwrap();
        }
        assert_eq!(two.keyed_response(&owner(), "k").await.unwrap(), None);
    }
}
