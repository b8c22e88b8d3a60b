//! Requests that fail before their first output: the rows that they leave, and what these do not have.

mod kept;
mod leaves_nothing;
mod rows;

use std::time::Duration;

use antwort::config::{Settings, StoreUrl};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use secrecy::SecretBox;
use serde_json::{Value, json};
use tempfile::TempDir;

use antwort_test_support::configured;
use antwort_test_support::eventually;
use antwort_test_support::fleet::SEAL_KEY;
use antwort_test_support::gateway::{Gateway, HttpAnswer, JsonBody};
use antwort_test_support::postgres::Database;
use antwort_test_support::upstream::{Reply, Upstream};

const KEYS: &str = "
auth:
  keys:
    alice: {key: key-alice}
    bob: {key: key-bob}
    other: {key: key-other, tenant: other}
    private: {key: key-private, store: never}
    eraser: {key: key-eraser, tenant: operators, scopes: ['data:admin']}
";

/// Where rows are.
enum Rows {
    Sqlite(TempDir),
    Postgres(Database),
}

/// A provider, and a database of its own.
struct Bed {
    upstream: Upstream,
    rows: Rows,
}

impl Bed {
    async fn sqlite() -> Self {
        Self { upstream: Upstream::spawn().await, rows: Rows::Sqlite(tempfile::tempdir().unwrap()) }
    }

    async fn postgres() -> Self {
        Self { upstream: Upstream::spawn().await, rows: Rows::Postgres(Database::new().await) }
    }

    /// A gateway with keys, and these settings.
    async fn gateway(&self, change: impl FnOnce(&mut Settings)) -> Gateway {
        let mut settings = configured::settings(&self.upstream, &[], KEYS);
        // A stream that fails has its status, however long that takes.
        settings.sse.commit_after = Duration::from_secs(60);
        match &self.rows {
            Rows::Sqlite(folder) => settings.store.url = StoreUrl::Sqlite(folder.path().join("test.db")),
            Rows::Postgres(database) => {
                settings.store.url = database.url().parse().unwrap();
                // One of them writes: rows are written in the order of their requests.
                settings.store.pool_size = 3;
                let key: [u8; 32] = BASE64_STANDARD.decode(SEAL_KEY).unwrap().try_into().unwrap();
                settings.seal.keys = vec![SecretBox::new(Box::new(key)).into()];
            }
        }
        change(&mut settings);
        let retry = |provider: &mut antwort::config::ProviderSettings| {
            provider.retries.initial_backoff = Duration::from_millis(5);
        };
        Gateway::with(settings).provider(retry).spawn().await
    }
}

/// Makes a test of each backend of these functions.
macro_rules! on_both {
    ($($law:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $law() {
                super::$law(crate::failed_requests::Bed::sqlite().await).await;
            })+
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $law() {
                super::$law(crate::failed_requests::Bed::postgres().await).await;
            })+
        }
    };
}
use on_both;

/// The provider refuses a request, and says why.
fn refusal() -> Reply {
    Reply::Status(400, vec![], json!({"error": {"message": "words of the provider"}}).to_string())
}

fn ask(model: &str) -> Value {
    json!({"model": model, "input": "words of the user"})
}

async fn send(gateway: &Gateway, key: &str, method: &str, path: &str, body: Option<&Value>) -> HttpAnswer {
    let mut request = gateway.http.request(method.parse().unwrap(), format!("{}{path}", gateway.base));
    if let Some(body) = body {
        request = request.json_body(body);
    }
    gateway.send(request.header("authorization", format!("Bearer {key}"))).await
}

async fn read(gateway: &Gateway, key: &str, path: &str) -> HttpAnswer {
    send(gateway, key, "GET", path, None).await
}

/// Sends a request that the provider refuses.
async fn fail(bed: &Bed, gateway: &Gateway, key: &str, body: &Value) -> HttpAnswer {
    bed.upstream.reply(refusal());
    let answer = send(gateway, key, "POST", "/v1/responses", Some(body)).await;
    assert!((400..500).contains(&answer.status), "{:#}", answer.body);
    answer
}

/// The stored responses of a key, newest first.
async fn listed(gateway: &Gateway, key: &str, query: &str) -> Vec<Value> {
    let list = read(gateway, key, &format!("/v1/responses?limit=100{query}")).await;
    assert_eq!(list.status, 200, "{:#}", list.body);
    list.body["data"].as_array().unwrap().clone()
}

/// The same, once there are so many.
async fn until_listed(gateway: &Gateway, key: &str, count: usize) -> Vec<Value> {
    let are_there = async || listed(gateway, key, "").await.len() == count;
    assert!(eventually(are_there).await, "{count}: {:#?}", listed(gateway, key, "").await);
    listed(gateway, key, "").await
}

fn models(responses: &[Value]) -> Vec<&str> {
    responses.iter().map(|response| response["model"].as_str().unwrap()).collect()
}
