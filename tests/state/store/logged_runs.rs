//! What every store does with idempotency keys and the logs of their runs.

use antwort::protocol::response::ResponseStatus;
use antwort::store::{
    ErasureTarget, IdempotencyKey, KeyUse, LogEnd, LogExtent, LogKept, LogPage, LoggedEvents, LoggedRun,
    Owner, ResponseRecord, Store, StoreError,
};
use futures_util::future::join_all;

use super::{Folder, LEASE, Open, SHORT, owned_by, owner, running};

fn key(name: &str) -> IdempotencyKey {
    IdempotencyKey { key: name.into(), fingerprint: [7; 32] }
}

/// Events of these numbers, encoded as such.
pub(super) fn events(first: u64, last: u64) -> LoggedEvents {
    let bytes = (first..=last).map(|number| format!("<{number}>")).collect::<String>().into_bytes();
    LoggedEvents { first, last, bytes }
}

/// A run with this key and the two events that it begins with.
pub(super) fn keyed(name: &str) -> LoggedRun {
    LoggedRun { key: Some(key(name)), record: running(), state: None, events: Some(events(0, 1)) }
}

fn ended(run: &LoggedRun) -> ResponseRecord {
    ResponseRecord { status: ResponseStatus::Completed, ..run.record.clone() }
}

/// The numbers of the next event, whether a page is the last, and whether the run goes on.
async fn page(
    store: &dyn Store,
    run: &LoggedRun,
    from: u64,
    max_bytes: u64,
) -> Option<(String, u64, bool, bool)> {
    let found =
        store.logged_events(&run.record.owner, &run.record.lease.id, from, max_bytes).await.unwrap()?;
    let LogPage { bytes, next, is_end, is_running, .. } = found;
    Some((String::from_utf8(bytes).unwrap(), next, is_end, is_running))
}

/// A run with a log and without a key.
fn unkeyed() -> LoggedRun {
    LoggedRun { key: None, ..keyed("") }
}

/// Whether the run goes on, and what there is of its log.
async fn state(store: &dyn Store, run: &LoggedRun) -> (bool, LogKept) {
    let found = store.log_state(&run.record.owner, &run.record.lease.id).await.unwrap().unwrap();
    (found.is_running, found.log)
}

fn kept(begun: u64, next: u64, replaced_from: Option<u64>) -> LogKept {
    LogKept::Kept(LogExtent { begun, next, replaced_from })
}

async fn exists(store: &dyn Store, run: &LoggedRun) -> bool {
    store.response(&run.record.owner, run.record.lease.id.as_str(), u64::MAX).await.unwrap().is_some()
}

pub(super) async fn a_key_leads_to_the_response_that_it_was_begun_with(store: &dyn Store) {
    let run = keyed("k");
    assert_eq!(store.keyed_response(&owner(), "k").await.unwrap(), None);
    assert_eq!(store.begin_logged(run.clone()).await.unwrap(), None);
    let found = store.keyed_response(&owner(), "k").await.unwrap().unwrap();
    assert_eq!((&found.id, found.fingerprint, found.is_running), (&run.record.lease.id, [7; 32], true));
    assert!(exists(store, &run).await);
    let second = keyed("k");
    assert_eq!(
        store.begin_logged(second.clone()).await.unwrap().unwrap().response().unwrap().id,
        run.record.lease.id
    );
    assert!(!exists(store, &second).await, "nothing is written of the second");
    store
        .finish_logged(ended(&run), LogEnd { keep_below: None, events: None, is_unlisted: false })
        .await
        .unwrap();
    assert!(!store.keyed_response(&owner(), "k").await.unwrap().unwrap().is_running);
    assert!(store.begin_logged(second).await.unwrap().is_some());
}

