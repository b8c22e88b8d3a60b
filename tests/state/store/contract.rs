//! What every store does with single responses and their chains.

use std::sync::Arc;
use std::time::Duration;

use antwort::protocol::id::Id;
use antwort::protocol::response::ResponseStatus;
use antwort::store::{
    Direction, ModelView, PageRequest, ReadLimit, ResponseFilter, ResponseRecord, Store, StoreError,
};

use super::{SHORT, message, message_json, owned_by, owner, record, running, text, texts, turn};

pub(super) async fn a_response_is_read_back_byte_for_byte(store: &dyn Store) {
    let mut record = record();
    record.body = "{\"id\" : 1,\n  \"zebra\":1.50,\"apple\":[ ]}".into();
    store.finish(record.clone()).await.unwrap();
    assert_eq!(read(store, &record).await.as_deref(), Some(&*record.body));
    assert_eq!(store.response(&owner(), "resp_other", u64::MAX).await.unwrap(), None);
}

pub(super) async fn every_final_status_is_kept(store: &dyn Store) {
    use ResponseStatus::{Cancelled, Completed, Failed, Incomplete, RequiresAction};
    for status in [Completed, RequiresAction, Incomplete, Failed, Cancelled] {
        let record = ResponseRecord { status, ..record() };
        store.finish(record.clone()).await.unwrap();
        let lineage =
            store.lineage(&owner(), record.lease.id.as_str(), ReadLimit::UNLIMITED).await.unwrap().unwrap();
        assert_eq!(lineage.status, status);
    }
}

pub(super) async fn any_text_is_read_back_unchanged(store: &dyn Store) {
    let long = "x".repeat(1 << 20);
    for said in ["", "'; DROP TABLE responses; --", "a\0b", "日本語 🦀 \u{10FFFF}", "\"\\\n", &long] {
        let mut record = turn(None, said, said);
        record.model = said.chars().take(100).collect();
        record.body = format!("{{\"x\":{}}}", serde_json::json!(said)).into();
        store.finish(record.clone()).await.unwrap();
        assert_eq!(read(store, &record).await.as_deref(), Some(&*record.body));
        assert_eq!(texts(store, &record).await.unwrap(), [said, said]);
    }
}

pub(super) async fn what_belongs_to_others_does_not_exist(store: &dyn Store) {
    let record = turn(None, "q", "a");
    store.finish(record.clone()).await.unwrap();
    let (id, page) = (record.lease.id.as_str(), first_page());
    let item_id = record.items[0].id.clone();
    for other in [owned_by("acme", "bob"), owned_by("other", "ann"), owned_by("", "")] {
        assert_eq!(store.response(&other, id, u64::MAX).await.unwrap(), None);
        assert!(store.lineage(&other, id, ReadLimit::UNLIMITED).await.unwrap().is_none());
        assert!(store.input_items(&other, id, &page).await.unwrap().is_none());
        assert!(store.responses(&other, &page, &ResponseFilter::default()).await.unwrap().data.is_empty());
        assert_eq!(
            store.items(&other, std::slice::from_ref(&item_id), ReadLimit::UNLIMITED).await.unwrap(),
            [None]
        );
        assert!(!store.delete(&other, id).await.unwrap());
    }
    assert!(read(store, &record).await.is_some());
}

pub(super) async fn two_owners_may_have_the_same_id(store: &dyn Store) {
    let mine = turn(None, "mine", "a");
    let theirs = ResponseRecord {
        lease: mine.lease.clone(),
        owner: owned_by("acme", "bob"),
        ..turn(None, "theirs", "b")
    };
    store.finish(mine.clone()).await.unwrap();
    store.finish(theirs.clone()).await.unwrap();
    assert_eq!(texts(store, &mine).await.unwrap(), ["mine", "a"]);
    assert_eq!(texts(store, &theirs).await.unwrap(), ["theirs", "b"]);
}

