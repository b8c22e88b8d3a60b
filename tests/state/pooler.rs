//! Gateways behind a pooler in transaction mode: nothing of theirs needs a session of the database.

use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use antwort_test_support::eventually;
use antwort_test_support::fleet::SEAL_KEY;
use antwort_test_support::gateway::{JsonBody, frames, text_of};
use antwort_test_support::pgbouncer::PgBouncer;
use antwort_test_support::postgres::{Cluster, connect};
use antwort_test_support::process::Process;
use antwort_test_support::stream_validator::assert_valid_resumed_stream;
use antwort_test_support::upstream::{Reply, Step, Upstream, chunk, done, finish, usage};

/// How the gateways signal one another.
#[derive(Clone, Copy)]
enum BusUrl {
    Poll,
    /// Notifications, past the pooler.
    Direct,
    /// Notifications, which do not pass the pooler.
    Auto,
}

/// Two gateways that reach one database over a pooler, which has fewer connections than they have.
struct Fleet {
    one: Process,
    two: Process,
    pooler: PgBouncer,
    cluster: Cluster,
    upstream: Upstream,
    folder: TempDir,
    http: reqwest::Client,
}

impl Fleet {
    async fn start(bus: BusUrl) -> Self {
        let (folder, upstream) = (tempfile::tempdir().unwrap(), Upstream::spawn().await);
        let cluster = Cluster::start(&["fsync=off"]);
        let pooler = PgBouncer::start(&cluster, 3);
        let bus = match bus {
            BusUrl::Poll => "poll:".to_owned(),
            BusUrl::Direct => cluster.url("postgres"),
            BusUrl::Auto => "auto".to_owned(),
        };
        let store = pooler.url("postgres");
        let environment = [
            ("ANTWORT_STORE_URL", &*store),
            ("ANTWORT__STORE__PREPARED_STATEMENTS", "false"),
            ("ANTWORT_BUS_URL", &*bus),
            ("ANTWORT_SEAL_KEYS", SEAL_KEY),
            ("ANTWORT_LOG", "warn"),
        ];
        let [one, two] = ["one", "two"].map(|name| {
            let own = folder.path().join(name);
            std::fs::create_dir_all(&own).unwrap();
            Process::launch(&own, &upstream, &environment)
        });
        one.until_ready().await;
        two.until_ready().await;
        Self { one, two, pooler, cluster, upstream, folder, http: reqwest::Client::new() }
    }

