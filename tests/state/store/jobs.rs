//! What every store does with runs that any process may make.

use std::collections::HashMap;
use std::time::Duration;

use antwort::protocol::id::Id;
use antwort::protocol::response::ResponseStatus;
use antwort::store::{
    CallOutcome, CancelRequest, ClaimedJob, ConversationTurn, Direction, ErasureTarget, IdempotencyKey,
    JobStats, JobTurns, JournaledCall, LoggedEvents, LoggedRun, NewJob, Requeue, ResponseRecord, Store,
    StoreError, TenantRuns, TurnRecord,
};
use futures_util::future::join_all;

use super::{LEASE, Open, message, owned_by, owner, running, turn};

const AT_ONCE: Requeue = Requeue { delay: Duration::ZERO, counts: false };

/// A queued run.
pub(super) fn job() -> NewJob {
    let record = ResponseRecord { status: ResponseStatus::Queued, body: "queued".into(), ..running() };
    let events = Some(LoggedEvents { first: 0, last: 1, bytes: b"<0><1>".to_vec() });
    let run = LoggedRun { key: None, record, state: Some(b"state"[..].into()), events };
    NewJob { run, spec: b"spec"[..].into() }
}

pub(super) async fn enqueued(store: &dyn Store) -> NewJob {
    let job = job();
    assert_eq!(store.enqueue(job.clone()).await.unwrap(), None);
    job
}

