//! Servers that are programs, started by the gateway.

use std::path::Path;
use std::time::Duration;

use antwort::config::{McpServerSettings, Settings};
use serde_json::{Value, json};

use super::{ask, before, brought, call, item, kinds, told};
use antwort_test_support::eventually;
use antwort_test_support::gateway::JsonBody;
use antwort_test_support::mcp_server::McpServer;
use antwort_test_support::process::Process;
use antwort_test_support::upstream::Upstream;

/// Notes each start in a file, and has tools that tell of the process or end it.
const PROGRAM: &str = r#"
import json, os, sys, time
open(sys.argv[1], "a").write("%d\n" % os.getpid())
print("noise on standard error", file=sys.stderr, flush=True)
names = ["environment", "process", "die", "wait"]
tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method, params = message["method"], message.get("params", {})
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "program", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": tools}
    else:
        name = params["name"]
        if name == "die":
            os._exit(3)
        if name == "wait":
            time.sleep(600)
        text = json.dumps(dict(os.environ)) if name == "environment" else str(os.getpid())
        result = {"content": [{"type": "text", "text": text}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#;

/// The program as a server, which notes its starts in `starts` of a folder.
fn program(folder: &Path) -> McpServerSettings {
    let file = folder.join("server.py");
    std::fs::write(&file, PROGRAM).unwrap();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    McpServerSettings {
        command: Some("python3".into()),
        args: vec![text(&file), text(&folder.join("starts"))],
        env: [("GIVEN".to_owned(), "given-value".to_owned().into())].into(),
        ..McpServerSettings::default()
    }
}

/// The process ids of all that were started.
fn starts(folder: &Path) -> Vec<u32> {
    let text = std::fs::read_to_string(folder.join("starts")).unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

fn is_running(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    !status.is_empty() && !status.contains(") Z ")
}

fn with(server: McpServerSettings) -> impl FnOnce(&mut Settings) {
    move |settings| _ = settings.mcp.servers.insert("program".into(), server)
}

fn named() -> Value {
    json!({"type": "mcp", "server_label": "program"})
}

#[tokio::test]
async fn a_program_is_started_once_and_ends_with_the_gateway() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::spawn().await;
    let gateway = before(&upstream).set(with(program(folder.path()))).spawn().await;
    for _ in 0..2 {
        upstream.reply(call("environment", json!({}))).text("Done.");
        gateway.create(ask(json!([named()]))).await;
        let seen: Value = serde_json::from_str(&told(&upstream)).unwrap();
        assert_eq!(seen["GIVEN"], "given-value");
    }
    let processes = starts(folder.path());
    assert_eq!(processes.len(), 1);
    assert!(is_running(processes[0]));
    gateway.stop().await;
    assert!(!is_running(processes[0]), "it outlives the gateway");
}

/// A process of the gateway with this server, and its address.
async fn process(folder: &Path, upstream: &Upstream, server: Value) -> Process {
    let settings = json!({"mcp": {"servers": {"program": server}}});
    std::fs::write(folder.join("antwort.yaml"), settings.to_string()).unwrap();
    Process::start_with_environment(folder, upstream, &[("ANTWORT_LOG", "warn"), ("PATH", &path())]).await
}

fn path() -> String {
    std::env::var("PATH").unwrap()
}

async fn create(gateway: &Process, upstream: &Upstream, tool: &'static str) -> Value {
    upstream.reply(call(tool, json!({}))).text("Done.");
    let url = format!("{}/v1/responses", gateway.base);
    let answer = reqwest::Client::new().post(url).json_body(&ask(json!([named()]))).send().await.unwrap();
    serde_json::from_str(&answer.text().await.unwrap()).unwrap()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_program_ends_with_a_gateway_that_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::spawn().await;
    program(folder.path());
    let server = json!({"command": "python3", "args": ["server.py", "starts"], "cwd": folder.path(),
        "env": {"GIVEN": "given-value"}});
    let mut gateway = process(folder.path(), &upstream, server).await;
    let response = create(&gateway, &upstream, "environment").await;
    let seen: Value = serde_json::from_str(item(&response, "mcp_call")["output"].as_str().unwrap()).unwrap();
    assert_eq!(seen["GIVEN"], "given-value", "it has its environment");
    assert!(seen.get("ANTWORT_STORE_URL").is_none(), "and not the gateway's");
    // A program in a call does not read: that its input ends means nothing to it.
    upstream.reply(call("wait", json!({})));
    let url = format!("{}/v1/responses", gateway.base);
    let waiting = reqwest::Client::new().post(url).json_body(&ask(json!([named()]))).send();
    let killed = async {
        assert!(eventually(async || upstream.requests().len() == 3).await);
        tokio::time::sleep(Duration::from_millis(300)).await;
        let processes = starts(folder.path());
        assert!(processes.len() == 1 && is_running(processes[0]));
        gateway.kill();
        assert!(eventually(async || !is_running(processes[0])).await, "it outlives the gateway");
    };
    let (answer, ()) = tokio::join!(waiting, killed);
    assert!(answer.is_err());
}

#[tokio::test]
async fn a_program_that_is_not_there_is_said_to_be_so_by_a_gateway_of_its_own_process() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::spawn().await;
    let gateway = process(folder.path(), &upstream, json!({"command": "no-such-program"})).await;
    let response = create(&gateway, &upstream, "environment").await;
    let error = item(&response, "mcp_list_tools")["error"].as_str().unwrap();
    assert!(error.contains("the program cannot be started: entity not found"), "{error}");
}

#[tokio::test]
async fn nothing_of_the_gateways_environment_gets_into_a_program() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::spawn().await;
    let file = folder.path().join("environment");
    let script = format!("env > '{}'", file.display());
    let mut server = program(folder.path());
    (server.command, server.args) = (Some("sh".into()), vec!["-c".into(), script]);
    let gateway = before(&upstream).set(with(server)).spawn().await;
    gateway.create(ask(json!([named()]))).await;
    let seen = std::fs::read_to_string(file).unwrap();
    let names: Vec<_> = seen.lines().map(|line| line.split('=').next().unwrap()).collect();
    assert!(["GIVEN", "PATH", "HOME"].iter().all(|name| names.contains(name)), "{seen}");
    // The others are the shell's own.
    let known = ["GIVEN", "PATH", "HOME", "PWD", "OLDPWD", "SHLVL", "_"];
    assert!(names.iter().all(|name| known.contains(name)), "{seen}");
}

