//! Scripted conversations: what the client asks, what the model says to it, and where the run is interrupted. They are
//! generated, and shrink to the shortest that still fails.

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;

/// A conversation that is interrupted once.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The requests, each of which continues the response before it.
    pub asks: Vec<Ask>,
    /// They continue a conversation.
    pub is_in_conversation: bool,
    /// The dialect of the client.
    pub is_open_responses: bool,
    pub interruption: Interruption,
}

/// A request, and what the model says in each of its turns. Behind the last one it answers.
#[derive(Debug, Clone)]
pub struct Ask {
    pub turns: Vec<Turn>,
    /// `tool_choice: required`.
    pub requires_call: bool,
    /// `text.format`: an object is asked for.
    pub is_json: bool,
    /// Whether the calls of a turn are made one after another.
    pub is_serial: bool,
    pub max_tool_calls: Option<u32>,
    pub max_turns: Option<u32>,
    pub max_output_tokens: Option<u32>,
    /// The conversation is compacted as it grows; what the model says before its calls is long.
    pub compacts: bool,
    /// Reasoning is returned sealed, for clients that carry it.
    pub seals_reasoning: bool,
    /// `store: false`.
    pub is_kept_briefly: bool,
    pub on_question: OnQuestion,
    pub call_ids: CallIds,
}

/// What the client does when a run waits for it: for a result of its function, or for an answer of the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnQuestion {
    Answer,
    /// Cancels the response.
    Cancel,
    /// Deletes the response.
    Delete,
}

/// How the provider names the calls of its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallIds {
    /// Each by a name of its own.
    Unique,
    /// Anew in each turn.
    OfTurn,
    /// Not at all.
    None,
}

impl Ask {
    /// Whether a call must not be repeated.
    pub fn has_writes(&self) -> bool {
        self.has(|call| call == Call::Writes)
    }

    /// Whether something is committed between the result of a call and its account: that its work goes on, or a question of it or of
    /// another call of its turn.
    pub fn commits_amid_calls(&self) -> bool {
        self.has(|call| call.goes_on() || call.asks_user())
    }

    /// Whether one of its calls is such a one.
    pub fn has(&self, is_wanted: impl Fn(Call) -> bool) -> bool {
        self.turns.iter().flat_map(|turn| &turn.calls).any(|call| is_wanted(*call))
    }
}

/// What the model says to one request.
#[derive(Debug, Clone)]
pub struct Turn {
    /// The provider is overloaded at first.
    pub is_refused: bool,
    pub has_reasoning: bool,
    /// With calls: a text before them. Without: whether the answer is an object, as may be asked for.
    pub has_text: bool,
    pub calls: Vec<Call>,
}

impl Turn {
    /// Drops the calls behind the first that asks the user.
    fn end_at_question(&mut self) {
        let asks = self.calls.iter().position(|call| call.asks_user());
        self.calls.truncate(asks.map_or(usize::MAX, |place| place + 1));
    }
}

/// The names of the tools in the gateway.
pub const TOOLS: [&str; 10] =
    ["echo", "fails", "says_error", "writes", "forbidden", "resumes", "stores", "follows", "asks", "holds"];

/// A call of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Says its arguments, and may be repeated.
    Echo,
    /// Has always the same arguments.
    Same,
    /// Fails, as its server says.
    Fails,
    /// Has an error as its result.
    SaysError,
    /// Must not be repeated.
    Writes,
    /// Waits for approval.
    Gated,
    /// A tool that is not among the allowed ones.
    Forbidden,
    /// No tool.
    Unknown,
    /// A function of the client.
    Client,
    /// Its work goes on, and the run waits at its end for the result.
    Resumes,
    /// Its work goes on, and the result is stored.
    Stores,
    /// Its work goes on, and another response follows with the result.
    Follows,
    /// Its work goes on as a task of an MCP server, and the run waits at its end for the result.
    Tasked,
    /// Ends with a question to the user, and is made again with the answer.
    Asks,
    /// Asks the user, and waits for the answer.
    Holds,
}

impl Call {
    /// The name of its tool.
    pub fn tool(self) -> &'static str {
        match self {
            Self::Echo | Self::Same => "echo",
            Self::Fails => "fails",
            Self::SaysError => "says_error",
            Self::Writes => "writes",
            Self::Gated => "gated",
            Self::Forbidden => "forbidden",
            Self::Unknown => "unknown",
            Self::Client => "client",
            Self::Resumes => "resumes",
            Self::Stores => "stores",
            Self::Follows => "follows",
            Self::Tasked => "tasked",
            Self::Asks => "asks",
            Self::Holds => "holds",
        }
    }

    /// Whether it asks the user.
    pub fn asks_user(self) -> bool {
        matches!(self, Self::Asks | Self::Holds)
    }

    /// Whether its work goes on after its answer.
    pub fn goes_on(self) -> bool {
        matches!(self, Self::Resumes | Self::Stores | Self::Follows | Self::Tasked)
    }

    /// The result of work that goes on is stored.
    fn store(&mut self) {
        if self.goes_on() {
            *self = Self::Stores;
        }
    }
}

/// Where a process is lost: behind the first, the second and so on of these. Those of a short run are counted again.
#[derive(Debug, Clone)]
pub enum Interruption {
    /// After a commit, before anything that follows it.
    Commit(usize),
    /// The provider was asked, and has not answered.
    Asked(usize),
    /// The provider has said one half.
    HalfSaid(usize),
    /// A tool was called, and has no result.
    Called(usize),
}

