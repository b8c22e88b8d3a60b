//! Creates with `Idempotency-Key`: one run for a key, whose response every repetition gets.

mod crash;
mod lifetime;
mod refused;
mod repeated;
mod running;
mod storage;

use std::time::Duration;

use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use antwort_test_support::gateway::{Gateway, JsonBody};
use antwort_test_support::upstream::{Reply, Step, chunk, done, finish, usage};

/// An answer, byte for byte.
#[derive(Debug)]
struct Raw {
    status: u16,
    headers: HeaderMap,
    text: String,
}

impl Raw {
    async fn of(response: reqwest::Response) -> Self {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Self { status, headers, text: response.text().await.unwrap() }
    }

    fn is_replayed(&self) -> bool {
        self.headers.get("idempotent-replayed").is_some_and(|value| value == "true")
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("JSON: {}", self.text))
    }
}

/// A create with this key.
fn keyed(base: &str, key: &str, body: &Value) -> reqwest::RequestBuilder {
    let http = reqwest::Client::builder().user_agent("antwort-tests").build().unwrap();
    http.post(format!("{base}/v1/responses")).json_body(body).header("idempotency-key", key)
}

async fn send(gateway: &Gateway, key: &str, body: &Value) -> Raw {
    Raw::of(keyed(&gateway.base, key, body).send().await.unwrap()).await
}

fn ask(stream: bool) -> Value {
    json!({"model": "test-model", "input": "Hi", "stream": stream})
}

/// A few words, with a pause between them that is long enough to look at the run meanwhile.
fn slow_answer() -> Reply {
    let mut steps = vec![chunk(json!({"role": "assistant", "content": ""}))];
    for n in 0..6 {
        steps.extend([
            chunk(json!({"content": format!("word {n} ")})),
            Step::Wait(Duration::from_millis(120)),
        ]);
    }
    steps.extend([finish("stop"), usage(5, 6), done()]);
    Reply::Stream(steps)
}

/// The ids of all stored responses.
async fn listed(gateway: &Gateway) -> Vec<String> {
    let list = gateway.get("/v1/responses").await.body;
    let ids = list["data"].as_array().unwrap().iter().map(|response| response["id"].as_str().unwrap());
    ids.map(str::to_owned).collect()
}

/// The value of a metric, with its labels.
async fn metric(gateway: &Gateway, line: &str) -> Option<String> {
    let text = gateway.get("/metrics").await.body.as_str().unwrap().to_owned();
    let found = text.lines().find_map(|found| found.strip_prefix(line)).map(str::trim);
    found.map(str::to_owned)
}
