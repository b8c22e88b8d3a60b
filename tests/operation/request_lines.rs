//! The line that each request leaves in the log: one, at its end, however it ends.

use std::time::Duration;

use antwort_telemetry::fields::ALL as LOG_FIELDS;
use antwort_test_support::openapi::{Operation, example_path, operations};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpSocket;

use super::{ask, read_until, text};
use antwort_test_support::eventually;
use antwort_test_support::mcp_server::McpServer;
use antwort_test_support::process::Process;
use antwort_test_support::upstream::{Reply, Step, Upstream, done, finish, usage};

/// A gateway whose log is read.
struct Logged {
    process: Process,
    folder: TempDir,
    http: reqwest::Client,
}

impl Logged {
    async fn start(upstream: &Upstream, environment: &[(&str, &str)]) -> Self {
        Self::configured(upstream, "", environment).await
    }

    async fn configured(upstream: &Upstream, file: &str, environment: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("antwort.yaml"), file).unwrap();
        let environment: Vec<_> = [("ANTWORT_LOG", "info")].iter().chain(environment).copied().collect();
        let process = Process::start_with_environment(folder.path(), upstream, &environment).await;
        let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        Self { process, folder, http }
    }

    fn request(&self, method: &str, path: &str, id: &str) -> reqwest::RequestBuilder {
        let url = format!("{}{path}", self.process.base);
        self.http.request(method.parse().unwrap(), url).header("x-request-id", id)
    }

    async fn post(&self, path: &str, id: &str, body: &Value) -> reqwest::Response {
        let request = self.request("POST", path, id).header("content-type", "application/json");
        request.body(body.to_string()).send().await.unwrap()
    }

    async fn stream(&self, path: &str, id: &str) -> reqwest::Response {
        let body = json!({"model": "test-model", "input": "Hi", "stream": true});
        let chat =
            json!({"model": "test-model", "messages": [{"role": "user", "content": "Hi"}], "stream": true});
        self.post(path, id, if path.ends_with("completions") { &chat } else { &body }).await
    }

    /// All lines of the log, but for one that is being written.
    fn lines(&self) -> Vec<Value> {
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap();
        let whole = log.rfind('\n').map_or("", |end| &log[..end]);
        whole.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// The lines of the ends of this request.
    fn ends(&self, id: &str) -> Vec<Value> {
        let is_end = |line: &Value| line["message"] == "request" && line["request_id"] == id;
        self.lines().into_iter().filter(is_end).collect()
    }

    /// The one line of its end, once it is there.
    async fn end(&self, id: &str) -> Value {
        assert!(eventually(async || !self.ends(id).is_empty()).await, "no line of {id}: {:#?}", self.lines());
        let mut ends = self.ends(id);
        assert_eq!(ends.len(), 1, "{ends:#?}");
        ends.remove(0)
    }
}

fn number(line: &Value, field: &str) -> f64 {
    line[field].as_f64().unwrap_or_else(|| panic!("no {field}: {line}"))
}

#[tokio::test]
async fn a_stream_is_logged_at_its_end_with_all_of_its_time_and_its_tokens() {
    let upstream = Upstream::spawn().await;
    let gateway = Logged::start(&upstream, &[]).await;
    let wait = Duration::from_millis(400);
    let steps = vec![text("Hel"), Step::Wait(wait), text("lo"), finish("stop"), usage(70, 9), done()];
    upstream.reply(Reply::Stream(steps));
    let mut response = gateway.stream("/v1/responses", "req_slow").await;
    let mut body = read_until(&mut response, "\"delta\":\"Hel\"").await;
    assert!(gateway.ends("req_slow").is_empty(), "it has not ended");
    while let Some(piece) = response.chunk().await.unwrap() {
        body.push_str(std::str::from_utf8(&piece).unwrap());
    }

    let line = gateway.end("req_slow").await;
    assert_eq!(line["response_id"].as_str().unwrap(), super::id_in(&body));
    for (field, value) in [
        ("status", json!(200)),
        ("ended", json!("done")),
        ("method", json!("POST")),
        ("route", json!("/v1/responses")),
        ("key", json!("anonymous")),
        ("tenant", json!("default")),
        ("provider", json!("default")),
        ("model", json!("test-model")),
        ("turns", json!(1)),
        ("tool_calls", json!(0)),
        ("input_tokens", json!(70)),
        ("cached_tokens", json!(0)),
        ("output_tokens", json!(9)),
        ("bytes", json!(body.len())),
        ("code", Value::Null),
        ("target", json!("antwort::access")),
    ] {
        assert_eq!(line[field], value, "{field}: {line}");
    }
    assert!(number(&line, "ms") >= wait.as_secs_f64() * 1e3, "{line}");
    // Headers and first event leave together, and the first word comes before the pause, which may have begun before they leave.
    let begun = number(&line, "ms") - wait.as_secs_f64() * 1e3 / 2.0;
    assert!(number(&line, "first_byte_ms") <= begun, "{line}");
    assert!(number(&line, "first_delta_ms") <= begun, "{line}");
}

