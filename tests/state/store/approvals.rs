//! What every store does with approvals, and what SQLite's does over restarts and between processes.

use std::time::{SystemTime, UNIX_EPOCH};

use antwort::protocol::id::{Id, IdGenerator};
use antwort::protocol::response::ResponseStatus;
use antwort::store::{
    ApprovalClaim, Approvals, ClaimOutcome, Owner, PendingApproval, ResponseRecord, RunLog, Store, StoreError,
};

use super::{Folder, Open, owned_by, owner, record, running};

const ARGUMENTS: [u8; 32] = [1; 32];
const DEFINITION: [u8; 32] = [2; 32];
const OTHER: [u8; 32] = [3; 32];

pub(super) async fn an_approval_is_read_back_until_it_is_used(store: &dyn Store) {
    let (one, two) = (pending(), pending());
    store.add_approvals(vec![one.clone(), two.clone()]).await.unwrap();
    store.add_approvals(Vec::new()).await.unwrap();
    for approval in [&one, &two] {
        assert_eq!(read(store, approval).await.as_ref(), Some(approval));
    }
    assert_eq!(claim(store, &one).await, ClaimOutcome::Granted);
    assert_eq!(read(store, &one).await, None);
    assert_eq!(read(store, &two).await.as_ref(), Some(&two));
    let ids = [two.id.clone(), "mcpr_other".into(), one.id, two.id.clone()];
    let found = store.approvals(&owner(), &ids, None).await.unwrap();
    assert_eq!(found, [Some(two.clone()), None, None, Some(two)], "in the order asked");
}

pub(super) async fn an_approval_is_granted_once(store: &dyn Store) {
    let approval = asked(store).await;
    assert_eq!(claim(store, &approval).await, ClaimOutcome::Granted);
    assert_eq!(claim(store, &approval).await, ClaimOutcome::Used);
    store.maintain().await.unwrap();
    let other = claim_at(store, &owner(), approval.id.as_str(), &OTHER, &OTHER, now()).await.unwrap();
    assert_eq!(other, ClaimOutcome::Used, "swept, and for other arguments");
}

/// A process that was lost between the claim and the commit of the calls had used up approvals of calls that nobody made.
pub(super) async fn what_a_response_has_claimed_is_open_to_it_and_to_no_other(store: &dyn Store) {
    let (approval, other) = (asked(store).await, asked(store).await);
    let (owner, by) = (owner(), IdGenerator::new().response());
    let claims = |of: &[&PendingApproval]| {
        let claim = |of: &&PendingApproval| ApprovalClaim {
            id: of.id.clone(),
            arguments: of.arguments,
            definition: of.definition,
        };
        of.iter().map(claim).collect::<Vec<_>>()
    };
    let first = store.claim_approvals(&owner, &by, claims(&[&approval]), now()).await;
    assert_eq!(first.unwrap(), ClaimOutcome::Granted);
    let ids = [approval.id.clone(), other.id.clone()];
    let open = async |by| store.approvals(&owner, &ids, by).await.unwrap();
    assert_eq!(open(Some(&by)).await, [Some(approval.clone()), Some(other.clone())]);
    assert_eq!(open(None).await, [None, Some(other.clone())]);
    assert_eq!(open(Some(&IdGenerator::new().response())).await, [None, Some(other.clone())]);
    let again = store.claim_approvals(&owner, &by, claims(&[&other, &approval]), now()).await;
    assert_eq!(again.unwrap(), ClaimOutcome::Granted);
    let late = approval.expires_at + 1;
    let later = store.claim_approvals(&owner, &by, claims(&[&approval]), late).await;
    assert_eq!(later.unwrap(), ClaimOutcome::Granted, "it was claimed in time");
    assert_eq!(claim(store, &approval).await, ClaimOutcome::Used);
    assert_eq!(claim(store, &other).await, ClaimOutcome::Used);
}

