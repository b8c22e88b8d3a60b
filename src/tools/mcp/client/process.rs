//! A program that is a server, and what it starts: a process group that ends with the connection. Where the gateway is
//! killed, the program ends with it (`launcher`), and what the program has started with its input.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use secrecy::ExposeSecret;
use std::process::Stdio;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::launcher;
use super::lines::{Line, Lines};
use super::log::ServerLog;
use super::notices::sanitize_for_log;
use crate::net::FailureCause;
use crate::tools::mcp::connection::StdioCommand;
use crate::tools::mcp::error::{FailureReason, McpError};

/// For what a program reports when it ends.
const STDERR_DRAIN_TIMEOUT: Duration = Duration::from_millis(100);
/// Bytes of a line of its error output.
const MAX_STDERR_LINE_BYTES: usize = 4 * 1024;
/// Environment that is passed on.
const INHERITED_ENV: [&str; 2] = ["PATH", "HOME"];

/// A program that runs.
pub(super) struct Process {
    /// The program.
    pub child: Child,
    /// What it reads; `None` once that is closed.
    pub stdin: Arc<Mutex<Option<ChildStdin>>>,
    /// What it writes.
    pub stdout: ChildStdout,
    /// Reads what it reports.
    reports: JoinSet<()>,
    group: Group,
}

/// The program's process group. Killed when it is dropped.
struct Group(Option<Pid>);

impl Process {
    /// Starts a program. `server` names it in logs.
    pub(super) fn start(command: &StdioCommand, server: Arc<str>) -> Result<Self, McpError> {
        // Clients are not told what the operator runs, and where.
        let does_not_start = |error: std::io::Error| {
            let told = format!("the program does not start: {}", error.kind());
            let cause = FailureCause::new("program_not_started", format!("{}: {error}", command.program));
            let error = McpError::Connect(FailureReason::new(told, cause));
            error.log(&server, "the program of an MCP server does not start");
            error
        };
        let mut builder = launcher::command(command).map_err(does_not_start)?;
        builder.env_clear();
        builder.envs(INHERITED_ENV.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        builder.envs(command.env.iter().map(|(name, value)| (name, value.expose_secret())));
        if let Some(cwd) = &command.cwd {
            builder.current_dir(cwd);
        }
        builder.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        builder.kill_on_drop(true).process_group(0);
        let mut child = launcher::spawn(builder).map_err(does_not_start)?;
        let group = Group(child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)));
        let mut reports = JoinSet::new();
        if let Some(stderr) = child.stderr.take() {
            reports.spawn(report(stderr, server));
        }
        let stdin = Arc::new(Mutex::new(child.stdin.take()));
        let no_pipe = || McpError::Connect("the program cannot be spoken to".into());
        let stdout = child.stdout.take().ok_or_else(no_pipe)?;
        Ok(Self { child, stdin, stdout, reports, group })
    }

    /// Kills what the program has started and left behind.
    pub(super) fn kill_group(&mut self) {
        self.group.kill();
    }

    /// Asks the program to end by closing what it reads, and kills it if it has not after `patience`.
    pub(super) async fn end(&mut self, patience: Duration) {
        // A message that the program does not take holds the lock.
        if let Ok(mut stdin) = self.stdin.try_lock() {
            *stdin = None;
        }
        let _ended = tokio::time::timeout(patience, self.child.wait()).await;
        self.group.kill();
        let _killed = self.child.kill().await;
        let _said = tokio::time::timeout(STDERR_DRAIN_TIMEOUT, self.reports.join_next()).await;
        self.reports.abort_all();
    }
}

impl Group {
    fn kill(&mut self) {
        if let Some(group) = self.0.take() {
            // An error says that nobody is left.
            let _gone = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Logs what a program reports.
async fn report(mut stderr: ChildStderr, server: Arc<str>) {
    let log = ServerLog::for_program(server);
    let mut lines = Lines::new(MAX_STDERR_LINE_BYTES);
    let mut buffer = bytes::BytesMut::with_capacity(MAX_STDERR_LINE_BYTES);
    while let Ok(1..) = stderr.read_buf(&mut buffer).await {
        lines.feed(&buffer);
        buffer.clear();
        while let Some(line) = lines.next() {
            log.report(|| match &line {
                Line::Whole(line) => sanitize_for_log(line),
                Line::Skipped(line) => format!("{}…", sanitize_for_log(&line.head)),
            });
        }
    }
}
