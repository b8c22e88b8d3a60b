//! Questions that tools ask the user while their calls are under way. The server's question lives in its session, so this
//! process keeps the wait: the question is a row that any process can answer, and whoever answers says so on the bus.

use std::collections::{HashMap, VecDeque};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::live::{Run, RunError};
use super::trace::WaitKind;
use crate::context::unix_after;
use crate::user_questions::{self, QuestionRow};
use antwort_bus::{Bus, RunWatch};
use antwort_protocol::elicitation::{ElicitationAction, ElicitationAnswer};
use antwort_protocol::error::ApiError;
use antwort_store::{AskedQuestions, CallOutcome, Lease, MAX_QUESTIONS, QuestionKey, Store};
use antwort_tools::{AskedQuestion, Asker};

/// Questions that wait to be taken from the calls; further calls wait.
const CAPACITY: usize = 16;
/// An answer that was stored in time may be read a moment later: the clock of the database is another one.
const SLACK: Duration = Duration::from_millis(250);

/// The most questions that a call may ask while it is under way: it holds a place among the calls of its tool for as long.
const MAX_HELD: u32 = 16;

/// The questions of the calls of a turn. Those that are open when it is dropped are withdrawn.
pub(crate) struct HeldQuestions {
    incoming: mpsc::Receiver<AskedQuestion>,
    /// Kept, so that calls to come can ask, too.
    outgoing: mpsc::Sender<AskedQuestion>,
    /// Those whose call is not shown yet.
    untold: VecDeque<AskedQuestion>,
    open: Vec<OpenQuestion>,
    /// How many questions each call has asked.
    asked: HashMap<u32, u32>,
    /// The number of each call's first question.
    first: u32,
    /// A call has ended with questions: those behind it are not shown before the run goes on.
    is_blocked: bool,
    bus: Bus,
    watch: RunWatch,
    answers_seen: u64,
    next_poll: Instant,
    turn: u32,
    store: Arc<dyn Store>,
    lease: Lease,
}

struct OpenQuestion {
    key: QuestionKey,
    asked: AskedQuestion,
    until: Instant,
}

impl HeldQuestions {
    /// Where calls ask.
    fn sender(&self) -> mpsc::Sender<AskedQuestion> {
        self.outgoing.clone()
    }

    /// A call has ended with questions; returns the number of the first one.
    pub(super) fn ends_with_questions(&mut self, call: u32) -> u32 {
        self.is_blocked = true;
        self.first + self.asked.get(&call).copied().unwrap_or_default()
    }

    /// Whether there are questions of which the client was not told.
    pub(super) fn has_untold(&self) -> bool {
        !self.untold.is_empty()
    }

    /// Whether calls wait for the user.
    fn is_waiting(&self) -> bool {
        !self.untold.is_empty() || !self.open.is_empty()
    }

    /// Returns when a question is asked, or one may have been answered, or is late.
    pub(super) async fn changed(&mut self) {
        let next = self.open.iter().map(|question| question.until).min();
        let wake = next.map(|until| until.min(self.next_poll));
        let is_time = async {
            match wake {
                Some(at) => tokio::time::sleep_until(at).await,
                None => pending().await,
            }
        };
        let asked = tokio::select! {
            biased;
            asked = self.incoming.recv() => asked,
            () = self.watch.answered(&mut self.answers_seen), if next.is_some() => None,
            () = is_time => None,
        };
        if Instant::now() >= self.next_poll {
            self.next_poll = Instant::now() + self.bus.poll_interval();
        }
        self.untold.extend(asked);
    }

    /// Withdraws questions whose calls do not wait any more.
    fn withdraw_questions(&mut self) {
        self.untold.retain(|asked| !asked.reply.is_closed());
        let gone: Vec<_> = self.open.extract_if(.., |question| question.asked.reply.is_closed()).collect();
        for question in gone {
            self.withdraw(question.key);
        }
    }

    /// An answer that has come before counts.
    fn withdraw(&self, key: QuestionKey) {
        let withdrawn = ElicitationAnswer::without_content(ElicitationAction::Cancel);
        self.store.record_tool_result(CallOutcome {
            lease: self.lease.clone(),
            turn: key.turn,
            index: key.row(),
            output: user_questions::to_text(&withdrawn),
            error: Some(user_questions::WITHDRAWN),
        });
    }
}

impl Drop for HeldQuestions {
    fn drop(&mut self) {
        for question in std::mem::take(&mut self.open) {
            self.withdraw(question.key);
        }
    }
}

