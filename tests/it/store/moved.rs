//! The migration to one row a response: whatever is read of a file is read of it afterwards.

use std::collections::BTreeSet;
use std::path::Path;

use antwort::internal::sqlite::Schema;
use antwort::protocol::id::Id;
use antwort::protocol::item::Item;
use antwort::store::{Approvals, Owner, PageRequest, ReadLimit, ResponseStore, StateKey, Store};
use rusqlite::{Connection, OptionalExtension, params};

use super::{Folder, owned_by};

/// A response of a file with items in a table of their own.
#[derive(Debug)]
struct Old {
    key: i64,
    owner: Owner,
    id: String,
    previous: Option<String>,
    body: String,
    is_expired: bool,
}

/// An item of it.
#[derive(Debug)]
struct OldItem {
    id: String,
    is_input: bool,
    history: Option<String>,
    wire: String,
    state: Option<(String, String)>,
}

fn responses(sql: &Connection) -> Vec<Old> {
    let mut rows = sql
        .prepare("SELECT key, tenant, principal, id, previous_id, body, coalesce(expires_at < 10, 0) FROM responses")
        .unwrap();
    let rows = rows.query_map([], |row| {
        Ok(Old {
            key: row.get(0)?,
            owner: owned_by(&row.get::<_, String>(1)?, &row.get::<_, String>(2)?),
            id: row.get(3)?,
            previous: row.get(4)?,
            body: row.get(5)?,
            is_expired: row.get(6)?,
        })
    });
    rows.unwrap().map(Result::unwrap).collect()
}

fn items(sql: &Connection, response: i64) -> Vec<OldItem> {
    let has_state = sql.prepare("SELECT state FROM items").is_ok();
    let state = if has_state { "state_key, state" } else { "NULL, NULL" };
    let query = format!(
        "SELECT item_id, side, history, wire, {state} FROM items WHERE response = ?1 ORDER BY position"
    );
    let mut rows = sql.prepare(&query).unwrap();
    let rows = rows.query_map([response], |row| {
        Ok(OldItem {
            id: row.get(0)?,
            is_input: row.get::<_, i64>(1)? == 0,
            history: row.get(2)?,
            wire: row.get(3)?,
            state: row.get::<_, Option<String>>(4)?.zip(row.get(5)?),
        })
    });
    rows.unwrap().map(Result::unwrap).collect()
}

fn parsed(json: &str) -> Item {
    serde_json::from_str(json).unwrap()
}

/// What the model sees of the items of a response.
fn seen(items: &[OldItem]) -> impl Iterator<Item = Item> {
    let texts = items.iter().map(|item| item.history.as_deref().unwrap_or(&item.wire));
    texts.filter(|text| !text.is_empty()).map(parsed)
}

/// The newest item of each owner and id, as it was found before.
fn newest<'a>(
    all: &'a [(Old, Vec<OldItem>)],
    owner: &Owner,
    is_it: impl Fn(&OldItem) -> bool + 'a,
) -> impl Iterator<Item = &'a OldItem> {
    let owner = owner.clone();
    let of_owner =
        all.iter().rev().filter(move |(response, _)| response.owner == owner && !response.is_expired);
    of_owner.flat_map(|(_, items)| items.iter().rev()).filter(move |item| is_it(item))
}

/// Compares every read of the migrated file with what the file had before.
async fn compare(folder: &Folder, label: &str) {
    let sql = folder.sql();
    let all = responses(&sql).into_iter().map(|response| {
        let items = items(&sql, response.key);
        (response, items)
    });
    let all: Vec<_> = all.collect();
    drop(sql);
    assert!(!all.is_empty());
    folder.migrate(|options| options.backup = false).unwrap().unwrap();
    let store = folder.open(|_| ());
    for (response, own) in &all {
        let (owner, id) = (&response.owner, response.id.as_str());
        let body = store.response(owner, id, u64::MAX).await.unwrap();
        let expected = (!response.is_expired).then_some(response.body.as_str());
        assert_eq!(body.as_deref(), expected, "{label}: {id}");
        let page =
            PageRequest { limit: 100, ascending: true, after: None, before: None, max_bytes: u64::MAX };
        let input = store.input_items(owner, id, &page).await.unwrap();
        if response.is_expired {
            assert!(input.is_none());
            continue;
        }
        let input: Vec<_> =
            input.unwrap().data.iter().map(|(id, json)| (id.to_string(), json.to_string())).collect();
        let expected = own.iter().filter(|item| item.is_input);
        let expected: Vec<_> = expected.map(|item| (item.id.clone(), item.wire.clone())).collect();
        assert_eq!(input, expected, "{label}: {id}");
        let lineage = store.lineage(owner, id, ReadLimit::UNLIMITED).await.unwrap().unwrap();
        assert_eq!(lineage.items, chain(&all, response), "{label}: {id}");
        for item in own {
            same_by_id(&store, &all, owner, item, label).await;
        }
    }
    assert_eq!(folder.number("SELECT count(*) FROM responses"), all.len() as i64);
    let left = "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'old%' OR name = 'items'";
    assert_eq!(folder.number(left), 0);
    assert_eq!(folder.number("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"), 0);
}

