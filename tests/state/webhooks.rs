//! Webhooks: notices of the end of background responses, signed and delivered until they are taken.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};

use antwort::config::{Settings, WebhookEvent, WebhookSettings};
use antwort::protocol::id::{Id, IdGenerator};
use antwort::protocol::response::ResponseStatus;
use antwort::store::{Lease, OutboxNotice, Owner, ResponseRecord, Store};
use antwort_store_sqlite::{Location, SqliteOptions, SqliteStore};
use aws_lc_rs::hmac;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use parking_lot::Mutex;
use serde_json::{Value, json};

use antwort_test_support::eventually;
use antwort_test_support::gateway::{Gateway, JsonBody};
use antwort_test_support::process::Process;
use antwort_test_support::upstream::{Reply, Step, Upstream, chunk};

const KEY: [u8; 32] = [9; 32];

fn secret() -> String {
    format!("whsec_{}", BASE64_STANDARD.encode(KEY))
}

/// Takes notices.
struct Receiver {
    url: String,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    notices: Mutex<Vec<(HeaderMap, String)>>,
    /// The status of its answers; 0: 200.
    status: AtomicU16,
    /// The bytes of its answers.
    bytes: AtomicUsize,
    /// Whether it never answers.
    hangs: AtomicBool,
}

impl Receiver {
    async fn spawn() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let seen = Arc::new(Seen::default());
        let router = Router::new().route("/hook", post(take)).with_state(Arc::clone(&seen));
        #[expect(clippy::disallowed_methods, reason = "the task ends with the test's runtime")]
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, seen }
    }

    fn answer(&self, status: u16) {
        self.seen.status.store(status, Ordering::SeqCst);
    }

    fn count(&self) -> usize {
        self.seen.notices.lock().len()
    }

    /// The body of a notice, whose signature is right, and its id.
    fn notice(&self, index: usize) -> (String, Value) {
        let (headers, body) = self.seen.notices.lock()[index].clone();
        let of = |name: &str| headers[name].to_str().unwrap().to_owned();
        assert_eq!(of("content-type"), "application/json");
        let signed = format!("{}.{}.{body}", of("webhook-id"), of("webhook-timestamp"));
        let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &KEY), signed.as_bytes());
        assert_eq!(of("webhook-signature"), format!("v1,{}", BASE64_STANDARD.encode(signature)));
        (of("webhook-id"), serde_json::from_str(&body).unwrap())
    }
}

async fn take(State(seen): State<Arc<Seen>>, headers: HeaderMap, body: String) -> (StatusCode, Vec<u8>) {
    seen.notices.lock().push((headers, body));
    if seen.hangs.load(Ordering::SeqCst) {
        std::future::pending::<()>().await;
    }
    let status = seen.status.load(Ordering::SeqCst);
    (StatusCode::from_u16(status).unwrap_or(StatusCode::OK), vec![b'x'; seen.bytes.load(Ordering::SeqCst)])
}

fn webhook(url: &str) -> WebhookSettings {
    WebhookSettings {
        url: url.to_owned(),
        secret: secret().into(),
        events: vec![WebhookEvent::Completed],
        tenants: None,
    }
}

/// A gateway with the webhook `a`, and a response of another process that has ended with this notice.
async fn gateway(database: &Path, receiver: &Receiver, webhook_name: &str) -> (Gateway, Id) {
    let upstream = Upstream::spawn().await;
    let set = |settings: &mut Settings| {
        settings.webhooks.insert("a".to_owned(), webhook(&receiver.url));
    };
    let gateway = Gateway::with_upstream(&upstream).database(database.to_owned()).set(set).spawn().await;
    let options = SqliteOptions::new(Location::File(database.to_owned()), "other");
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(options).unwrap());
    let event_id = finish_with_notice(&store, webhook_name).await;
    (gateway, event_id)
}