/// Scenarios of the features that a run can have.
pub fn scenarios() -> impl Strategy<Value = Scenario> {
    let rarely = || weighted(0.25, Just(()));
    (vec(ask(), 1..=2), interruption(), rarely(), rarely()).prop_map(
        |(mut asks, interruption, conversation, open_responses)| {
            let last = asks.len() - 1;
            for (number, ask) in asks.iter_mut().enumerate() {
                // No request continues such a response.
                ask.is_kept_briefly &= number == last && conversation.is_none();
            }
            Scenario {
                interruption: match interruption {
                    // Known drift: a summary is committed with the turn that follows, and is asked for again before that. A call that is said
                    // again has another id than the abandoned one: what its provider has named it is sealed in an item.
                    Interruption::Asked(at) | Interruption::HalfSaid(at) | Interruption::Called(at)
                        if asks.iter().any(|ask| ask.compacts || ask.seals_reasoning) =>
                    {
                        Interruption::Commit(at)
                    }
                    interruption => interruption,
                },
                asks,
                is_in_conversation: conversation.is_some(),
                is_open_responses: open_responses.is_some(),
            }
        },
    )
}

/// More than a run has.
fn places() -> impl Strategy<Value = usize> {
    0_usize..1 << 16
}

fn interruption() -> impl Strategy<Value = Interruption> {
    prop_oneof![
        4 => places().prop_map(Interruption::Commit),
        1 => places().prop_map(Interruption::Asked),
        1 => places().prop_map(Interruption::HalfSaid),
        1 => places().prop_map(Interruption::Called),
    ]
}

fn ask() -> impl Strategy<Value = Ask> {
    let rarely = |least: u32, most: u32| weighted(0.15, least..=most);
    let often = |probability| weighted(probability, Just(()));
    let options = (often(0.2), often(0.2), often(0.2), often(0.1), often(0.15), often(0.1));
    let limits = (rarely(1, 4), rarely(1, 4), rarely(8, 40));
    let ids = prop_oneof![
        4 => Just(CallIds::Unique),
        1 => Just(CallIds::OfTurn),
        1 => Just(CallIds::None),
    ];
    let on_question = prop_oneof![
        8 => Just(OnQuestion::Answer),
        1 => Just(OnQuestion::Cancel),
        1 => Just(OnQuestion::Delete),
    ];
    let strategy = (vec(turn(), 0..=5), options, limits, ids, on_question);
    strategy.prop_map(|(mut turns, options, limits, call_ids, on_question)| {
        let is_gated = turns.iter().any(|turn| turn.calls.contains(&Call::Gated));
        if is_gated || limits.1.is_some() || limits.2.is_some() {
            // A run that ends at an approval, or without turns or tokens, is followed by another response, which the client does not know.
            turns.iter_mut().flat_map(|turn| &mut turn.calls).for_each(Call::store);
        }
        // How many responses follow depends on when results are reported.
        let follow = turns.iter_mut().flat_map(|turn| &mut turn.calls).filter(|call| **call == Call::Follows);
        follow.skip(1).for_each(Call::store);
        if options.3.is_some() {
            // An unknown outcome has more tokens than a result.
            let writes =
                turns.iter_mut().flat_map(|turn| &mut turn.calls).filter(|call| **call == Call::Writes);
            writes.for_each(|call| *call = Call::Echo);
        }
        if on_question != OnQuestion::Answer {
            // A process that takes the run over makes no calls behind one that asks before its end.
            turns.iter_mut().for_each(|turn| turn.end_at_question());
            // A task may have ended before its response is cancelled.
            let tasked =
                turns.iter_mut().flat_map(|turn| &mut turn.calls).filter(|call| **call == Call::Tasked);
            tasked.for_each(Call::store);
        }
        Ask {
            call_ids,
            turns,
            requires_call: options.0.is_some(),
            is_json: options.1.is_some(),
            is_serial: options.2.is_some(),
            compacts: options.3.is_some(),
            seals_reasoning: options.4.is_some(),
            is_kept_briefly: options.5.is_some(),
            on_question,
            max_tool_calls: limits.0,
            max_turns: limits.1,
            max_output_tokens: limits.2,
        }
    })
}

fn turn() -> impl Strategy<Value = Turn> {
    let calls = prop_oneof![1 => vec(call(), 0..=0), 6 => vec(call(), 1..=4)];
    let rarely = || weighted(0.2, Just(()));
    (rarely(), rarely(), rarely(), calls).prop_map(|(refused, reasoning, text, mut calls)| {
        // Whether a question is told behind a call that has ended with one depends on which is first.
        let ending = calls.iter().position(|call| *call == Call::Asks).unwrap_or(calls.len());
        calls[ending..].iter_mut().filter(|call| **call == Call::Holds).for_each(|call| *call = Call::Echo);
        // A call with an unknown outcome counts as failed: a turn in which all have failed would count, too. Where calls are limited, the
        // first is made.
        if calls.contains(&Call::Writes) && calls.first() != Some(&Call::Echo) {
            calls.insert(0, Call::Echo);
        }
        Turn {
            is_refused: refused.is_some(),
            has_reasoning: reasoning.is_some(),
            has_text: text.is_some(),
            calls,
        }
    })
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        6 => Just(Call::Echo),
        1 => Just(Call::Same),
        2 => Just(Call::Fails),
        1 => Just(Call::SaysError),
        1 => Just(Call::Writes),
        1 => Just(Call::Gated),
        2 => Just(Call::Forbidden),
        2 => Just(Call::Unknown),
        2 => Just(Call::Client),
        1 => Just(Call::Resumes),
        1 => Just(Call::Stores),
        1 => Just(Call::Follows),
        1 => Just(Call::Tasked),
        1 => Just(Call::Asks),
        1 => Just(Call::Holds),
    ]
}