    async fn get(&self, at: &Process, path: &str) -> (u16, String) {
        let answer = self.http.get(format!("{}/{path}", at.base)).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    async fn read(&self, at: &Process, id: &str) -> Value {
        serde_json::from_str(&self.get(at, &format!("v1/responses/{id}")).await.1).unwrap()
    }

    async fn follow(&self, at: &Process, id: &str) -> String {
        self.get(at, &format!("v1/responses/{id}?stream=true")).await.1
    }

    async fn post(&self, at: &Process, path: &str, body: Value) -> (u16, Value) {
        let url = format!("{}/v1/responses{path}", at.base);
        let answer = self.http.post(url).json_body(&body).send().await.unwrap();
        (answer.status().as_u16(), serde_json::from_str(&answer.text().await.unwrap()).unwrap())
    }

    /// A response behind this one, with its id.
    async fn create(&self, at: &Process, previous: Option<&str>) -> String {
        let body = json!({"model": "test-model", "input": "Hi", "previous_response_id": previous});
        let (status, response) = self.post(at, "", body).await;
        assert_eq!((status, response["status"].as_str()), (200, Some("completed")), "{response}");
        response["id"].as_str().unwrap().to_owned()
    }

    async fn queue(&self, at: &Process) -> String {
        let body = json!({"model": "test-model", "input": "Hi", "background": true});
        let (_, queued) = self.post(at, "", body).await;
        assert_eq!(queued["status"], "queued", "{queued}");
        queued["id"].as_str().unwrap().to_owned()
    }

    async fn becomes(&self, at: &Process, id: &str, status: &str) -> Value {
        let is_so = async || self.read(at, id).await["status"] == status;
        assert!(eventually(is_so).await, "{status}: {:#}", self.read(at, id).await);
        self.read(at, id).await
    }

    /// What concerns both gateways.
    async fn works(&self) {
        let (one, two) = (&self.one, &self.two);
        let first = self.create(one, None).await;
        let second = self.create(two, Some(&first)).await;
        self.create(one, Some(&second)).await;
        self.upstream.reply(words(100));
        let id = self.queue(one).await;
        let (here, there) = tokio::join!(self.follow(one, &id), self.follow(two, &id));
        assert_eq!(here, there, "the same bytes");
        assert_valid_resumed_stream(&frames(&here));
        assert_eq!(text_of(&self.becomes(two, &id, "completed").await), "one two three");
        self.upstream.reply(Reply::Stream(vec![chunk(json!({"content": "Hel"})), Step::Hang]));
        let endless = self.queue(two).await;
        assert!(eventually(async || self.upstream.open_streams() == 1).await);
        let (status, cancelled) = self.post(one, &format!("/{endless}/cancel"), json!({})).await;
        assert_eq!((status, cancelled["status"].as_str()), (200, Some("cancelled")), "{cancelled}");
        assert!(eventually(async || self.upstream.open_streams() == 0).await);
    }

    fn logs(&self) -> String {
        ["one", "two"]
            .map(|name| std::fs::read_to_string(self.folder.path().join(name).join("log")).unwrap())
            .concat()
    }
}

fn words(pause: u64) -> Reply {
    let mut steps = vec![chunk(json!({"role": "assistant", "content": ""}))];
    for word in ["one ", "two ", "three"] {
        steps.extend([chunk(json!({"content": word})), Step::Wait(Duration::from_millis(pause))]);
    }
    steps.extend([finish("stop"), usage(5, 6), done()]);
    Reply::Stream(steps)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_in_transaction_mode_may_stand_between_when_the_bus_polls() {
    let fleet = Fleet::start(BusUrl::Poll).await;
    fleet.works().await;
    let admin = connect(&fleet.cluster.url("postgres")).await;
    let connections = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'antwort'";
    let connections: i64 = admin.query_one(connections, &[]).await.unwrap().get(0);
    assert!((1..=3).contains(&connections), "{connections}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bus_may_listen_past_the_pooler() {
    let fleet = Fleet::start(BusUrl::Direct).await;
    fleet.works().await;
    for gateway in [&fleet.one, &fleet.two] {
        let (_, metrics) = fleet.get(gateway, "metrics").await;
        assert!(metrics.lines().any(|line| line == "antwort_bus_connected 1"), "{metrics}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bus_behind_the_pooler_is_found_out_and_nothing_needs_it() {
    let fleet = Fleet::start(BusUrl::Auto).await;
    fleet.works().await;
    assert!(eventually(async || fleet.logs().contains("is there a pooler in between?")).await);
    for gateway in [&fleet.one, &fleet.two] {
        let (_, metrics) = fleet.get(gateway, "metrics").await;
        assert!(metrics.lines().any(|line| line == "antwort_bus_connected 0"), "{metrics}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_that_was_killed_is_waited_for() {
    let mut fleet = Fleet::start(BusUrl::Poll).await;
    let first = fleet.create(&fleet.one, None).await;
    fleet.upstream.reply(words(400));
    let running = fleet.queue(&fleet.one).await;
    fleet.becomes(&fleet.two, &running, "in_progress").await;
    fleet.pooler.kill();
    let unstored = json!({"model": "test-model", "input": "Hi", "store": false});
    let (status, answer) = fleet.post(&fleet.two, "", unstored).await;
    assert_eq!((status, answer["status"].as_str()), (200, Some("completed")), "{answer}");
    assert!(eventually(async || fleet.get(&fleet.two, "readyz").await.0 == 503).await);
    fleet.pooler.restart();
    fleet.two.until_ready().await;
    fleet.create(&fleet.two, Some(&first)).await;
    assert_eq!(text_of(&fleet.becomes(&fleet.two, &running, "completed").await), "one two three");
    fleet.works().await;
}
