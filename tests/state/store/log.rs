//! The write-ahead log beside readers that look at one state for long, such as backups.

use antwort::store::{ResponseRecord, ResponseStore, RunLog, Store};

use super::{Folder, message, owner, record, turn};
use antwort::store::Direction;

/// A response of about a megabyte.
fn large() -> ResponseRecord {
    let text = "x".repeat(500_000);
    ResponseRecord {
        items: vec![message(Direction::Input, &text)],
        body: format!("\"{text}\"").into(),
        ..record()
    }
}

fn log_bytes(folder: &Folder) -> u64 {
    folder.path().with_extension("db-wal").metadata().unwrap().len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_shrinks_when_a_reader_that_kept_it_has_gone() {
    let folder = Folder::new();
    let store = folder.open(|_| ());
    store.finish(turn(None, "q", "a")).await.unwrap();
    let reader = folder.sql();
    reader.execute_batch("BEGIN").unwrap();
    let seen = |reader: &rusqlite::Connection| -> i64 {
        reader.query_row("SELECT count(*) FROM responses", [], |row| row.get(0)).unwrap()
    };
    assert_eq!(seen(&reader), 1);
    for _ in 0..60 {
        store.finish(large()).await.unwrap();
    }
    assert!(log_bytes(&folder) > 48 << 20, "the reader keeps it: {}", log_bytes(&folder));
    assert_eq!(seen(&reader), 1, "which is what it is kept for");
    drop(reader);
    for _ in 0..24 {
        store.finish(large()).await.unwrap();
    }
    assert!(log_bytes(&folder) <= 33 << 20, "{}", log_bytes(&folder));
}

/// Copied by one thread while others write and read, the log could start anew only if nobody wrote or read for a moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_stays_short_while_much_is_written_and_read() {
    let folder = Folder::new();
    let store = folder.open(|_| ());
    let first = turn(None, "q", "a");
    store.finish(first.clone()).await.unwrap();
    let (owner, id) = (owner(), first.lease.id);
    let (mut written, mut longest) = (0, 0);
    let write = async {
        while written < 160 << 20 {
            let records = [(); 8].map(|()| ResponseRecord {
                body: format!("\"{}\"", "x".repeat(40_000)).into(),
                ..turn(None, "q", "a")
            });
            for stored in futures_util::future::join_all(records.map(|record| store.finish(record))).await {
                stored.unwrap();
            }
            written += 8 * 40_000;
            longest = longest.max(log_bytes(&folder));
        }
    };
    let read = async {
        loop {
            assert!(store.response(&owner, id.as_str(), u64::MAX).await.unwrap().is_some());
        }
    };
    tokio::select! {
        () = write => {}
        () = read => {}
    }
    assert!(longest <= 32 << 20, "{longest}");
    store.close().await;
    assert!(!folder.path().with_extension("db-wal").exists(), "it is removed with the last connection");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_is_one_state_while_writes_go_on() {
    let folder = Folder::new();
    let store = folder.open(|_| ());
    let mut before = Vec::new();
    for number in 0..300 {
        let record = turn(None, &number.to_string(), "a");
        store.finish(record.clone()).await.unwrap();
        before.push(record);
    }
    let copy = folder.folder.path().join("copy.db");
    let backup = {
        let (sql, copy) = (folder.sql(), copy.clone());
        tokio::task::spawn_blocking(move || sql.execute("VACUUM INTO ?1", [copy.to_str().unwrap()]))
    };
    let mut written = 0;
    while !backup.is_finished() {
        store.finish(turn(None, "meanwhile", "a")).await.unwrap();
        written += 1;
    }
    backup.await.unwrap().unwrap();
    assert!(written > 0);
    store.close().await;

    std::fs::rename(&copy, folder.path()).unwrap();
    assert_eq!(folder.number("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"), 0);
    let (responses, items) =
        (folder.number("SELECT count(*) FROM responses"), folder.number("SELECT count(*) FROM item_ids"));
    assert_eq!(items, 2 * responses, "no response without its items");
    let restored = folder.open(|_| ());
    for record in before {
        assert!(restored.response(&owner(), record.lease.id.as_str(), u64::MAX).await.unwrap().is_some());
    }
}