#[tokio::test]
async fn a_program_that_dies_in_a_call_is_back_for_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::spawn().await;
    let gateway = before(&upstream).set(with(program(folder.path()))).spawn().await;
    upstream.reply(call("die", json!({}))).text("Done.");
    let response = gateway.create(ask(json!([named()]))).await;
    assert_eq!(item(&response, "mcp_call")["status"], "failed");
    assert_eq!(response["status"], "completed");
    assert!(told(&upstream).contains("the program has exited"), "{}", told(&upstream));
    assert_eq!(starts(folder.path()).len(), 1, "the call is not made again");
    upstream.reply(call("process", json!({}))).text("Done.");
    let response = gateway.create(ask(json!([named()]))).await;
    let processes = starts(folder.path());
    assert_eq!(item(&response, "mcp_call")["output"], processes[1].to_string());

    // Killed from outside, with a call under way.
    upstream.reply(call("wait", json!({}))).text("Done.");
    let kill = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let kill = std::process::Command::new("kill").args(["-9", &processes[1].to_string()]).status();
        assert!(kill.unwrap().success());
    };
    let (response, ()) = tokio::join!(gateway.create(ask(json!([named()]))), kill);
    assert_eq!(item(&response, "mcp_call")["status"], "failed", "{response:#}");
    upstream.reply(call("process", json!({}))).text("Done.");
    let response = gateway.create(ask(json!([named()]))).await;
    assert_eq!(item(&response, "mcp_call")["status"], "completed", "{response:#}");
    assert_eq!(starts(folder.path()).len(), 3);
}

