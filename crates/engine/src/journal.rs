//! The journal of a run's tool calls in the store, written to by the journal layer of the tools' stack.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use antwort_config::UserMessages;
use antwort_protocol::item::hosted::ResultFile;
use antwort_response::machine::{CallResult, RemoteError};
use antwort_store::{CallOutcome, Lease, Store, StoreError, TurnRecord};
use antwort_tools::{CallKey, Citation, Journal, StartedTask, ToolError, ToolErrorCode, ToolOutput};

pub(super) struct RunJournal {
    store: Arc<dyn Store>,
    lease: Lease,
    /// Turns that are committed. Calls of later ones must not be made yet.
    turns: AtomicU32,
    user_messages: UserMessages,
}

/// Begins a result of which more is kept than the text that the model is given.
const MARK: &str = "\u{1}result:";

/// Such a result. Whoever takes the run over gives the model, clients and the user what its own process would have given
/// them.
#[derive(Serialize, Deserialize)]
struct KeptResult {
    model: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    files: Vec<ResultFile>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    skipped: bool,
    /// The work goes on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_async: bool,
    /// Where its result is looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    task: Option<Box<StartedTask>>,
    /// Of a result as it is shown, not as its tool has returned it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shown: Option<Box<ShownResult>>,
}

/// What else a call's item shows of its result.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct ShownResult {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    remote: Option<RemoteError>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sources: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    citations: Vec<Citation>,
}

/// A result of the journal.
pub(super) struct JournaledResult {
    pub result: CallResult,
    /// Where the result is looked for, if the work goes on.
    pub task: Option<Box<StartedTask>>,
    /// Sources that the answer may cite.
    pub citations: Vec<Citation>,
}

/// What is told to the user of a result, as an item of its own.
pub(super) fn user_message(output: &ToolOutput, policy: UserMessages) -> Option<&str> {
    let speaks = (policy == UserMessages::Item || output.forces_user_output) && !output.silent;
    output.for_user.as_deref().filter(|text| speaks && !text.is_empty())
}

/// A result as the journal keeps it.
fn kept(output: &ToolOutput, policy: UserMessages) -> String {
    let (client, user) = (output.for_client.clone(), user_message(output, policy).map(str::to_owned));
    let (skipped, is_async) = (output.meta.skipped, output.is_async);
    let is_plain = client.is_none() && user.is_none() && output.files.is_empty();
    if !is_async && is_plain && !skipped && !output.for_model.starts_with(MARK) {
        return output.for_model.clone();
    }
    let (model, task) = (output.for_model.clone(), output.task.clone());
    let files = output.files.clone();
    let kept = KeptResult { model, files, client, user, skipped, is_async, task, shown: None };
    // Texts and a flag are always written.
    serde_json::to_string(&kept).map_or_else(|_| output.for_model.clone(), |text| format!("{MARK}{text}"))
}

/// A result as it is shown, for the journal: whoever goes on with the run shows the same.
pub(super) fn shown(result: &CallResult, task: Option<&StartedTask>, citations: Vec<Citation>) -> String {
    let shown = ShownResult {
        error: result.error.as_ref().map(ToString::to_string),
        remote: result.remote.clone(),
        sources: result.sources.clone(),
        citations,
    };
    let kept = KeptResult {
        model: result.output.clone(),
        files: result.files.clone(),
        client: result.shown.clone(),
        user: result.user_message.clone(),
        skipped: result.skipped,
        is_async: result.is_async,
        task: task.cloned().map(Box::new),
        shown: Some(Box::new(shown)),
    };
    serde_json::to_string(&kept).map_or_else(|_| result.output.clone(), |text| format!("{MARK}{text}"))
}

/// The result that the journal keeps of a call, with what goes with it.
pub(super) fn journaled(text: &str, error: Option<String>) -> JournaledResult {
    let error = error.map(Into::into);
    let kept = text.strip_prefix(MARK).and_then(|kept| serde_json::from_str(kept).ok());
    let Some(KeptResult { model, files, client, user, skipped, is_async, task, shown }) = kept else {
        let result = CallResult { output: text.to_owned(), error, ..CallResult::default() };
        return JournaledResult { result, task: None, citations: Vec::new() };
    };
    let is_shown = shown.is_some();
    let shown = shown.map(|shown| *shown).unwrap_or_default();
    let result = CallResult {
        output: model,
        files,
        shown: client,
        error: if is_shown { shown.error.map(Into::into) } else { error.filter(|_| !skipped) },
        remote: shown.remote,
        skipped,
        is_async,
        sources: shown.sources,
        user_message: user,
    };
    JournaledResult { result, task, citations: shown.citations }
}

impl RunJournal {
    pub(super) fn new(store: Arc<dyn Store>, lease: Lease, user_messages: UserMessages) -> Self {
        Self { store, lease, turns: AtomicU32::new(0), user_messages }
    }

