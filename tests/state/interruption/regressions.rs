//! Runs that went on otherwise than they had begun, by what broke. Each is interrupted everywhere.

use super::scenario::{Ask, Call, CallIds, Interruption, OnQuestion, Scenario, Turn};

/// The conversations, by what broke.
pub fn regressions() -> Vec<(&'static str, Scenario)> {
    use Call::{Asks, Client, Echo, Fails, Forbidden, Gated, Same, Unknown, Writes};
    let plain = ask(&[]);
    let mut regressions = vec![
        (
            "turns with nothing but refused calls were forgotten",
            one(ask(&[&[Unknown], &[Forbidden, Unknown], &[Echo]])),
        ),
        ("so were they in the response that continues", two(ask(&[&[Unknown], &[Echo]]), plain.clone())),
        (
            "calls of several turns became those of one",
            one(Ask { call_ids: CallIds::None, ..ask(&[&[Echo], &[Same], &[Echo, Echo]]) }),
        ),
        ("an answer was repaired twice", one(Ask { is_json: true, ..said(&[false, false]) })),
        (
            "the verdict on an answer that was not repaired was forgotten",
            one(Ask { is_json: true, max_turns: Some(1), ..said(&[false]) }),
        ),
        (
            "a required call was asked for once more",
            one(Ask { requires_call: true, ..said(&[false, false]) }),
        ),
        (
            "behind an approved call none was required any more",
            two(ask(&[&[Gated]]), Ask { requires_call: true, ..said(&[true]) }),
        ),
        ("an approved call left its turn", two(ask(&[&[Echo, Gated]]), plain)),
        (
            "turns with forbidden calls were counted over one without",
            one(ask(&[&[Forbidden], &[Forbidden], &[Forbidden], &[Echo], &[Forbidden]])),
        ),
        ("failed turns were not counted", one(ask(&[&[Fails], &[Fails], &[Fails], &[Echo]]))),
        (
            "a call that is not made again left the limit to another",
            one(Ask { max_tool_calls: Some(2), ..ask(&[&[Echo, Writes], &[Echo]]) }),
        ),
        ("an approval request was stored twice", one(ask(&[&[Gated, Client]]))),
        (
            "reasoning of turns with nothing but refused calls became that of one",
            two(
                Ask {
                    max_tool_calls: Some(3),
                    is_json: true,
                    turns: vec![
                        reasoned(false, &[Echo, Same, Writes]),
                        reasoned(true, &[Echo]),
                        reasoned(true, &[Echo]),
                    ],
                    ..ask(&[])
                },
                ask(&[&[Echo]]),
            ),
        ),
        (
            "the time in which a user was asked was counted in every later process",
            one(ask(&[&[Asks], &[Echo]])),
        ),
        (
            "the tokens of a summary were taken from those of the answer",
            one(Ask {
                compacts: true,
                max_output_tokens: Some(10),
                turns: vec![told(&[Echo]), told(&[Client]), told(&[Echo])],
                ..ask(&[])
            }),
        ),
        ("a client was asked by another turn", one(ask(&[&[Client], &[Echo]]))),
    ];
    regressions.extend(more_regressions());
    regressions
}