pub(super) async fn of_many_begins_with_one_key_one_is_made(store: &dyn Store) {
    let runs: Vec<_> = (0..50).map(|_| keyed("k")).collect();
    let begun = join_all(runs.iter().map(|run| store.begin_logged(run.clone()))).await;
    let winners: Vec<_> =
        runs.iter().zip(&begun).filter(|(_, begun)| begun.as_ref().unwrap().is_none()).collect();
    let [(winner, _)] = &winners[..] else { panic!("{} were begun", winners.len()) };
    for found in begun.iter().filter_map(|begun| begun.as_ref().unwrap().as_ref()) {
        assert_eq!(found.clone().response().unwrap().id, winner.record.lease.id);
    }
    for run in &runs {
        assert_eq!(exists(store, run).await, run.record.lease == winner.record.lease);
    }
}

pub(super) async fn a_key_is_its_owners(store: &dyn Store) {
    let (mine, mut others) = (keyed("k"), keyed("k"));
    others.record.owner = owned_by("acme", "bob");
    assert_eq!(store.begin_logged(mine.clone()).await.unwrap(), None);
    assert_eq!(store.keyed_response(&others.record.owner, "k").await.unwrap(), None);
    assert_eq!(store.begin_logged(others.clone()).await.unwrap(), None);
    let of = async |owner: &Owner| store.keyed_response(owner, "k").await.unwrap().unwrap().id;
    assert_eq!(of(&owner()).await, mine.record.lease.id);
    assert_eq!(of(&others.record.owner).await, others.record.lease.id);
    let read = store.logged_events(&owner(), &others.record.lease.id, 0, u64::MAX).await.unwrap();
    assert_eq!(read, None, "nor can the log be read");
}

pub(super) async fn a_withdrawn_run_leaves_nothing_and_its_key_is_free(store: &dyn Store) {
    let run = keyed("k");
    store.begin_logged(run.clone()).await.unwrap();
    store.withdraw(run.record.lease.clone()).await.unwrap();
    assert!(!exists(store, &run).await);
    assert_eq!(page(store, &run, 0, 100).await, None);
    let again = keyed("k");
    assert_eq!(store.begin_logged(again.clone()).await.unwrap(), None);
    store
        .finish_logged(ended(&again), LogEnd { keep_below: None, events: None, is_unlisted: false })
        .await
        .unwrap();
    let late = store.withdraw(again.record.lease.clone()).await;
    assert!(matches!(late, Err(StoreError::Superseded)), "what has ended stays: {late:?}");
    assert!(exists(store, &again).await);
}

pub(super) async fn deleting_a_response_deletes_its_log_and_leaves_its_key_alone(store: &dyn Store) {
    for (key, has_ended) in [("running", false), ("ended", true)] {
        let run = keyed(key);
        store.begin_logged(run.clone()).await.unwrap();
        if has_ended {
            store
                .finish_logged(ended(&run), LogEnd { keep_below: None, events: None, is_unlisted: false })
                .await
                .unwrap();
        }
        assert!(store.delete(&owner(), run.record.lease.id.as_str()).await.unwrap());
        assert_eq!(page(store, &run, 0, 100).await, None);
        let fingerprint = run.key.as_ref().unwrap().fingerprint;
        let deleted = Some(KeyUse::Deleted { fingerprint });
        assert_eq!(store.key_use(&owner(), key).await.unwrap(), deleted);
        assert_eq!(store.begin_logged(keyed(key)).await.unwrap(), deleted, "it is not begun again");
        assert_eq!(store.key_use(&owned_by("acme", "bob"), key).await.unwrap(), None, "it is its owner's");
    }
    let of_all = ErasureTarget { tenant: owner().tenant, principal: None };
    store.erase(&of_all).await.unwrap();
    assert_eq!(store.key_use(&owner(), "ended").await.unwrap(), None, "an erasure leaves nothing");
    assert_eq!(store.begin_logged(keyed("ended")).await.unwrap(), None);
}

pub(super) async fn a_log_is_read_in_pieces_as_it_was_written(store: &dyn Store) {
    let run = keyed("k");
    store.begin_logged(run.clone()).await.unwrap();
    store.log_events(&run.record.lease, events(2, 3)).await.unwrap();
    store.log_events(&run.record.lease, events(4, 9)).await.unwrap();
    let all = "<0><1><2><3><4><5><6><7><8><9>".to_owned();
    assert_eq!(page(store, &run, 0, 1000).await, Some((all, 10, false, true)));
    assert_eq!(page(store, &run, 0, 12).await, Some(("<0><1><2><3>".to_owned(), 4, false, true)));
    let rest = store.logged_events(&owner(), &run.record.lease.id, 4, 12).await;
    assert!(matches!(rest, Err(StoreError::TooLarge { bytes: 18 })), "{rest:?}");
    assert_eq!(page(store, &run, 10, 1000).await, Some((String::new(), 10, false, true)), "more may come");
}

