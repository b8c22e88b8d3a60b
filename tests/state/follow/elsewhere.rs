//! Streams of runs that another process makes, on the same database.

use std::path::Path;
use std::sync::Arc;

use antwort::protocol::id::IdGenerator;
use antwort::protocol::response::ResponseStatus;
use antwort::store::{Lease, LogEnd, LoggedEvents, LoggedRun, Owner, ResponseRecord, Store};
use antwort_store_sqlite::{Location, SqliteOptions, SqliteStore};

use super::{open, read};
use antwort_test_support::eventually;
use antwort_test_support::gateway::Gateway;
use antwort_test_support::upstream::Upstream;

/// A run of another process.
struct Run {
    store: Arc<dyn Store>,
    record: ResponseRecord,
}

/// Events of these numbers.
fn events(first: u64, last: u64, name: &str) -> LoggedEvents {
    let event = |number| format!("event: {name}\ndata: {{\"sequence_number\":{number}}}\n\n");
    LoggedEvents { first, last, bytes: (first..=last).map(event).collect::<String>().into_bytes() }
}

impl Run {
    /// A run with two events.
    async fn begin(database: &Path) -> Self {
        let options = SqliteOptions::new(Location::File(database.into()), "other");
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(options).unwrap());
        let record = ResponseRecord {
            lease: Lease::first(IdGenerator::new().response()),
            owner: Owner { tenant: "default".into(), principal: "anonymous".into() },
            status: ResponseStatus::InProgress,
            model: "m".to_owned(),
            created_at: 1_700_000_000,
            previous: None,
            conversation: None,
            body: "{}".into(),
            items: Vec::new(),
            outbox: Vec::new(),
            approvals: Vec::new(),
            trace: None,
            is_unlisted: false,
        };
        let events = Some(events(0, 1, "a"));
        let run = LoggedRun { key: None, record: record.clone(), state: None, events };
        assert_eq!(store.begin_logged(run).await.unwrap(), None);
        Self { store, record }
    }

    fn id(&self) -> &str {
        self.record.lease.id.as_str()
    }

    async fn log(&self, events: LoggedEvents) {
        self.store.log_events(&self.record.lease, events).await.unwrap();
    }

    async fn end(&self, end: LogEnd) {
        let record = ResponseRecord { status: ResponseStatus::Completed, ..self.record.clone() };
        self.store.finish_logged(record, end).await.unwrap();
    }
}

async fn gateway(folder: &Path) -> (Gateway, Run) {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).database(folder.join("test.db")).spawn().await;
    (gateway, Run::begin(&folder.join("test.db")).await)
}

#[tokio::test]
async fn a_run_of_another_process_is_followed_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let (gateway, run) = gateway(folder.path()).await;
    let mut followed = open(&gateway, run.id(), "stream=true&starting_after=0").await;
    let next = followed.chunk().await.unwrap().unwrap();
    assert_eq!(next, events(1, 1, "a").bytes);
    run.log(events(2, 4, "b")).await;
    assert_eq!(followed.chunk().await.unwrap().unwrap(), events(2, 4, "b").bytes);
    run.end(LogEnd { keep_below: None, events: Some(events(5, 5, "end")), is_unlisted: false }).await;
    let rest = followed.text().await.unwrap();
    assert_eq!(rest, format!("{}data: [DONE]\n\n", String::from_utf8(events(5, 5, "end").bytes).unwrap()));
}

/// After a take-over other events may be in the place of those that were sent already.
#[tokio::test]
async fn a_stream_whose_events_were_replaced_breaks_and_is_not_resumed_behind_them() {
    let folder = tempfile::tempdir().unwrap();
    let (gateway, run) = gateway(folder.path()).await;
    run.log(events(2, 4, "b")).await;
    let mut ahead = open(&gateway, run.id(), "stream=true").await;
    assert!(ahead.chunk().await.unwrap().is_some());
    run.end(LogEnd { keep_below: Some(2), events: Some(events(2, 6, "end")), is_unlisted: false }).await;
    assert!(ahead.text().await.is_err(), "what it has does not look whole");
    let path = |after| format!("/v1/responses/{}?stream=true&starting_after={after}", run.id());
    for after in [2, 4, 6] {
        let refused = gateway.get(&path(after)).await;
        assert_eq!((refused.status, &refused.body["error"]["code"]), (410, &"stream_expired".into()));
        assert_eq!(refused.body["error"]["param"], "starting_after");
    }
    let rest = read(&gateway, run.id(), "stream=true&starting_after=1").await;
    assert!(rest.as_bytes().starts_with(&events(2, 6, "end").bytes));
}

#[tokio::test]
async fn a_stream_whose_response_is_deleted_ends_with_an_error_event() {
    let folder = tempfile::tempdir().unwrap();
    let (gateway, run) = gateway(folder.path()).await;
    let mut followed = open(&gateway, run.id(), "stream=true").await;
    assert!(followed.chunk().await.unwrap().is_some());
    assert_eq!(gateway.delete(&format!("/v1/responses/{}", run.id())).await.status, 200);
    let rest = followed.text().await.expect("the stream ends as a whole one does");
    let (_, last) = rest.rsplit_once("event: error\ndata: ").expect(&rest);
    let (error, end) = last.split_once("\n\n").unwrap();
    let error: serde_json::Value = serde_json::from_str(error).unwrap();
    assert_eq!(
        (&error["code"], &error["error"]["code"]),
        (&"response_deleted".into(), &"response_deleted".into())
    );
    assert!(error["sequence_number"].as_u64().is_some_and(|number| number > 0), "{error}");
    assert_eq!(end, "data: [DONE]\n\n");
    let gone = async || gateway.get(&format!("/v1/responses/{}?stream=true", run.id())).await.status == 404;
    assert!(eventually(gone).await);
}