pub(super) async fn a_running_response_is_seen_and_then_replaced(store: &dyn Store) {
    let mut begun = running();
    begun.items = vec![message(Direction::Input, "question")];
    store.begin(begun.clone(), None).await.unwrap();
    assert_eq!(read(store, &begun).await.as_deref(), Some(&*begun.body));
    let lineage =
        store.lineage(&owner(), begun.lease.id.as_str(), ReadLimit::UNLIMITED).await.unwrap().unwrap();
    assert_eq!((lineage.status, lineage.items.len()), (ResponseStatus::InProgress, 1));
    assert_eq!(lineage.root, begun.lease.id, "a chain of one begins with itself");

    let ended = ResponseRecord { lease: begun.lease.clone(), ..turn(None, "question", "answer") };
    store.finish(ended.clone()).await.unwrap();
    assert_eq!(read(store, &ended).await.as_deref(), Some(&*ended.body));
    assert_eq!(texts(store, &ended).await.unwrap(), ["question", "answer"]);
    assert_eq!(
        store.items(&owner(), &[begun.items[0].id.clone()], ReadLimit::UNLIMITED).await.unwrap(),
        [None]
    );
}

pub(super) async fn beginning_a_run_twice_changes_nothing(store: &dyn Store) {
    let begun = running();
    store.begin(begun.clone(), None).await.unwrap();
    store.begin(ResponseRecord { body: "{}".into(), ..begun.clone() }, None).await.unwrap();
    assert_eq!(read(store, &begun).await.as_deref(), Some(&*begun.body));
}

pub(super) async fn what_has_ended_never_changes(store: &dyn Store) {
    let ended = turn(None, "q", "a");
    store.finish(ended.clone()).await.unwrap();
    let again = ResponseRecord { body: "{}".into(), items: Vec::new(), ..ended.clone() };
    assert!(matches!(store.finish(again.clone()).await, Err(StoreError::Superseded)));
    assert!(matches!(store.begin(again, None).await, Err(StoreError::Superseded)));

    let begun = running();
    store.begin(begun.clone(), None).await.unwrap();
    store.finish(ResponseRecord { status: ResponseStatus::Completed, ..begun.clone() }).await.unwrap();
    let again = ResponseRecord { status: ResponseStatus::Failed, body: "{}".into(), ..begun.clone() };
    assert!(matches!(store.finish(again).await, Err(StoreError::Superseded)));

    for record in [&ended, &begun] {
        assert_eq!(read(store, record).await.as_deref(), Some(&*record.body));
    }
    assert_eq!(texts(store, &ended).await.unwrap(), ["q", "a"]);
}

pub(super) async fn a_deleted_response_is_gone_with_its_items(store: &dyn Store) {
    let record = turn(None, "q", "a");
    store.finish(record.clone()).await.unwrap();
    assert!(store.delete(&owner(), record.lease.id.as_str()).await.unwrap());
    assert!(!store.delete(&owner(), record.lease.id.as_str()).await.unwrap());
    assert_eq!(read(store, &record).await, None);
    assert_eq!(texts(store, &record).await, None);
    assert_eq!(
        store.items(&owner(), &[record.items[0].id.clone()], ReadLimit::UNLIMITED).await.unwrap(),
        [None]
    );
    assert!(store.input_items(&owner(), record.lease.id.as_str(), &first_page()).await.unwrap().is_none());
}

pub(super) async fn a_response_deleted_while_it_runs_stays_deleted(store: &dyn Store) {
    let begun = running();
    store.begin(begun.clone(), None).await.unwrap();
    assert!(store.delete(&owner(), begun.lease.id.as_str()).await.unwrap());
    // Takes the place of the deleted row, where a store reuses places.
    let next = turn(None, "next", "a");
    store.finish(next.clone()).await.unwrap();
    store.finish(ResponseRecord { lease: begun.lease.clone(), ..turn(None, "q", "a") }).await.unwrap();
    assert_eq!(read(store, &begun).await, None);
    assert_eq!(texts(store, &next).await.unwrap(), ["next", "a"]);
}

