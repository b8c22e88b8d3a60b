//! Tasks: asks servers for their state and their results.

use futures_util::FutureExt;
use rmcp::model::{
    CancelTaskParams, CancelTaskRequest, ClientRequest, CustomRequest, GetTaskParams, GetTaskRequest,
    UpdateTaskParams, UpdateTaskRequest,
};
use rmcp::service::PeerRequestOptions;
use serde_json::json;

use super::elicitation::{self, InputRequests};
use super::pending::{PendingRequest, RequestKind, ServerAnswer};
use super::protocol_error::unsupported;
use super::results::{self, CallAnswer};
use super::sdk_connection::{NO_IDLE_TIMEOUT, SdkConnection, context_meta};
use super::task_report::TaskStatus;
use crate::connection::{TaskAnswer, TaskLook, TaskState};
use crate::error::McpError;
use crate::task::{RemoteTask, TaskDialect};
use antwort_tools::{Asker, Progress};

/// The code of a task that the server has cancelled.
const CANCELLED: i64 = -32800;
/// Maximum number of questions of a task that are answered.
const MAX_ANSWERS: usize = 64;

impl SdkConnection {
    pub(super) async fn look_at_task(&self, look: TaskLook<'_>) -> Result<TaskState, McpError> {
        let get =
            ClientRequest::GetTaskRequest(GetTaskRequest::new(GetTaskParams::new(look.task.id.clone())));
        let pending = PendingRequest::new(RequestKind::Task, Progress::none());
        let report = match self.request(get, context_meta(look.context), &pending, look.idle).await {
            Ok(ServerAnswer::Task(report)) => report,
            Ok(ServerAnswer::Page(_) | ServerAnswer::Call(_) | ServerAnswer::Empty) => {
                return Err(unexpected());
            }
            // It has a result.
            Err(error @ McpError::TooLarge { .. }) => return Ok(TaskState::Failed(error)),
            Err(error) => return Err(error),
        };
        match (report.status, look.task.dialect) {
            (TaskStatus::Working, _) => Ok(TaskState::Working(report.poll)),
            (TaskStatus::Cancelled(why), _) => Ok(TaskState::Failed(cancelled(why))),
            (TaskStatus::Completed(Some(result)), _) => Ok(ended(results::read(&result))),
            (TaskStatus::Failed(Some(error)), _) => Ok(TaskState::Failed(error)),
            (TaskStatus::InputRequired(requests), TaskDialect::Extension) => {
                Ok(match self.answer_task(look, requests).await? {
                    Some(stuck) => TaskState::Stuck(stuck),
                    None => TaskState::Working(report.poll),
                })
            }
            // The result says what was asked or why it has failed.
            (TaskStatus::InputRequired(_) | TaskStatus::Completed(None) | TaskStatus::Failed(None), _) => {
                self.task_result(look).await
            }
        }
    }

    /// The result of a task of version 2025-11-25; while it is waited for, the server may ask the user.
    async fn task_result(&self, look: TaskLook<'_>) -> Result<TaskState, McpError> {
        let pending = PendingRequest::call(look.progress.clone(), None, look.asker);
        let request = CustomRequest::new("tasks/result", Some(json!({ "taskId": look.task.id })));
        let request = ClientRequest::CustomRequest(request);
        // The server answers when the task has ended.
        match self.request(request, context_meta(look.context), &pending, NO_IDLE_TIMEOUT).await {
            Ok(ServerAnswer::Call(answer)) => Ok(ended(Ok(answer))),
            Ok(ServerAnswer::Page(_) | ServerAnswer::Task(_) | ServerAnswer::Empty) => Err(unexpected()),
            Err(error @ (McpError::Protocol { .. } | McpError::TooLarge { .. } | McpError::Malformed(_))) => {
                Ok(TaskState::Failed(error))
            }
            Err(error) => Err(error),
        }
    }

    /// Answers what a task of the extension asks, if it was not answered before: the user if there is one, or the policy.
    /// Returns why that cannot be done.
    async fn answer_task(
        &self,
        look: TaskLook<'_>,
        mut requests: InputRequests,
    ) -> Result<Option<McpError>, McpError> {
        let asked: Vec<String> = requests.questions.keys().cloned().collect();
        requests.questions.retain(|key, _| !look.answered.contains_key(key));
        if look.answered.len() + requests.questions.len() > MAX_ANSWERS {
            return Ok(Some(unsupported("requests input too often during a task")));
        }
        let modes = look.asker.map(Asker::modes).unwrap_or_default();
        let mut required = match elicitation::split(requests, modes, self.elicitation) {
            Ok(required) => required,
            Err(stuck) => return Ok(Some(stuck)),
        };
        for (key, question) in required.questions {
            let Some(asker) = look.asker else { continue };
            required.answered.insert(key, asker.ask(question).await);
        }
        let given =
            required.answered.into_iter().map(|(key, answer)| (key, TaskAnswer { answer, is_told: false }));
        look.answered.extend(given);
        self.tell_answers(look, &asked).await.map(|()| None)
    }

    /// Tells the server answers of which it was not told. It may show their questions for some time.
    async fn tell_answers(&self, look: TaskLook<'_>, asked: &[String]) -> Result<(), McpError> {
        let untold = look.answered.iter().filter(|(key, given)| !given.is_told && asked.contains(key));
        let replies = elicitation::replies(untold.map(|(key, given)| (key, &given.answer)));
        if replies.is_empty() {
            return Ok(());
        }
        let keys: Vec<String> = replies.keys().cloned().collect();
        let update = UpdateTaskRequest::new(UpdateTaskParams::new(look.task.id.clone(), replies));
        let pending = PendingRequest::new(RequestKind::Update, Progress::none());
        let update = ClientRequest::UpdateTaskRequest(update);
        match self.request(update, context_meta(look.context), &pending, look.idle).await {
            // It may have ended meanwhile.
            Ok(_) | Err(McpError::Protocol { .. }) => {}
            Err(error) => return Err(error),
        }
        for key in keys {
            if let Some(given) = look.answered.get_mut(&key) {
                given.is_told = true;
            }
        }
        Ok(())
    }

    /// Tells the server that a task is not needed any more, without waiting.
    pub(super) fn cancel_task_now(&self, task: &RemoteTask) {
        let cancel = CancelTaskRequest::new(CancelTaskParams::new(task.id.clone()));
        let cancel = ClientRequest::CancelTaskRequest(cancel);
        let sent = self.peer.send_cancellable_request(cancel, PeerRequestOptions::no_options());
        // Polled once, which queues the request; its response is not awaited.
        let _queued = tokio::task::unconstrained(sent).now_or_never();
    }
}

fn ended(answer: Result<CallAnswer, McpError>) -> TaskState {
    match answer {
        Ok(CallAnswer::Done(result)) => TaskState::Done(Box::new(result)),
        Ok(CallAnswer::InputRequired(_) | CallAnswer::UrlsRequired(..) | CallAnswer::Task(_)) => {
            TaskState::Failed(unsupported("ends a task with no result"))
        }
        Err(error) => TaskState::Failed(error),
    }
}

fn cancelled(why: Option<String>) -> McpError {
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    McpError::Protocol { code: CANCELLED, message: format!("the server has cancelled the task{why}") }
}

fn unexpected() -> McpError {
    McpError::Malformed("the response does not match the request".to_owned())
}
