//! The configuration is read again while the gateway runs: what changes for new requests, and what for none.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::{ask, read_until, text};
use antwort_test_support::eventually;
use antwort_test_support::gateway::{JsonBody, frames, text_of};
use antwort_test_support::mcp_server::McpServer;
use antwort_test_support::network::{Server, TestCa};
use antwort_test_support::process::Process;
use antwort_test_support::stream_validator;
use antwort_test_support::upstream::{Reply, Step, Upstream, done, finish};
use antwort_test_support::websocket::WebSocket;

/// A gateway with all its settings in `antwort.yaml` of its folder, but for its address and database.
pub(super) struct Running {
    folder: PathBuf,
    pub(super) process: Process,
    http: reqwest::Client,
}

impl Running {
    pub(super) async fn start(folder: &Path, upstream: &Upstream, yaml: &str) -> Self {
        std::fs::write(folder.join("antwort.yaml"), yaml).unwrap();
        Self::start_by(folder, upstream, &folder.join("antwort.yaml")).await
    }

    async fn start_by(folder: &Path, upstream: &Upstream, file: &Path) -> Self {
        let file = file.to_str().unwrap();
        let unset = [("ANTWORT_UPSTREAM_URL", ""), ("ANTWORT_LOG", ""), ("ANTWORT_CONFIG", file)];
        let process = Process::start_with_environment(folder, upstream, &unset).await;
        Self::of(folder, process)
    }

    /// One that has been started.
    pub(super) fn of(folder: &Path, process: Process) -> Self {
        Self { folder: folder.to_owned(), process, http: reqwest::Client::new() }
    }

    /// Writes another file and says SIGHUP; waits until that was heeded.
    pub(super) async fn reload(&self, yaml: &str, outcome: &str) {
        std::fs::write(self.folder.join("antwort.yaml"), yaml).unwrap();
        let before = self.reloads(outcome).await;
        self.process.signal("HUP");
        assert!(eventually(async || self.reloads(outcome).await > before).await, "{}", self.log());
    }

    async fn reloads(&self, outcome: &str) -> u64 {
        let name = format!("antwort_config_reloads_total{{outcome=\"{outcome}\"}} ");
        self.metric(&name).await
    }

    pub(super) async fn metric(&self, name: &str) -> u64 {
        let url = format!("{}/metrics", self.process.base);
        let request = self.http.get(url).header("authorization", "Bearer key-b");
        let metrics = request.send().await.unwrap().text().await.unwrap();
        let line = metrics.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("{name} in {metrics}")).trim().parse().unwrap()
    }

    pub(super) fn request(&self, key: &str, body: &Value) -> reqwest::RequestBuilder {
        let url = format!("{}/v1/responses", self.process.base);
        self.http.post(url).header("authorization", format!("Bearer {key}")).json_body(body)
    }

    pub(super) async fn create(&self, key: &str, body: &Value) -> (u16, Value) {
        let answer = self.request(key, body).send().await.unwrap();
        let status = answer.status().as_u16();
        (status, serde_json::from_str(&answer.text().await.unwrap()).unwrap())
    }

    pub(super) fn log(&self) -> String {
        self.process.log()
    }

    /// The log's lines that have this text.
    fn logged(&self, part: &str) -> Vec<Value> {
        let lines = self.log();
        let lines = lines.lines().filter(|line| line.contains(part));
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

pub(super) const KEY_A: &str = "a: {key: key-a, tenant: red}";
pub(super) const KEY_B: &str = "b: {key: key-b, tenant: blue, scopes: ['*', 'metrics:read']}";

pub(super) fn yaml(upstream: &Upstream, keys: &[&str], more: &str) -> String {
    let keys = keys.join(", ");
    format!(
        "log: {{filter: info}}\nauth: {{keys: {{{keys}}}}}\nproviders: {{default: {{url: '{}'}}}}\n{more}\n",
        upstream.url
    )
}

fn in_two_halves() -> Reply {
    Reply::Stream(vec![text("Hel"), Step::Wait(Duration::from_secs(3)), text("lo"), finish("stop"), done()])
}

pub(super) async fn rest_of(mut response: reqwest::Response, mut seen: String) -> Value {
    while let Some(piece) = response.chunk().await.expect("not cut") {
        seen.push_str(std::str::from_utf8(&piece).unwrap());
    }
    stream_validator::assert_valid_stream(&frames(&seen)).response
}

#[tokio::test]
async fn a_key_that_a_reload_took_away_is_refused_while_its_running_stream_ends_whole() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::spawn().await;
    let both = yaml(&upstream, &[KEY_A, KEY_B], "");
    let gateway = Running::start(folder.path(), &upstream, &both).await;
    upstream.reply(in_two_halves());
    let mut streamed = ask();
    streamed["stream"] = true.into();
    let mut running = gateway.request("key-a", &streamed).send().await.unwrap();
    let seen = read_until(&mut running, "delta").await;

    gateway.reload(&yaml(&upstream, &[KEY_B], ""), "success").await;
    let (status, refused) = gateway.create("key-a", &ask()).await;
    assert_eq!((status, &refused["error"]["code"]), (401, &json!("invalid_api_key")));
    upstream.text("there");
    assert_eq!(gateway.create("key-b", &ask()).await.0, 200, "keys that stayed are let in");
    let response = rest_of(running, seen).await;
    assert_eq!((&response["status"], text_of(&response).as_str()), (&json!("completed"), "Hello"));

    let logged = gateway.logged("configuration reloaded");
    assert_eq!((&logged[0]["keys"], &logged[0]["trigger"]), (&json!("auth.keys.a"), &json!("SIGHUP")));
    assert!(!gateway.log().contains("key-a"), "no key is logged");
}

