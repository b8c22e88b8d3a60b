//! The queues of the writers, and who writes what.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::error::closed;
use antwort_store::StoreError;
use antwort_store::failed_requests::MAX_WAITING_WRITES;
use antwort_store::operation::{EraseRequest, Write, WriteOutcome};
use antwort_store::outage::{self, OUTAGE_TIMEOUT};

/// Writes that wait for a writer.
pub(super) const CAPACITY: usize = 512;

/// How long a write waits for a place in a full queue.
const WAIT: Duration = Duration::from_secs(10);

/// Where the outcome of a write goes.
pub(super) type Reply = oneshot::Sender<Result<WriteOutcome, StoreError>>;

/// What a writer is asked to do.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are writes: a box for each costs more than the room in the queue"
)]
pub(super) enum Command {
    Write(Write, Reply),
    /// Runs that began before this erasure are not stored.
    Erase(EraseRequest),
    /// Whether a write is possible now.
    Check(oneshot::Sender<Result<(), StoreError>>),
    /// Commits what is queued, and ends.
    Close(oneshot::Sender<()>),
}

/// The writers of a process. Those of one run are made by one writer, in their order.
pub(super) struct Writers {
    queues: Vec<mpsc::Sender<Command>>,
}

impl Writers {
    pub(super) fn new(queues: Vec<mpsc::Sender<Command>>) -> Self {
        Self { queues }
    }

    /// Queues a write and waits for its commit. Once queued, it is made whether it is awaited or not.
    pub(super) async fn write(&self, write: Write) -> Result<WriteOutcome, StoreError> {
        let (answer, outcome) = oneshot::channel();
        let queue = self.queue_of(&write)?;
        let wait = if outage::may_wait(&write) { OUTAGE_TIMEOUT } else { WAIT };
        queue.send_timeout(Command::Write(write, answer), wait).await.map_err(|error| match error {
            mpsc::error::SendTimeoutError::Timeout(_) => {
                StoreError::Unavailable(format!("it does not keep up: a write has waited for {wait:?}"))
            }
            mpsc::error::SendTimeoutError::Closed(_) => closed(),
        })?;
        outcome.await.map_err(|_| closed())?
    }

    /// Queues a write without a reply. It waits for a place in a full queue, as there are no more of these than calls under way.
    pub(super) fn write_detached(&self, write: Write) {
        let (answer, _) = oneshot::channel();
        let Ok(queue) = self.queue_of(&write) else { return };
        if let Err(mpsc::error::TrySendError::Full(command)) = queue.try_send(Command::Write(write, answer)) {
            let queue = queue.clone();
            #[expect(
                clippy::disallowed_methods,
                reason = "ends when the queue has room or its writer has ended"
            )]
            tokio::spawn(async move { _ = queue.send(command).await });
        }
    }

    /// Queues a write that may be dropped. If many others wait, it is.
    pub(super) fn write_unless_busy(&self, write: Write) {
        let (answer, _) = oneshot::channel();
        let has_few = |queue: &&mpsc::Sender<Command>| CAPACITY - queue.capacity() < MAX_WAITING_WRITES;
        let queue = self.queue_of(&write);
        let is_queued =
            queue.is_ok_and(|queue| has_few(&queue) && queue.try_send(Command::Write(write, answer)).is_ok());
        if !is_queued {
            tracing::debug!("store: many writes wait; dropped the row of a failed request");
        }
    }

    /// Has each writer remember an erasure.
    pub(super) async fn erase(&self, request: &EraseRequest) {
        for queue in &self.queues {
            // One that has ended writes nothing.
            _ = queue.send(Command::Erase(request.clone())).await;
        }
    }

    /// Whether each of them can write.
    pub(super) async fn check(&self) -> Result<(), StoreError> {
        for queue in &self.queues {
            let (answer, outcome) = oneshot::channel();
            queue.send(Command::Check(answer)).await.map_err(|_| closed())?;
            outcome.await.map_err(|_| closed())??;
        }
        Ok(())
    }

    /// Commits what is queued, and ends the writers.
    pub(super) async fn close(&self) {
        for queue in &self.queues {
            let (done, ended) = oneshot::channel();
            if queue.send(Command::Close(done)).await.is_ok() {
                // An error means that it has ended already.
                _ = ended.await;
            }
        }
    }

    fn queue_of(&self, write: &Write) -> Result<&mpsc::Sender<Command>, StoreError> {
        let mut hasher = DefaultHasher::new();
        run_of(write).hash(&mut hasher);
        let count = self.queues.len().max(1) as u64;
        self.queues.get((hasher.finish() % count) as usize).ok_or_else(closed)
    }
}

/// The id of the response that a write is about.
pub(super) fn run_of(write: &Write) -> &str {
    match write {
        Write::Begin(record, _) | Write::Finish(record) => record.lease.id.as_str(),
        Write::FailedRequest(record) => record.lease.id.as_str(),
        Write::Turn(turn) => turn.lease.id.as_str(),
        Write::ToolResult(outcome) => outcome.lease.id.as_str(),
        Write::BeginLogged(run) => run.record.lease.id.as_str(),
        Write::Enqueue(job) => job.run.record.lease.id.as_str(),
        Write::UpdateRunning(record) => record.lease.id.as_str(),
        Write::Withdraw(lease) | Write::Log(lease, _) | Write::Requeue(lease, _) => lease.id.as_str(),
        Write::WaitForInputs(lease) => lease.id.as_str(),
        Write::AskQuestions(asked) => asked.lease.id.as_str(),
        Write::AnswerInput(answer) => answer.response.as_str(),
        Write::StartAsync(call) => call.key.response.as_str(),
        Write::CompleteAsync(result) => result.key.response.as_str(),
        Write::SettleAsync(done) => done.key.response.as_str(),
        Write::PollTask(key, _) => key.response.as_str(),
        Write::RequestCancel(_, id) => id.as_str(),
        Write::FinishLogged(end) => end.0.lease.id.as_str(),
        Write::Delete(_, id) => id,
        Write::AddApprovals(_) | Write::ClaimApprovals(_) | Write::Erase(_) | Write::Conversation(_) => "",
    }
}