pub(super) async fn a_lineage_is_the_chain_oldest_first(store: &dyn Store) {
    let one = turn(None, "1", "2");
    let two = turn(Some(&one), "3", "4");
    let empty = ResponseRecord { previous: Some(two.lease.id.clone()), ..record() };
    let three = ResponseRecord { status: ResponseStatus::RequiresAction, ..turn(Some(&empty), "5", "6") };
    for record in [&one, &two, &empty, &three] {
        store.finish(record.clone()).await.unwrap();
    }
    assert_eq!(texts(store, &three).await.unwrap(), ["1", "2", "3", "4", "5", "6"]);
    assert_eq!(texts(store, &two).await.unwrap(), ["1", "2", "3", "4"]);
    assert_eq!(texts(store, &one).await.unwrap(), ["1", "2"]);
    let lineage =
        store.lineage(&owner(), three.lease.id.as_str(), ReadLimit::UNLIMITED).await.unwrap().unwrap();
    assert_eq!(lineage.root, one.lease.id);
    let status = lineage.status;
    assert_eq!(status, ResponseStatus::RequiresAction);
    assert!(store.lineage(&owner(), "resp_other", ReadLimit::UNLIMITED).await.unwrap().is_none());
}

pub(super) async fn a_lineage_shows_what_the_model_saw(store: &dyn Store) {
    let mut first = turn(None, "same", "wire");
    let output = &mut first.items[1];
    output.model_view = ModelView::Override(message_json(&output.id, Direction::Output, "sealed"));
    let mut cut_off = message(Direction::Output, "cut off");
    cut_off.model_view = ModelView::Hidden;
    first.items.push(cut_off);
    let mut nothing = record();
    nothing.previous = Some(first.lease.id.clone());
    nothing.items = vec![message(Direction::Output, "hidden")];
    nothing.items[0].model_view = ModelView::Hidden;
    store.finish(first.clone()).await.unwrap();
    store.finish(nothing.clone()).await.unwrap();
    assert_eq!(texts(store, &nothing).await.unwrap(), ["same", "sealed"]);

    let ids: Vec<Id> = first.items.iter().map(|item| item.id.clone()).collect();
    let found = store.items(&owner(), &ids, ReadLimit::UNLIMITED).await.unwrap();
    let found: Vec<_> = found.iter().map(|item| item.as_ref().map(text)).collect();
    assert_eq!(found, [Some("same".to_owned()), Some("sealed".to_owned()), None]);
}

pub(super) async fn chains_may_fork(store: &dyn Store) {
    let root = turn(None, "root", "r");
    let (left, right) = (turn(Some(&root), "left", "l"), turn(Some(&root), "right", "r2"));
    for record in [&root, &left, &right] {
        store.finish(record.clone()).await.unwrap();
    }
    assert_eq!(texts(store, &left).await.unwrap(), ["root", "r", "left", "l"]);
    assert_eq!(texts(store, &right).await.unwrap(), ["root", "r", "right", "r2"]);
}

pub(super) async fn a_long_chain_is_read_whole(store: &dyn Store) {
    let mut last: Option<ResponseRecord> = None;
    for number in 0..300 {
        let next = turn(last.as_ref(), &format!("q{number}"), &format!("a{number}"));
        store.finish(next.clone()).await.unwrap();
        last = Some(next);
    }
    let texts = texts(store, &last.unwrap()).await.unwrap();
    let expected: Vec<_> = (0..300).flat_map(|n| [format!("q{n}"), format!("a{n}")]).collect();
    assert_eq!(texts, expected);
}

pub(super) async fn a_missing_ancestor_breaks_the_chain(store: &dyn Store) {
    let one = turn(None, "1", "2");
    let two = turn(Some(&one), "3", "4");
    let three = turn(Some(&two), "5", "6");
    for record in [&one, &two, &three] {
        store.finish(record.clone()).await.unwrap();
    }
    store.delete(&owner(), one.lease.id.as_str()).await.unwrap();
    assert_broken(store, &three, &one.lease.id).await;
    store.delete(&owner(), two.lease.id.as_str()).await.unwrap();
    assert_broken(store, &three, &two.lease.id).await;
    assert!(read(store, &three).await.is_some(), "the response itself is there");
}

