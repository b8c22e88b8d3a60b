//! Tasks of calls: looked at on whatever connection there is, since they outlive one.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Session;
use crate::connection::{RemoteCall, RemoteResult, TaskLook, TaskState};
use crate::error::McpError;
use crate::task::RemoteTask;
use antwort_tools::Progress;

/// The code of an unknown task, and of many a lost session.
const INVALID_PARAMS: i64 = -32602;
/// How often in a row a task that is waited for may fail to be looked at.
const MAX_FAILURES: u32 = 5;
/// After which time it is looked at again then; more with each failure.
const RETRY: Duration = Duration::from_secs(1);

impl Session {
    /// Waits for the result of a task. Dropped before, it cancels the task. The call was made: no error of this says otherwise.
    pub(super) async fn await_task(
        &self,
        task: &RemoteTask,
        call: &RemoteCall<'_>,
        progress: &Progress,
    ) -> Result<RemoteResult, McpError> {
        let mut guard = TaskGuard { session: self, task, has_ended: false };
        let (mut poll, mut failures, mut answered) = (task.poll, 0, BTreeMap::new());
        loop {
            tokio::time::sleep(poll).await;
            let look = TaskLook {
                task,
                idle: call.idle,
                context: call.meta.context,
                asker: call.asker,
                progress,
                answered: &mut answered,
            };
            match self.task_state(look).await {
                Ok(TaskState::Working(next)) => (poll, failures) = (next, 0),
                Ok(TaskState::Done(result)) => {
                    guard.has_ended = true;
                    return Ok(*result);
                }
                Ok(TaskState::Failed(error)) => {
                    guard.has_ended = true;
                    return Err(error);
                }
                Ok(TaskState::Stuck(error)) => return Err(error),
                Err(error) => {
                    failures += 1;
                    if failures > MAX_FAILURES {
                        return Err(McpError::Broken(
                            format!("the task cannot be looked at: {error}").into(),
                        ));
                    }
                    poll = poll.max(RETRY * failures);
                }
            }
        }
    }

    /// How far a task is.
    pub(crate) async fn task_state(&self, look: TaskLook<'_>) -> Result<TaskState, McpError> {
        self.touch();
        let TaskLook { task, idle, context, asker, progress, answered } = look;
        let mut open = self.connect().await?;
        let again = TaskLook { task, idle, context, asker, progress, answered: &mut *answered };
        let mut state = open.connection.task_state(again).await;
        // An error may be that of a session that the server has lost.
        if let Err(error) = &state
            && let Some(next) = self.recover(&open, context, error).await?
        {
            open = next;
            let again = TaskLook { task, idle, context, asker, progress, answered };
            state = open.connection.task_state(again).await;
        }
        // In a session that the server has, this says that it has no such task.
        if let Err(error @ McpError::Protocol { code: INVALID_PARAMS, .. }) = state {
            state = Ok(TaskState::Failed(error));
        }
        self.observe(&open, state.as_ref().err());
        self.touch();
        state
    }

    /// Tells the server that a task is not needed any more.
    pub(crate) async fn cancel_task(&self, task: &RemoteTask) -> Result<(), McpError> {
        self.touch();
        self.connect().await?.connection.cancel_task(task);
        Ok(())
    }
}

/// Cancels a task unless it has ended.
struct TaskGuard<'a> {
    session: &'a Session,
    task: &'a RemoteTask,
    has_ended: bool,
}

impl Drop for TaskGuard<'_> {
    fn drop(&mut self) {
        if !self.has_ended
            && let Some(open) = self.session.live_connection()
        {
            open.connection.cancel_task(self.task);
        }
    }
}