/// More of them: ends at the wish of the client, and what is kept of refused calls.
fn more_regressions() -> Vec<(&'static str, Scenario)> {
    use Call::{Asks, Client, Echo, Stores, Unknown};
    vec![
        (
            "work that went on in a cancelled response never ended",
            one(Ask { on_question: OnQuestion::Cancel, ..ask(&[&[Asks, Stores, Echo]]) }),
        ),
        (
            "a call refused behind three others was lost with the process",
            one(ask(&[
                &[Client, Echo, Echo, Unknown],
                &[Client, Unknown, Echo, Echo],
                &[Unknown, Client, Echo, Echo],
                &[Echo],
            ])),
        ),
        (
            "a call refused behind one of the client had a message of its own",
            two(ask(&[&[Echo, Client, Unknown]]), ask(&[&[Echo]])),
        ),
        (
            "the task behind a question timed out with its cancelled response",
            one(Ask { on_question: OnQuestion::Cancel, ..ask(&[&[Asks, Call::Tasked]]) }),
        ),
        ("a response that follows", two(ask(&[&[Echo], &[Call::Follows, Echo]]), ask(&[&[Echo]]))),
        (
            "a run that ended with its last tokens was incomplete in another process",
            one(Ask { max_output_tokens: Some(6), ..ask(&[&[Echo], &[Echo], &[Call::Gated]]) }),
        ),
        ("a held question", one(ask(&[&[Echo], &[Call::Holds, Echo], &[Echo]]))),
        ("a task", one(ask(&[&[Echo], &[Call::Tasked, Echo], &[Echo]]))),
        ("a deleted response", one(Ask { on_question: OnQuestion::Delete, ..ask(&[&[Client, Stores]]) })),
        (
            "clients that carry state lost the calls that a limit had refused",
            one(Ask {
                seals_reasoning: true,
                max_tool_calls: Some(2),
                ..ask(&[&[Echo, Echo], &[Echo], &[Echo], &[Unknown]])
            }),
        ),
        (
            "and borders of turns",
            one(Ask {
                seals_reasoning: true,
                turns: vec![
                    reasoned(true, &[Echo]),
                    reasoned(false, &[Echo]),
                    reasoned(true, &[Unknown]),
                    reasoned(true, &[Echo]),
                ],
                ..ask(&[])
            }),
        ),
    ]
}

/// A scenario at each of its places.
pub fn everywhere(scenario: &Scenario) -> Vec<Scenario> {
    let at = |interruption| Scenario { interruption, ..scenario.clone() };
    if scenario.asks.iter().any(|ask| ask.on_question != OnQuestion::Answer) {
        // Calls of a committed turn are made one after another, and none behind the first that asks.
        return (0..2).map(Interruption::Commit).map(at).collect();
    }
    let commits = (0..9).map(Interruption::Commit);
    if scenario.asks.iter().any(|ask| ask.compacts || ask.seals_reasoning) {
        return commits.map(at).collect();
    }
    let asked = (0..5).flat_map(|place| [Interruption::Asked(place), Interruption::HalfSaid(place)]);
    commits.chain(asked).chain((0..4).map(Interruption::Called)).map(at).collect()
}

fn one(ask: Ask) -> Scenario {
    let interruption = Interruption::Commit(0);
    Scenario { asks: vec![ask], is_in_conversation: false, is_open_responses: false, interruption }
}

fn two(first: Ask, second: Ask) -> Scenario {
    Scenario { asks: vec![first, second], ..one(ask(&[])) }
}

/// Turns with these calls.
fn ask(turns: &[&[Call]]) -> Ask {
    let turn = |calls: &&[Call]| Turn {
        is_refused: false,
        has_reasoning: false,
        has_text: false,
        calls: calls.to_vec(),
    };
    Ask {
        turns: turns.iter().map(turn).collect(),
        requires_call: false,
        is_json: false,
        is_serial: false,
        max_tool_calls: None,
        max_turns: None,
        max_output_tokens: None,
        compacts: false,
        seals_reasoning: false,
        is_kept_briefly: false,
        on_question: OnQuestion::Answer,
        call_ids: CallIds::Unique,
    }
}

fn reasoned(has_reasoning: bool, calls: &[Call]) -> Turn {
    Turn { is_refused: false, has_reasoning, has_text: false, calls: calls.to_vec() }
}

/// A turn with a text before its calls.
fn told(calls: &[Call]) -> Turn {
    Turn { has_text: true, ..reasoned(false, calls) }
}

/// Turns without calls, which have the form that is asked for or another.
fn said(turns: &[bool]) -> Ask {
    let turn = |has_text: &bool| Turn {
        is_refused: false,
        has_reasoning: false,
        has_text: *has_text,
        calls: Vec::new(),
    };
    Ask { turns: turns.iter().map(turn).collect(), ..ask(&[]) }
}
