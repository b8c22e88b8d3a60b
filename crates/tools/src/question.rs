//! Questions that a tool asks the user during its call.
//!
//! A tool that must be answered while its call goes on asks through its [`Asker`]: the call waits, and its timeouts with
//! it. One whose call ends with questions returns [`RequiredInput`], and is called again with the answers
//! ([`GivenInput`]): nothing of it is kept meanwhile but what it has returned.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

use super::pause::PauseClock;
use antwort_protocol::elicitation::{Elicitation, ElicitationAction, ElicitationAnswer, ElicitationModes};

/// Asks the user on behalf of one call. Clones are the same.
#[derive(Debug, Clone)]
pub struct Asker {
    modes: ElicitationModes,
    /// The index and the slot of the call in its turn.
    call: (u32, u32),
    questions: mpsc::Sender<AskedQuestion>,
    clock: PauseClock,
}

/// A question that a call waits for.
#[derive(Debug)]
pub struct AskedQuestion {
    /// The index of the call in its turn.
    pub call: u32,
    /// The slot of the call in its turn.
    pub slot: u32,
    /// What is asked.
    pub question: Elicitation,
    /// Takes the answer. Closed if the call does not wait any more.
    pub reply: oneshot::Sender<ElicitationAnswer>,
}

/// Questions that a call has ended with.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RequiredInput {
    /// What is asked, by the tool's own keys.
    pub questions: BTreeMap<String, Elicitation>,
    /// What was answered already, without asking the user.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub answered: BTreeMap<String, ElicitationAnswer>,
    /// What the tool wants back with the answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Why the call cannot be made before the user agrees; it is made again without the answers then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// The executor that asks.
    #[serde(default)]
    pub executor: Arc<str>,
}

/// The answers with which a tool is called again.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GivenInput {
    /// The answers, by the tool's own keys.
    pub answers: BTreeMap<String, ElicitationAnswer>,
    /// What the tool wants back.
    pub state: Option<String>,
    /// As in [`RequiredInput`].
    pub refusal: Option<String>,
    /// The executor that has asked.
    pub executor: Arc<str>,
    /// How often the call was made before.
    pub rounds: u32,
}

impl Asker {
    /// An asker for the call of this index and slot, of a client that shows such questions.
    pub fn new(modes: ElicitationModes, call: (u32, u32), questions: mpsc::Sender<AskedQuestion>) -> Self {
        Self { modes, call, questions, clock: PauseClock::default() }
    }

    /// The questions that the client can show.
    pub fn modes(&self) -> ElicitationModes {
        self.modes
    }

    /// Asks the user, and waits for the answer: `cancel` if there is none in time.
    pub async fn ask(&self, question: Elicitation) -> ElicitationAnswer {
        let _pause = self.clock.pause();
        let (reply, answer) = oneshot::channel();
        let (call, slot) = self.call;
        let cancelled = || ElicitationAnswer::without_content(ElicitationAction::Cancel);
        if self.questions.send(AskedQuestion { call, slot, question, reply }).await.is_err() {
            return cancelled();
        }
        answer.await.unwrap_or_else(|_| cancelled())
    }

    /// The time for which the call waits.
    pub(super) fn clock(&self) -> &PauseClock {
        &self.clock
    }
}
