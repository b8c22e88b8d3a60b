//! Tasks: asks servers for their state, and waits for their results.

use std::time::Duration;

use futures_util::FutureExt;
use rmcp::model::{
    CancelTaskParams, CancelTaskRequest, ClientRequest, CustomRequest, GetTaskParams, GetTaskRequest,
    JsonObject, UpdateTaskParams, UpdateTaskRequest,
};
use rmcp::service::PeerRequestOptions;
use serde_json::json;

use super::elicitation::{self, InputRequests};
use super::pending::{PendingRequest, RequestKind, ServerAnswer};
use super::protocol_error::unsupported;
use super::results::{self, CallAnswer};
use super::sdk_connection::SdkConnection;
use super::task_report::{TaskReport, TaskStatus};
use crate::mcp::connection::{RemoteCall, RemoteResult};
use crate::mcp::error::McpError;
use crate::mcp::task::{RemoteTask, TaskDialect, TaskState};
use crate::tools::{Asker, Progress};

/// The code of a task that the server has cancelled.
const CANCELLED: i64 = -32800;

impl SdkConnection {
    /// Waits for the result of a task. Dropped before, it cancels the task.
    pub(super) async fn await_task(
        &self,
        task: &RemoteTask,
        call: &RemoteCall<'_>,
        progress: &Progress,
    ) -> Result<RemoteResult, McpError> {
        let mut guard = TaskGuard { connection: self, task, has_ended: false };
        let mut poll = task.poll();
        loop {
            tokio::time::sleep(poll).await;
            let state = self.task_state(task, (call.idle, call.asker), progress).await;
            match state {
                Ok(TaskState::Working(next)) => poll = next,
                Ok(TaskState::Done(result)) => {
                    guard.has_ended = true;
                    return Ok(*result);
                }
                Err(error) => {
                    // The server has said that the task has ended; of others nothing is known.
                    guard.has_ended = matches!(error, McpError::Protocol { .. });
                    return Err(error);
                }
            }
        }
    }

    /// How far a task is. An error of the protocol is the end of the task.
    pub(super) async fn task_state(
        &self,
        task: &RemoteTask,
        (idle, asker): (Duration, Option<&Asker>),
        progress: &Progress,
    ) -> Result<TaskState, McpError> {
        let get = ClientRequest::GetTaskRequest(GetTaskRequest::new(GetTaskParams::new(task.id.clone())));
        let report = self.ask_of_task(get, idle).await?;
        match (report.status, task.dialect) {
            (TaskStatus::Working, _) => Ok(TaskState::Working(report.poll)),
            (TaskStatus::Cancelled(why), _) => Err(cancelled(why)),
            (TaskStatus::Completed(Some(result)), _) => {
                Ok(TaskState::Done(Box::new(finished(results::read(&result)?)?)))
            }
            (TaskStatus::Failed(Some(error)), _) => Err(error),
            (TaskStatus::InputRequired(requests), TaskDialect::Extension) => {
                self.answer_task(task, requests, (idle, asker)).await?;
                Ok(TaskState::Working(report.poll))
            }
            // The result says what was asked or why it has failed.
            (TaskStatus::InputRequired(_) | TaskStatus::Completed(None) | TaskStatus::Failed(None), _) => {
                self.task_result(task, (idle, asker), progress).await.map(Box::new).map(TaskState::Done)
            }
        }
    }

    /// The result of a task of version 2025-11-25; while it is waited for, the server may ask the user.
    async fn task_result(
        &self,
        task: &RemoteTask,
        (idle, asker): (Duration, Option<&Asker>),
        progress: &Progress,
    ) -> Result<RemoteResult, McpError> {
        let pending = PendingRequest::call(progress.clone(), None, asker);
        let request = CustomRequest::new("tasks/result", Some(json!({ "taskId": task.id })));
        let request = ClientRequest::CustomRequest(request);
        match self.request(request, JsonObject::new(), &pending, idle).await? {
            ServerAnswer::Call(answer) => finished(answer),
            ServerAnswer::Page(_) | ServerAnswer::Task(_) => Err(unexpected()),
        }
    }

    /// Answers what a task of the extension asks: the user if there is one, or the policy.
    async fn answer_task(
        &self,
        task: &RemoteTask,
        requests: InputRequests,
        (idle, asker): (Duration, Option<&Asker>),
    ) -> Result<(), McpError> {
        let modes = asker.map(Asker::modes).unwrap_or_default();
        let mut required = elicitation::split(requests, modes, self.elicitation)?;
        for (key, question) in required.questions {
            let Some(asker) = asker else { continue };
            required.answered.insert(key, asker.ask(question).await);
        }
        let replies = elicitation::replies(&required.answered);
        let update = UpdateTaskRequest::new(UpdateTaskParams::new(task.id.clone(), replies));
        let pending = PendingRequest::new(RequestKind::Ack, Progress::none());
        let update = ClientRequest::UpdateTaskRequest(update);
        self.request(update, JsonObject::new(), &pending, idle).await.map(drop)
    }

    /// Tells the server that a task is not needed any more, without waiting.
    pub(super) fn cancel_task_now(&self, task: &RemoteTask) {
        let cancel = CancelTaskRequest::new(CancelTaskParams::new(task.id.clone()));
        let cancel = ClientRequest::CancelTaskRequest(cancel);
        let sent = self.peer.send_cancellable_request(cancel, PeerRequestOptions::no_options());
        // Polled once, which queues the request; its response is not awaited.
        let _queued = tokio::task::unconstrained(sent).now_or_never();
    }

    async fn ask_of_task(&self, request: ClientRequest, idle: Duration) -> Result<TaskReport, McpError> {
        let pending = PendingRequest::new(RequestKind::Task, Progress::none());
        match self.request(request, JsonObject::new(), &pending, idle).await? {
            ServerAnswer::Task(report) => Ok(report),
            ServerAnswer::Page(_) | ServerAnswer::Call(_) => Err(unexpected()),
        }
    }
}

/// Cancels a task unless it has ended.
struct TaskGuard<'a> {
    connection: &'a SdkConnection,
    task: &'a RemoteTask,
    has_ended: bool,
}

impl Drop for TaskGuard<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.connection.cancel_task_now(self.task);
        }
    }
}

fn finished(answer: CallAnswer) -> Result<RemoteResult, McpError> {
    match answer {
        CallAnswer::Done(result) => Ok(result),
        CallAnswer::InputRequired(_) | CallAnswer::UrlsRequired(..) | CallAnswer::Task(_) => {
            Err(unsupported("ends a task with no result"))
        }
    }
}

fn cancelled(why: Option<String>) -> McpError {
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    McpError::Protocol { code: CANCELLED, message: format!("the server has cancelled the task{why}") }
}

fn unexpected() -> McpError {
    McpError::Malformed("the response does not match the request".to_owned())
}
