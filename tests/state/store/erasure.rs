//! Erasing all that a tenant or an owner has.

use antwort::protocol::response::ResponseStatus;
use antwort::store::{
    Direction, ErasureTarget, PageRequest, PendingApproval, ResponseFilter, ResponseRecord, RunLog, Store,
    TurnRecord,
};

use super::{Folder, Open, message, owned_by, record, running, turn};

async fn erase(store: &dyn Store, tenant: &str, principal: Option<&str>) -> u64 {
    let target = ErasureTarget { tenant: tenant.into(), principal: principal.map(Into::into) };
    store.erase(&target).await.unwrap().responses
}

async fn exists(store: &dyn Store, run: &ResponseRecord) -> bool {
    store.response(&run.owner, run.lease.id.as_str(), u64::MAX).await.unwrap().is_some()
}

fn of(tenant: &str, principal: &str, record: ResponseRecord) -> ResponseRecord {
    ResponseRecord { owner: owned_by(tenant, principal), ..record }
}

pub async fn all_of_an_owner_or_of_a_tenant_is_erased_and_nothing_of_others(store: &dyn Store) {
    let mut records = Vec::new();
    for (tenant, principal) in [("acme", "ann"), ("acme", "bob"), ("other", "ann")] {
        for _ in 0..3 {
            let record = of(tenant, principal, turn(None, "question", "answer"));
            store.finish(record.clone()).await.unwrap();
            records.push(record);
        }
    }
    let left = async || {
        let mut left = Vec::new();
        for record in &records {
            if exists(store, record).await {
                left.push(format!("{}/{}", record.owner.tenant, record.owner.principal));
            }
        }
        left.dedup();
        left
    };
    assert_eq!(erase(store, "acme", Some("nobody")).await, 0);
    assert_eq!(erase(store, "nobody", None).await, 0);
    assert_eq!(erase(store, "acme", Some("ann")).await, 3);
    assert_eq!(left().await, ["acme/bob", "other/ann"]);
    assert_eq!(erase(store, "acme", None).await, 3);
    assert_eq!(left().await, ["other/ann"]);
    let ids = [records[0].items[0].id.clone()];
    let items = store.items(&owned_by("acme", "ann"), &ids, super::ReadLimit::UNLIMITED).await.unwrap();
    assert!(items[0].is_none(), "items go with their responses");
}

pub async fn more_than_one_step_of_responses_is_erased_whole(store: &dyn Store) {
    for _ in 0..450 {
        store.finish(record()).await.unwrap();
    }
    assert_eq!(erase(store, "acme", None).await, 450);
    let page = PageRequest { limit: 1, ascending: true, after: None, before: None, max_bytes: u64::MAX };
    assert!(
        store.responses(&super::owner(), &page, &ResponseFilter::default()).await.unwrap().data.is_empty()
    );
}

pub async fn a_tenant_of_more_owners_than_one_step_looks_at_is_erased_whole(store: &dyn Store) {
    for owner in 0..250 {
        store.finish(of("acme", &format!("owner {owner}"), record())).await.unwrap();
    }
    assert_eq!(erase(store, "acme", None).await, 250);
    assert_eq!(erase(store, "acme", None).await, 0);
}

/// A run that began before its owner's data was erased has its end behind it, and stored its response again.
pub async fn runs_that_began_before_an_erasure_store_nothing_more(store: &dyn Store) {
    let begun = running();
    store.begin(begun.clone(), Some(vec![1].into())).await.unwrap();
    let (without_row, with_turn, others) = (running(), running(), of("other", "ann", running()));
    assert_eq!(erase(store, "acme", None).await, 1);
    for (number, begin) in [(0, Some(with_turn.clone())), (1, None)] {
        let record = TurnRecord {
            lease: with_turn.lease.clone(),
            begin,
            items: vec![message(Direction::Output, "said")],
            first_position: number as usize,
            turn: number,
            calls: Vec::new(),
            pending: Vec::new(),
            awaited: Vec::new(),
            state: None,
        };
        store.commit_turn(record).await.unwrap();
    }
    for run in [&begun, &without_row, &with_turn, &others] {
        let approval = PendingApproval {
            id: format!("mcpr_{}", run.lease.id).into(),
            owner: run.owner.clone(),
            response: run.lease.id.clone(),
            arguments: [1; 32],
            definition: [2; 32],
            expires_at: 4_000_000_000,
        };
        store.add_approvals(vec![approval.clone()]).await.unwrap();
        let found = store.approvals(&run.owner, &[approval.id], None).await.unwrap();
        assert_eq!(found[0].is_some(), run.owner == others.owner);
        store.finish(ResponseRecord { status: ResponseStatus::Completed, ..run.clone() }).await.unwrap();
        assert_eq!(exists(store, run).await, run.owner == others.owner);
    }
    // What begins later is stored.
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    let later = running();
    store.begin(later.clone(), None).await.unwrap();
    store.finish(ResponseRecord { status: ResponseStatus::Completed, ..later.clone() }).await.unwrap();
    assert!(exists(store, &later).await);
}

pub async fn processes_that_erase_at_once_erase_all_and_count_it_once(open: Open<'_>) {
    let (one, two) = (open("one"), open("two"));
    for _ in 0..3 {
        for number in 0..250 {
            let store = if number % 2 == 0 { &one } else { &two };
            store.finish(turn(None, "question", "answer")).await.unwrap();
        }
        let (first, second) = tokio::join!(erase(&*one, "acme", None), erase(&*two, "acme", Some("ann")));
        assert_eq!(first + second, 250);
        let page = PageRequest { limit: 1, ascending: true, after: None, before: None, max_bytes: u64::MAX };
        assert!(
            two.responses(&super::owner(), &page, &ResponseFilter::default()).await.unwrap().data.is_empty()
        );
    }
}

pub async fn a_run_with_a_row_that_another_process_erases_stays_erased(open: Open<'_>) {
    let (mine, other) = (open("mine"), open("other"));
    for _ in 0..10 {
        let run = running();
        mine.begin(run.clone(), None).await.unwrap();
        let ended = ResponseRecord { status: ResponseStatus::Completed, ..run.clone() };
        let (finished, erased) = tokio::join!(mine.finish(ended), erase(&*other, "acme", None));
        finished.unwrap();
        assert_eq!(erased, 1);
        assert!(!exists(&*mine, &run).await);
    }
}

#[tokio::test]
async fn no_erased_text_is_left_in_the_files() {
    let folder = Folder::new();
    let store = folder.open(|_| ());
    for _ in 0..20 {
        let text = format!("SECRET {}", "x".repeat(5_000));
        store.finish(turn(None, &text, &text)).await.unwrap();
    }
    let kept = of("other", "ann", turn(None, "KEPT", "KEPT"));
    store.finish(kept.clone()).await.unwrap();
    assert_eq!(erase(&store, "acme", None).await, 20);
    let found = |text: &str| {
        let files = folder.names().into_iter().map(|name| folder.path().with_file_name(name));
        files.filter(|file| contains(&std::fs::read(file).unwrap(), text)).count()
    };
    assert_eq!(found("SECRET"), 0, "neither in the database nor in its log");
    assert!(found("KEPT") > 0 && exists(&store, &kept).await);
    store.close().await;
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}