/// One query looks at some rows only, whatever fits.
pub(super) async fn a_log_of_many_small_rows_is_read_whole(store: &dyn Store) {
    const EVENTS: u64 = 300;
    let run = unkeyed();
    store.begin_logged(run.clone()).await.unwrap();
    let log = async |at| store.log_events(&run.record.lease, events(at, at)).await.unwrap();
    join_all((2..EVENTS).map(log)).await;
    let whole: String = (0..EVENTS).map(|at| format!("<{at}>")).collect();
    for max_bytes in [100, 100_000] {
        let (mut read, mut from) = (String::new(), 0);
        while from < EVENTS {
            let (text, next, is_end, is_running) = page(store, &run, from, max_bytes).await.unwrap();
            assert!(next > from && text.len() as u64 <= max_bytes && !is_end && is_running);
            read.push_str(&text);
            from = next;
        }
        assert_eq!(read, whole);
    }
}

/// Events of one commit stand together, and a stream may go on in their middle.
pub(super) async fn a_log_is_read_from_any_event_on(store: &dyn Store) {
    let run = unkeyed();
    assert_eq!(store.begin_logged(run.clone()).await.unwrap(), None);
    store.log_events(&run.record.lease, events(2, 4)).await.unwrap();
    store.log_events(&run.record.lease, events(5, 6)).await.unwrap();
    let read = async |from| {
        let id = &run.record.lease.id;
        let found = store.logged_events(&owner(), id, from, 1000).await.unwrap()?;
        Some((found.first, String::from_utf8(found.bytes).unwrap(), found.next))
    };
    assert_eq!(read(1).await, Some((0, "<0><1><2><3><4><5><6>".to_owned(), 7)));
    assert_eq!(read(3).await, Some((2, "<2><3><4><5><6>".to_owned(), 7)));
    assert_eq!(read(6).await, Some((5, "<5><6>".to_owned(), 7)));
    assert_eq!(read(20).await, Some((20, String::new(), 20)), "it may come");
    store
        .finish_logged(
            ended(&run),
            LogEnd { keep_below: None, events: Some(events(7, 7)), is_unlisted: false },
        )
        .await
        .unwrap();
    assert_eq!(read(7).await, Some((7, "<7>".to_owned(), 8)));
    assert_eq!(read(20).await, None, "it will not come");
    assert_eq!(state(store, &run).await, (false, kept(2, 8, None)));
}

#[tokio::test]
async fn a_log_is_kept_for_a_time_after_the_end_of_its_response() {
    let folder = Folder::new();
    let store: &dyn Store = &folder.open(|options| options.event_ttl = SHORT);
    let run = unkeyed();
    store.begin_logged(run.clone()).await.unwrap();
    tokio::time::sleep(SHORT + SHORT / 4).await;
    assert_eq!(state(store, &run).await, (true, kept(2, 2, None)), "the time begins at the end");
    store
        .finish_logged(
            ended(&run),
            LogEnd { keep_below: None, events: Some(events(2, 2)), is_unlisted: false },
        )
        .await
        .unwrap();
    assert_eq!(state(store, &run).await, (false, kept(2, 3, None)));
    tokio::time::sleep(SHORT + SHORT / 4).await;
    for _ in 0..2 {
        assert_eq!(state(store, &run).await, (false, LogKept::Gone), "before maintenance, too");
        assert_eq!(page(store, &run, 0, 1000).await, None);
        store.maintain().await.unwrap();
    }
    assert_eq!(folder.number("SELECT count(*) FROM event_log"), 0);
    assert!(exists(store, &run).await, "the response is kept");
}

