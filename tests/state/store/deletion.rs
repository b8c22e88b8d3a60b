//! Deleting what is running and has no row yet, and what is left of deleted text in the files.

use antwort::protocol::response::ResponseStatus;
use antwort::store::{
    CallOutcome, JournaledCall, PageRequest, PendingApproval, ReadLimit, ResponseFilter, ResponseRecord,
    ResponseStore, RunLog, Store, TurnRecord,
};

use super::approvals::read_one;
use super::{Folder, Open, message, owned_by, owner, record, running, turn};
use antwort::protocol::id::Id;
use antwort::store::Direction;

/// Everything that a run writes while it goes on.
async fn write_all(store: &dyn Store, run: &ResponseRecord) {
    store.begin(run.clone(), None).await.unwrap();
    for turn in 0..2 {
        let call = JournaledCall {
            server_label: "antwort".to_owned(),
            tool: "noop".to_owned(),
            arguments: "{}".to_owned(),
        };
        let record = TurnRecord {
            lease: run.lease.clone(),
            begin: (turn == 0).then(|| run.clone()),
            items: vec![message(Direction::Output, "said")],
            first_position: turn as usize + 1,
            turn,
            calls: vec![call],
            pending: Vec::new(),
            awaited: Vec::new(),
            state: None,
        };
        store.commit_turn(record).await.unwrap();
        let output = "done".to_owned();
        store.record_tool_result(CallOutcome {
            lease: run.lease.clone(),
            turn,
            index: 0,
            output,
            error: None,
        });
    }
    store.add_approvals(vec![approval_of(run)]).await.unwrap();
    store.finish(ResponseRecord { status: ResponseStatus::Completed, ..run.clone() }).await.unwrap();
}

pub(super) fn approval_of(run: &ResponseRecord) -> PendingApproval {
    PendingApproval {
        id: format!("mcpr_{}", run.lease.id).into(),
        owner: run.owner.clone(),
        response: run.lease.id.clone(),
        arguments: [1; 32],
        definition: [2; 32],
        expires_at: 4_000_000_000,
    }
}

async fn exists(store: &dyn Store, run: &ResponseRecord) -> bool {
    store.response(&run.owner, run.lease.id.as_str(), u64::MAX).await.unwrap().is_some()
}

async fn listed(store: &dyn Store) -> Vec<Id> {
    let page = PageRequest { limit: 100, ascending: true, after: None, before: None, max_bytes: u64::MAX };
    store
        .responses(&owner(), &page, &ResponseFilter::default())
        .await
        .unwrap()
        .data
        .into_iter()
        .map(|(id, _)| id)
        .collect()
}

pub(super) async fn a_registered_run_that_is_deleted_is_not_written_by_any_later_write(store: &dyn Store) {
    let run = running();
    let registration = store.register_run(&run.lease.id, &run.owner);
    assert!(store.delete(&owner(), run.lease.id.as_str()).await.unwrap());
    write_all(store, &run).await;
    assert!(!exists(store, &run).await);
    assert_eq!(listed(store).await, []);
    assert!(store.lineage(&owner(), run.lease.id.as_str(), ReadLimit::UNLIMITED).await.unwrap().is_none());
    assert_eq!(read_one(store, &owner(), &approval_of(&run).id).await, None);
    drop(registration);

    let kept = running();
    let registration = store.register_run(&kept.lease.id, &kept.owner);
    write_all(store, &kept).await;
    drop(registration);
    assert_eq!(listed(store).await, std::slice::from_ref(&kept.lease.id), "one that nobody deletes is kept");
    assert!(read_one(store, &owner(), &approval_of(&kept).id).await.is_some());
}

pub(super) async fn a_registered_run_is_deleted_by_its_owner_alone_and_once(store: &dyn Store) {
    let run = running();
    let _registration = store.register_run(&run.lease.id, &run.owner);
    for stranger in [owned_by("acme", "bob"), owned_by("other", "ann")] {
        assert!(!store.delete(&stranger, run.lease.id.as_str()).await.unwrap());
    }
    assert!(!store.delete(&owner(), "resp_other").await.unwrap());
    store.begin(run.clone(), None).await.unwrap();
    assert!(exists(store, &run).await, "another's deletion changes nothing");
    assert!(store.delete(&owner(), run.lease.id.as_str()).await.unwrap());
    assert!(!exists(store, &run).await);
    assert!(!store.delete(&owner(), run.lease.id.as_str()).await.unwrap(), "it is gone already");
    store.finish(ResponseRecord { status: ResponseStatus::Completed, ..run.clone() }).await.unwrap();
    assert!(!exists(store, &run).await);
    assert!(!store.delete(&owner(), run.lease.id.as_str()).await.unwrap());
}

pub(super) async fn a_run_that_was_deleted_behind_its_last_write_leaves_nothing(store: &dyn Store) {
    for _ in 0..50 {
        let run = running();
        let registration = store.register_run(&run.lease.id, &run.owner);
        // At the same moment: whichever is first, the response is gone.
        let ended = ResponseRecord { status: ResponseStatus::Completed, ..run.clone() };
        let (finished, deleted) =
            tokio::join!(store.finish(ended), store.delete(&run.owner, run.lease.id.as_str()));
        finished.unwrap();
        assert!(deleted.unwrap());
        drop(registration);
        assert!(!exists(store, &run).await);
    }
}

pub(super) async fn approvals_of_a_registered_run_go_with_it(store: &dyn Store) {
    let (run, other) = (running(), running());
    let _registration = store.register_run(&run.lease.id, &run.owner);
    store.add_approvals(vec![approval_of(&run), approval_of(&other)]).await.unwrap();
    assert!(store.delete(&owner(), run.lease.id.as_str()).await.unwrap());
    assert_eq!(read_one(store, &owner(), &approval_of(&run).id).await, None);
    assert!(read_one(store, &owner(), &approval_of(&other).id).await.is_some());
}

