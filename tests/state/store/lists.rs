//! What every store does with lists: pages, orders and cursors.

use antwort::store::{Direction, PageRequest, ResponseFilter, ResponseRecord, Store, StoreError};

use super::{message, owned_by, owner, record, turn};

pub(super) async fn input_items_are_those_of_this_response_alone(store: &dyn Store) {
    let first = turn(None, "old question", "old answer");
    let second = turn(Some(&first), "new question", "new answer");
    store.finish(first).await.unwrap();
    store.finish(second.clone()).await.unwrap();
    let found =
        store.input_items(&owner(), second.lease.id.as_str(), &page(10, true)).await.unwrap().unwrap();
    let [(id, json)] = &found.data[..] else { panic!("{found:?}") };
    assert_eq!((id, &**json), (&second.items[0].id, &*second.items[0].wire));
    assert!(!found.has_more);
    assert!(store.input_items(&owner(), "resp_other", &page(10, true)).await.unwrap().is_none());

    let empty = record();
    store.finish(empty.clone()).await.unwrap();
    let found = store.input_items(&owner(), empty.lease.id.as_str(), &page(10, true)).await.unwrap().unwrap();
    assert!(found.data.is_empty() && !found.has_more);
}

pub(super) async fn input_items_are_paged_by_limit_order_and_cursor(store: &dyn Store) {
    let mut record = record();
    record.items = (0..6).map(|n| message(Direction::Input, &n.to_string())).collect();
    record.items.insert(3, message(Direction::Output, "not input"));
    store.finish(record.clone()).await.unwrap();
    record.items.remove(3);
    let ids: Vec<String> = record.items.iter().map(|item| item.id.to_string()).collect();
    check_pages(&ids, async |page| {
        store.input_items(&owner(), record.lease.id.as_str(), &page).await.unwrap().unwrap()
    })
    .await;
}

pub(super) async fn responses_are_paged_by_limit_order_and_cursor(store: &dyn Store) {
    let ids = write_responses(store, 6).await;
    check_pages(&ids, async |page| {
        store.responses(&owner(), &page, &ResponseFilter::default()).await.unwrap()
    })
    .await;
    let found = store.responses(&owner(), &page(1, true), &ResponseFilter::default()).await.unwrap();
    assert!(found.data[0].1.contains(&ids[0]), "the elements are the stored bodies");
}

/// Every page of a list of six, against what it must be.
pub(super) async fn check_pages(ids: &[String], list: impl AsyncFn(PageRequest) -> antwort::store::Page) {
    /// Limit, ascending, after, before; elements, more.
    type Case<'a> = (usize, bool, Option<usize>, Option<usize>, &'a [usize], bool);
    #[rustfmt::skip]
    let cases: &[Case<'_>] = &[
        (100, true,  None,    None,    &[0, 1, 2, 3, 4, 5], false),
        (6,   true,  None,    None,    &[0, 1, 2, 3, 4, 5], false),
        (5,   true,  None,    None,    &[0, 1, 2, 3, 4],    true),
        (2,   true,  Some(1), None,    &[2, 3],             true),
        (2,   true,  Some(3), None,    &[4, 5],             false),
        (2,   true,  Some(5), None,    &[],                 false),
        (2,   true,  None,    Some(4), &[2, 3],             true),
        (2,   true,  None,    Some(2), &[0, 1],             false),
        (2,   true,  None,    Some(0), &[],                 false),
        (2,   true,  Some(0), Some(4), &[1, 2],             true),
        (3,   true,  Some(0), Some(4), &[1, 2, 3],          false),
        (2,   true,  Some(4), Some(1), &[],                 false),
        (100, false, None,    None,    &[5, 4, 3, 2, 1, 0], false),
        (2,   false, None,    None,    &[5, 4],             true),
        (2,   false, Some(4), None,    &[3, 2],             true),
        (2,   false, Some(2), None,    &[1, 0],             false),
        (2,   false, None,    Some(1), &[3, 2],             true),
        (3,   false, None,    Some(3), &[5, 4],             false),
        (2,   false, Some(5), Some(1), &[4, 3],             true),
        (3,   false, Some(5), Some(1), &[4, 3, 2],          false),
    ];
    let cursor = |index: Option<usize>| index.map(|index| ids[index].clone());
    for (limit, ascending, after, before, expected, more) in cases {
        let request = PageRequest {
            limit: *limit,
            ascending: *ascending,
            after: cursor(*after),
            before: cursor(*before),
            max_bytes: u64::MAX,
        };
        let label = format!("{request:?}");
        let found = list(request).await;
        let seen: Vec<_> = found.data.iter().map(|(id, _)| id.as_str()).collect();
        let expected: Vec<_> = expected.iter().map(|index| ids[*index].as_str()).collect();
        assert_eq!((seen, found.has_more), (expected, *more), "{label}");
    }
}