#[tokio::test]
async fn a_key_that_a_reload_took_away_is_refused_at_the_next_turn_of_its_connection() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::spawn().await;
    let both = yaml(&upstream, &[KEY_A, KEY_B], "");
    let gateway = Running::start(folder.path(), &upstream, &both).await;
    let key = [("authorization", "Bearer key-a")];
    let mut socket = WebSocket::connect_with(&gateway.process.base, "/v1/responses", &key).await.unwrap();
    let mut request = ask();
    request.as_object_mut().unwrap().remove("stream");
    socket.response(request.clone(), "completed").await;
    socket.send(r#"{"type":"response.processed","response_id":"resp_1"}"#).await;
    socket.response(request.clone(), "completed").await;
    gateway.reload(&yaml(&upstream, &[KEY_B], ""), "success").await;
    socket.refuse(request, 401, "invalid_api_key").await;
    assert_eq!(socket.next().await, Err(Some(1008)), "the connection is of no use to it");
    // Turns are in the access log, with what they used.
    let lines = gateway.logged("request");
    let turns: Vec<_> = lines.iter().filter(|line| line["method"] == "WEBSOCKET").collect();
    assert!(turns.iter().all(|line| line["route"] == "/v1/responses"), "as HTTP requests: {turns:#?}");
    let ends: Vec<_> =
        turns.iter().map(|line| json!([line["status"], line["ended"], line["key"], line["code"]])).collect();
    let done = |status: u16| json!([status, "done", "a", null]);
    let refused = json!([401, "done", null, "invalid_api_key"]);
    assert_eq!(ends, [done(200), done(204), done(200), refused], "{lines:#?}");
}

#[tokio::test]
async fn a_provider_that_changed_in_the_midst_of_a_stream_answers_the_next_request() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (Upstream::spawn().await, Upstream::spawn().await);
    let gateway = Running::start(folder.path(), &first, &yaml(&first, &[KEY_B], "")).await;
    first.reply(in_two_halves());
    let mut streamed = ask();
    streamed["stream"] = true.into();
    let mut running = gateway.request("key-b", &streamed).send().await.unwrap();
    let seen = read_until(&mut running, "delta").await;

    gateway.reload(&yaml(&second, &[KEY_B], "agents: {x: {model: of-x}}"), "success").await;
    second.text("from the second");
    let (status, answer) = gateway.create("key-b", &json!({"agent": "x", "input": "Hi"})).await;
    assert_eq!((status, text_of(&answer).as_str()), (200, "from the second"), "{answer}");
    assert_eq!(second.last()["model"], "of-x", "agents change with the rest");
    let response = rest_of(running, seen).await;
    assert_eq!(text_of(&response), "Hello", "what had begun ends with the provider that it began with");
    assert_eq!(first.requests().len(), 1);
}