fn chain(all: &[(Old, Vec<OldItem>)], newest: &Old) -> Vec<Item> {
    let mut links = Vec::new();
    let mut next = Some(newest.id.clone());
    while let Some(id) = next {
        let (response, own) =
            all.iter().find(|(other, _)| other.id == id && other.owner == newest.owner).unwrap();
        links.push(seen(own).collect::<Vec<_>>());
        next = response.previous.clone();
    }
    links.into_iter().rev().flatten().collect()
}

async fn same_by_id(
    store: &dyn Store,
    all: &[(Old, Vec<OldItem>)],
    owner: &Owner,
    item: &OldItem,
    label: &str,
) {
    let found = store.items(owner, &[Id::from(item.id.as_str())], ReadLimit::UNLIMITED).await.unwrap();
    let id = item.id.clone();
    let expected = newest(all, owner, move |other| other.id == id).next();
    let expected = expected.map(|item| item.history.as_deref().unwrap_or(&item.wire));
    let expected = expected.filter(|text| !text.is_empty()).map(parsed);
    assert_eq!(found, [expected], "{label}: {}", item.id);
    let Some((key, _)) = &item.state else { return };
    let state_key = StateKey::new(owner, key.rsplit('\u{1f}').next().unwrap());
    assert_eq!(state_key.as_str(), key);
    let states = store.provider_states(owner, &[state_key], ReadLimit::UNLIMITED).await.unwrap();
    let states: Vec<_> = states[0].iter().map(|kept| (kept.item.clone(), kept.blob.to_string())).collect();
    let of_key = newest(all, owner, |other| other.state.as_ref().is_some_and(|(other, _)| other == key));
    let of_key = of_key.map(|item| (parsed(&item.wire), item.state.clone().unwrap().1));
    assert_eq!(states, of_key.take(8).collect::<Vec<_>>(), "{label}: {key}");
}

#[tokio::test]
async fn whatever_is_read_of_a_released_file_is_read_of_it_after_the_migration() {
    for schema in 1..7 {
        let folder = Folder::new();
        let released = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/data/stores"));
        std::fs::copy(released.join(format!("schema-{schema}.sqlite")), folder.path()).unwrap();
        compare(&folder, &format!("schema {schema}")).await;
    }
}

fn message(id: &str, said: &str) -> String {
    format!(
        r#"{{"type":"message","id":"{id}","status":"completed","role":"user","content":[{{"type":"input_text","text":"{said}"}}]}}"#
    )
}

/// A file of schema 6 with whatever a row may have.
fn full() -> Folder {
    let folder = Folder::new();
    folder.create_with_schema(6);
    let sql = folder.sql();
    let mut insert = sql
        .prepare(
            "INSERT INTO responses (key, tenant, principal, id, previous_id, status, created_at, finished_at,
                expires_at, instance, model, body)
             VALUES (?1, ?2, ?3, ?4, ?5, 'completed', 1, 1, ?6, '', 'm', ?7)",
        )
        .unwrap();
    let long = "x".repeat(50_000);
    let id = |number: i64| format!("resp_{:012x}7000800000000000{:04x}", 1_795_435_200_000 + number, number);
    for (key, tenant, principal, previous, expires) in [
        (1, "acme", "ann", None, None),
        (2, "acme", "bob", None, Some(4_000_000_000_000_i64)),
        (3, "acme", "ann", Some(1), None),
        (4, "acme", "ann", None, Some(5)),
        (5, "other", "ann", None, None),
        (6, "acme", "ann", Some(3), Some(4_000_000_000_000)),
    ] {
        let body = format!("{{\"number\":{key},\"long\":\"{long}\"}}");
        insert.execute(params![key, tenant, principal, id(key), previous.map(id), expires, body]).unwrap();
        for position in 0..3 {
            // Of other owners, of other responses, and twice in one response.
            let item = ["item_a".to_owned(), format!("item_{key}"), "item_a".to_owned()][position].clone();
            let wire = message(&item, &format!("{key} {position} {long}"));
            let history = match (key, position) {
                (3, 1) => Some(message(&item, "shown to the model")),
                (6, 2) => Some(String::new()),
                _ => None,
            };
            let state_key = (key != 2).then(|| format!("{tenant}\u{1f}{principal}\u{1f}call_{position}"));
            let state = state_key.as_ref().map(|_| format!("sealed {key} {position}"));
            let owner = (key % 2 == 0).then_some(7_i64);
            sql.execute(
                "INSERT INTO items (response, position, item_id, side, history, wire, state_key, state, owner)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                params![key, position as i64, item, position == 2, history, wire, state_key, state, owner],
            )
            .unwrap();
        }
    }
    drop(insert);
    // Items, calls and a run without a response.
    sql.execute_batch(
        "INSERT INTO items (response, position, item_id, side, wire) VALUES (99, 0, 'lost', 0, '{}');
         INSERT INTO tool_calls (response, turn, position, server_label, tool, arguments, dispatched_at)
             VALUES (3, 0, 0, 'antwort', 'kept', '{}', 1), (99, 0, 0, 'antwort', 'lost', '{}', 1);
         INSERT INTO runs (response, instance, epoch, lease_until) VALUES (99, 'gone', 1, 1);
         INSERT INTO approvals (tenant, principal, id, response, arguments, definition, expires_at)
             VALUES ('acme', 'eve', 'mcpr_1', 'resp_of_nobody', zeroblob(32), zeroblob(32), 4000000000);",
    )
    .unwrap();
    drop(sql);
    folder
}

