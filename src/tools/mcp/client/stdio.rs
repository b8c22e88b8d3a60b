//! Messages as lines, to and from a program.

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
use super::process::Process;
use crate::net::FailureCause;
use crate::tools::mcp::error::{FailureReason, McpError};

/// What is read at once.
const READ_BUFFER_BYTES: usize = 64 * 1024;
/// How long a program may take to end.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
/// For what a program that has ended had written and nobody has read yet.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(100);

/// A connection to a program.
pub(super) struct StdioTransport {
    process: Process,
    router: Arc<MessageRouter>,
    lines: Lines,
    buffer: BytesMut,
    /// Set once the program has ended: until when its last words are waited for.
    until: Option<Instant>,
    status: Option<ExitStatus>,
}

impl StdioTransport {
    /// Speaks with a program.
    pub(super) fn new(process: Process, router: Arc<MessageRouter>) -> Self {
        let lines = Lines::new(router.limit);
        Self { process, router, lines, buffer: BytesMut::new(), until: None, status: None }
    }

    /// A message out of what was read.
    fn next_message(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let message = match self.lines.next()? {
                Line::Whole(line) if line.trim_ascii().is_empty() => {
                    self.router.count_notification(line.len());
                    None
                }
                Line::Whole(line) => self.router.read(line, None).unwrap_or_else(|error| {
                    tracing::debug!(target: "antwort::mcp", server = &*self.router.server, %error, "no message");
                    None
                }),
                Line::Skipped(line) => self.router.skip(&line, None).map(message_router::placeholder_response),
            };
            if message.is_some() {
                return message;
            }
            // The rest of what was read is nobody's any more.
            if self.router.why_given_up().is_some() {
                return None;
            }
        }
    }

    /// Reads on. `false` if nothing more can come.
    async fn read(&mut self) -> bool {
        self.buffer.clear();
        self.buffer.reserve(READ_BUFFER_BYTES);
        let ended = self.until;
        tokio::select! {
            read = self.process.stdout.read_buf(&mut self.buffer) => {
                self.lines.feed(&self.buffer);
                if self.lines.is_skipping() {
                    self.router.count_skipped(self.buffer.len());
                }
                matches!(read, Ok(1..))
            }
            status = self.process.child.wait(), if ended.is_none() => {
                // Whatever it has started would hold its output open.
                self.process.kill_group();
                self.until = Some(Instant::now() + DRAIN_TIMEOUT);
                self.status = status.ok();
                true
            }
            () = until(ended), if ended.is_some() => false,
        }
    }

    /// Why nothing more can come, when nobody wanted that.
    async fn ended(&mut self) -> McpError {
        if self.status.is_none() {
            // Its output often ends a moment before it does.
            let status = tokio::time::timeout(DRAIN_TIMEOUT, self.process.child.wait()).await;
            self.status = status.ok().and_then(Result::ok);
        }
        let how = match self.status {
            Some(status) => status.to_string(),
            None => "it has closed its output, and runs on".to_owned(),
        };
        McpError::Connect(FailureReason::new(
            "the program has ended",
            FailureCause::new("program_ended", how),
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
        let (stdin, wire) = (Arc::clone(&self.process.stdin), Arc::clone(&self.router));
        async move {
            let _open = wire.sending(&message);
            write(&stdin, &message).await
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
                    error.log(&self.router.server, "the program of an MCP server has ended");
                }
                if let McpError::Connect(reason) = error {
                    self.router.close(reason);
                }
                return None;
            }
        }
    }

    async fn close(&mut self) -> Result<(), McpError> {
        self.router.close("it was closed");
        self.process.end(EXIT_TIMEOUT).await;
        Ok(())
    }
}

async fn write(stdin: &Mutex<Option<ChildStdin>>, message: &ClientJsonRpcMessage) -> Result<(), McpError> {
    let mut line = message_router::write(message)?;
    line.push(b'\n');
    let mut stdin = stdin.lock().await;
    let Some(pipe) = stdin.as_mut() else { return Err(McpError::Connect("it was closed".into())) };
    let written = async {
        pipe.write_all(&line).await?;
        pipe.flush().await
    };
    written.await.map_err(|error| McpError::Broken(format!("the program does not read: {error}").into()))
}

async fn until(time: Option<Instant>) {
    if let Some(time) = time {
        tokio::time::sleep_until(time).await;
    }
}