/// For the questions of the calls of a turn, which are numbered from `first`; `None` if the client shows none.
pub(super) fn held_questions(run: &Run, turn: u32, first: u32) -> Option<HeldQuestions> {
    if run.spec.client.elicitation.is_empty() {
        return None;
    }
    let (outgoing, incoming) = mpsc::channel(CAPACITY);
    let bus = run.parts.in_flight.bus();
    Some(HeldQuestions {
        incoming,
        outgoing,
        untold: VecDeque::new(),
        open: Vec::new(),
        asked: HashMap::new(),
        first,
        is_blocked: false,
        bus: bus.clone(),
        watch: bus.watch_run(&run.spec.response.id),
        answers_seen: 0,
        next_poll: Instant::now() + bus.poll_interval(),
        turn,
        store: Arc::clone(&run.parts.store),
        lease: run.spec.lease.clone(),
    })
}

/// The asker of a call; `None` if the client shows no questions.
pub(super) fn asker(run: &Run, questions: Option<&HeldQuestions>, call: (u32, u32)) -> Option<Asker> {
    Some(Asker::new(run.spec.client.elicitation, call, questions?.sender()))
}

/// Tells the client of questions whose calls it sees, and calls of answers. While calls wait for the user, the time of
/// the run stands still.
pub(super) async fn serve_questions(run: &mut Run, held: &mut HeldQuestions) -> Result<(), RunError> {
    if held.is_waiting() {
        pause_time(run);
        held.withdraw_questions();
        if !held.open.is_empty() {
            read_answers(run, held).await;
        }
        tell_questions(run, held).await?;
    }
    if !held.is_waiting() {
        go_on_with_time(run);
    }
    Ok(())
}

async fn read_answers(run: &Run, held: &mut HeldQuestions) {
    let now = Instant::now();
    let given = run.parts.store.given_answers(&run.spec.owner, &run.spec.response.id).await;
    let given = match given {
        Ok(given) => given,
        // None is late before it is known that it was not answered.
        Err(error) => {
            tracing::warn!(%error, "reading the user's answers failed; trying again");
            let later = now + SLACK;
            held.open.iter_mut().for_each(|question| question.until = question.until.max(later));
            return;
        }
    };
    let is_done = |question: &mut OpenQuestion| {
        let call_id = question.key.call_id();
        question.until <= now || given.iter().any(|answer| answer.call_id == call_id)
    };
    for question in held.open.extract_if(.., is_done).collect::<Vec<_>>() {
        let call_id = question.key.call_id();
        let found = given.iter().find(|answer| answer.call_id == call_id);
        let answer = user_questions::answer(found.map(|answer| (&*answer.output, answer.error.as_deref())));
        // The call may not wait any more.
        _ = question.asked.reply.send(answer);
    }
}

pub(super) async fn tell_questions(run: &mut Run, held: &mut HeldQuestions) -> Result<(), RunError> {
    let timeout = run.parts.options.engine.elicitation_timeout;
    for asked in std::mem::take(&mut held.untold) {
        if run.machine.server_call_item(asked.slot).is_none() {
            // If it is not shown before the run waits, it is dropped, which cancels it.
            held.untold.extend(Some(asked).filter(|_| !held.is_blocked));
            continue;
        }
        let count = held.asked.entry(asked.call).or_default();
        if *count >= MAX_HELD || held.first + *count >= MAX_QUESTIONS {
            // Dropped, which cancels it.
            continue;
        }
        let key = QuestionKey { turn: held.turn, call: asked.call, number: held.first + *count };
        *count += 1;
        let row = QuestionRow::Held.record(key, timeout);
        let lease = run.spec.lease.clone();
        let record = AskedQuestions { lease, turn: held.turn, questions: vec![row] };
        run.parts.store.ask_questions(record).await.map_err(ApiError::from)?;
        let (call_id, expires_at) = (key.call_id(), unix_after(timeout));
        let events = run.sink.events();
        run.machine.ask_user(asked.slot, &call_id, &asked.question, expires_at, events);
        run.flush().await?;
        held.open.push(OpenQuestion { key, asked, until: Instant::now() + timeout + SLACK });
    }
    Ok(())
}

/// The time of the run stands still from now on.
fn pause_time(run: &mut Run) {
    if run.clock.timer.pause() {
        run.clock.pause = run.executor.pause();
        run.state.trace.begin_wait(WaitKind::Elicitation);
    }
}

/// Goes on with the time of the run, if it stood still.
pub(super) fn go_on_with_time(run: &mut Run) {
    let Some(waited) = run.clock.timer.resume() else { return };
    run.clock.pause = None;
    run.state.trace.end_waits();
    run.clock.started += waited;
    if let Some(deadline) = &mut run.call.deadline {
        *deadline += waited;
    }
}
