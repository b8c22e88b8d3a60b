//! Programs that are servers: what they read and write, and that nothing of them is left.

use std::collections::BTreeMap;
use std::path::Path;

use super::super::process::Process;
use super::*;

/// A server in a few lines. What it does with a call is its `call(name, id)`.
const SERVER: &str = r#"
import json, os, subprocess, sys, time
def send(message): sys.stdout.write(json.dumps(message) + "\n"); sys.stdout.flush()
def text(id, text): send({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": text}]}})
notes = os.environ.get("NOTES")
for line in sys.stdin:
    message = json.loads(line)
    id, method, params = message.get("id"), message.get("method"), message.get("params", {})
    if notes: open(notes, "a").write(line)
    name = params.get("name")
    if method == "initialize":
        send({"jsonrpc": "2.0", "id": id, "result": {"protocolVersion": "2025-06-18", "capabilities": {},
            "serverInfo": {"name": "py", "version": "0"}}})
    elif name == "garbage":
        sys.stdout.write("\nnot json\n[1]\n{\"half\":\n\xff\n"); text(id, "after garbage")
    elif name == "long":
        send({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": "x" * 3000000}]}})
    elif name == "long_last":
        send({"result": {"content": [{"type": "text", "text": "x" * 3000000}]}, "jsonrpc": "2.0", "id": id})
    elif name == "stderr": sys.stderr.write("\x1b[31m" + "e" * 100000 + "\n"); sys.stderr.flush(); text(id, "said")
    elif name == "die": sys.exit(3)
    elif name == "child":
        child = subprocess.Popen(["sleep", "600"]); text(id, str(child.pid))
    elif name == "die_with_child":
        subprocess.Popen(["sleep", "600"]); os._exit(0)
    elif name == "hang": pass
    elif method == "tools/call": text(id, name)
sys.exit(0) if os.environ.get("STUBBORN") is None else time.sleep(600)
"#;

pub(super) fn program(script: &str, env: &[(&str, &str)]) -> Endpoint {
    let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned().into()));
    let command = StdioCommand {
        program: "python3".to_owned(),
        args: vec!["-c".to_owned(), script.to_owned()],
        env: env.collect::<BTreeMap<_, _>>(),
        cwd: None,
        start_timeout: Duration::from_secs(20),
    };
    Endpoint {
        name: "py".into(),
        address: ServerAddress::Stdio(Arc::new(command)),
        is_configured: true,
        may_sample: false,
        shows: Default::default(),
    }
}

async fn start(env: &[(&str, &str)]) -> Arc<dyn Connection> {
    client().connect(&program(SERVER, env), Token::named("t0")).await.unwrap()
}

/// Whether a process runs, or at least has not been seen to end.
fn runs(pid: &str) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !matches!(state.rsplit(')').next().and_then(|rest| rest.trim().chars().next()), None | Some('Z' | 'X'))
}

#[tokio::test]
async fn messages_are_lines_and_lines_that_are_none_are_skipped() {
    let connection = start(&[]).await;
    assert_eq!(connection.server().transport, "stdio");
    assert_eq!(connection.server().protocol, "2025-06-18");

    assert_eq!(says(&call_tool(&*connection, "echo").await.unwrap()), "echo");
    assert_eq!(says(&call_tool(&*connection, "garbage").await.unwrap()), "after garbage");
    assert_eq!(says(&call_tool(&*connection, "stderr").await.unwrap()), "said");
    connection.close().await;
}

#[tokio::test]
async fn a_program_has_only_the_environment_that_it_was_given() {
    let folder = tempfile::tempdir().unwrap();
    let env = [("SECRET", "s"), ("HOME", "/nowhere")];
    let command = StdioCommand {
        program: "sh".to_owned(),
        args: vec!["-c".to_owned(), "/bin/pwd; exec env".to_owned()],
        env: env.map(|(name, value)| (name.to_owned(), value.to_owned().into())).into(),
        cwd: Some(folder.path().to_owned()),
        start_timeout: Duration::from_secs(20),
    };
    let mut process = Process::start(&command, "sh".into()).unwrap();
    let mut said = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut process.stdout, &mut said).await.unwrap();

    let (cwd, env) = said.split_once('\n').unwrap();
    assert_eq!(Path::new(cwd), folder.path().canonicalize().unwrap());
    // The shell's own.
    let own = ["PWD", "SHLVL", "OLDPWD", "_"];
    let mut env: BTreeMap<&str, &str> = env.lines().filter_map(|line| line.split_once('=')).collect();
    env.retain(|name, _| !own.contains(name));
    assert_eq!(env.keys().copied().collect::<Vec<_>>(), ["HOME", "PATH", "SECRET"]);
    assert_eq!(env["HOME"], "/nowhere");
}