    /// So many turns were committed before.
    pub(super) fn resume(&self, turns: u32) {
        self.turns.store(turns, Ordering::Release);
    }

    /// Commits a turn together with the calls that it makes, in one write.
    pub(super) async fn commit(&self, turn: TurnRecord) -> Result<(), StoreError> {
        let number = turn.turn;
        self.store.commit_turn(turn).await?;
        self.turns.store(number + 1, Ordering::Release);
        Ok(())
    }
}

#[async_trait]
impl Journal for RunJournal {
    async fn dispatching(&self, key: &CallKey) -> Result<(), ToolError> {
        // The call was written with its turn.
        if key.turn < self.turns.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(ToolError::fatal(ToolErrorCode::StorageError, "the call was not journalled"))
    }

    fn completed(&self, key: &CallKey, outcome: &Result<ToolOutput, ToolError>) {
        let kept = |output: &ToolOutput| kept(output, self.user_messages);
        let (output, error) = match outcome {
            Ok(output) if output.is_error => {
                (kept(output), Some(ToolErrorCode::ToolExecutionFailed.as_str()))
            }
            Ok(output) => (kept(output), None),
            Err(error) => (error.message.clone(), Some(error.code.as_str())),
        };
        self.store.record_tool_result(CallOutcome {
            lease: self.lease.clone(),
            turn: key.turn,
            index: key.index,
            output,
            error,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use antwort_identity::Owner;
    use antwort_protocol::id::Id;
    use antwort_protocol::response::ResponseStatus;
    use antwort_store::ResponseRecord;
    use antwort_store_sqlite::{Location, SqliteOptions, SqliteStore};

    /// A run that was taken over gave the model what clients are shown, and its items had other places.
    #[test]
    fn a_result_of_the_journal_is_what_the_model_the_client_and_the_user_were_given() {
        let plain = ToolOutput { for_model: "text".to_owned(), ..ToolOutput::default() };
        assert_eq!(kept(&plain, UserMessages::Item), "text");
        let of = |output: &ToolOutput, policy, error: Option<&str>| {
            let result = journaled(&kept(output, policy), error.map(str::to_owned)).result;
            (result.output, result.shown, result.user_message, result.error, result.skipped)
        };
        let some = |text: &str| Some(text.to_owned());
        let told = ToolOutput { for_client: some("shown"), for_user: some("told"), ..plain };
        let expected = |user: Option<String>| ("text".to_owned(), some("shown"), user, None, false);
        assert_eq!(of(&told, UserMessages::Item, None), expected(some("told")));
        assert_eq!(of(&told, UserMessages::Off, None), expected(None));
        let silent = ToolOutput { silent: true, ..told.clone() };
        assert_eq!(of(&silent, UserMessages::Item, None), expected(None));
        let forced = ToolOutput { forces_user_output: true, ..told };
        assert_eq!(of(&forced, UserMessages::Off, None), expected(some("told")));
        // A tool that says what the journal says of others.
        let odd = ToolOutput { for_model: kept(&forced, UserMessages::Off), ..ToolOutput::default() };
        assert_eq!(of(&odd, UserMessages::Off, None).0, odd.for_model);
        assert_eq!(journaled("broken", some("code")).result.error.as_deref(), Some("code"));
    }

    #[tokio::test]
    async fn calls_of_a_turn_that_is_not_committed_are_not_made() {
        let store = SqliteStore::open(SqliteOptions::new(Location::Memory, "test")).unwrap();
        let id = Id::from("resp_1");
        let journal = RunJournal::new(Arc::new(store), Lease::first(id.clone()), UserMessages::Off);
        let may_call = async |turn| {
            let key = CallKey { response: id.clone(), turn, index: 0 };
            journal.dispatching(&key).await.map_err(|error| error.code)
        };
        assert_eq!(may_call(0).await, Err(ToolErrorCode::StorageError));
        for turn in 0..2 {
            let begin = (turn == 0).then(|| ResponseRecord {
                lease: Lease::first(id.clone()),
                owner: Owner { tenant: "acme".into(), principal: "ann".into() },
                status: ResponseStatus::InProgress,
                model: "m".to_owned(),
                created_at: 0,
                previous: None,
                conversation: None,
                body: "{}".into(),
                items: Vec::new(),
                outbox: Vec::new(),
                approvals: Vec::new(),
                trace: None,
                is_unlisted: false,
            });
            let record = TurnRecord {
                lease: Lease::first(id.clone()),
                begin,
                items: vec![],
                first_position: 0,
                turn,
                calls: vec![],
                pending: Vec::new(),
                awaited: Vec::new(),
                state: None,
            };
            journal.commit(record).await.unwrap();
            assert_eq!(may_call(turn).await, Ok(()));
            assert_eq!(may_call(turn + 1).await, Err(ToolErrorCode::StorageError));
        }
    }
}