pub(super) async fn of_many_claims_at_once_one_is_granted(store: &dyn Store) {
    for _ in 0..20 {
        let approval = asked(store).await;
        let claims = futures_util::future::join_all((0..16).map(|_| claim(store, &approval))).await;
        assert_one_granted(&claims);
    }
}

pub(super) async fn other_arguments_or_another_definition_are_refused_and_use_nothing_up(store: &dyn Store) {
    let approval = asked(store).await;
    for (arguments, definition) in [(OTHER, DEFINITION), (ARGUMENTS, OTHER), (DEFINITION, ARGUMENTS)] {
        let id = approval.id.as_str();
        let refused = claim_at(store, &owner(), id, &arguments, &definition, now()).await.unwrap();
        assert_eq!(refused, ClaimOutcome::Mismatch);
    }
    assert_eq!(claim(store, &approval).await, ClaimOutcome::Granted);
}

pub(super) async fn what_belongs_to_others_does_not_exist(store: &dyn Store) {
    let approval = asked(store).await;
    for other in [owned_by("acme", "bob"), owned_by("other", "ann"), owned_by("", "")] {
        assert_eq!(read_one(store, &other, &approval.id).await, None);
        assert_eq!(claim_as(store, &other, &approval).await, ClaimOutcome::Unknown);
        assert!(!store.delete(&other, approval.response.as_str()).await.unwrap());
    }
    assert_eq!(claim(store, &approval).await, ClaimOutcome::Granted);
    assert_eq!(claim_as(store, &owned_by("acme", "bob"), &approval).await, ClaimOutcome::Unknown);
}

pub(super) async fn two_owners_may_have_the_same_id(store: &dyn Store) {
    let mine = asked(store).await;
    let theirs = PendingApproval { owner: owned_by("acme", "bob"), ..mine.clone() };
    store.add_approvals(vec![theirs.clone()]).await.unwrap();
    assert_eq!(claim(store, &mine).await, ClaimOutcome::Granted);
    assert_eq!(claim(store, &theirs).await, ClaimOutcome::Granted);
}

pub(super) async fn an_expired_approval_is_unknown_to_every_reader(store: &dyn Store) {
    let over = PendingApproval { expires_at: now(), ..pending() };
    let used = pending();
    store.add_approvals(vec![over.clone(), used.clone()]).await.unwrap();
    assert_eq!(claim(store, &used).await, ClaimOutcome::Granted);
    let later = |claimed| claim_at(store, &used.owner, used.id.as_str(), &ARGUMENTS, &DEFINITION, claimed);
    assert_eq!(later(used.expires_at - 1).await.unwrap(), ClaimOutcome::Used);
    assert_eq!(later(used.expires_at).await.unwrap(), ClaimOutcome::Unknown);
    for swept in [false, true] {
        assert_eq!(read(store, &over).await, None, "swept: {swept}");
        assert_eq!(claim(store, &over).await, ClaimOutcome::Unknown, "swept: {swept}");
        store.maintain().await.unwrap();
    }
}

pub(super) async fn maintenance_deletes_no_approval_that_has_not_expired(store: &dyn Store) {
    let over = (0..450).map(|_| PendingApproval { expires_at: now() - 1, ..pending() });
    let (kept, used) = (pending(), pending());
    store.add_approvals(over.chain([kept.clone(), used.clone()]).collect()).await.unwrap();
    assert_eq!(claim(store, &used).await, ClaimOutcome::Granted);
    store.maintain().await.unwrap();
    assert_eq!(claim(store, &kept).await, ClaimOutcome::Granted);
    assert_eq!(claim(store, &used).await, ClaimOutcome::Used);
}