/// Stores a response that has ended with a notice to this webhook.
async fn finish_with_notice(store: &Arc<dyn Store>, webhook_name: &str) -> Id {
    let event_id = Id::generate("evt");
    let body = json!({"object": "event", "id": event_id.as_str(), "type": "response.completed"}).to_string();
    let notice = OutboxNotice { webhook: webhook_name.into(), event_id: event_id.clone(), body: body.into() };
    let record = ResponseRecord {
        lease: Lease::first(IdGenerator::new().response()),
        owner: Owner { tenant: "default".into(), principal: "anonymous".into() },
        status: ResponseStatus::Completed,
        model: "m".to_owned(),
        created_at: 1_700_000_000,
        previous: None,
        conversation: None,
        body: "{}".into(),
        items: Vec::new(),
        outbox: vec![notice],
        approvals: Vec::new(),
        trace: None,
        is_unlisted: false,
    };
    store.finish(record).await.unwrap();
    event_id
}

fn number(database: &Path, sql: &str) -> i64 {
    rusqlite::Connection::open(database).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
}

const LEFT: &str = "SELECT count(*) FROM webhook_outbox";

#[tokio::test]
async fn a_notice_is_signed_delivered_once_and_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("test.db");
    let receiver = Receiver::spawn().await;
    let (gateway, event_id) = gateway(&database, &receiver, "a").await;
    assert!(eventually(async || number(&database, LEFT) == 0).await);
    let (id, body) = receiver.notice(0);
    assert_eq!((&*id, &body["id"], receiver.count()), (event_id.as_str(), &json!(event_id.as_str()), 1));
    let metrics = gateway.get("/metrics").await.body.as_str().unwrap().to_owned();
    let counted = "antwort_webhook_deliveries_total{webhook=\"a\",outcome=\"delivered\"} 1";
    assert!(metrics.contains(counted), "{metrics}");
}

/// It was sent again, though it was taken: its answer had more bytes than were read.
#[tokio::test]
async fn a_notice_with_a_long_answer_is_delivered_once() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("test.db");
    let receiver = Receiver::spawn().await;
    receiver.seen.bytes.store(1 << 20, Ordering::SeqCst);
    let (gateway, _) = gateway(&database, &receiver, "a").await;
    assert!(eventually(async || number(&database, LEFT) == 0).await);
    let metrics = gateway.get("/metrics").await.body.as_str().unwrap().to_owned();
    assert!(
        metrics.contains("outcome=\"delivered\"} 1") && metrics.contains("outcome=\"failed\"} 0"),
        "{metrics}"
    );
}

/// Its notices took all places, one after the other.
#[tokio::test]
async fn a_receiver_that_does_not_answer_keeps_no_notice_from_another() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("test.db");
    let (dead, alive) = (Receiver::spawn().await, Receiver::spawn().await);
    dead.seen.hangs.store(true, Ordering::SeqCst);
    let options = SqliteOptions::new(Location::File(database.clone()), "other");
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(options).unwrap());
    for _ in 0..40 {
        finish_with_notice(&store, "dead").await;
    }
    finish_with_notice(&store, "alive").await;
    let upstream = Upstream::spawn().await;
    let set = |settings: &mut Settings| {
        settings.webhooks.insert("dead".to_owned(), webhook(&dead.url));
        settings.webhooks.insert("alive".to_owned(), webhook(&alive.url));
    };
    let _gateway = Gateway::with_upstream(&upstream).database(database).set(set).spawn().await;
    assert!(eventually(async || alive.count() == 1).await);
    assert!(dead.count() <= 16, "{}", dead.count());
}

#[tokio::test]
async fn a_notice_that_is_not_taken_is_sent_again_later_with_the_same_id() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("test.db");
    let receiver = Receiver::spawn().await;
    receiver.answer(500);
    let (_gateway, _) = gateway(&database, &receiver, "a").await;
    let put_off =
        "SELECT count(*) FROM webhook_outbox WHERE attempts = 1 AND due_at < 1000 * unixepoch() + 20000";
    // Not only taken: the pause after the first try is shorter than the time for which a notice is taken.
    assert!(eventually(async || receiver.count() == 1 && number(&database, put_off) == 1).await);
    receiver.answer(200);
    let sql = rusqlite::Connection::open(&database).unwrap();
    sql.execute("UPDATE webhook_outbox SET due_at = 0", []).unwrap();
    assert!(eventually(async || number(&database, LEFT) == 0).await);
    assert_eq!(receiver.notice(0).0, receiver.notice(1).0);
}

