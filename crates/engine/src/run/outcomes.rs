//! Waits for the results of calls that are under way; their progress and questions are shown meanwhile.

use std::future::pending;

use futures_util::{Stream, StreamExt};
use tokio::sync::mpsc;

use super::held_questions::{self, HeldQuestions};
use super::live::{Run, RunError};
use antwort_tools::{ToolError, ToolOutput};

/// What a call has ended with.
pub(super) type ToolResult = Result<ToolOutput, ToolError>;

/// Progress of running calls, if it is wanted: the slot and the message.
pub(super) type Reports = Option<mpsc::Receiver<(u32, String)>>;

/// Waits for the next result, and emits progress and questions meanwhile.
pub(super) async fn outcome_of(
    run: &mut Run,
    outcomes: &mut (impl Stream<Item = ToolResult> + Unpin),
    reports: &mut Reports,
    held: &mut Option<HeldQuestions>,
) -> Result<Option<ToolResult>, RunError> {
    loop {
        // The call that has asked may be the one that is shown now.
        if let Some(held) = held.as_mut().filter(|held| held.has_untold()) {
            Box::pin(held_questions::tell_questions(run, held)).await?;
        }
        let next = async {
            tokio::select! {
                biased;
                outcome = outcomes.next() => Ok(outcome),
                Some(report) = reported(reports) => Err(Meanwhile::Progress(report)),
                () = changed(held) => Err(Meanwhile::Questions),
            }
        };
        match run.until_cancelled(next).await? {
            // It may be that of the call that has asked.
            Ok(outcome) => {
                serve_held(run, held).await?;
                return Ok(outcome);
            }
            Err(Meanwhile::Questions) => serve_held(run, held).await?,
            Err(Meanwhile::Progress((slot, message))) => {
                // A tool that never stops reporting must not keep the run alive.
                run.check_deadline()?;
                run.machine.report_progress(slot, message, run.sink.events())?;
                run.flush().await?;
            }
        }
    }
}

async fn serve_held(run: &mut Run, held: &mut Option<HeldQuestions>) -> Result<(), RunError> {
    match held {
        Some(held) => Box::pin(held_questions::serve_questions(run, held)).await,
        None => Ok(()),
    }
}

/// The next progress report, if reports are wanted.
async fn reported(reports: &mut Reports) -> Option<(u32, String)> {
    reports.as_mut()?.recv().await
}

/// What there is while calls are under way.
enum Meanwhile {
    /// A call reports progress.
    Progress((u32, String)),
    /// A call asks the user, or may have its answer.
    Questions,
}

/// Returns when there is something to do for the questions of calls, if the client shows them.
async fn changed(held: &mut Option<HeldQuestions>) {
    match held {
        Some(held) => held.changed().await,
        None => pending().await,
    }
}