pub(super) async fn a_response_without_a_log_is_known_as_such(store: &dyn Store) {
    let run = LoggedRun { events: None, ..keyed("k") };
    store.begin_logged(run.clone()).await.unwrap();
    assert_eq!(state(store, &run).await, (true, LogKept::Never));
    store.finish(ended(&run)).await.unwrap();
    assert_eq!(state(store, &run).await, (false, LogKept::Never));
    assert_eq!(page(store, &run, 0, 1000).await, None);
    let other = owned_by("acme", "bob");
    assert_eq!(store.log_state(&other, &run.record.lease.id).await.unwrap(), None, "it is its owner's");
}

pub(super) async fn a_log_ends_with_its_response(store: &dyn Store) {
    let run = keyed("k");
    store.begin_logged(run.clone()).await.unwrap();
    assert_eq!(state(store, &run).await, (true, kept(2, 2, None)));
    let end = LogEnd { keep_below: None, events: Some(events(2, 2)), is_unlisted: false };
    store.finish_logged(ended(&run), end.clone()).await.unwrap();
    assert_eq!(page(store, &run, 0, 1000).await, Some(("<0><1><2>".to_owned(), 3, true, false)));
    assert!(matches!(store.finish_logged(ended(&run), end).await, Err(StoreError::Superseded)));
    assert_eq!(state(store, &run).await, (false, kept(2, 3, None)));
}

pub(super) async fn a_log_is_cut_before_it_ends(store: &dyn Store) {
    let run = keyed("k");
    store.begin_logged(run.clone()).await.unwrap();
    store.log_events(&run.record.lease, events(2, 5)).await.unwrap();
    let end = LogEnd { keep_below: Some(2), events: Some(events(2, 3)), is_unlisted: false };
    store.finish_logged(ended(&run), end).await.unwrap();
    assert_eq!(page(store, &run, 0, 1000).await, Some(("<0><1><2><3>".to_owned(), 4, true, false)));
    assert_eq!(state(store, &run).await, (false, kept(2, 4, Some(2))), "who has seen more can find out");
    let other = keyed("other");
    store.begin_logged(other.clone()).await.unwrap();
    store
        .finish_logged(ended(&other), LogEnd { keep_below: Some(0), events: None, is_unlisted: false })
        .await
        .unwrap();
    assert_eq!(page(store, &other, 0, 1000).await, None, "the whole of it");
    assert_eq!(state(store, &other).await, (false, LogKept::Gone));
}

pub(super) async fn a_log_with_a_gap_is_read_up_to_it(store: &dyn Store) {
    let run = keyed("k");
    store.begin_logged(run.clone()).await.unwrap();
    store.log_events(&run.record.lease, events(4, 5)).await.unwrap();
    store
        .finish_logged(
            ended(&run),
            LogEnd { keep_below: None, events: Some(events(6, 6)), is_unlisted: false },
        )
        .await
        .unwrap();
    assert_eq!(page(store, &run, 0, 1000).await, Some(("<0><1>".to_owned(), 2, false, false)));
    assert_eq!(page(store, &run, 2, 1000).await, None);
}

pub(super) async fn events_of_a_run_that_was_deleted_or_has_ended_are_not_kept(store: &dyn Store) {
    let run = keyed("k");
    store.begin_logged(run.clone()).await.unwrap();
    store.delete(&owner(), run.record.lease.id.as_str()).await.unwrap();
    store.log_events(&run.record.lease, events(2, 3)).await.unwrap();
    store
        .finish_logged(
            ended(&run),
            LogEnd { keep_below: None, events: Some(events(4, 4)), is_unlisted: false },
        )
        .await
        .unwrap();
    assert_eq!((page(store, &run, 0, 100).await, exists(store, &run).await), (None, false));
    let run = keyed("k");
    store.begin_logged(run.clone()).await.unwrap();
    store
        .finish_logged(
            ended(&run),
            LogEnd { keep_below: None, events: Some(events(2, 2)), is_unlisted: false },
        )
        .await
        .unwrap();
    let late = store.log_events(&run.record.lease, events(3, 3)).await;
    assert!(matches!(late, Err(StoreError::Superseded)), "{late:?}");
}