#[tokio::test]
async fn a_request_whose_client_left_before_it_was_worked_on_is_logged() {
    let upstream = Upstream::spawn().await;
    let gateway = Logged::start(&upstream, &[]).await;
    let address = gateway.process.base.trim_start_matches("http://").to_owned();
    let body = json!({"model": "test-model", "input": "Hi"}).to_string();
    let mut ids = Vec::new();
    // A gateway that finds the whole request and its end at once may drop it before a handler has seen it.
    for round in 0..40 {
        gateway.process.signal("STOP");
        for client in 0..4 {
            let id = format!("req_{round}_{client}");
            let mut socket = std::net::TcpStream::connect(&address).unwrap();
            let request = format!(
                "POST /v1/responses HTTP/1.1\r\nhost: {address}\r\nx-request-id: {id}\r\n\
                 content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            std::io::Write::write_all(&mut socket, request.as_bytes()).unwrap();
            ids.push(id);
        }
        gateway.process.signal("CONT");
    }
    for id in ids {
        let line = gateway.end(&id).await;
        assert_eq!((&line["method"], &line["ended"]), (&json!("POST"), &json!("client_gone")), "{line}");
    }
}

#[tokio::test]
async fn the_end_of_a_cancelled_request_is_logged() {
    let upstream = Upstream::spawn().await;
    let gateway = Logged::start(&upstream, &[]).await;
    upstream.reply(Reply::Calls(vec![("calculate", json!({"expression": "1+1"}))]));
    upstream.reply(Reply::Stream(vec![text("Hel"), Step::Hang]));
    let body = json!({"model": "test-model", "input": "Hi", "stream": true, "tools": [{"type": "antwort:calculate"}]});
    let mut response = gateway.post("/v1/responses", "req_stream", &body).await;
    let body = read_until(&mut response, "\"delta\":\"Hel\"").await;
    drop(response);
    let line = gateway.end("req_stream").await;
    assert_eq!((&line["ended"], &line["status"]), (&json!("client_gone"), &json!(200)), "{line}");
    assert_eq!(line["response_id"].as_str().unwrap(), super::id_in(&body));
    assert!(number(&line, "bytes") >= body.len() as f64, "{line}");
    // Its run ended after it, and says what it came to; of its last turn the provider has said no tokens yet.
    assert_eq!((&line["turns"], &line["tool_calls"]), (&json!(2), &json!(1)), "{line}");
    assert_eq!((&line["input_tokens"], &line["output_tokens"]), (&json!(5), &json!(3)), "{line}");

    // One that waits for a whole answer has no status yet.
    upstream.reply(Reply::Silence);
    let (asked, body) = (upstream.requests().len(), ask());
    tokio::select! {
        answer = gateway.post("/v1/responses", "req_json", &body) => panic!("nobody answers: {answer:?}"),
        asked = eventually(async || upstream.requests().len() > asked) => assert!(asked),
    }
    let line = gateway.end("req_json").await;
    assert_eq!((&line["ended"], &line["status"]), (&json!("client_gone"), &Value::Null), "{line}");
    assert_eq!((&line["bytes"], &line["provider"]), (&json!(0), &json!("default")), "{line}");

    // And one whose answer is the provider's.
    upstream.reply(Reply::Stream(vec![text("Hel"), Step::Hang]));
    let mut response = gateway.stream("/v1/chat/completions", "req_chat").await;
    read_until(&mut response, "Hel").await;
    drop(response);
    let line = gateway.end("req_chat").await;
    assert_eq!((&line["ended"], &line["model"]), (&json!("client_gone"), &json!("test-model")), "{line}");
}

#[tokio::test]
async fn what_the_drain_cuts_short_is_logged_as_drained() {
    let upstream = Upstream::spawn().await;
    let mut gateway = Logged::start(&upstream, &[("ANTWORT__SERVER__DRAIN_TIMEOUT", "300ms")]).await;
    upstream.always(Reply::Stream(vec![text("Hel"), Step::Hang]));
    let mut own = gateway.stream("/v1/responses", "req_own").await;
    read_until(&mut own, "Hel").await;
    let mut passed = gateway.stream("/v1/chat/completions", "req_passed").await;
    read_until(&mut passed, "Hel").await;
    gateway.process.terminate();
    assert!(own.text().await.unwrap().contains("server_shutting_down"));
    let line = gateway.end("req_own").await;
    assert_eq!(
        (&line["ended"], &line["code"]),
        (&json!("drained"), &json!("server_shutting_down")),
        "{line}"
    );
    // It may go on until connections are closed.
    assert!(passed.text().await.is_err(), "it is cut");
    let line = gateway.end("req_passed").await;
    assert_eq!((&line["ended"], &line["status"]), (&json!("drained"), &json!(200)), "{line}");
    assert!(eventually(async || gateway.process.exit_code() == Some(0)).await);
}

#[tokio::test]
async fn what_a_time_limit_ends_is_logged_as_timed_out() {
    let upstream = Upstream::spawn().await;
    let limits = [
        ("ANTWORT__ENGINE__RUN_TIMEOUT", "1s"),
        ("ANTWORT__SERVER__WRITE_TIMEOUT", "300ms"),
        ("ANTWORT__SERVER__BODY_IDLE_TIMEOUT", "300ms"),
    ];
    let gateway = Logged::start(&upstream, &limits).await;
    upstream.reply(Reply::Stream(vec![text("Hel"), Step::Hang]));
    gateway.stream("/v1/responses", "req_run").await.text().await.unwrap();
    let line = gateway.end("req_run").await;
    assert_eq!((&line["ended"], &line["code"]), (&json!("timed_out"), &json!("run_timeout")), "{line}");

    // A body of which only the beginning comes.
    let address: std::net::SocketAddr = gateway.process.base.trim_start_matches("http://").parse().unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut client = socket.connect(address).await.unwrap();
    let head = |id: &str, length: usize| {
        format!(
            "POST /v1/responses HTTP/1.1\r\nhost: localhost\r\nx-request-id: {id}\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        )
    };
    client.write_all((head("req_body", 100) + "{").as_bytes()).await.unwrap();
    let line = gateway.end("req_body").await;
    assert_eq!((&line["ended"], &line["status"]), (&json!("timed_out"), &json!(408)), "{line}");

    // Clients that take nothing of a long stream, over both versions of HTTP.
    let mut steps = vec![text(&"x".repeat(64 * 1024)); 400];
    steps.extend([finish("stop"), done()]);
    upstream.always(Reply::Stream(steps));
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut client = socket.connect(address).await.unwrap();
    let body = json!({"model": "test-model", "input": "Hi", "stream": true}).to_string();
    client.write_all((head("req_stalled", body.len()) + &body).as_bytes()).await.unwrap();
    let line = gateway.end("req_stalled").await;
    assert_eq!((&line["ended"], &line["status"]), (&json!("timed_out"), &json!(200)), "{line}");

    let http2 = reqwest::Client::builder().http2_prior_knowledge().http2_initial_stream_window_size(65_535);
    let url = format!("{}/v1/responses", gateway.process.base);
    let request = http2.build().unwrap().post(url).header("x-request-id", "req_http2");
    let _open = request.header("content-type", "application/json").body(body).send().await.unwrap();
    let line = gateway.end("req_http2").await;
    assert_eq!((&line["ended"], &line["status"]), (&json!("timed_out"), &json!(200)), "{line}");
}

#[tokio::test]
async fn a_passed_stream_that_its_provider_breaks_off_is_logged_as_cut_and_a_failed_run_with_its_code() {
    let upstream = Upstream::spawn().await;
    let gateway = Logged::start(&upstream, &[]).await;
    upstream.reply(Reply::Stream(vec![text("Hel"), Step::Wait(Duration::from_millis(100)), Step::Cut]));
    let mut passed = gateway.stream("/v1/chat/completions", "req_passed").await;
    read_until(&mut passed, "Hel").await;
    assert!(passed.text().await.is_err());
    let line = gateway.end("req_passed").await;
    assert_eq!((&line["ended"], &line["status"]), (&json!("cut"), &json!(200)), "{line}");

    upstream.reply(Reply::Stream(vec![text("Hel"), Step::Wait(Duration::from_millis(100)), Step::Cut]));
    let failed = gateway.stream("/v1/responses", "req_own").await.text().await.unwrap();
    assert!(failed.contains("response.failed") && failed.contains("[DONE]"), "{failed}");
    let line = gateway.end("req_own").await;
    assert_eq!((&line["ended"], &line["code"]), (&json!("done"), &json!("upstream_disconnected")), "{line}");
}

const KEYS: &str = "
auth:
  keys:
    all: {key: sk-all, tenant: acme}
    few: {key: sk-few, tenant: umbra, scopes: [models:read]}
";

#[tokio::test]
async fn every_route_and_every_refusal_leaves_one_line_with_its_key_and_tenant() {
    let upstream = Upstream::spawn().await;
    let gateway = Logged::configured(&upstream, KEYS, &[]).await;
    for (number, Operation { method, path, is_open, .. }) in operations().enumerate() {
        let id = format!("req_route_{number}");
        let request = gateway.request(&method, &example_path(path), &id).bearer_auth("sk-all");
        let answer = request.header("content-type", "application/json").body("{}").send().await.unwrap();
        let status = answer.status().as_u16();
        answer.bytes().await.unwrap();
        let line = gateway.end(&id).await;
        // The document says of what an id is; a model's may have slashes.
        let route = path.replace("{response_id}", "{id}").replace("{conversation_id}", "{id}");
        let route = route.replace("{model}", "{*model}");
        assert_eq!((&line["route"], &line["status"]), (&json!(route), &json!(status)), "{line}");
        assert_eq!(line["ended"], "done", "{line}");
        let keyed = (line["key"].as_str(), line["tenant"].as_str());
        let expected = if is_open { (None, None) } else { (Some("all"), Some("acme")) };
        assert_eq!(keyed, expected, "{line}");
        assert_eq!(status >= 400, line["code"].is_string(), "{line}");
    }
    for (id, key, path, status, name, code) in [
        ("req_nobody", "sk-wrong", "/v1/models", 401, None, "invalid_api_key"),
        ("req_scope", "sk-few", "/v1/responses", 403, Some("few"), "insufficient_scope"),
        ("req_url", "sk-all", "/v1/nowhere", 404, None, "unknown_url"),
        ("req_method", "sk-all", "/v1/agents", 405, None, "method_not_allowed"),
    ] {
        let method = if status == 405 { "PUT" } else { "GET" };
        let answer = gateway.request(method, path, id).bearer_auth(key).send().await.unwrap();
        assert_eq!(answer.status(), status, "{id}");
        let line = gateway.end(id).await;
        assert_eq!((&line["status"], &line["code"]), (&json!(status), &json!(code)), "{line}");
        assert_eq!((line["key"].as_str(), &line["ended"]), (name, &json!("done")), "{line}");
        for field in
            ["response_id", "provider", "model", "turns", "tool_calls", "input_tokens", "first_delta_ms"]
        {
            assert!(line.get(field).is_none(), "{field} does not apply: {line}");
        }
    }
    // Of a HEAD nothing is sent, and all that there is of it.
    let answer = gateway.request("HEAD", "/v1/nowhere", "req_head").send().await.unwrap();
    assert_eq!(answer.status(), 404);
    let line = gateway.end("req_head").await;
    assert_eq!((&line["ended"], &line["bytes"]), (&json!("done"), &json!(0)), "{line}");
}

#[tokio::test]
async fn access_audit_and_error_lines_of_a_request_share_the_names_of_their_fields() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let url = server.url();
    let gateway = Logged::start(&upstream, &[("ANTWORT__MCP__SERVERS__SUMS__URL", url.as_str())]).await;
    upstream.reply(Reply::Calls(vec![("calculate", json!({"expression": "1+1"})), ("boom", json!({}))]));
    upstream.reply(Reply::Status(400, vec![], r#"{"error": {"message": "no", "code": "bad_thing"}}"#.into()));
    let tools = json!([{"type": "antwort:calculate"}, {"type": "mcp", "server_label": "sums", "allowed_tools": ["boom"]}]);
    let body = json!({"model": "test-model", "input": "Go.", "tools": tools});
    gateway.post("/v1/responses", "req_tools", &body).await.text().await.unwrap();
    let line = gateway.end("req_tools").await;
    assert_eq!(
        (&line["turns"], &line["tool_calls"], &line["code"]),
        (&json!(2), &json!(2), &json!("bad_thing"))
    );
    let direct = json!({"arguments": {"expression": "1/"}});
    gateway.post("/v1/tools/calculate/execute", "req_direct", &direct).await.text().await.unwrap();
    let direct = gateway.end("req_direct").await;
    assert_eq!((&direct["tool_calls"], &direct["status"]), (&json!(1), &json!(200)), "{direct}");
    assert!(direct["code"].is_string(), "{direct}");

    let of_request: Vec<_> =
        gateway.lines().into_iter().filter(|found| found["request_id"] == "req_tools").collect();
    let audit = of_request.iter().filter(|line| line["target"] == "antwort::audit").count();
    let failed = of_request.iter().filter(|line| line["message"] == "a response failed").count();
    assert_eq!((audit, failed), (4, 1), "{of_request:#?}");
    for found in &of_request {
        if found["message"].is_null() || found["message"] == "a response failed" {
            assert_eq!(found["response_id"], line["response_id"], "{found}");
        }
        let known = |name: &&String| LOG_FIELDS.contains(&name.as_str());
        let common = |name: &&String| ["timestamp", "level", "target", "message"].contains(&name.as_str());
        let is_listed = found["message"].is_null()
            || found["target"] == "antwort::access"
            || found["message"] == "a response failed";
        let unknown: Vec<_> =
            found.as_object().unwrap().keys().filter(|name| !known(name) && !common(name)).collect();
        assert!(!is_listed || unknown.is_empty(), "{unknown:?} in {found}");
    }
}
