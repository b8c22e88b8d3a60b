//! Two gateways on one PostgreSQL, with a bus between them: the first executes no background runs, the second does.

use std::sync::Arc;
use std::time::Duration;

use antwort::config::{Role, SealKey};
use secrecy::SecretBox;
use serde_json::{Value, json};

use crate::support::eventually;
use crate::support::gateway::{Builder, Gateway};
use crate::support::nats::NatsServer;
use crate::support::postgres::Database;
use crate::support::upstream::{Reply, Step, Upstream, chunk, done, finish, usage};

/// Over what the two tell each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    Postgres,
    Nats,
    Poll,
}

impl Over {
    pub const ALL: [Self; 3] = [Self::Postgres, Self::Nats, Self::Poll];
}

pub struct Pair {
    pub first: Gateway,
    pub second: Gateway,
    pub upstream: Upstream,
    pub nats: Option<NatsServer>,
    pub database: Database,
}

impl Pair {
    pub async fn start() -> Self {
        Self::over(Over::Postgres).await
    }

    pub async fn over(bus: Over) -> Self {
        Self::with(bus, |builder| builder).await
    }

    /// Two gateways that are changed alike.
    pub async fn with(bus: Over, change: impl Fn(Builder) -> Builder) -> Self {
        let (upstream, database) = (Upstream::spawn().await, Database::new().await);
        let nats = (bus == Over::Nats).then(NatsServer::start);
        let url = match (bus, &nats) {
            (Over::Nats, Some(server)) => server.url(),
            (Over::Poll, _) => "poll:".to_owned(),
            _ => "postgres:".to_owned(),
        };
        let start = async |role| change(replica(&upstream, &database, &url, role)).spawn().await;
        let (first, second) = tokio::join!(start(Role::Gateway), start(Role::All));
        let pair = Self { first, second, upstream, nats, database };
        if bus != Over::Poll {
            pair.connected(true).await;
        }
        pair
    }

    /// Both in turn, beginning with the first.
    pub fn in_turn(&self) -> impl Iterator<Item = &Gateway> {
        [&self.first, &self.second].into_iter().cycle()
    }

    /// Waits until both have reached the bus, or have noticed that it is gone.
    pub async fn connected(&self, expected: bool) {
        let line = format!("antwort_bus_connected {}", u8::from(expected));
        let shows = async |gateway: &Gateway| {
            gateway.get("/metrics").await.body.as_str().unwrap().lines().any(|shown| shown == line)
        };
        assert!(eventually(async || shows(&self.first).await && shows(&self.second).await).await);
    }
}

/// A gateway of a fleet, whose leases do not last long.
pub fn replica(upstream: &Upstream, database: &Database, bus: &str, role: Role) -> Builder {
    Gateway::with_upstream(upstream).set(|settings| {
        settings.store.url = database.url().parse().unwrap();
        settings.store.pool_size = 3;
        settings.store.lease = Duration::from_secs(2);
        settings.store.maintenance_interval = Duration::from_millis(500);
        settings.bus.url = bus.parse().unwrap();
        settings.bus.poll_interval = Duration::from_millis(100);
        settings.seal.keys = vec![key()];
        settings.role = role;
        settings.egress.allow = vec!["127.0.0.1".into()];
    })
}

fn key() -> SealKey {
    Arc::new(SecretBox::new(Box::new([7; 32])))
}

/// Some words, with a pause after each.
pub fn words(pause: u64) -> Reply {
    let mut steps = vec![chunk(json!({"role": "assistant", "content": ""}))];
    for n in 0..6 {
        steps.extend([
            chunk(json!({"content": format!("word {n} ")})),
            Step::Wait(Duration::from_millis(pause)),
        ]);
    }
    steps.extend([finish("stop"), usage(5, 6), done()]);
    Reply::Stream(steps)
}

/// What [`words`] say.
pub const WORDS: &str = "word 0 word 1 word 2 word 3 word 4 word 5 ";

/// A word, and then nothing.
pub fn endless() -> Reply {
    Reply::Stream(vec![chunk(json!({"content": "Hello "})), Step::Hang])
}

/// A request.
pub fn ask(input: &str) -> Value {
    json!({"model": "test-model", "input": input})
}

/// A request that is executed in the background.
pub fn in_background(input: &str) -> Value {
    json!({"model": "test-model", "input": input, "background": true})
}

pub fn id_of(body: &Value) -> String {
    body["id"].as_str().unwrap_or_else(|| panic!("no id: {body:#}")).to_owned()
}

/// Waits until a response has this status.
pub async fn becomes(gateway: &Gateway, id: &str, status: &str) -> Value {
    let path = format!("/v1/responses/{id}");
    let is_so = async || gateway.get(&path).await.body["status"] == status;
    assert!(eventually(is_so).await, "{status}: {:#}", gateway.get(&path).await.body);
    gateway.get(&path).await.body
}