pub(super) async fn a_key_does_not_outlive_its_response(store: &dyn Store) {
    let run = keyed("k");
    store.begin_logged(run.clone()).await.unwrap();
    store
        .finish_logged(ended(&run), LogEnd { keep_below: None, events: None, is_unlisted: false })
        .await
        .unwrap();
    tokio::time::sleep(SHORT + SHORT / 4).await;
    assert_eq!(store.keyed_response(&owner(), "k").await.unwrap(), None);
    assert_eq!(store.begin_logged(keyed("k")).await.unwrap(), None, "before maintenance, too");
}

pub(super) async fn an_orphan_with_a_log_is_ended_by_another_process(open: Open<'_>) {
    let (gone, other) = (open("gone"), open("other"));
    let run = keyed("k");
    gone.begin_logged(run.clone()).await.unwrap();
    gone.log_events(&run.record.lease, events(2, 5)).await.unwrap();
    tokio::time::sleep(LEASE + LEASE / 4).await;
    let hidden = Some((String::new(), 0, false, true));
    assert_eq!(page(&*other, &run, 0, 1000).await, hidden, "what may be replaced is not shown");
    let orphans = other.take_orphaned(10).await.unwrap();
    let [orphan] = &orphans[..] else { panic!("{orphans:?}") };
    assert_eq!(page(&*other, &run, 0, 1000).await, hidden);
    assert!(matches!(gone.log_events(&run.record.lease, events(6, 6)).await, Err(StoreError::Superseded)));
    assert!(matches!(gone.withdraw(run.record.lease.clone()).await, Err(StoreError::Superseded)));
    let record = ResponseRecord { lease: orphan.lease.clone(), ..ended(&run) };
    let end = LogEnd { keep_below: Some(2), events: Some(events(2, 2)), is_unlisted: false };
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
        let begun = join_all(begun.map(|(run, store)| store.begin_logged(run.clone()))).await;
        let winners: Vec<_> =
            runs.iter().zip(&begun).filter(|(_, begun)| begun.as_ref().unwrap().is_none()).collect();
        let [(winner, _)] = &winners[..] else { panic!("{} were begun", winners.len()) };
        for found in begun.iter().filter_map(|begun| begun.as_ref().unwrap().as_ref()) {
            assert_eq!(found.clone().response().unwrap().id, winner.record.lease.id);
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
        assert_eq!(one.begin_logged(first.clone()).await.unwrap(), None);
        let (withdrawn, begun) =
            tokio::join!(one.withdraw(first.record.lease.clone()), two.begin_logged(second.clone()));
        withdrawn.unwrap();
        // Whichever was first: no key leads to what was withdrawn.
        assert!(!exists(&*two, &first).await);
        if begun.unwrap().is_none() {
            two.withdraw(second.record.lease).await.unwrap();
        }
        assert_eq!(two.keyed_response(&owner(), "k").await.unwrap(), None);
    }
}

/// Whatever it sees meanwhile is a beginning of what there is in the end.
pub(super) async fn a_log_is_followed_in_another_process_to_its_end(open: Open<'_>) {
    let (mine, other) = (open("mine"), open("other"));
    let run = unkeyed();
    mine.begin_logged(run.clone()).await.unwrap();
    let write = async {
        for number in 2..30 {
            mine.log_events(&run.record.lease, events(number, number)).await.unwrap();
        }
        let end = LogEnd { keep_below: None, events: Some(events(30, 30)), is_unlisted: false };
        mine.finish_logged(ended(&run), end).await.unwrap();
    };
    let follow = async {
        let (mut seen, mut next) = (Vec::new(), 0);
        loop {
            let found = other.logged_events(&owner(), &run.record.lease.id, next, u64::MAX).await.unwrap();
            let page = found.expect("it is kept");
            assert!(!page.is_own && page.first == next);
            seen.extend(page.bytes);
            next = page.next;
            if page.is_end {
                return seen;
            }
            assert!(page.is_running, "of a run that has ended, the log is whole");
        }
    };
    let ((), seen) = tokio::join!(write, follow);
    assert_eq!(seen, events(0, 30).bytes);
    assert_eq!(state(&*other, &run).await, (false, kept(2, 31, None)));
}