/// The one run that waits.
pub(super) async fn claimed(store: &dyn Store) -> ClaimedJob {
    let mut found = store.claim_jobs(10).await.unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

fn ended(claimed: &ClaimedJob) -> ResponseRecord {
    ResponseRecord { lease: claimed.run.lease.clone(), ..turn(None, "question", "answer") }
}

async fn body(store: &dyn Store, job: &NewJob) -> Option<String> {
    let found = store.response(&owner(), job.run.record.lease.id.as_str(), u64::MAX).await.unwrap();
    found.map(|body| body.to_string())
}

async fn queued(store: &dyn Store) -> u64 {
    store.job_stats().await.unwrap().queued
}

pub(super) async fn a_queued_run_is_seen_and_claimed_with_all_that_it_was_queued_with(store: &dyn Store) {
    let job = enqueued(store).await;
    assert_eq!(body(store, &job).await.as_deref(), Some("queued"));
    let stats = store.job_stats().await.unwrap();
    assert_eq!(stats, JobStats { queued: 1, oldest_created_at: Some(job.run.record.created_at), waiting: 0 });
    let ClaimedJob { run, spec, attempt, .. } = claimed(store).await;
    assert_eq!((&*spec, attempt, run.state.as_deref()), (&b"spec"[..], 1, Some(&b"state"[..])));
    assert_eq!((&run.lease.id, &run.owner, &*run.body), (&job.run.record.lease.id, &owner(), "queued"));
    assert_eq!((run.items.len(), run.calls.len()), (job.run.record.items.len(), 0));
    assert!(!run.lease.is_first(), "who queued it has no right to write it");
    let logged = store.logged_events(&owner(), &run.lease.id, 0, u64::MAX).await.unwrap().unwrap();
    assert_eq!((&logged.bytes[..], logged.next, logged.is_running), (&b"<0><1>"[..], 2, true));
    assert!(store.claim_jobs(10).await.unwrap().is_empty(), "it is claimed once");
    assert_eq!(queued(store).await, 0);
}

pub(super) async fn a_process_knows_what_it_has_claimed_until_it_ends_or_is_given_back(store: &dyn Store) {
    enqueued(store).await;
    assert_eq!(store.claimed_jobs().await.unwrap(), [], "it waits");
    let first = claimed(store).await;
    assert_eq!(store.claimed_jobs().await.unwrap(), std::slice::from_ref(&first.run.lease));
    store.requeue(first.run.lease, AT_ONCE).await.unwrap();
    assert_eq!(store.claimed_jobs().await.unwrap(), [], "it was given back");
    let second = claimed(store).await;
    assert_eq!(store.claimed_jobs().await.unwrap(), std::slice::from_ref(&second.run.lease));
    store.begin(running(), None).await.unwrap();
    assert_eq!(store.claimed_jobs().await.unwrap().len(), 1, "another run is not claimed");
    store.finish(ended(&second)).await.unwrap();
    assert_eq!(store.claimed_jobs().await.unwrap(), [], "it has ended");
}

pub(super) async fn the_oldest_runs_are_claimed_first(store: &dyn Store) {
    let mut jobs = Vec::new();
    for _ in 0..5 {
        jobs.push(enqueued(store).await.run.record.lease.id);
    }
    let first: Vec<_> =
        store.claim_jobs(2).await.unwrap().into_iter().map(|claimed| claimed.run.lease.id).collect();
    let rest: Vec<_> =
        store.claim_jobs(9).await.unwrap().into_iter().map(|claimed| claimed.run.lease.id).collect();
    assert_eq!([first, rest].concat(), jobs);
}

/// Runs of one tenant once kept those of all others waiting that were queued behind them.
pub(super) async fn runs_of_tenants_are_claimed_in_turn(store: &dyn Store) {
    for (tenant, principal) in [("acme", "ann"), ("acme", "bob"), ("zoo", "zoe"), ("mill", "max")] {
        for _ in 0..5 {
            let mut job = job();
            job.run.record.owner = owned_by(tenant, principal);
            assert_eq!(store.enqueue(job).await.unwrap(), None);
        }
    }
    let claim = async |turns: JobTurns| {
        let claimed = store.claim_in_turn(turns).await.unwrap();
        claimed.iter().map(|claimed| claimed.run.owner.tenant.to_string()).collect::<Vec<_>>()
    };
    let behind = |limit, last: &str| JobTurns::new(limit).behind(Some(last.into()));
    assert_eq!(claim(JobTurns::new(4)).await, ["acme", "mill", "zoo", "acme"]);
    assert_eq!(claim(behind(1, "acme")).await, ["mill"]);
    assert_eq!(claim(behind(3, "mill")).await, ["zoo", "acme", "mill"]);
    let running = || HashMap::from([("acme".into(), 3), ("mill".into(), 3), ("zoo".into(), 2)]);
    for share in [TenantRuns::AtMost(3), TenantRuns::AtMostBesideOthers(3)] {
        assert_eq!(claim(JobTurns::new(0).within(share, running())).await, [""; 0]);
    }
    assert_eq!(claim(JobTurns::new(9).within(TenantRuns::AtMostBesideOthers(3), running())).await, ["zoo"]);
    assert_eq!(claim(JobTurns::new(9).within(TenantRuns::AtMost(2), running())).await, [""; 0]);
    let left = claim(JobTurns::new(99)).await;
    assert_eq!(left[..4], ["acme", "mill", "zoo", "acme"]);
    assert_eq!((left.len(), &*left[10]), (11, "acme"), "whoever waits alone has all places: {left:?}");
}

/// Queues a run in a conversation.
async fn enqueued_in(store: &dyn Store, conversation: &str) -> Id {
    let mut job = job();
    let id = conversation.into();
    job.run.record.conversation = Some(ConversationTurn { id, first: 0, until: 0, roles: Vec::new() });
    assert_eq!(store.enqueue(job.clone()).await.unwrap(), None);
    job.run.record.lease.id
}

pub(super) async fn runs_of_one_conversation_are_claimed_one_after_the_other_in_the_order_in_which_they_were_queued(
    store: &dyn Store,
) {
    let mut queued = Vec::new();
    for _ in 0..4 {
        queued.push(enqueued_in(store, "conv_1").await);
    }
    let (other, outside) = (enqueued_in(store, "conv_2").await, enqueued(store).await.run.record.lease.id);
    let ids = |claimed: &[ClaimedJob]| claimed.iter().map(|job| job.run.lease.id.clone()).collect::<Vec<_>>();
    let mut found = store.claim_jobs(9).await.unwrap();
    assert_eq!(ids(&found), [queued[0].clone(), other, outside]);
    assert_eq!(found.iter().map(|job| job.in_conversation).collect::<Vec<_>>(), [true, true, false]);
    let first = found.remove(0);

    // It keeps its place while it is given back, for a while or not, and nobody makes one behind it by its id.
    assert!(store.claim_job(&owner(), &queued[1]).await.unwrap().is_none());
    store.requeue(first.run.lease, Requeue { delay: LEASE, counts: false }).await.unwrap();
    assert!(store.claim_jobs(9).await.unwrap().is_empty());
    let first = store.claim_job(&owner(), &queued[0]).await.unwrap().unwrap();

    // One that is cancelled is ended at once.
    assert_eq!(store.request_cancel(&owner(), &queued[2]).await.unwrap(), CancelRequest::Requested);
    let cancelled = claimed(store).await;
    assert!(cancelled.run.is_cancelled && cancelled.run.lease.id == queued[2]);
    store.finish(ended(&cancelled)).await.unwrap();
    assert!(store.claim_jobs(9).await.unwrap().is_empty());

    // The next one begins with the end of the one before.
    store.finish(ended(&first)).await.unwrap();
    let second = claimed(store).await;
    assert_eq!(second.run.lease.id, queued[1]);
    let last = enqueued_in(store, "conv_1").await;
    store.finish(ended(&second)).await.unwrap();
    for id in [&queued[3], &last] {
        let next = claimed(store).await;
        assert_eq!(next.run.lease.id, *id);
        store.finish(ended(&next)).await.unwrap();
    }
}

pub(super) async fn a_claimed_run_is_written_and_ended_with_its_lease(store: &dyn Store) {
    let job = enqueued(store).await;
    let claimed = claimed(store).await;
    let record = |body: &str| ResponseRecord { body: body.into(), ..ended(&claimed) };
    let stale = ResponseRecord { lease: job.run.record.lease.clone(), ..record("stale") };
    assert!(matches!(store.update_running(stale.clone()).await, Err(StoreError::Superseded)));
    assert!(matches!(store.finish(stale).await, Err(StoreError::Superseded)), "nobody has that lease");
    let begun = ResponseRecord { status: ResponseStatus::InProgress, ..record("in progress") };
    store.update_running(begun).await.unwrap();
    assert_eq!(body(store, &job).await.as_deref(), Some("in progress"));
    store.finish(record("ended")).await.unwrap();
    assert_eq!(body(store, &job).await.as_deref(), Some("ended"));
    assert!(matches!(store.update_running(record("late")).await, Err(StoreError::Superseded)));
    assert!(matches!(store.requeue(claimed.run.lease.clone(), AT_ONCE).await, Err(StoreError::Superseded)));
    assert!(store.claim_jobs(10).await.unwrap().is_empty());
}

pub(super) async fn a_claim_that_is_given_back_is_claimed_again(store: &dyn Store) {
    enqueued(store).await;
    let first = claimed(store).await;
    store.requeue(first.run.lease.clone(), AT_ONCE).await.unwrap();
    assert_eq!(queued(store).await, 1);
    let second = claimed(store).await;
    assert_eq!((second.attempt, second.run.lease.epoch), (1, first.run.lease.epoch + 1));
    assert!(matches!(store.finish(ended(&first)).await, Err(StoreError::Superseded)));
    store.requeue(second.run.lease, Requeue { counts: true, ..AT_ONCE }).await.unwrap();
    let third = claimed(store).await;
    assert_eq!(third.attempt, 2, "a claim that counts is an attempt");
    let later = Requeue { delay: LEASE, counts: false };
    store.requeue(third.run.lease.clone(), later).await.unwrap();
    assert!(store.claim_jobs(10).await.unwrap().is_empty(), "not before its time");
    assert_eq!(queued(store).await, 0);
    let by_id = store.claim_job(&owner(), &third.run.lease.id).await.unwrap().unwrap();
    store.requeue(by_id.run.lease, later).await.unwrap();
    tokio::time::sleep(LEASE + Duration::from_millis(100)).await;
    assert_eq!(claimed(store).await.attempt, 2);
}

pub(super) async fn a_run_is_claimed_by_its_owner_and_id(store: &dyn Store) {
    let (job, other) = (enqueued(store).await, enqueued(store).await);
    let id = &job.run.record.lease.id;
    assert!(store.claim_job(&owned_by("acme", "bob"), id).await.unwrap().is_none());
    assert!(store.claim_job(&owner(), &"resp_none".into()).await.unwrap().is_none());
    assert_eq!(store.claim_job(&owner(), id).await.unwrap().unwrap().run.lease.id, *id);
    assert!(store.claim_job(&owner(), id).await.unwrap().is_none(), "it is being made");
    assert_eq!(claimed(store).await.run.lease.id, other.run.record.lease.id);
    let plain = running();
    store.begin(plain.clone(), None).await.unwrap();
    assert!(store.claim_job(&owner(), &plain.lease.id).await.unwrap().is_none(), "no other may make it");
}

pub(super) async fn a_deleted_run_is_not_made(store: &dyn Store) {
    let (waits, runs) = (enqueued(store).await, job());
    assert!(store.delete(&owner(), waits.run.record.lease.id.as_str()).await.unwrap());
    assert!(store.claim_jobs(10).await.unwrap().is_empty());
    assert_eq!(body(store, &waits).await, None);
    store.enqueue(runs.clone()).await.unwrap();
    let claimed = claimed(store).await;
    assert!(store.delete(&owner(), runs.run.record.lease.id.as_str()).await.unwrap());
    store.update_running(ended(&claimed)).await.unwrap();
    store.requeue(claimed.run.lease.clone(), AT_ONCE).await.unwrap();
    assert!(store.claim_jobs(10).await.unwrap().is_empty());
    store.finish(ended(&claimed)).await.unwrap();
    assert_eq!(body(store, &runs).await, None, "what was deleted does not come back");
}

pub(super) async fn a_queued_run_is_erased_with_its_owner(store: &dyn Store) {
    let job = enqueued(store).await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    let target = ErasureTarget { tenant: owner().tenant, principal: None };
    assert_eq!(store.erase(&target).await.unwrap().responses, 1);
    assert_eq!((body(store, &job).await, queued(store).await), (None, 0));
    assert!(store.claim_jobs(10).await.unwrap().is_empty());
}

pub(super) async fn a_key_leads_to_the_run_that_was_queued_with_it(store: &dyn Store) {
    let key = IdempotencyKey { key: "k".into(), fingerprint: [7; 32] };
    let mut first = job();
    first.run.key = Some(key);
    let second = NewJob { run: LoggedRun { key: first.run.key.clone(), ..job().run }, ..job() };
    assert_eq!(store.enqueue(first.clone()).await.unwrap(), None);
    assert_eq!(
        store.enqueue(second.clone()).await.unwrap().unwrap().response().unwrap().id,
        first.run.record.lease.id
    );
    assert_eq!(body(store, &second).await, None, "nothing is written of the second");
    assert_eq!(claimed(store).await.run.lease.id, first.run.record.lease.id);
    assert!(store.keyed_response(&owner(), "k").await.unwrap().unwrap().is_running);
}

pub(super) async fn of_many_processes_one_claims_a_run(open: Open<'_>) {
    let gateway = open("gateway");
    for _ in 0..20 {
        enqueued(&*gateway).await;
    }
    let workers: Vec<_> = (0..4).map(|n| open(&format!("worker {n}"))).collect();
    let claims = join_all(workers.iter().map(async |worker| {
        let mut ids = Vec::new();
        loop {
            let claimed = worker.claim_jobs(3).await.unwrap();
            if claimed.is_empty() {
                return ids;
            }
            ids.extend(claimed.into_iter().map(|claimed| claimed.run.lease.id));
        }
    }));
    let mut ids = claims.await.concat();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 20);
    assert_eq!(queued(&*gateway).await, 0);
}

