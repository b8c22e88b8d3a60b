//! Replicas on one database, before one model server.

use antwort::config::{BusSettings, Role, Settings};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use secrecy::SecretBox;

use crate::gateway::{Builder, Gateway};
use crate::postgres::Database;
use crate::upstream::Upstream;

/// The key that tests of several gateways seal with.
pub const SEAL_KEY: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

/// A database of its own, and a scripted model server that all replicas ask.
pub struct Fleet {
    pub upstream: Upstream,
    pub database: Database,
    bus: BusSettings,
}

impl Fleet {
    /// One whose replicas tell each other by notifications of the database, which is the default.
    pub async fn new() -> Self {
        Self::with_bus(BusSettings::default()).await
    }

    /// One with another bus.
    pub async fn with_bus(bus: BusSettings) -> Self {
        Self { upstream: Upstream::spawn().await, database: Database::new().await, bus }
    }

    /// A replica in the making.
    pub fn builder(&self) -> Builder {
        let url = self.database.url().parse().unwrap();
        let key: [u8; 32] = BASE64_STANDARD.decode(SEAL_KEY).unwrap().try_into().unwrap();
        let bus = self.bus.clone();
        Gateway::with_upstream(&self.upstream).set(|settings: &mut Settings| {
            settings.store.url = url;
            // Many tests share the server.
            settings.store.pool_size = 3;
            settings.seal.keys = vec![SecretBox::new(Box::new(key)).into()];
            settings.egress.allow = vec!["127.0.0.1".into()];
            settings.bus = bus;
        })
    }

    /// A replica that does everything.
    pub async fn replica(&self) -> Gateway {
        self.builder().spawn().await
    }

    /// Two replicas that do everything.
    pub async fn two(&self) -> [Gateway; 2] {
        [self.replica().await, self.replica().await]
    }

    /// A replica that queues background responses, and one that makes them.
    pub async fn front_and_back(&self) -> [Gateway; 2] {
        let front = self.builder().set(|settings| settings.role = Role::Gateway).spawn().await;
        [front, self.replica().await]
    }
}
