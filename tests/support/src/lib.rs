//! What the tests share: a gateway on a real port, a scripted provider, clients, and judges.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    reason = "clippy.toml allows panics in functions marked #[test] only; helpers take json!(..) as it is"
)]
#![allow(missing_docs, reason = "fields of records that tests read")]

pub mod async_tool;
pub mod configured;
pub mod fleet;
pub mod gateway;
pub mod halting_store;
pub mod hooked_store;
pub mod mcp_client;
pub mod mcp_server;
pub mod nats;
pub mod network;
pub mod next_version;
pub mod openapi;
pub mod pgbouncer;
pub mod postgres;
pub mod probe;
pub mod process;
pub mod raw;
pub mod real_servers;
pub mod response;
pub mod stream;
pub mod stream_validator;
pub mod tokenizer;
pub mod transcript;
pub mod upstream;
pub mod weather;
pub mod websocket;

use std::time::{Duration, Instant};

/// Whether something becomes true within half a minute; asks again and again.
pub async fn eventually(mut check: impl AsyncFnMut() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(30);
    while Instant::now() < deadline {
        if check().await {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    false
}