pub(super) async fn deleting_a_response_deletes_its_approvals_alone(store: &dyn Store) {
    let response = record();
    let of_it = || PendingApproval { response: response.lease.id.clone(), ..pending() };
    let (gone, used) = (of_it(), of_it());
    let theirs = PendingApproval { owner: owned_by("acme", "bob"), ..of_it() };
    let not_stored = pending();
    let all = vec![gone.clone(), used.clone(), theirs.clone(), not_stored.clone()];
    store.add_approvals(all).await.unwrap();
    store.finish(response.clone()).await.unwrap();
    assert_eq!(claim(store, &used).await, ClaimOutcome::Granted);
    assert!(store.delete(&owner(), response.lease.id.as_str()).await.unwrap());
    assert_eq!(read(store, &gone).await, None);
    assert_eq!(claim(store, &gone).await, ClaimOutcome::Unknown);
    assert_eq!(claim(store, &used).await, ClaimOutcome::Unknown);
    assert_eq!(claim(store, &theirs).await, ClaimOutcome::Granted);
    assert_eq!(claim(store, &not_stored).await, ClaimOutcome::Granted);
}

pub(super) async fn a_response_deleted_while_it_runs_asks_for_nothing(store: &dyn Store) {
    let run = running();
    store.begin(run.clone(), None).await.unwrap();
    let of_it = || PendingApproval { response: run.lease.id.clone(), ..pending() };
    let before = of_it();
    store.add_approvals(vec![before.clone()]).await.unwrap();
    assert!(store.delete(&owner(), run.lease.id.as_str()).await.unwrap());
    // Takes the place of the deleted row, where a store reuses places.
    store.finish(record()).await.unwrap();
    let (after, other) = (of_it(), pending());
    store.add_approvals(vec![after.clone(), other.clone()]).await.unwrap();
    store.finish(ResponseRecord { status: ResponseStatus::Completed, ..run }).await.unwrap();
    assert_eq!(claim(store, &before).await, ClaimOutcome::Unknown);
    assert_eq!(claim(store, &after).await, ClaimOutcome::Unknown);
    assert_eq!(claim(store, &other).await, ClaimOutcome::Granted);
}

pub(super) async fn a_second_request_under_one_id_changes_nothing(store: &dyn Store) {
    let approval = asked(store).await;
    let another = pending();
    let again = PendingApproval { arguments: OTHER, ..approval.clone() };
    let refused = store.add_approvals(vec![another.clone(), again]).await;
    assert!(matches!(refused, Err(StoreError::Database(_))));
    assert_eq!(read(store, &another).await, None, "all or none");
    assert_eq!(claim(store, &approval).await, ClaimOutcome::Granted);
}

pub(super) async fn a_closed_store_answers_nothing_about_approvals(store: &dyn Store) {
    let approval = asked(store).await;
    store.close().await;
    let id = approval.id.as_str();
    let claimed = claim_at(store, &owner(), id, &ARGUMENTS, &DEFINITION, now()).await;
    assert!(matches!(claimed, Err(StoreError::Database(_))));
    assert!(matches!(store.add_approvals(vec![pending()]).await, Err(StoreError::Database(_))));
    assert!(matches!(store.approvals(&owner(), &[id.into()], None).await, Err(StoreError::Database(_))));
}

pub(super) async fn of_two_processes_that_claim_at_once_one_is_granted(open: Open<'_>) {
    let (one, two) = (open("one"), open("two"));
    for _ in 0..20 {
        let approval = asked(&*one).await;
        assert_eq!(read(&*two, &approval).await.as_ref(), Some(&approval));
        let claims = (0..8).map(|number| claim(if number % 2 == 0 { &*one } else { &*two }, &approval));
        assert_one_granted(&futures_util::future::join_all(claims).await);
    }
}