#[tokio::test]
async fn a_line_that_is_too_long_fails_its_call_alone() {
    let connection = start(&[]).await;
    for name in ["long", "long_last"] {
        let error = call_tool(&*connection, name).await.unwrap_err();
        assert!(matches!(error, McpError::TooLarge { limit: MIB }), "{error:?}");
        assert_eq!(says(&call_tool(&*connection, "echo").await.unwrap()), "echo");
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_is_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let notes = folder.path().join("notes");
    let connection = start(&[("NOTES", notes.to_str().unwrap())]).await;

    let dropped = tokio::time::timeout(Duration::from_millis(200), call_tool(&*connection, "hang")).await;
    assert!(dropped.is_err());

    let noted = || std::fs::read_to_string(&notes).unwrap_or_default();
    eventually("it is cancelled", || noted().contains("notifications/cancelled")).await;
}

#[tokio::test]
async fn a_program_that_ends_breaks_its_calls_and_closes() {
    let connection = start(&[]).await;
    let (hanging, dying) = tokio::join!(call_tool(&*connection, "hang"), call_tool(&*connection, "die"));

    for error in [hanging.unwrap_err(), dying.unwrap_err()] {
        assert!(matches!(error, McpError::Broken(_)), "{error:?}");
    }
    assert!(connection.is_closed());
    let error = call_tool(&*connection, "echo").await.unwrap_err();
    assert!(error.was_not_processed(), "{error:?}");
}

#[tokio::test]
async fn what_a_program_has_started_ends_with_it() {
    let closed = start(&[]).await;
    let first = says(&call_tool(&*closed, "child").await.unwrap()).to_owned();
    assert!(runs(&first));
    closed.close().await;
    eventually("the child of the closed one is gone", || !runs(&first)).await;

    let dropped = start(&[]).await;
    let second = says(&call_tool(&*dropped, "child").await.unwrap()).to_owned();
    drop(dropped);
    eventually("the child of the dropped one is gone", || !runs(&second)).await;

    // The child holds the output open, and is gone all the same.
    let ended = start(&[]).await;
    let error = call_tool(&*ended, "die_with_child").await.unwrap_err();
    assert!(matches!(error, McpError::Broken(_)), "{error:?}");
}

#[tokio::test]
async fn a_program_that_does_not_end_is_killed() {
    let connection = start(&[("STUBBORN", "1")]).await;
    let pid = says(&call_tool(&*connection, "child").await.unwrap()).to_owned();

    let begun = std::time::Instant::now();
    connection.close().await;

    assert!(begun.elapsed() >= Duration::from_secs(2));
    assert!(begun.elapsed() < Duration::from_secs(8));
    eventually("its child is gone", || !runs(&pid)).await;
}

#[tokio::test]
async fn a_program_that_cannot_be_spoken_to_is_an_error_at_once() {
    let mut missing = program("", &[]);
    missing.address = ServerAddress::Stdio(Arc::new(StdioCommand {
        program: "/no/such/program".to_owned(),
        args: Vec::new(),
        env: BTreeMap::new(),
        cwd: None,
        start_timeout: Duration::from_secs(20),
    }));
    for endpoint in [missing, program("import sys; sys.exit(1)", &[])] {
        let error = client().connect(&endpoint, Token::named("t0")).await.err().unwrap();
        assert!(matches!(error, McpError::Connect(_)), "{error:?}");
    }
}

#[tokio::test]
async fn nothing_is_left_of_a_connection() {
    let metrics = tokio::runtime::Handle::current().metrics();
    let before = metrics.num_alive_tasks();

    let closed = start(&[]).await;
    call_tool(&*closed, "echo").await.unwrap();
    assert!(metrics.num_alive_tasks() > before);
    closed.close().await;
    assert_eq!(metrics.num_alive_tasks(), before);

    let dropped = start(&[]).await;
    let unanswered = tokio::time::timeout(Duration::from_millis(100), call_tool(&*dropped, "hang")).await;
    assert!(unanswered.is_err());
    drop(dropped);
    eventually("all tasks have ended", || metrics.num_alive_tasks() == before).await;

    // One that is given up in the middle of the handshake.
    let mut mute = program("import time; time.sleep(600)", &[]);
    let ServerAddress::Stdio(command) = &mut mute.address else { unreachable!() };
    Arc::get_mut(command).unwrap().start_timeout = Duration::from_millis(100);
    assert!(client().connect(&mute, Token::named("t0")).await.is_err());
    eventually("all tasks have ended", || metrics.num_alive_tasks() == before).await;
}