pub(super) async fn walking_forth_and_back_sees_everything_once(store: &dyn Store) {
    let ids = write_responses(store, 25).await;
    write_as(store, "bob").await;
    for ascending in [true, false] {
        let mut expected = ids.clone();
        if !ascending {
            expected.reverse();
        }
        let (mut seen, mut request) = (Vec::new(), page(7, ascending));
        loop {
            let found = store.responses(&owner(), &request, &ResponseFilter::default()).await.unwrap();
            seen.extend(found.data.iter().map(|(id, _)| id.to_string()));
            request.after = seen.last().cloned();
            if !found.has_more {
                break;
            }
        }
        assert_eq!(seen, expected);
        let (mut seen, mut request) = (Vec::new(), page(7, ascending));
        request.before = expected.last().cloned();
        loop {
            let found = store.responses(&owner(), &request, &ResponseFilter::default()).await.unwrap();
            seen.splice(0..0, found.data.iter().map(|(id, _)| id.to_string()));
            request.before = seen.first().cloned();
            if !found.has_more {
                break;
            }
        }
        assert_eq!(seen, expected[..24]);
    }
}

pub(super) async fn an_unknown_cursor_is_refused(store: &dyn Store) {
    let record = turn(None, "q", "a");
    store.finish(record.clone()).await.unwrap();
    let output = record.items[1].id.to_string();
    for (param, cursor) in [("after", "nonsense"), ("before", ""), ("after", "resp_xyz")] {
        let request = with_cursor(param, cursor);
        assert_unknown(
            store.responses(&owner(), &request, &ResponseFilter::default()).await.map(Some),
            param,
            cursor,
        );
        assert_unknown(store.input_items(&owner(), record.lease.id.as_str(), &request).await, param, cursor);
    }
    let request = with_cursor("after", &output);
    assert_unknown(store.input_items(&owner(), record.lease.id.as_str(), &request).await, "after", &output);
}

pub(super) async fn deleting_while_paging_skips_no_response(store: &dyn Store) {
    let ids = write_responses(store, 9).await;
    let (mut seen, mut request) = (Vec::new(), page(2, true));
    loop {
        let found = store.responses(&owner(), &request, &ResponseFilter::default()).await.unwrap();
        for (id, _) in &found.data {
            assert!(store.delete(&owner(), id.as_str()).await.unwrap());
            seen.push(id.to_string());
        }
        request.after = seen.last().cloned();
        if !found.has_more {
            break;
        }
    }
    assert_eq!(seen, ids);
}

async fn write_responses(store: &dyn Store, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for _ in 0..count {
        let record = record();
        ids.push(record.lease.id.to_string());
        store.finish(record).await.unwrap();
    }
    assert!(ids.is_sorted(), "ids sort by time");
    ids
}

async fn write_as(store: &dyn Store, principal: &str) {
    store.finish(ResponseRecord { owner: owned_by("acme", principal), ..record() }).await.unwrap();
}

fn page(limit: usize, ascending: bool) -> PageRequest {
    PageRequest { limit, ascending, after: None, before: None, max_bytes: u64::MAX }
}

fn with_cursor(param: &str, cursor: &str) -> PageRequest {
    let cursor = Some(cursor.to_owned());
    match param {
        "after" => PageRequest { after: cursor, ..page(10, true) },
        _ => PageRequest { before: cursor, ..page(10, true) },
    }
}

fn assert_unknown(result: Result<Option<antwort::store::Page>, StoreError>, param: &str, cursor: &str) {
    match result {
        Err(StoreError::UnknownCursor { param: p, cursor: c }) => assert_eq!((p, &*c), (param, cursor)),
        other => panic!("expected an unknown cursor, got {other:?}"),
    }
}