pub(super) async fn a_run_whose_holder_is_gone_is_claimed_from_its_last_commit(open: Open<'_>) {
    let gone = open("gone");
    let job = enqueued(&*gone).await;
    let first = claimed(&*gone).await;
    let call =
        JournaledCall { server_label: "antwort".into(), tool: "tool".to_owned(), arguments: "{}".to_owned() };
    let turn = TurnRecord {
        lease: first.run.lease.clone(),
        begin: None,
        items: vec![message(Direction::Output, "said")],
        first_position: job.run.record.items.len(),
        turn: 0,
        calls: vec![call],
        pending: Vec::new(),
        awaited: Vec::new(),
        state: Some(b"later"[..].into()),
    };
    gone.commit_turn(turn).await.unwrap();
    let other = open("other");
    assert!(other.claim_jobs(10).await.unwrap().is_empty(), "its lease holds");
    tokio::time::sleep(LEASE / 2).await;
    gone.maintain().await.unwrap();
    tokio::time::sleep(LEASE * 2 / 3).await;
    assert!(other.claim_jobs(10).await.unwrap().is_empty(), "its lease was renewed");
    tokio::time::sleep(LEASE).await;
    assert!(gone.claim_jobs(10).await.unwrap().is_empty(), "it does not take its own run from itself");
    assert!(other.take_orphaned(10).await.unwrap().is_empty(), "it is no orphan: it goes on");
    let second = claimed(&*other).await;
    assert_eq!((second.attempt, second.run.state.as_deref()), (2, Some(&b"later"[..])));
    assert_eq!((second.run.items.len(), second.run.calls.len()), (job.run.record.items.len() + 1, 1));
    let late = CallOutcome {
        lease: first.run.lease.clone(),
        turn: 0,
        index: 0,
        output: "late".to_owned(),
        error: None,
    };
    gone.record_tool_result(late);
    assert!(matches!(gone.finish(ended(&first)).await, Err(StoreError::Superseded)));
    other.requeue(second.run.lease, AT_ONCE).await.unwrap();
    assert_eq!(claimed(&*other).await.run.calls[0].outcome, None, "a result that comes late does not count");
}

