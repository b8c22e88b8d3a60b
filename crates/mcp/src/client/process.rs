//! The process of a stdio server: a process group that is killed with the connection. If the gateway is killed, the
//! program is killed, too (`launcher`), and its children see the end of their input.

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
use super::stderr_tail::StderrTail;
use crate::connection::StdioCommand;
use crate::error::{FailureReason, McpError, PROGRAM_NOT_STARTED};
use antwort_net::FailureCause;

/// Time to read stderr after the end of a connection.
const STDERR_DRAIN_TIMEOUT: Duration = Duration::from_millis(100);
/// The same after the unexpected exit of a program, of which operators are told what it said.
const LAST_WORDS_TIMEOUT: Duration = Duration::from_millis(500);
/// Maximum bytes of a line of stderr.
const MAX_STDERR_LINE_BYTES: usize = 4 * 1024;
/// Inherited environment variables.
const INHERITED_ENV: [&str; 2] = ["PATH", "HOME"];

/// A running program.
pub(super) struct Process {
    /// Child process.
    pub child: Child,
    /// Its stdin; `None` once closed.
    pub stdin: Arc<Mutex<Option<ChildStdin>>>,
    /// Its stdout.
    pub stdout: ChildStdout,
    /// The last lines of its stderr.
    stderr_tail: Arc<StderrTail>,
    /// Its name, for operators.
    program: Arc<str>,
    /// Task that logs its stderr.
    reports: JoinSet<()>,
    group: Group,
}

/// What operators are told of a program; clients are not.
#[derive(Clone)]
pub(super) struct ProgramAccount {
    program: Arc<str>,
    stderr_tail: Arc<StderrTail>,
}

impl ProgramAccount {
    /// What has happened to it.
    pub(super) fn of(&self, what: &str) -> String {
        match self.stderr_tail.text() {
            Some(words) => format!("{}: {what}; the end of its stderr: {words}", self.program),
            None => format!("{}: {what}; it wrote nothing to stderr", self.program),
        }
    }
}

/// The process group, killed on drop.
struct Group(Option<Pid>);

impl Process {
    /// Starts a program. `server` is its name in logs.
    pub(super) fn start(command: &StdioCommand, server: Arc<str>) -> Result<Self, McpError> {
        // Clients do not learn the command line, which goes to the log only.
        let start_error = |error: std::io::Error| {
            let message = format!("the program cannot be started: {}", error.kind());
            let cause = FailureCause::new(PROGRAM_NOT_STARTED, format!("{}: {error}", command.program));
            let error = McpError::Connect(FailureReason::new(message, cause));
            error.log(&server, "starting the program of an MCP server failed");
            error
        };
        let mut builder = launcher::command(command).map_err(start_error)?;
        builder.env_clear();
        builder.envs(INHERITED_ENV.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        builder.envs(command.env.iter().map(|(name, value)| (name, value.expose_secret())));
        if let Some(cwd) = &command.cwd {
            builder.current_dir(cwd);
        }
        builder.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        builder.kill_on_drop(true).process_group(0);
        let mut child = launcher::spawn(builder).map_err(start_error)?;
        let group = Group(child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)));
        let mut reports = JoinSet::new();
        let stderr_tail = Arc::new(StderrTail::new(&command.env, &command.args));
        if let Some(stderr) = child.stderr.take() {
            reports.spawn(report(stderr, server, Arc::clone(&stderr_tail)));
        }
        let stdin = Arc::new(Mutex::new(child.stdin.take()));
        let no_pipe = || McpError::Connect("the program has no stdout pipe".into());
        let stdout = child.stdout.take().ok_or_else(no_pipe)?;
        let program = Arc::from(command.program.as_str());
        Ok(Self { child, stdin, stdout, stderr_tail, program, reports, group })
    }

    /// What operators are told of the program: its name, what has happened, and the end of its stderr.
    pub(super) fn account(&self) -> ProgramAccount {
        ProgramAccount { program: Arc::clone(&self.program), stderr_tail: Arc::clone(&self.stderr_tail) }
    }

    /// Reads what an exited program has written to stderr.
    pub(super) async fn drain_stderr(&mut self) {
        let _said = tokio::time::timeout(LAST_WORDS_TIMEOUT, self.reports.join_next()).await;
    }

    /// Kills the children that the program left behind.
    pub(super) fn kill_group(&mut self) {
        self.group.kill();
    }

    /// Closes the program's stdin and kills it if it has not exited after `timeout`.
    pub(super) async fn end(&mut self, timeout: Duration) {
        // The lock is held if the program does not read a message; then it is killed without closing stdin.
        if let Ok(mut stdin) = self.stdin.try_lock() {
            *stdin = None;
        }
        let _ended = tokio::time::timeout(timeout, self.child.wait()).await;
        self.group.kill();
        let _killed = self.child.kill().await;
        let _said = tokio::time::timeout(STDERR_DRAIN_TIMEOUT, self.reports.join_next()).await;
        self.reports.abort_all();
    }
}

impl Group {
    fn kill(&mut self) {
        if let Some(group) = self.0.take() {
            // An error means that no process is left.
            let _gone = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Logs the stderr of a program.
async fn report(mut stderr: ChildStderr, server: Arc<str>, stderr_tail: Arc<StderrTail>) {
    let log = ServerLog::for_program(server);
    let mut lines = Lines::new(MAX_STDERR_LINE_BYTES);
    let mut buffer = bytes::BytesMut::with_capacity(MAX_STDERR_LINE_BYTES);
    while let Ok(1..) = stderr.read_buf(&mut buffer).await {
        lines.feed(&buffer);
        buffer.clear();
        report_lines(&mut lines, &log, &stderr_tail);
    }
    // The last line often has no end.
    lines.feed(b"\n");
    report_lines(&mut lines, &log, &stderr_tail);
}

fn report_lines(lines: &mut Lines, log: &ServerLog, stderr_tail: &StderrTail) {
    while let Some(line) = lines.next() {
        match &line {
            Line::Whole(line) => stderr_tail.push(line, false),
            Line::Skipped(line) => stderr_tail.push(&line.head, true),
        }
        log.report(|| match &line {
            Line::Whole(line) => sanitize_for_log(line),
            Line::Skipped(line) => format!("{}…", sanitize_for_log(&line.head)),
        });
    }
}
