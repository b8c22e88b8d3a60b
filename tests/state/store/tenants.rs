//! Tenants that have a retention of their own.

use std::collections::HashMap;
use std::time::Duration;

use antwort::protocol::id::Id;
use antwort::store::{
    ContextRole, ConversationItem, ConversationRecord, ConversationStore, Direction, PageRequest,
    ResponseFilter, ResponseRecord, ResponseStore, RunLog, Store,
};
use antwort_store_sqlite::TenantRetention;

use super::{Folder, SHORT, message, owned_by, running, turn};

async fn stored(store: &dyn Store, tenant: &str, principal: &str) -> usize {
    let page = PageRequest { limit: 100, ascending: true, after: None, before: None, max_bytes: u64::MAX };
    store.responses(&owned_by(tenant, principal), &page, &ResponseFilter::default()).await.unwrap().data.len()
}

fn of(tenant: &str, principal: &str, bytes: usize) -> ResponseRecord {
    let record = turn(None, &"x".repeat(bytes), "answer");
    ResponseRecord { owner: owned_by(tenant, principal), ..record }
}

#[tokio::test]
async fn a_tenant_has_its_own_time_to_live() {
    let folder = Folder::new();
    let store = folder.open(|options| {
        let own = |ttl| TenantRetention { ttl, ..TenantRetention::default() };
        options.ttl = Some(Duration::from_hours(1));
        options.tenants = HashMap::from([("brief".into(), own(Some(SHORT))), ("eternal".into(), own(None))]);
    });
    let records = ["brief", "eternal", "acme"].map(|tenant| of(tenant, "ann", 10));
    for record in &records {
        store.finish(record.clone()).await.unwrap();
    }
    tokio::time::sleep(SHORT + Duration::from_millis(100)).await;
    assert_eq!(stored(&store, "brief", "ann").await, 0);
    store.maintain().await.unwrap();
    assert_eq!(folder.number("SELECT count(*) FROM responses"), 2, "its row is deleted");
    assert_eq!((stored(&store, "eternal", "ann").await, stored(&store, "acme", "ann").await), (1, 1));
    assert_eq!(folder.number("SELECT count(*) FROM responses WHERE expires_at IS NULL"), 1);
    store.close().await;
}

