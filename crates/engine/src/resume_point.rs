//! Where a run was when its process was lost or it began to wait: read from its rows by whoever goes on with it or ends it.

use super::journal::{self, JournaledResult};
use super::run::SavedRun;
use super::seen_log::SeenLog;
use antwort_response::machine::{MachineState, SeenEvent, ServerCall};
use antwort_store::{CallOutcome, Lease, OrphanedCall, OrphanedRun, PendingCall, Store};
use antwort_tools::ToolErrorCode;

/// What the model and clients are shown of a call whose result is not known.
const UNKNOWN: &str =
    "the gateway was stopped between this call and its result; the call may have been executed";
/// What clients are shown of a call that waited for its user when the response was ended.
const UNANSWERED: &str =
    "the response ended while this call waited for an answer of its user; it was not executed again";
/// The code of an unknown result.
pub(super) const OUTCOME_UNKNOWN: &str = "outcome_unknown";

/// The phase at which a run was committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommittedPhase {
    /// No turn was committed.
    Begin,
    /// A turn was committed, whose calls may be executed, not executed, or wait for answers of the user. Without calls the model is asked next.
    Calls,
    /// The client is asked for the outputs of its functions.
    WaitsForClient,
    /// Results of calls whose work goes on are waited for.
    WaitsForResults,
}

impl CommittedPhase {
    pub(super) fn of(machine: &MachineState, awaits_results: bool) -> Self {
        match machine.turn_begins() {
            _ if awaits_results => Self::WaitsForResults,
            None => Self::Begin,
            Some(_) if machine.asks_client() => Self::WaitsForClient,
            Some(_) => Self::Calls,
        }
    }
}

/// Which calls of a turn the gateway does not execute.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OpenCalls {
    /// The client has to make calls of its functions.
    pub client: bool,
    /// Calls need the user's approval.
    pub approval: bool,
}

/// Where a run was.
pub(super) struct ResumePoint {
    pub phase: CommittedPhase,
    /// The calls of the gateway in the turn that was committed last, in order.
    pub calls: Vec<LeftCall>,
    /// The other calls of that turn.
    pub open: OpenCalls,
    /// All its calls whose results come from outside.
    pub pending: Vec<PendingCall>,
    /// What was sent behind that turn.
    pub seen: Vec<SeenEvent>,
    /// The number of the event behind that.
    pub next: u64,
    /// Whether its events are logged.
    pub(crate) has_log: bool,
}

/// A call of the turn that was committed last.
pub(super) struct LeftCall {
    pub made: ServerCall,
    pub row: OrphanedCall,
}

impl LeftCall {
    /// Its result, if it is known.
    pub(super) fn result(&self) -> Option<JournaledResult> {
        result(&self.row)
    }
}

impl ResumePoint {
    pub(super) fn of(run: &OrphanedRun, saved: &SavedRun, seen: SeenLog) -> Self {
        let (machine, state) = (&saved.machine, &saved.state);
        let (client, approval) = machine.waits_for();
        let rows = state.committed.turns.checked_sub(1).into_iter().flat_map(|turn| calls_of(run, turn));
        let calls = machine.calls().iter().cloned().zip(rows.cloned());
        Self {
            phase: CommittedPhase::of(machine, state.awaits_results),
            calls: calls.map(|(made, row)| LeftCall { made, row }).collect(),
            open: OpenCalls { client, approval },
            pending: run.pending.clone(),
            has_log: seen.next.is_some(),
            next: seen.next.unwrap_or_else(|| machine.sequence()),
            seen: seen.events,
        }
    }
}

/// The calls of a turn in the journal of a run, in order.
pub(super) fn calls_of(run: &OrphanedRun, turn: u32) -> impl Iterator<Item = &OrphanedCall> {
    run.calls.iter().filter(move |call| call.turn == turn)
}

/// The result that the journal has of a call.
pub(super) fn result(row: &OrphanedCall) -> Option<JournaledResult> {
    let (output, error) = row.outcome.as_ref()?;
    Some(journal::journaled(output, error.clone()))
}

/// What a call has whose result is not known.
pub(super) fn unknown_result() -> JournaledResult {
    journal::journaled(UNKNOWN, Some(OUTCOME_UNKNOWN.to_owned()))
}

/// What a call has that waited for an answer of its user when the response was ended.
pub(super) fn unanswered_result() -> JournaledResult {
    journal::journaled(UNANSWERED, Some(ToolErrorCode::Cancelled.as_str().to_owned()))
}

/// Writes to the journal that the result of the call or the question at this place is not known.
pub(super) fn declare_unknown(store: &dyn Store, lease: &Lease, (turn, index): (u32, u32)) {
    store.record_tool_result(CallOutcome {
        lease: lease.clone(),
        turn,
        index,
        output: UNKNOWN.to_owned(),
        error: Some(OUTCOME_UNKNOWN),
    });
}