#[tokio::test]
async fn rows_of_every_kind_are_moved_and_those_without_a_response_are_not() {
    let folder = full();
    compare(&folder, "rows of every kind").await;
    let store = folder.open(|_| ());
    let tool = "SELECT tool FROM tool_calls JOIN responses ON key = response WHERE id LIKE '%0003'";
    let tool: Option<String> = folder.sql().query_row(tool, [], |row| row.get(0)).optional().unwrap();
    assert_eq!(tool.as_deref(), Some("kept"));
    assert_eq!(folder.number("SELECT count(*) FROM tool_calls"), 1);
    assert_eq!(folder.number("SELECT count(*) FROM runs"), 0);
    let asked = store.approvals(&owned_by("acme", "eve"), &["mcpr_1".into()]).await.unwrap();
    assert_eq!(asked[0].as_ref().unwrap().response.as_str(), "resp_of_nobody");
    store.maintain().await.unwrap();
    assert_eq!(folder.number("SELECT count(*) FROM responses"), 5, "what had expired is deleted as ever");
}

#[tokio::test]
async fn runs_are_moved_with_their_turns_their_journal_and_their_state() {
    let folder = full();
    folder
        .sql()
        .execute_batch(
            "UPDATE responses SET status = 'in_progress', finished_at = NULL, expires_at = NULL WHERE key IN (3, 5);
             UPDATE responses SET finished_at = NULL, expires_at = 0, body = '' WHERE key = 2;
             INSERT INTO runs (response, instance, epoch, lease_until, orphan, state)
                 VALUES (3, 'gone', 4, 1, NULL, x'0102'), (5, 'gone', 1, 1, 1, NULL), (2, 'gone', 1, 1, NULL, NULL);",
        )
        .unwrap();
    folder.migrate(|_| ()).unwrap();
    let found = folder.instance("finder").take_orphaned(10).await.unwrap();
    let owners: BTreeSet<_> = found.iter().map(|orphan| orphan.owner.tenant.to_string()).collect();
    assert_eq!((found.len(), owners.len()), (2, 2), "the deleted one is none: {found:?}");
    let run = found.iter().find(|orphan| orphan.owner == owned_by("acme", "ann")).unwrap();
    assert_eq!((run.lease.epoch, run.state.as_deref(), run.items.len()), (5, Some(&[1, 2][..]), 3));
    assert_eq!((run.calls.len(), run.calls[0].tool.as_str()), (1, "kept"));
    assert_eq!(folder.number("SELECT count(*) FROM responses"), 5);
    assert_eq!(folder.number("SELECT count(*) FROM runs"), 2);
}

#[test]
fn the_file_hardly_grows_while_its_rows_are_moved() {
    let folder = Folder::new();
    folder.create_with_schema(6);
    let sql = folder.sql();
    for number in 0..400 {
        let body = format!("{{\"long\":\"{}\"}}", "x".repeat(10_000));
        let id = format!("resp_{:012x}7000800000000000{number:04x}", 1_795_435_200_000_i64 + number);
        sql.execute(
            "INSERT INTO responses (tenant, principal, id, status, created_at, finished_at, instance, model, body)
             VALUES ('acme', 'ann', ?1, 'completed', 1, 1, '', 'm', ?2)",
            [&id, &body],
        )
        .unwrap();
        let wire = message("item", &"y".repeat(10_000));
        let item =
            "INSERT INTO items (response, position, item_id, side, wire) VALUES (?1, 0, 'item', 0, ?2)";
        sql.execute(item, params![sql.last_insert_rowid(), wire]).unwrap();
    }
    drop(sql);
    let size = |path: &Path| path.metadata().unwrap().len();
    let before = size(&folder.path());
    folder.migrate(|options| options.backup = false).unwrap();
    assert_eq!(folder.number("PRAGMA user_version"), Schema::CURRENT);
    let after = size(&folder.path());
    assert!(after < before + before / 4, "{before} bytes, then {after}");
}