#[tokio::test]
async fn a_gateway_that_a_reload_made_ready_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::spawn().await;
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let requires = |what: &str| {
        let yaml = yaml(&upstream, &[KEY_B], &format!("server: {{ready_requires: [{what}]}}"));
        yaml.replace(&upstream.url, &format!("http://{closed}/v1"))
    };
    let file = folder.path().join("antwort.yaml");
    std::fs::write(&file, requires("store, provider")).unwrap();
    let unset =
        [("ANTWORT_UPSTREAM_URL", ""), ("ANTWORT_LOG", ""), ("ANTWORT_CONFIG", file.to_str().unwrap())];
    let process = Process::launch(folder.path(), &upstream, &unset);
    let gateway = Running { folder: folder.path().to_owned(), process, http: reqwest::Client::new() };
    let says = |message: &str| gateway.logged(&format!("\"message\":\"{message}\"")).len();
    assert!(eventually(async || says("serving") == 1).await, "{}", gateway.log());
    let probe =
        async || gateway.http.get(format!("{}/readyz", gateway.process.base)).send().await.unwrap().status();
    assert_eq!((probe().await, says("ready")), (503.try_into().unwrap(), 0), "no provider answers");
    gateway.reload(&requires("store"), "success").await;
    assert_eq!(probe().await, 200, "by what is required now");
    assert!(eventually(async || says("ready") == 1).await, "{}", gateway.log());
}

#[tokio::test]
async fn a_broken_file_changes_nothing_and_says_which_key_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::spawn().await;
    let gateway = Running::start(folder.path(), &upstream, &yaml(&upstream, &[KEY_A, KEY_B], "")).await;
    // Half of it would have taken a key away.
    let broken = yaml(&upstream, &[KEY_B], "engine: {run_timeout: soon}");
    for (count, (file, key)) in [
        (broken.as_str(), "engine.run_timeout"),
        ("auth: [", ""),
        (yaml(&upstream, &[KEY_B], "tools: {builtin: {get_weather: {required: true}}}").as_str(), ""),
    ]
    .into_iter()
    .enumerate()
    {
        gateway.reload(file, "failure").await;
        let errors = gateway.logged("configuration reload failed");
        let error = &errors[count];
        assert_eq!(error["level"], "ERROR");
        if key.is_empty() {
            continue;
        }
        assert_eq!(error["key"], key);
    }
    let last = gateway.logged("configuration reload failed").pop().unwrap();
    assert!(last["error"].as_str().unwrap().contains("get_weather"), "{last}");
    upstream.always(Reply::Stream(vec![text("still"), finish("stop"), done()]));
    for key in ["key-a", "key-b"] {
        assert_eq!(gateway.create(key, &ask()).await.0, 200, "{key}");
    }
    assert_eq!(gateway.reloads("success").await, 0);
    gateway.reload(&yaml(&upstream, &[KEY_B], ""), "success").await;
    assert_eq!(gateway.create("key-a", &ask()).await.0, 401, "one that is mended is applied");
}