pub(super) async fn a_process_of_the_same_name_claims_what_the_one_before_had(open: Open<'_>) {
    let gone = open("same");
    enqueued(&*gone).await;
    claimed(&*gone).await;
    drop(gone);
    let next = open("same");
    let job = claimed(&*next).await;
    assert_eq!(job.attempt, 2);
    // Its lease is renewed, as it is not an orphan any more.
    for _ in 0..2 {
        tokio::time::sleep(LEASE * 2 / 3).await;
        next.maintain().await.unwrap();
    }
    assert!(open("other").claim_jobs(10).await.unwrap().is_empty());
    next.finish(ended(&job)).await.unwrap();
}

/// Its holder was stalled: it gives the run back at the moment at which another claims it.
pub(super) async fn a_claim_that_is_given_back_after_its_time_has_one_holder(open: Open<'_>) {
    let (slow, other) = (open("slow"), open("other"));
    let mut first = Vec::new();
    for _ in 0..6 {
        enqueued(&*slow).await;
        first.push(claimed(&*slow).await);
    }
    tokio::time::sleep(LEASE + LEASE / 5).await;
    let give_back = join_all(first.iter().map(|claim| slow.requeue(claim.run.lease.clone(), AT_ONCE)));
    let (given_back, mut taken) = tokio::join!(give_back, async { other.claim_jobs(10).await.unwrap() });
    taken.extend(other.claim_jobs(10).await.unwrap());
    let mut ids: Vec<_> = taken.iter().map(|claim| claim.run.lease.id.clone()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((taken.len(), ids.len()), (6, 6), "each is claimed, and once");
    for (first, given_back) in first.iter().zip(given_back) {
        let now = taken.iter().find(|claim| claim.run.lease.id == first.run.lease.id).unwrap();
        let was_claim_counted = now.attempt == 2;
        assert_eq!(matches!(given_back, Err(StoreError::Superseded)), was_claim_counted, "{given_back:?}");
        assert!(matches!(slow.finish(ended(first)).await, Err(StoreError::Superseded)));
        other.finish(ended(now)).await.unwrap();
    }
}

pub(super) async fn a_claimed_run_that_another_process_deletes_stays_deleted(open: Open<'_>) {
    let (gateway, worker) = (open("gateway"), open("worker"));
    let job = enqueued(&*gateway).await;
    let claimed = claimed(&*worker).await;
    assert!(gateway.delete(&owner(), job.run.record.lease.id.as_str()).await.unwrap());
    assert_eq!(worker.cancelled_runs().await.unwrap(), std::slice::from_ref(&job.run.record.lease.id));
    worker.update_running(ended(&claimed)).await.unwrap();
    worker.finish(ended(&claimed)).await.unwrap();
    assert_eq!(body(&*gateway, &job).await, None);
    for store in [&gateway, &worker] {
        assert!(store.claim_jobs(10).await.unwrap().is_empty());
        assert!(store.take_orphaned(10).await.unwrap().is_empty());
    }
}

pub(super) async fn many_queued_runs_are_claimed_in_their_order_by_several_processes(open: Open<'_>) {
    let workers: Vec<_> = (0..3).map(|n| open(&format!("worker {n}"))).collect();
    let mut queued_ids = Vec::new();
    for _ in 0..60 {
        queued_ids.push(enqueued(&*workers[0]).await.run.record.lease.id);
    }
    let claims = join_all(workers.iter().map(async |worker| {
        let mut ids = Vec::new();
        for _ in 0..5 {
            let batch = worker.claim_jobs(4).await.unwrap();
            ids.extend(batch.into_iter().map(|claimed| claimed.run.lease.id));
        }
        ids
    }));
    let claims = claims.await;
    for ids in &claims {
        assert!(ids.is_sorted(), "each process gets the older ones first");
    }
    let mut ids = claims.concat();
    ids.sort_unstable();
    assert_eq!(ids, queued_ids, "none twice, none left behind");
}
