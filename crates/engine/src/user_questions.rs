//! What is stored of the questions that calls ask the user: pending calls behind the calls of their turn.
//!
//! A call that has ended with questions has rows for each round: one with what the tool has asked and wants back, one for each
//! question, and one when the call is made again with the answers. A question of a call that is under way is one row.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use antwort_protocol::elicitation::{ElicitationAction, ElicitationAnswer};
use antwort_protocol::json;
use antwort_store::{MAX_QUESTIONS, NewPendingCall, PendingCall, PendingSource, QuestionKey};
use antwort_tools::{RequiredInput, ToolError, ToolOutput};

/// The code of a question whose call has stopped to wait for the answer.
pub(super) const WITHDRAWN: &str = "question_withdrawn";

/// A row of a call that asks.
pub(super) enum QuestionRow<'a> {
    /// What the call has ended with.
    Round(&'a Round),
    /// A question of it, by the tool's key.
    Question(&'a str),
    /// The call is made again with the answers.
    Made,
    /// A question of a call that is under way.
    Held,
}

/// What a call has ended with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Round {
    /// How often the call was made before.
    pub number: u32,
    /// How long the run had been executed when it asked.
    pub active: Duration,
    pub required: RequiredInput,
}

/// The last round of a call that has ended with questions, if it was not made again.
#[derive(Debug)]
pub(super) struct AskedRound {
    pub round: Round,
    pub questions: Vec<RoundQuestion>,
    /// The number of its next row.
    pub next: u32,
    /// Whether it is written that the call is made again with the answers.
    pub(crate) is_made: bool,
}

/// A question of a round.
#[derive(Debug)]
pub(super) struct RoundQuestion {
    pub key: QuestionKey,
    /// The tool's key.
    pub name: String,
    /// The answer as the journal has it.
    pub outcome: Option<(String, Option<String>)>,
    /// How long it can still be answered; `None`: no more.
    left: Option<Duration>,
}

/// What is known of the questions of a call.
#[derive(Debug)]
pub(super) enum Asked {
    /// It has asked nothing, or its questions went with its process.
    Nothing,
    /// It has ended with questions.
    Round(AskedRound),
    /// It was made again with the answers to these, and has not ended.
    MadeAgain(AskedRound),
}

impl QuestionRow<'_> {
    /// The row of this place, to be answered for so long.
    pub(super) fn record(&self, key: QuestionKey, timeout: Duration) -> NewPendingCall {
        let (source, request) = match self {
            Self::Round(round) => (PendingSource::QuestionRound, json::to_text(round).to_string()),
            Self::Question(name) => (PendingSource::Question, (*name).to_owned()),
            Self::Made => (PendingSource::QuestionsAnswered, String::new()),
            Self::Held => (PendingSource::HeldQuestion, String::new()),
        };
        let (index, call_id) = (key.row(), key.call_id());
        NewPendingCall { index, source, call_id, tool: String::new(), request, timeout }
    }
}

impl RoundQuestion {
    /// Whether it is to be waited for.
    pub(super) fn is_open(&self) -> bool {
        self.outcome.is_none() && self.left.is_some()
    }

    /// The answer: `cancel` if there is none.
    pub(super) fn answer(&self) -> ElicitationAnswer {
        answer(self.outcome.as_ref().map(|(output, error)| (output.as_str(), error.as_deref())))
    }
}

/// What a call has asked, by its rows and those of others.
pub(super) fn asked(rows: &[PendingCall], turn: u32, call: u32) -> Asked {
    let own = || of_call(rows, turn, call);
    let Some(last) =
        own().filter(|row| row.source == PendingSource::QuestionRound).max_by_key(|row| row.index)
    else {
        return Asked::Nothing;
    };
    let behind = || own().filter(|row| row.index > last.index);
    let Ok(round) = serde_json::from_str::<Round>(&last.request) else { return Asked::Nothing };
    let first = first_row(turn, call);
    let key = |row: &PendingCall| QuestionKey { turn, call, number: row.index - first };
    let questions = behind().filter(|row| row.source == PendingSource::Question).map(|row| RoundQuestion {
        key: key(row),
        name: row.request.clone(),
        outcome: row.outcome.clone(),
        left: row.left,
    });
    let next = next_number(rows, turn, call);
    let is_made = behind().any(|row| row.source == PendingSource::QuestionsAnswered);
    let asked = AskedRound { round, questions: questions.collect(), next, is_made };
    match is_made {
        true => Asked::MadeAgain(asked),
        false => Asked::Round(asked),
    }
}

/// The rows of a call that asks.
fn of_call(rows: &[PendingCall], turn: u32, call: u32) -> impl Iterator<Item = &PendingCall> {
    let first = first_row(turn, call);
    let places = first..first + MAX_QUESTIONS;
    let is_of = move |row: &&PendingCall| row.turn == turn && places.contains(&row.index);
    rows.iter().filter(is_of).filter(|row| row.source.is_question())
}

fn first_row(turn: u32, call: u32) -> u32 {
    QuestionKey { turn, call, number: 0 }.row()
}

/// The number of a call's next row.
pub(super) fn next_number(rows: &[PendingCall], turn: u32, call: u32) -> u32 {
    let first = first_row(turn, call);
    of_call(rows, turn, call).map(|row| row.index - first + 1).max().unwrap_or_default()
}

/// How long a run had been executed when the calls of this turn asked last; `None`: they have asked nothing that it waits for.
pub(super) fn active(rows: &[PendingCall], turn: Option<u32>) -> Option<Duration> {
    #[derive(Deserialize)]
    struct Active {
        active: Duration,
    }
    let rounds =
        rows.iter().filter(|row| row.source == PendingSource::QuestionRound && Some(row.turn) == turn);
    let active = rounds.filter_map(|row| serde_json::from_str::<Active>(&row.request).ok());
    active.map(|round| round.active).max()
}

/// The questions whose calls were under way in a process that is gone.
pub(super) fn left_open(rows: &[PendingCall]) -> impl Iterator<Item = &PendingCall> {
    rows.iter().filter(|row| row.source == PendingSource::HeldQuestion && row.outcome.is_none())
}

/// An answer as the journal has it: `cancel` if there is none, or it is an error.
pub(super) fn answer(outcome: Option<(&str, Option<&str>)>) -> ElicitationAnswer {
    outcome
        .filter(|(_, error)| error.is_none())
        .and_then(|(output, _)| serde_json::from_str(output).ok())
        .unwrap_or_else(|| ElicitationAnswer::without_content(ElicitationAction::Cancel))
}

/// An answer for the journal.
pub(super) fn to_text(answer: &ElicitationAnswer) -> String {
    json::to_text(answer).to_string()
}

/// The questions that a call has ended with, or else its outcome.
pub(super) fn required(
    outcome: Result<ToolOutput, ToolError>,
) -> Result<Result<ToolOutput, ToolError>, Box<RequiredInput>> {
    match outcome {
        Ok(ToolOutput { requires_input: Some(required), .. }) => Err(required),
        outcome => Ok(outcome),
    }
}
