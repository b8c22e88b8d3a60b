//! TLS to PostgreSQL: what each `sslmode` accepts of a server's certificate, for the store and for the bus.

use std::time::Duration;

use antwort::store::{ResponseStore, RunLog, Store};
use antwort_store_postgres::{PostgresOptions, PostgresStore};
use antwort_telemetry::metrics::Metrics;

use super::{owner, record};
use antwort_test_support::eventually;
use antwort_test_support::network::{IssuedCert, TestCa};
use antwort_test_support::postgres::{Cluster, connect};

/// Who comes over the network needs TLS and a password.
const ONLY_TLS: &str = "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n";

struct Server {
    cluster: Cluster,
    ca: TestCa,
    other_ca: TestCa,
}

impl Server {
    async fn start(certificate: impl FnOnce(&TestCa) -> IssuedCert) -> Self {
        let ca = TestCa::generate();
        let cluster = Cluster::start_with_tls(&certificate(&ca), ONLY_TLS);
        let admin = connect(&cluster.url("postgres")).await;
        for sql in ["CREATE USER antwort PASSWORD 'p@ss'", "CREATE DATABASE antwort OWNER antwort"] {
            admin.batch_execute(sql).await.unwrap();
        }
        Self { cluster, ca, other_ca: TestCa::generate() }
    }

    /// The URL over the network; `CA` and `OTHER` in it are the authorities' files.
    fn url(&self, host: &str, query: &str) -> String {
        let file = |ca: &TestCa| ca.file().to_str().unwrap().replace('/', "%2F");
        let query = query.replace("CA", &file(&self.ca)).replace("OTHER", &file(&self.other_ca));
        format!("postgres://antwort:p%40ss@{host}:{}/antwort?{query}", self.cluster.place().1)
    }

    /// Opens a store, and stores and reads a response. The error is what its operator is told.
    async fn works(&self, host: &str, query: &str) -> Result<(), String> {
        let options = PostgresOptions::new(self.url(host, query), "test");
        let store = PostgresStore::open(options).await.map_err(|error| error.to_string())?;
        store.ready().await.map_err(|error| error.to_string())?;
        let stored = record();
        store.finish(stored.clone()).await.unwrap();
        assert!(store.response(&owner(), stored.lease.id.as_str(), u64::MAX).await.unwrap().is_some());
        let admin = connect(&self.cluster.url("postgres")).await;
        let encrypted = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'antwort'";
        assert!(admin.query_one(encrypted, &[]).await.unwrap().get::<_, bool>(0), "{query}");
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_trusted_as_sslmode_says() {
    let server = Server::start(|ca| ca.issue("localhost")).await;
    for (host, query) in [
        ("localhost", ""),
        ("127.0.0.1", "sslmode=prefer"),
        ("127.0.0.1", "sslmode=require"),
        ("127.0.0.1", "sslmode=require&sslrootcert=CA"),
        ("127.0.0.1", "sslmode=verify-ca&sslrootcert=CA"),
        ("localhost", "sslmode=verify-full&sslrootcert=CA"),
    ] {
        assert_eq!(server.works(host, query).await, Ok(()), "{host} {query}");
    }
    for (host, query, because) in [
        ("localhost", "sslmode=disable", "sslmode"),
        ("localhost", "sslmode=require&sslrootcert=OTHER", "invalid peer certificate"),
        ("localhost", "sslmode=verify-ca&sslrootcert=OTHER", "invalid peer certificate"),
        // The name is not what is wrong first.
        ("127.0.0.1", "sslmode=verify-ca&sslrootcert=OTHER", "invalid peer certificate"),
        ("localhost", "sslmode=verify-full&sslrootcert=OTHER", "invalid peer certificate"),
        ("localhost", "sslmode=verify-full", ""),
        ("127.0.0.1", "sslmode=verify-full&sslrootcert=CA", "not valid for name"),
        ("localhost", "sslmode=verify-full&sslrootcert=/nowhere.pem", "sslrootcert /nowhere.pem"),
    ] {
        let error = server.works(host, query).await.unwrap_err();
        assert!(error.contains(because) && !error.contains("p@ss"), "{host} {query}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_that_has_expired_is_refused_unless_none_is_looked_at() {
    let server = Server::start(|ca| ca.issue_expired("localhost")).await;
    assert_eq!(server.works("localhost", "sslmode=require").await, Ok(()));
    for mode in ["verify-ca", "verify-full"] {
        let error = server.works("localhost", &format!("sslmode={mode}&sslrootcert=CA")).await.unwrap_err();
        assert!(error.contains("expired"), "{mode}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bus_looks_at_the_certificate_as_the_store_does() {
    let server = Server::start(|ca| ca.issue("localhost")).await;
    let bus = |query: &str| {
        antwort_store_postgres::bus(
            &server.url("localhost", query),
            Duration::from_millis(50),
            &Metrics::new(),
        )
        .unwrap()
    };
    let refused = bus("sslmode=verify-full&sslrootcert=OTHER");
    let trusted = bus("sslmode=verify-full&sslrootcert=CA");
    assert!(eventually(async || trusted.is_connected()).await);
    assert!(!refused.is_connected());
}