#[tokio::test]
async fn a_program_that_takes_many_calls_with_it_ended_once() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::spawn().await;
    let gateway = before(&upstream).set(with(program(folder.path()))).spawn().await;
    gateway.create(ask(json!([named()]))).await;
    let process = starts(folder.path())[0].to_string();
    for _ in 0..10 {
        upstream.reply(call("wait", json!({})));
    }
    let kill = async {
        assert!(eventually(async || upstream.requests().len() == 11).await);
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(std::process::Command::new("kill").args(["-9", &process]).status().unwrap().success());
    };
    let run = || async { gateway.create(ask(json!([named()]))).await };
    let (responses, ()) = tokio::join!(futures_util::future::join_all((0..10).map(|_| run())), kill);
    assert!(responses.iter().all(|response| item(response, "mcp_call")["status"] == "failed"));
    upstream.reply(call("process", json!({}))).text("Done.");
    let response = gateway.create(ask(json!([named()]))).await;
    assert_eq!(item(&response, "mcp_call")["status"], "completed", "{response:#}");
    assert_eq!(starts(folder.path()).len(), 2);
}

#[tokio::test]
async fn a_program_that_dies_at_every_call_is_not_started_at_every_call() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::spawn().await;
    let gateway = before(&upstream)
        .set(with(program(folder.path())))
        .set(|settings| settings.tools.breaker.failures = 0)
        .spawn()
        .await;
    for _ in 0..12 {
        upstream.reply(call("die", json!({}))).text("Done.");
        let response = gateway.create(ask(json!([named()]))).await;
        assert_eq!(item(&response, "mcp_call")["status"], "failed");
    }
    let times = starts(folder.path()).len();
    assert!(times < 9, "started {times} times for 12 calls");
}

#[tokio::test]
async fn a_program_that_does_not_start_costs_its_own_tools_only() {
    let folder = tempfile::tempdir().unwrap();
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let counter = folder.path().join("starts");
    let script = format!("echo 1 >> '{}'; exit 1", counter.display());
    let missing =
        McpServerSettings { command: Some("/nowhere/no-such-program".into()), ..Default::default() };
    let ends = McpServerSettings {
        command: Some("sh".into()),
        args: vec!["-c".into(), script],
        ..Default::default()
    };
    let silent = McpServerSettings {
        command: Some("sleep".into()),
        args: vec!["600".into()],
        start_timeout: Some(Duration::from_secs(1)),
        ..Default::default()
    };
    let gateway = before(&upstream)
        .set(|settings| {
            settings.mcp.list_timeout = Duration::from_secs(1);
            let all = [("missing", missing), ("ends", ends), ("silent", silent)];
            settings.mcp.servers.extend(all.map(|(label, server)| (label.to_owned(), server)));
        })
        .spawn()
        .await;
    for _ in 0..12 {
        let mut all = vec![brought(&server)];
        all.extend(["missing", "ends", "silent"].map(|label| json!({"type": "mcp", "server_label": label})));
        upstream.reply(call("echo", json!({"text": "still"}))).text("Done.");
        let response = gateway.create(ask(json!(all))).await;
        let lists = response["output"].as_array().unwrap()[1..4].iter();
        assert!(lists.clone().all(|list| list["error"].is_string()), "{response:#}");
        assert_eq!(item(&response, "mcp_call")["output"], "still");
    }
    assert!(starts(folder.path()).len() < 9, "started {} times", starts(folder.path()).len());
}

