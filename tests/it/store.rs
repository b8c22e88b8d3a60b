//! The store's contract, held against every backend, and what is SQLite's own.

mod approvals;
mod backup;
mod contract;
mod deletion;
mod full;
mod lists;
mod log;
mod migrations;
mod sqlite;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use antwort::internal::sqlite::{
    Location, MigrateOptions, Migrated, ServerLock, SqliteOptions, SqliteStore, migrate,
};
use antwort::protocol::id::{Id, IdGenerator};
use antwort::protocol::response::ResponseStatus;
use antwort::store::{Direction, ModelView, Owner, ReadLimit, ResponseRecord, Store, StoreError, StoredItem};
use tempfile::TempDir;

/// How long rows live in stores that forget soon.
const SHORT: Duration = Duration::from_millis(1500);

/// Runs each function of the suite on a store in memory and on one in a file. Those behind `short_lived`
/// get a store whose rows live for [`SHORT`].
macro_rules! suite {
    ($module:ident: $($name:ident),+ $(; short_lived: $($short:ident),+)?) => {
        mod memory {
            $(#[tokio::test]
            async fn $name() {
                let store = crate::store::memory(None);
                super::$name(&store).await;
            })+
            $($(#[tokio::test]
            async fn $short() {
                let store = crate::store::memory(Some(crate::store::SHORT));
                super::$short(&store).await;
            })+)?
        }
        mod file {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let folder = crate::store::Folder::new();
                super::$name(&folder.open(|_| ())).await;
            })+
            $($(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $short() {
                let folder = crate::store::Folder::new();
                super::$short(&folder.open(|options| options.ttl = Some(crate::store::SHORT))).await;
            })+)?
        }
    };
}
use suite;

fn memory(ttl: Option<Duration>) -> SqliteStore {
    let mut options = SqliteOptions::new(Location::Memory, "test");
    options.ttl = ttl;
    SqliteStore::open(options).unwrap()
}

/// A folder with one database, opened as often as wanted.
struct Folder {
    folder: TempDir,
}

impl Folder {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("responses.db")
    }

    fn options(&self) -> SqliteOptions {
        SqliteOptions::new(Location::File(self.path()), "test")
    }

    fn open(&self, change: impl FnOnce(&mut SqliteOptions)) -> SqliteStore {
        let mut options = self.options();
        change(&mut options);
        SqliteStore::open(options).unwrap()
    }

    /// Makes the database as the version of antwort did that knew migrations up to this one.
    fn create_with_schema(&self, version: usize) {
        let sql = self.sql();
        for number in 1..=version {
            sql.execute_batch(&migrations::read(number).unwrap()).unwrap();
        }
        sql.execute_batch(&format!("PRAGMA application_id = 0x616e7477; PRAGMA user_version = {version}"))
            .unwrap();
    }

    /// Brings the database to the current schema, as a server does before it opens it.
    fn migrate(&self, change: impl FnOnce(&mut MigrateOptions)) -> Result<Option<Migrated>, StoreError> {
        let mut options = MigrateOptions::default();
        change(&mut options);
        migrate(&ServerLock::acquire(&self.path()).unwrap(), &options)
    }

    /// The names of the files in the folder, but for that of the lock.
    fn names(&self) -> Vec<String> {
        let entries = self.folder.path().read_dir().unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| !name.ends_with(".lock")).collect();
        names.sort();
        names
    }

    /// A connection beside the store's, to look at rows and to do damage.
    fn sql(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.path()).unwrap()
    }

    fn number(&self, query: &str) -> i64 {
        self.sql().query_row(query, [], |row| row.get(0)).unwrap()
    }
}

fn owner() -> Owner {
    owned_by("acme", "ann")
}

fn owned_by(tenant: &str, principal: &str) -> Owner {
    Owner { tenant: tenant.into(), principal: principal.into() }
}

/// A completed response without items.
fn record() -> ResponseRecord {
    let id = IdGenerator::new().response();
    let body = format!(r#"{{"id":"{id}","object":"response","status":"completed"}}"#).into();
    ResponseRecord {
        id,
        owner: owner(),
        status: ResponseStatus::Completed,
        model: "m".to_owned(),
        created_at: 1_700_000_000,
        previous: None,
        body,
        items: Vec::new(),
    }
}

/// A response with a question and an answer that continues another.
fn turn(previous: Option<&ResponseRecord>, question: &str, answer: &str) -> ResponseRecord {
    let items = vec![message(Direction::Input, question), message(Direction::Output, answer)];
    ResponseRecord { previous: previous.map(|record| record.id.clone()), items, ..record() }
}

fn running() -> ResponseRecord {
    let mut record = record();
    record.status = ResponseStatus::InProgress;
    record.body =
        format!(r#"{{"id":"{}","completed_at":null,"status":"in_progress","error":null}}"#, record.id).into();
    record
}

fn message(side: Direction, text: &str) -> StoredItem {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let id = Id::from(format!("msg_{}", NEXT.fetch_add(1, Ordering::Relaxed)));
    StoredItem {
        wire: message_json(&id, side, text),
        id,
        direction: side,
        model_view: ModelView::Same,
        state: None,
    }
}

fn message_json(id: &Id, side: Direction, text: &str) -> Arc<str> {
    let (role, part) = match side {
        Direction::Input => ("user", "input_text"),
        Direction::Output => ("assistant", "output_text"),
    };
    let item = serde_json::json!({
        "type": "message", "id": id, "status": "completed", "role": role, "content": [{"type": part, "text": text}],
    });
    item.to_string().into()
}

/// The texts of a chain's items, as the model sees them; `None`: no such response.
async fn texts(store: &dyn Store, record: &ResponseRecord) -> Option<Vec<String>> {
    let lineage = store.lineage(&record.owner, record.id.as_str(), ReadLimit::UNLIMITED).await.unwrap()?;
    Some(lineage.items.iter().map(text).collect())
}

fn text(item: &antwort::protocol::item::Item) -> String {
    let item = serde_json::to_value(item).unwrap();
    item["content"][0]["text"].as_str().unwrap().to_owned()
}