#[tokio::test]
async fn a_key_that_needs_a_restart_is_named_and_stays_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::spawn().await;
    let gateway = Running::start(folder.path(), &upstream, &yaml(&upstream, &[KEY_B], "")).await;
    let more = "server: {max_runs: 7, drain_timeout: 1m}\nstore: {ttl: 1h}";
    let changed = yaml(&upstream, &[KEY_B], more).replace("filter: info", "filter: 'info,antwort=debug'");
    gateway.reload(&changed, "success").await;
    let named = |gateway: &Running| {
        let lines = gateway.logged("setting changed, but needs a restart; the old value stays in force");
        lines.iter().map(|line| line["key"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    // The reload is counted before its lines are written.
    assert!(eventually(async || named(&gateway) == ["server.drain_timeout", "store.ttl"]).await);
    assert_eq!(gateway.logged("configuration reloaded")[0]["keys"], "log.filter, server.max_runs");
    // As long as they differ from what is in force, they are named.
    gateway.reload(&changed, "success").await;
    assert!(eventually(async || named(&gateway).len() == 4).await);
    assert_eq!(gateway.logged("configuration reloaded")[1]["keys"], "");
}

#[tokio::test]
async fn twenty_reloads_leak_no_session_no_thread_and_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    upstream.always(Reply::Stream(vec![text("Hi"), finish("stop"), done()]));
    let file = |turn: usize| {
        let servers =
            format!("mcp: {{servers: {{docs: {{url: '{}', timeout: {}s}}}}}}", server.url(), 60 + turn);
        yaml(&upstream, &[KEY_B], &servers)
    };
    let gateway = Running::start(folder.path(), &upstream, &file(0)).await;
    let with_server = json!({"model": "m", "input": "x", "tools": [{"type": "mcp", "server_label": "docs"}]});
    let use_it = async || {
        let (status, answer) = gateway.create("key-b", &with_server).await;
        assert_eq!(status, 200, "{answer}");
    };
    use_it().await;
    gateway.reload(&file(1), "success").await;
    use_it().await;
    let settled = async || server.open_sessions() == 1;
    assert!(eventually(settled).await, "{} sessions", server.open_sessions());
    let before = (gateway.process.open_files(), gateway.process.threads());
    for turn in 2..20 {
        gateway.reload(&file(turn), "success").await;
        use_it().await;
    }
    // With nothing of the tools changed, they are kept.
    let made = server.sessions_made();
    gateway.reload(&file(19).replace("filter: info", "filter: debug"), "success").await;
    use_it().await;
    assert_eq!(server.sessions_made(), made, "a session whose settings did not change is kept");
    assert!(eventually(settled).await, "{} sessions of {made}", server.open_sessions());
    assert_eq!(gateway.metric("antwort_mcp_sessions ").await, 1);
    let leaks = async || {
        let now = (gateway.process.open_files(), gateway.process.threads());
        now.0 > before.0 + 4 || now.1 > before.1 + 4
    };
    assert!(eventually(async || !leaks().await).await, "{before:?}, then {}", gateway.process.open_files());
}

/// As Kubernetes mounts a ConfigMap: a link to a file in a folder, which is a link that is swapped.
#[tokio::test]
async fn a_watched_file_is_reloaded_when_the_folder_beneath_its_link_is_swapped() {
    use std::os::unix::fs::symlink;

    let folder = tempfile::tempdir().unwrap();
    let mount = folder.path().join("mount");
    let upstream = Upstream::spawn().await;
    let version = |number: usize, keys: &[&str]| {
        let name = format!("..{number}");
        std::fs::create_dir_all(mount.join(&name)).unwrap();
        let text = yaml(&upstream, keys, "config: {watch: true}");
        std::fs::write(mount.join(&name).join("antwort.yaml"), text).unwrap();
        symlink(&name, mount.join("..data_tmp")).unwrap();
        std::fs::rename(mount.join("..data_tmp"), mount.join("..data")).unwrap();
    };
    version(1, &[KEY_A, KEY_B]);
    symlink("..data/antwort.yaml", mount.join("antwort.yaml")).unwrap();
    let gateway = Running::start_by(folder.path(), &upstream, &mount.join("antwort.yaml")).await;
    upstream.always(Reply::Stream(vec![text("Hi"), finish("stop"), done()]));
    assert_eq!(gateway.create("key-a", &ask()).await.0, 200);
    version(2, &[KEY_B]);
    std::fs::remove_dir_all(mount.join("..1")).unwrap();
    assert!(eventually(async || gateway.reloads("success").await == 1).await, "{}", gateway.log());
    assert_eq!(gateway.create("key-a", &ask()).await.0, 401);
    assert_eq!(gateway.logged("configuration reloaded")[0]["trigger"], "config.watch");

    // Any other way to write it is seen as well; what is wrong is tried once.
    std::fs::write(mount.join("antwort.yaml"), "auth: [").unwrap();
    assert!(eventually(async || gateway.reloads("failure").await == 1).await, "{}", gateway.log());
    version(3, &[KEY_A, KEY_B]);
    assert!(eventually(async || gateway.reloads("success").await == 2).await, "{}", gateway.log());
    assert_eq!((gateway.create("key-a", &ask()).await.0, gateway.reloads("failure").await), (200, 1));
}

/// A Secret may be mounted later than the ConfigMap that names it.
#[tokio::test]
async fn a_file_that_a_watched_configuration_names_before_it_is_there_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::spawn().await;
    upstream.always(Reply::Stream(vec![text("Hi"), finish("stop"), done()]));
    let watched = |keys: &[&str]| yaml(&upstream, keys, "config: {watch: true}");
    let gateway = Running::start(folder.path(), &upstream, &watched(&[KEY_B])).await;
    let secret = folder.path().join("key");
    let named = format!("c: {{key: 'file:{}', tenant: green}}", secret.display());
    std::fs::write(folder.path().join("antwort.yaml"), watched(&[KEY_B, &named])).unwrap();
    assert!(eventually(async || gateway.reloads("failure").await == 1).await, "{}", gateway.log());
    std::fs::write(&secret, "key-c").unwrap();
    assert!(eventually(async || gateway.reloads("success").await == 1).await, "{}", gateway.log());
    assert_eq!((gateway.create("key-c", &ask()).await.0, gateway.reloads("failure").await), (200, 1));
}

