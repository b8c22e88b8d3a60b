//! Loses the process behind a commit of a run: nothing that the run wants of the store happens any more.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use antwort::store::StoreError;
use antwort_test_support::hooked_store::{Operation, StoreHooks};
use async_trait::async_trait;

use super::{Case, Stop, World};

/// Loses the process behind a commit.
pub struct StopsAtCommits(pub Arc<World>);

/// The writes of a run that count as commits: the run waits for them.
const COMMITS: [&str; 11] = [
    "enqueue",
    "begin",
    "begin_logged",
    "update_running",
    "claim_approvals",
    "commit_turn",
    "ask_questions",
    "wait_for_inputs",
    "start_async",
    "finish",
    "finish_logged",
];

impl StopsAtCommits {
    fn case(&self, operation: &Operation) -> Option<Arc<Case>> {
        let run = operation.run.as_ref()?;
        let mut runs = self.0.runs.lock();
        if let (Some(model), false) = (&operation.model, runs.contains_key(run)) {
            runs.insert(run.clone(), self.0.case(model)?);
        }
        runs.get(run).cloned()
    }
}

/// Whether a response is queued that follows another. What queues it in a process does so for all cases: for one whose process is
/// lost, it fails.
fn is_follow_up(case: &Case, operation: &Operation) -> bool {
    operation.name == "enqueue" && !case.creates.load(Ordering::SeqCst)
}

fn lost() -> StoreError {
    StoreError::Unavailable("the process is lost".into())
}

#[async_trait]
impl StoreHooks for StopsAtCommits {
    async fn before(&self, operation: &Operation) -> Result<(), StoreError> {
        if operation.name == "take_due_notices" && !self.0.delivers.load(Ordering::SeqCst) {
            pending::<()>().await;
        }
        let Some(case) = self.case(operation) else { return Ok(()) };
        if case.is_frozen() && is_follow_up(&case, operation) {
            return Err(lost());
        }
        case.while_running().await;
        if COMMITS.contains(&operation.name) {
            let mut seen = case.seen.lock();
            seen.commits += 1;
            if seen.stop == Some(Stop::Commit(seen.commits)) {
                case.is_frozen.store(true, Ordering::SeqCst);
            }
        }
        Ok(())
    }

    async fn after(&self, operation: &Operation) -> Result<(), StoreError> {
        let case = self.case(operation).filter(|_| COMMITS.contains(&operation.name));
        let is_last =
            |case: &Arc<Case>| matches!(case.seen.lock().stop, Some(Stop::Commit(_))) && case.is_frozen();
        match case.filter(is_last) {
            Some(case) if is_follow_up(&case, operation) => {
                case.freeze();
                Err(lost())
            }
            Some(case) => match case.stop().await {},
            None => Ok(()),
        }
    }

    fn allows(&self, operation: &Operation) -> bool {
        self.case(operation).is_none_or(|case| !case.is_frozen())
    }
}