#[tokio::test]
async fn a_program_has_its_own_time_to_start_apart_from_that_of_a_list() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::spawn().await;
    let mut slow = program(folder.path());
    // As `npx` and `uvx` do while they load a package.
    let file = folder.path().join("server.py");
    std::fs::write(&file, format!("import time; time.sleep(2)\n{PROGRAM}")).unwrap();
    slow.start_timeout = Some(Duration::from_secs(60));
    let mut late = slow.clone();
    late.start_timeout = Some(Duration::from_millis(500));
    let gateway = before(&upstream)
        .set(with(slow))
        .set(|settings| {
            settings.mcp.list_timeout = Duration::from_secs(1);
            settings.mcp.servers.insert("late".into(), late);
        })
        .spawn()
        .await;
    upstream.reply(call("process", json!({}))).text("Done.");
    let response = gateway.create(ask(json!([named()]))).await;
    assert_eq!(item(&response, "mcp_call")["status"], "completed", "{response:#}");
    upstream.text("Without it.");
    let response = gateway.create(ask(json!([{"type": "mcp", "server_label": "late"}]))).await;
    let told = item(&response, "mcp_list_tools")["error"].as_str().unwrap().to_owned();
    assert!(told.contains("the program was not ready after 500ms"), "{told}");
}

#[tokio::test]
async fn operators_read_the_last_words_of_a_program_and_clients_do_not() {
    let upstream = Upstream::spawn().await;
    let script = "read request; echo 'loading' >&2; echo \"no account for $TOKEN\" >&2; printf 'giving up' >&2; exit 7";
    let ends = McpServerSettings {
        command: Some("sh".into()),
        args: vec!["-c".into(), script.into()],
        env: [("TOKEN".to_owned(), "s3cret-token".to_owned().into())].into(),
        ..Default::default()
    };
    let gateway = before(&upstream).set(with(ends)).spawn().await;
    upstream.text("Without it.");
    let response = gateway.create(ask(json!([named()]))).await;
    let told = response.to_string();
    assert!(told.contains("the program has exited"), "{told}");
    assert!(!told.contains("giving up") && !told.contains("exit status"), "{told}");
    let servers = gateway.get("/v1/mcp/servers").await.body;
    assert_eq!(
        servers["data"][0]["last_error"],
        "the program has exited: sh: exit status: 7; the end of its stderr: loading | no account for [key] | giving up"
    );
}

#[tokio::test]
async fn a_program_that_nobody_uses_is_ended() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::spawn().await;
    let gateway = before(&upstream)
        .set(with(program(folder.path())))
        .set(|settings| settings.mcp.sessions.idle_timeout = Duration::from_millis(500))
        .spawn()
        .await;
    gateway.create(ask(json!([named()]))).await;
    let process = starts(folder.path())[0];
    assert!(eventually(async || !is_running(process)).await);
    upstream.reply(call("process", json!({}))).text("Done.");
    let response = gateway.create(ask(json!([named()]))).await;
    assert_eq!(kinds(&response), ["mcp_list_tools", "mcp_call", "message"]);
    assert_eq!(starts(folder.path()).len(), 2);
}

#[tokio::test]
async fn a_request_cannot_bring_a_program() {
    let upstream = Upstream::spawn().await;
    let gateway = before(&upstream).spawn().await;
    for (field, value) in [
        ("command", json!("sh")),
        ("args", json!(["-c", "id"])),
        ("env", json!({"A": "b"})),
        ("transport", json!("stdio")),
    ] {
        for url in [json!(null), json!("https://example.com/mcp")] {
            let mut tool = json!({"type": "mcp", "server_label": "mine"});
            tool[field] = value.clone();
            if !url.is_null() {
                tool["server_url"] = url;
            }
            let answer = gateway.post("/v1/responses", &ask(json!([tool]))).await;
            assert_eq!(answer.status, 400, "{tool}: {:#}", answer.body);
            assert_eq!(
                answer.body["error"]["param"],
                format!("tools[0].{field}"),
                "{tool}: {:#}",
                answer.body
            );
        }
    }
    for url in ["stdio:sh", "file:///bin/sh", "sh -c id"] {
        let tool = json!({"type": "mcp", "server_label": "mine", "server_url": url});
        gateway.refuse(ask(json!([tool])), 400, "invalid_value").await;
    }
}