pub(super) async fn a_chain_does_not_cross_owners(store: &dyn Store) {
    let theirs = ResponseRecord { owner: owned_by("acme", "bob"), ..turn(None, "secret", "s") };
    let mine = turn(Some(&theirs), "1", "2");
    store.finish(theirs.clone()).await.unwrap();
    store.finish(mine.clone()).await.unwrap();
    assert_broken(store, &mine, &theirs.lease.id).await;
}

pub(super) async fn items_are_found_by_id_in_the_order_asked(store: &dyn Store) {
    let (one, two) = (turn(None, "a", "b"), turn(None, "c", "d"));
    store.finish(one.clone()).await.unwrap();
    store.finish(two.clone()).await.unwrap();
    let ids = [&two.items[1].id, &"msg_unknown".into(), &one.items[0].id, &one.items[0].id].map(Id::clone);
    let found = store.items(&owner(), &ids, ReadLimit::UNLIMITED).await.unwrap();
    let found: Vec<_> = found.iter().map(|item| item.as_ref().map_or("-".to_owned(), text)).collect();
    assert_eq!(found, ["d", "-", "a", "a"]);
    assert!(store.items(&owner(), &[], ReadLimit::UNLIMITED).await.unwrap().is_empty());
}

pub(super) async fn of_items_with_one_id_the_newest_is_found(store: &dyn Store) {
    let id = Id::from("item_1");
    for said in ["old", "new"] {
        let mut record = turn(None, said, "a");
        record.items[0].wire = message_json(&id, Direction::Input, said);
        record.items[0].id = id.clone();
        store.finish(record).await.unwrap();
    }
    let mut other = turn(None, "theirs", "a");
    other.owner = owned_by("acme", "bob");
    other.items[0].wire = message_json(&id, Direction::Input, "theirs");
    other.items[0].id = id.clone();
    store.finish(other).await.unwrap();
    let found = store.items(&owner(), &[id], ReadLimit::UNLIMITED).await.unwrap();
    assert_eq!(found.iter().flatten().map(text).collect::<Vec<_>>(), ["new"]);
}

pub(super) async fn a_committed_write_is_seen_by_the_next_read(store: &dyn Store) {
    let mut last: Option<ResponseRecord> = None;
    for number in 0..200 {
        let next = turn(last.as_ref(), "q", "a");
        store.finish(next.clone()).await.unwrap();
        assert!(read(store, &next).await.is_some(), "response {number}");
        if number % 20 == 0 {
            assert_eq!(texts(store, &next).await.unwrap().len(), 2 * (number + 1));
        }
        last = Some(next);
    }
}

pub(super) async fn writers_side_by_side_lose_nothing(store: &dyn Store) {
    let writers = (0..64).map(|number| async move {
        for round in 0..20 {
            let record = turn(None, &format!("{number}/{round}"), "a");
            if round % 2 == 0 {
                store
                    .begin(ResponseRecord { status: ResponseStatus::InProgress, ..record.clone() }, None)
                    .await
                    .unwrap();
            }
            store.finish(record.clone()).await.unwrap();
            assert_eq!(texts(store, &record).await.unwrap(), [format!("{number}/{round}"), "a".to_owned()]);
            if round % 5 == 0 {
                assert!(store.delete(&owner(), record.lease.id.as_str()).await.unwrap());
            }
        }
    });
    futures_util::future::join_all(writers).await;
    let (mut count, mut page) = (0, first_page());
    loop {
        let found = store.responses(&owner(), &page, &ResponseFilter::default()).await.unwrap();
        count += found.data.len();
        page.after = found.data.last().map(|(id, _)| id.to_string());
        if !found.has_more {
            break;
        }
    }
    assert_eq!(count, 64 * 16);
}