pub(super) async fn claims_of_several_approvals_in_crossed_order_are_granted_once(open: Open<'_>) {
    let (one, two) = (open("one"), open("two"));
    for _ in 0..20 {
        let approvals = [asked(&*one).await, asked(&*one).await, asked(&*one).await];
        let claim = |approval: &PendingApproval| {
            let PendingApproval { id, arguments, definition, .. } = approval.clone();
            ApprovalClaim { id, arguments, definition }
        };
        let forth: Vec<_> = approvals.iter().map(claim).collect();
        let back: Vec<_> = approvals.iter().rev().map(claim).collect();
        let (owner, by) = (owner(), [IdGenerator::new().response(), IdGenerator::new().response()]);
        let (first, second) = tokio::join!(
            one.claim_approvals(&owner, &by[0], forth, now()),
            two.claim_approvals(&owner, &by[1], back, now())
        );
        assert_one_granted(&[first.unwrap(), second.unwrap()]);
    }
}

#[tokio::test]
async fn an_approval_and_its_use_survive_the_process() {
    let folder = Folder::new();
    let store = folder.open(|_| ());
    let (waits, used) = (asked(&store).await, asked(&store).await);
    assert_eq!(claim(&store, &used).await, ClaimOutcome::Granted);
    drop(store);
    let store = folder.open(|_| ());
    assert_eq!(read(&store, &waits).await.as_ref(), Some(&waits));
    assert_eq!(claim(&store, &waits).await, ClaimOutcome::Granted);
    assert_eq!(claim(&store, &used).await, ClaimOutcome::Used);
}

#[tokio::test]
async fn approvals_leave_no_rows_behind() {
    let folder = Folder::new();
    let store = folder.open(|options| options.ttl = Some(std::time::Duration::from_millis(50)));
    let response = record();
    let of_it = PendingApproval { response: response.lease.id.clone(), ..pending() };
    let over = PendingApproval { expires_at: now() - 1, ..pending() };
    store.add_approvals(vec![of_it, over]).await.unwrap();
    store.finish(response).await.unwrap();
    assert_eq!(folder.number("SELECT count(*) FROM approvals"), 2);
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    store.maintain().await.unwrap();
    assert_eq!(folder.number("SELECT count(*) FROM approvals"), 0, "the response has expired, too");
}

fn pending() -> PendingApproval {
    PendingApproval {
        id: Id::generate("mcpr"),
        owner: owner(),
        response: IdGenerator::new().response(),
        arguments: ARGUMENTS,
        definition: DEFINITION,
        expires_at: now() + 3600,
    }
}

async fn asked(store: &dyn Store) -> PendingApproval {
    let approval = pending();
    store.add_approvals(vec![approval.clone()]).await.unwrap();
    approval
}

async fn read(store: &dyn Store, approval: &PendingApproval) -> Option<PendingApproval> {
    read_one(store, &approval.owner, &approval.id).await
}

pub(super) async fn read_one(store: &dyn Store, owner: &Owner, id: &Id) -> Option<PendingApproval> {
    store.approvals(owner, std::slice::from_ref(id), None).await.unwrap().remove(0)
}

async fn claim(store: &dyn Store, approval: &PendingApproval) -> ClaimOutcome {
    claim_as(store, &approval.owner, approval).await
}

async fn claim_as(store: &dyn Store, owner: &Owner, approval: &PendingApproval) -> ClaimOutcome {
    let PendingApproval { id, arguments, definition, .. } = approval;
    claim_at(store, owner, id.as_str(), arguments, definition, now()).await.unwrap()
}

fn assert_one_granted(claims: &[ClaimOutcome]) {
    let granted = claims.iter().filter(|claim| **claim == ClaimOutcome::Granted).count();
    let used = claims.iter().filter(|claim| **claim == ClaimOutcome::Used).count();
    assert_eq!((granted, used), (1, claims.len() - 1), "{claims:?}");
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().try_into().unwrap()
}

async fn claim_at(
    store: &dyn Store,
    owner: &Owner,
    id: &str,
    arguments: &[u8; 32],
    definition: &[u8; 32],
    now: i64,
) -> Result<ClaimOutcome, StoreError> {
    let claim = ApprovalClaim { id: id.into(), arguments: *arguments, definition: *definition };
    // Each is another response's.
    store.claim_approvals(owner, &IdGenerator::new().response(), vec![claim], now).await
}
