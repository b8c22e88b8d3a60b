//! The stdio transport: one message per line.

use std::borrow::Cow;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::ChildStdin;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::lines::{Line, Lines};
use super::message_router::{self, MessageRouter};
use super::process::{Process, ProgramAccount};
use crate::error::{FailureReason, McpError, PROGRAM_ENDED};
use antwort_net::FailureCause;

/// Size of reads.
const READ_BUFFER_BYTES: usize = 64 * 1024;
/// Time for a program to exit before it is killed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
/// Time to read remaining output after the exit of a program.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(100);

/// The transport of one program.
pub(super) struct StdioTransport {
    process: Process,
    router: Arc<MessageRouter>,
    lines: Lines,
    buffer: BytesMut,
    /// Set after the exit of the program: deadline for its remaining output.
    drain_deadline: Option<Instant>,
    status: Option<ExitStatus>,
}

impl StdioTransport {
    /// A transport to a running program.
    pub(super) fn new(process: Process, router: Arc<MessageRouter>) -> Self {
        let lines = Lines::new(router.limit);
        Self { process, router, lines, buffer: BytesMut::new(), drain_deadline: None, status: None }
    }

    /// What operators are told of the program.
    pub(super) fn account(&self) -> ProgramAccount {
        self.process.account()
    }

    /// The next message in the buffered output.
    fn next_message(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let message = match self.lines.next()? {
                Line::Whole(line) if line.trim_ascii().is_empty() => {
                    self.router.count_notification(line.len());
                    None
                }
                Line::Whole(line) => self.router.read(line, None).unwrap_or_else(|error| {
                    tracing::debug!(target: "antwort::mcp", server = &*self.router.server, %error, "ignoring an invalid MCP message");
                    None
                }),
                Line::Skipped(line) => self.router.skip(&line, None).map(message_router::placeholder_response),
            };
            if message.is_some() {
                return message;
            }
            // Closed because of a flood: drop the remaining output.
            if self.router.why_given_up().is_some() {
                return None;
            }
        }
    }

    /// Reads more output. `false` at its end.
    async fn read(&mut self) -> bool {
        self.buffer.clear();
        self.buffer.reserve(READ_BUFFER_BYTES);
        let deadline = self.drain_deadline;
        tokio::select! {
            read = self.process.stdout.read_buf(&mut self.buffer) => {
                self.lines.feed(&self.buffer);
                if self.lines.is_skipping() {
                    self.router.count_skipped(self.buffer.len());
                }
                matches!(read, Ok(1..))
            }
            status = self.process.child.wait(), if deadline.is_none() => {
                // Children of the program would keep its output open.
                self.process.kill_group();
                self.drain_deadline = Some(Instant::now() + DRAIN_TIMEOUT);
                self.status = status.ok();
                true
            }
            () = sleep_until(deadline), if deadline.is_some() => false,
        }
    }

    /// The error for an unexpected exit.
    async fn ended(&mut self) -> McpError {
        if self.status.is_none() {
            // Stdout is often closed a moment before the exit.
            let status = tokio::time::timeout(DRAIN_TIMEOUT, self.process.child.wait()).await;
            self.status = status.ok().and_then(Result::ok);
        }
        let how = match self.status {
            Some(status) => status.to_string(),
            None => "stdout closed, but the process is still running".to_owned(),
        };
        if self.status.is_some() {
            self.process.drain_stderr().await;
        }
        McpError::Connect(FailureReason::new(
            "the program has exited",
            FailureCause::new(PROGRAM_ENDED, self.process.account().of(&how)),
        ))
    }
}

impl Transport<RoleClient> for StdioTransport {
    type Error = McpError;

    fn name() -> Cow<'static, str> {
        "stdio".into()
    }

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), McpError>> + Send + 'static {
        self.router.pending.register(&message);
        let (stdin, router) = (Arc::clone(&self.process.stdin), Arc::clone(&self.router));
        let account = self.process.account();
        async move {
            let _open = router.sending(&message);
            write(&stdin, &message, &account).await
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            if let Some(message) = self.next_message() {
                return Some(message);
            }
            if self.router.closed.is_cancelled() {
                return None;
            }
            if !self.read().await {
                let error = self.ended().await;
                if !self.router.closed.is_cancelled() {
                    error.log(&self.router.server, "the program of an MCP server has exited");
                }
                if let McpError::Connect(reason) = error {
                    self.router.close(reason);
                }
                return None;
            }
        }
    }

    async fn close(&mut self) -> Result<(), McpError> {
        self.router.close("the session was closed");
        self.process.end(EXIT_TIMEOUT).await;
        Ok(())
    }
}

async fn write(
    stdin: &Mutex<Option<ChildStdin>>,
    message: &ClientJsonRpcMessage,
    account: &ProgramAccount,
) -> Result<(), McpError> {
    let mut line = message_router::write(message)?;
    line.push(b'\n');
    let mut stdin = stdin.lock().await;
    let Some(pipe) = stdin.as_mut() else { return Err(McpError::Connect("the session was closed".into())) };
    let written = async {
        pipe.write_all(&line).await?;
        pipe.flush().await
    };
    let Err(error) = written.await else { return Ok(()) };
    // It says why on stderr, at about the same time.
    tokio::time::sleep(DRAIN_TIMEOUT).await;
    let message = format!("writing to the program failed: {error}");
    let cause = FailureCause::new(PROGRAM_ENDED, account.of("it does not read any more"));
    Err(McpError::Broken(FailureReason::new(message, cause)))
}

async fn sleep_until(time: Option<Instant>) {
    if let Some(time) = time {
        tokio::time::sleep_until(time).await;
    }
}