pub(super) async fn a_closed_store_is_not_ready_and_refuses_writes(store: &dyn Store) {
    store.ready().await.unwrap();
    store.ready().await.unwrap();
    store.maintain().await.unwrap();
    store.close().await;
    store.close().await;
    assert!(matches!(store.ready().await, Err(StoreError::Database(_))));
    assert!(matches!(store.finish(record()).await, Err(StoreError::Database(_))));
    assert!(matches!(store.response(&owner(), "x", u64::MAX).await, Err(StoreError::Database(_))));
    assert!(matches!(store.maintain().await, Err(StoreError::Database(_))));
}

pub(super) async fn what_has_expired_exists_for_no_reader(store: &dyn Store) {
    let record = turn(None, "q", "a");
    let (id, items) = (record.lease.id.as_str(), [record.items[0].id.clone()]);
    store.finish(record.clone()).await.unwrap();
    assert!(read(store, &record).await.is_some());
    tokio::time::sleep(SHORT + Duration::from_millis(50)).await;
    for swept in [false, true] {
        assert_eq!(read(store, &record).await, None, "swept: {swept}");
        assert_eq!(texts(store, &record).await, None);
        assert_eq!(store.items(&owner(), &items, ReadLimit::UNLIMITED).await.unwrap(), [None]);
        assert!(store.input_items(&owner(), id, &first_page()).await.unwrap().is_none());
        assert!(
            store
                .responses(&owner(), &first_page(), &ResponseFilter::default())
                .await
                .unwrap()
                .data
                .is_empty()
        );
        store.maintain().await.unwrap();
    }
    assert!(!store.delete(&owner(), id).await.unwrap());

    let another = turn(None, "q", "a");
    store.finish(another.clone()).await.unwrap();
    tokio::time::sleep(SHORT + Duration::from_millis(50)).await;
    assert!(!store.delete(&owner(), another.lease.id.as_str()).await.unwrap(), "expired and not swept");
}

pub(super) async fn continuing_a_chain_extends_the_life_of_each_response_in_it(store: &dyn Store) {
    let mut chain = vec![turn(None, "q", "a")];
    store.finish(chain[0].clone()).await.unwrap();
    // Longer than one life in all, and each pause shorter than what one life forgives.
    for _ in 0..12 {
        tokio::time::sleep(SHORT / 8).await;
        let next = turn(chain.last(), "q", "a");
        store.finish(next.clone()).await.unwrap();
        chain.push(next);
        store.maintain().await.unwrap();
    }
    assert_eq!(texts(store, chain.last().unwrap()).await.unwrap().len(), 2 * chain.len());
}

pub(super) async fn an_expired_ancestor_breaks_the_chain_and_stays_so(store: &dyn Store) {
    let one = turn(None, "1", "2");
    store.finish(one.clone()).await.unwrap();
    tokio::time::sleep(SHORT + Duration::from_millis(50)).await;
    let two = turn(Some(&one), "3", "4");
    store.finish(two.clone()).await.unwrap();
    assert_broken(store, &two, &one.lease.id).await;
    store.maintain().await.unwrap();
    assert_broken(store, &two, &one.lease.id).await;
}

async fn read(store: &dyn Store, record: &ResponseRecord) -> Option<Arc<str>> {
    store.response(&record.owner, record.lease.id.as_str(), u64::MAX).await.unwrap()
}

async fn assert_broken(store: &dyn Store, of: &ResponseRecord, at: &Id) {
    match store.lineage(&of.owner, of.lease.id.as_str(), ReadLimit::UNLIMITED).await {
        Err(StoreError::BrokenChain { missing }) => assert_eq!(missing, *at),
        other => panic!("expected a broken chain, got {other:?}"),
    }
}

fn first_page() -> PageRequest {
    PageRequest { limit: 100, ascending: true, after: None, before: None, max_bytes: u64::MAX }
}