#[tokio::test]
async fn conversations_count_towards_the_size_of_a_tenant_and_go_by_their_last_use() {
    let folder = Folder::new();
    let store = folder.open(|options| {
        let own = TenantRetention { max_bytes: Some(300_000), ..TenantRetention::default() };
        options.tenants = HashMap::from([("small".into(), own)]);
    });
    let mut made = Vec::new();
    for number in 0..8 {
        let owner = owned_by(if number == 7 { "acme" } else { "small" }, ["ann", "bob"][number % 2]);
        let items = (0..300).map(|_| ConversationItem {
            item: message(Direction::Input, &"x".repeat(200)),
            role: ContextRole::Plain,
        });
        let record = ConversationRecord {
            id: Id::generate("conv"),
            owner: owner.clone(),
            created_at: 1_700_000_000,
            metadata: "{}".into(),
            items: items.collect(),
        };
        made.push((owner, record.id.clone()));
        store.create_conversation(record).await.unwrap();
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    // Used again, though it is the oldest; and one in which a run goes on.
    let (owner, first) = &made[0];
    assert!(store.update_conversation(owner, first.as_str(), "{}".into()).await.unwrap());
    let lock = store.lock_conversation(&made[1].0, made[1].1.as_str()).await.unwrap();
    for _ in 0..3 {
        store.maintain().await.unwrap();
    }
    let mut left = Vec::new();
    for (place, (owner, id)) in made.iter().enumerate() {
        if store.conversation(owner, id.as_str()).await.unwrap().is_some() {
            left.push(place);
        }
    }
    // Each has 300 items of 400 bytes and a little.
    assert_eq!(left, [0, 1, 7], "what was used last, what is in use, and that of another tenant");
    assert_eq!(folder.number("SELECT count(*) FROM conversation_items"), 900);
    drop(lock);
    store.close().await;
}

#[tokio::test]
async fn conversations_of_a_tenant_have_their_own_time_to_live_and_do_not_wait_for_others() {
    let folder = Folder::new();
    let store = folder.open(|options| {
        let own = |ttl| TenantRetention { conversation_ttl: ttl, ..TenantRetention::default() };
        options.conversation_ttl = Some(antwort::store::TimeToLive(Some(Duration::from_hours(1))));
        options.tenants = HashMap::from([("brief".into(), own(Some(SHORT))), ("eternal".into(), own(None))]);
    });
    let mut made = Vec::new();
    for number in 0..450 {
        // Most of those that were used longest ago live on.
        let tenant = ["acme", "eternal", "brief"][if number < 440 { number % 2 } else { number % 3 }];
        let record = ConversationRecord {
            id: Id::generate("conv"),
            owner: owned_by(tenant, "ann"),
            created_at: 1_700_000_000,
            metadata: "{}".into(),
            items: Vec::new(),
        };
        made.push((record.owner.clone(), record.id.clone()));
        store.create_conversation(record).await.unwrap();
    }
    tokio::time::sleep(SHORT + Duration::from_millis(100)).await;
    let brief = made.iter().filter(|(owner, _)| &*owner.tenant == "brief").count();
    for (owner, id) in &made {
        let found = store.conversation(owner, id.as_str()).await.unwrap();
        assert_eq!(found.is_none(), &*owner.tenant == "brief");
    }
    store.maintain().await.unwrap();
    assert_eq!(folder.number("SELECT count(*) FROM conversations"), 450 - brief as i64);
    store.close().await;
}

/// The large responses of one once pushed out the small ones of another, which were older.
#[tokio::test]
async fn a_tenant_that_fills_the_store_evicts_its_own() {
    const MAX: u64 = 2 << 20;
    let folder = Folder::new();
    let store = folder.open(|options| options.max_bytes = Some(MAX));
    for number in 0..20 {
        store.finish(of("mill", ["max", "mia"][number % 2], 200)).await.unwrap();
    }
    for number in 0..60 {
        store.finish(of("zoo", "zoe", 6_000)).await.unwrap();
        store.finish(of("acme", ["ann", "bob"][number % 2], 60_000)).await.unwrap();
    }
    store.maintain().await.unwrap();
    let small = stored(&store, "mill", "max").await + stored(&store, "mill", "mia").await;
    assert_eq!((small, stored(&store, "zoo", "zoe").await), (20, 60), "both are within their shares");
    let large = stored(&store, "acme", "ann").await + stored(&store, "acme", "bob").await;
    assert!((10..30).contains(&large), "what there is room for: {large}");
    let used = folder.number("PRAGMA page_count") - folder.number("PRAGMA freelist_count");
    let used = (used * folder.number("PRAGMA page_size")) as u64;
    assert!(used <= MAX && used > MAX / 4 * 3, "not much more is deleted than must be: {used}");
    // The newest of its own stay.
    let newest = of("acme", "ann", 60_000);
    store.finish(newest.clone()).await.unwrap();
    store.maintain().await.unwrap();
    assert!(store.response(&newest.owner, newest.lease.id.as_str(), u64::MAX).await.unwrap().is_some());
    store.close().await;
}

#[tokio::test]
async fn the_oldest_responses_of_a_tenant_go_when_it_has_more_than_it_may_have() {
    let folder = Folder::new();
    let store = folder.open(|options| {
        let own = TenantRetention { max_bytes: Some(100_000), ..TenantRetention::default() };
        options.tenants = HashMap::from([("small".into(), own)]);
    });
    let run = ResponseRecord { owner: owned_by("small", "ann"), ..running() };
    store.begin(run, None).await.unwrap();
    let mut records = Vec::new();
    for number in 0..60 {
        let principal = if number % 2 == 0 { "ann" } else { "bob" };
        let record = of("small", principal, 5_000);
        store.finish(record.clone()).await.unwrap();
        store.finish(of("acme", "ann", 5_000)).await.unwrap();
        records.push(record);
    }
    store.maintain().await.unwrap();
    store.maintain().await.unwrap();
    let left: Vec<bool> = {
        let mut left = Vec::new();
        for record in &records {
            let found = store.response(&record.owner, record.lease.id.as_str(), u64::MAX).await.unwrap();
            left.push(found.is_some());
        }
        left
    };
    let kept = left.iter().filter(|kept| **kept).count();
    assert!((17..=20).contains(&kept), "{kept} of 5,000 bytes and a little more each");
    assert!(left[60 - kept..].iter().all(|kept| *kept), "the newest: {left:?}");
    assert_eq!(stored(&store, "acme", "ann").await, 60, "no other tenant loses any");
    assert_eq!(folder.number("SELECT count(*) FROM runs"), 1, "nothing that runs is deleted");
    store.close().await;
}