#[test]
fn config_diff_names_what_differs_by_its_exit_code_and_shows_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let old = file("old.yaml", "providers: {a: {url: 'http://one/v1', api_key: s3cret-1}}");
    let new = file(
        "new.yaml",
        "{listen: '127.0.0.1:1', providers: {a: {url: 'http://one/v1', api_key: s3cret-2}}}",
    );
    let wrong = file("wrong.yaml", "lisen: 1");
    let diff = |files: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_antwort"));
        let command = command.env_clear().current_dir(folder.path()).args(["config", "diff"]).args(files);
        let output = command.output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    };
    assert_eq!(diff(&[&old, &old]), (0, String::new()));
    let (code, said) = diff(&[&old, &new]);
    let expected = "restart  listen: \"127.0.0.1:8080\" -> \"127.0.0.1:1\"\nreload   providers.a.api_key: changed (secret)\n";
    assert_eq!((code, said.as_str()), (1, expected));
    assert_eq!(diff(&[&old, &wrong]).0, 2);
    // Against the settings in force: without a file, the defaults.
    assert_eq!(diff(&[&old]), (1, "reload   providers.a: added\n".to_owned()));
}

/// As a mounted secret is renewed: the configuration says the same.
#[tokio::test]
async fn an_authority_that_was_renewed_at_its_path_is_trusted_by_tools_after_a_reload() {
    let folder = tempfile::tempdir().unwrap();
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let (old, new) = (TestCa::generate(), TestCa::generate());
    let backend = reqwest::Url::parse(&server.url()).unwrap().port().unwrap();
    let tls = Server::tls(backend, &new.issue("localhost"), None);
    let file = folder.path().join("authorities.pem");
    let trust = |authority: &TestCa| _ = std::fs::copy(authority.file(), &file).unwrap();
    upstream.always(Reply::Stream(vec![text("Hi"), finish("stop"), done()]));
    let with_server = json!({"model": "m", "input": "x", "tools": [{"type": "mcp", "server_label": "docs"}]});
    for key in ["egress.ca_file", "tls.ca_file"] {
        trust(&old);
        let (section, name) = key.split_once('.').unwrap();
        let path = file.display();
        let mut said = json!({"egress": {"allow": ["localhost"]}});
        said[section][name] = path.to_string().into();
        said["mcp"] = json!({"servers": {"docs": {"url": format!("https://localhost:{}/mcp", tls.port)}}});
        let said = said.as_object().unwrap().iter().map(|(key, value)| format!("{key}: {value}\n"));
        let yaml = yaml(&upstream, &[KEY_B], &said.collect::<String>());
        let home = folder.path().join(section);
        std::fs::create_dir(&home).unwrap();
        let gateway = Running::start(&home, &upstream, &yaml).await;
        let listed = async || {
            let (status, answer) = gateway.create("key-b", &with_server).await;
            assert_eq!(status, 200, "{answer}");
            let output = answer["output"].as_array().unwrap();
            let list = output.iter().find(|item| item["type"] == "mcp_list_tools").expect("a list");
            list["error"].is_null()
        };
        assert!(!listed().await, "{key}: its authority is not trusted");
        trust(&new);
        gateway.reload(&yaml, "success").await;
        assert!(listed().await, "{key}: {}", gateway.log());
        assert_eq!(gateway.logged("configuration reloaded")[0]["keys"], key);
        // What is the same again is no change, and keeps what was opened.
        let made = server.sessions_made();
        gateway.reload(&yaml, "success").await;
        assert!(listed().await);
        assert_eq!(gateway.logged("configuration reloaded")[1]["keys"], "");
        assert_eq!(server.sessions_made(), made, "{key}");
    }
}

#[tokio::test]
async fn a_certificate_that_was_renewed_is_seen_by_a_watching_gateway() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::spawn().await;
    let (old, new) = (TestCa::generate(), TestCa::generate());
    let file = folder.path().join("authorities.pem");
    std::fs::copy(old.file(), &file).unwrap();
    let more = format!("config: {{watch: true}}\ntls: {{ca_file: '{}'}}", file.display());
    let gateway = Running::start(folder.path(), &upstream, &yaml(&upstream, &[KEY_B], &more)).await;
    std::fs::copy(new.file(), &file).unwrap();
    assert!(eventually(async || gateway.reloads("success").await == 1).await, "{}", gateway.log());
    let logged = gateway.logged("configuration reloaded");
    assert_eq!((&logged[0]["keys"], &logged[0]["trigger"]), (&json!("tls.ca_file"), &json!("config.watch")));
}