pub(super) async fn approvals_that_are_asked_for_while_their_run_is_deleted_go_with_it(store: &dyn Store) {
    for _ in 0..30 {
        let run = running();
        let _registration = store.register_run(&run.lease.id, &run.owner);
        let approval = approval_of(&run);
        let (added, deleted) = tokio::join!(
            store.add_approvals(vec![approval.clone()]),
            store.delete(&run.owner, run.lease.id.as_str())
        );
        added.unwrap();
        assert!(deleted.unwrap());
        assert_eq!(read_one(store, &owner(), &approval.id).await, None);
    }
}

pub(super) async fn a_run_that_is_registered_no_more_cannot_be_deleted(store: &dyn Store) {
    let run = running();
    drop(store.register_run(&run.lease.id, &run.owner));
    assert!(!store.delete(&owner(), run.lease.id.as_str()).await.unwrap());
    store.finish(ResponseRecord { status: ResponseStatus::Completed, ..run.clone() }).await.unwrap();
    assert!(exists(store, &run).await);
}

pub(super) async fn what_one_process_deletes_while_another_ends_it_is_gone(open: Open<'_>) {
    let (mine, other) = (open("mine"), open("other"));
    for _ in 0..20 {
        let run = ResponseRecord { items: vec![message(Direction::Input, "asked")], ..running() };
        mine.begin(run.clone(), None).await.unwrap();
        // At the same moment: whichever is first, the response is gone.
        let ended = ResponseRecord { status: ResponseStatus::Completed, ..run.clone() };
        let id = run.lease.id.as_str();
        let (finished, deleted) = tokio::join!(mine.finish(ended), other.delete(&run.owner, id));
        finished.unwrap();
        assert!(deleted.unwrap());
        for store in [&mine, &other] {
            assert!(!exists(&**store, &run).await);
            let ids = [run.items[0].id.clone()];
            let items = store.items(&owner(), &ids, ReadLimit::UNLIMITED).await.unwrap();
            assert_eq!(items, [None]);
        }
        assert!(!other.delete(&run.owner, id).await.unwrap());
    }
}

pub(super) async fn approvals_of_what_another_process_deletes_go_with_it(open: Open<'_>) {
    let (mine, other) = (open("mine"), open("other"));
    for _ in 0..20 {
        let run = running();
        mine.begin(run.clone(), None).await.unwrap();
        let approval = approval_of(&run);
        let (added, deleted) = tokio::join!(
            mine.add_approvals(vec![approval.clone()]),
            other.delete(&run.owner, run.lease.id.as_str())
        );
        added.unwrap();
        assert!(deleted.unwrap());
        assert_eq!(read_one(&*other, &owner(), &approval.id).await, None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_that_could_not_be_committed_is_none() {
    let folder = Folder::new();
    let store = folder.open(|_| ());
    let run = running();
    let _registration = store.register_run(&run.lease.id, &run.owner);
    store.begin(run.clone(), None).await.unwrap();
    let sql = folder.sql();
    sql.execute_batch(
        "CREATE TRIGGER bad BEFORE UPDATE ON responses BEGIN SELECT raise(ABORT, 'not now'); END",
    )
    .unwrap();
    store.delete(&owner(), run.lease.id.as_str()).await.unwrap_err();
    sql.execute_batch("DROP TRIGGER bad").unwrap();
    store.finish(ResponseRecord { status: ResponseStatus::Completed, ..run.clone() }).await.unwrap();
    assert!(exists(&store, &run).await);
    assert!(store.delete(&owner(), run.lease.id.as_str()).await.unwrap());
}

/// How often a text is in any file of the folder.
fn copies(folder: &Folder, text: &str) -> usize {
    let files = folder.folder.path().read_dir().unwrap().map(|entry| entry.unwrap().path());
    let count = |bytes: Vec<u8>| bytes.windows(text.len()).filter(|seen| *seen == text.as_bytes()).count();
    files.map(|file| count(std::fs::read(file).unwrap())).sum()
}

#[tokio::test]
async fn deleted_text_is_in_no_file_after_a_clean_stop() {
    const MARK: &str = "MARK-OF-WHAT-IS-DELETED";
    let folder = Folder::new();
    let store = folder.open(|_| ());
    let mut deleted = Vec::new();
    for number in 0..100 {
        // Texts that share a page with others, and texts that have pages of their own.
        let text = format!("{MARK} {number} {}", "x".repeat(number * 300));
        let marked =
            ResponseRecord { body: format!("{{\"text\":\"{text}\"}}").into(), ..turn(None, &text, &text) };
        store.finish(marked.clone()).await.unwrap();
        store.finish(record()).await.unwrap();
        deleted.push(marked);
    }
    let mut replaced = running();
    replaced.items = vec![message(Direction::Output, MARK)];
    store.begin(replaced.clone(), None).await.unwrap();
    store.finish(ResponseRecord { status: ResponseStatus::Completed, ..turn(None, "q", "a") }).await.unwrap();
    store
        .finish(ResponseRecord { items: Vec::new(), status: ResponseStatus::Completed, ..replaced })
        .await
        .unwrap();
    assert!(copies(&folder, MARK) >= 300, "otherwise this tests nothing");
    for record in &deleted {
        assert!(store.delete(&owner(), record.lease.id.as_str()).await.unwrap());
    }
    store.close().await;
    assert_eq!(copies(&folder, MARK), 0);
    assert_eq!(folder.number("SELECT count(*) FROM responses"), 102);
}