#[tokio::test]
async fn a_notice_is_given_up_after_eight_tries_or_when_nobody_wants_it() {
    for (status, tries) in [(500, 7), (302, 7), (410, 0)] {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("test.db");
        let receiver = Receiver::spawn().await;
        receiver.answer(status);
        let (_gateway, _) = gateway(&database, &receiver, "a").await;
        let sql = rusqlite::Connection::open(&database).unwrap();
        let attempts = "SELECT coalesce(max(attempts), 9) FROM webhook_outbox";
        for earlier in 1..=tries {
            let failed =
                "SELECT count(*) FROM webhook_outbox WHERE due_at > 1000 * unixepoch() AND attempts = ";
            let failed = format!("{failed}{earlier}");
            let is_put_off = async || receiver.count() == earlier && number(&database, &failed) == 1;
            assert!(eventually(is_put_off).await, "{status}: {}", number(&database, attempts));
            // Not before the outcome is written.
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            sql.execute("UPDATE webhook_outbox SET due_at = 0", []).unwrap();
        }
        assert!(eventually(async || number(&database, LEFT) == 0).await, "{status}");
        assert_eq!(receiver.count(), tries + 1, "{status}");
    }
}

/// In a rollout, a gateway that did not know a webhook yet deleted its notices.
#[tokio::test]
async fn a_notice_of_a_webhook_that_is_not_configured_here_waits_for_a_gateway_that_knows_it() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("test.db");
    let receiver = Receiver::spawn().await;
    let (_gateway, _) = gateway(&database, &receiver, "b").await;
    let put_off =
        "SELECT count(*) FROM webhook_outbox WHERE attempts = 1 AND due_at < 1000 * unixepoch() + 20000";
    assert!(eventually(async || number(&database, put_off) == 1).await);
    assert_eq!(receiver.count(), 0);
}

/// It was the process that would have told.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_background_response_whose_process_is_gone_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let (upstream, receiver) = (Upstream::spawn().await, Receiver::spawn().await);
    let config = format!(
        "webhooks:\n  all: {{url: \"{url}\", secret: {secret}}}\n  \
         others: {{url: \"{url}\", secret: {secret}, tenants: [acme]}}\n  \
         completed: {{url: \"{url}\", secret: {secret}, events: [response.completed]}}\n",
        url = receiver.url,
        secret = secret()
    );
    std::fs::write(folder.path().join("antwort.yaml"), config).unwrap();
    upstream.reply(Reply::Stream(vec![chunk(json!({"content": "Hel"})), Step::Hang]));
    upstream.reply(Reply::Stream(vec![chunk(json!({"content": "Hel"})), Step::Hang]));
    let mut gateway = Process::start(folder.path(), &upstream).await;
    let ask = json!({"model": "test-model", "input": "Hi", "stream": true, "antwort": {"on_disconnect": "continue"}});
    for _ in 0..2 {
        let create = reqwest::Client::new().post(format!("{}/v1/responses", gateway.base)).json_body(&ask);
        assert!(create.send().await.unwrap().chunk().await.unwrap().is_some());
    }
    gateway.kill();
    let database = folder.path().join("test.db");
    let sql = rusqlite::Connection::open(&database).unwrap();
    let background = "UPDATE responses SET body = json_set(body, '$.background', json('true'))
        WHERE key = (SELECT min(key) FROM responses)";
    assert_eq!(sql.execute(background, []).unwrap(), 1);
    let id: String = sql.query_row("SELECT id FROM responses ORDER BY key", [], |row| row.get(0)).unwrap();
    drop(sql);
    gateway.restart().await;
    let ended = "SELECT count(*) FROM responses WHERE status = 'failed'";
    assert!(eventually(async || number(&database, ended) == 2 && receiver.count() == 1).await);
    let (event_id, body) = receiver.notice(0);
    assert!(body["created_at"].as_i64().is_some_and(|at| at > 1_700_000_000), "{body:#}");
    let expected = json!({
        "object": "event", "id": event_id, "type": "response.failed", "created_at": body["created_at"],
        "data": {"id": id}
    });
    assert_eq!(body, expected);
    assert!(eventually(async || number(&database, LEFT) == 0).await);
}
