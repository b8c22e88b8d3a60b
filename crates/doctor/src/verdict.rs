//! What the findings come to: whether the server works behind the gateway, and what a person can do about it.

use serde::Serialize;

use super::finding::{Answer, Finding};
use super::interruption::Interruption;
use super::question::is_cap;
use super::questions;

/// Why questions were left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeftOut {
    Tokens,
    Stopped,
    TimeOver,
}

impl LeftOut {
    const ALL: [Self; 3] = [Self::Tokens, Self::Stopped, Self::TimeOver];

    /// The gap of a report that does not know everything.
    fn gap(self) -> (&'static str, &'static str) {
        match self {
            Self::Tokens => (
                "max_tokens_used",
                "questions were left out, as the limit of tokens was used up: raise --max-tokens",
            ),
            Self::Stopped => ("stopped", "questions were left out, as doctor was stopped"),
            Self::TimeOver => {
                ("time_over", "questions were left out, as the time was over: allow more with --timeout")
            }
        }
    }
}

impl From<Interruption> for LeftOut {
    fn from(interruption: Interruption) -> Self {
        match interruption {
            Interruption::Stopped => Self::Stopped,
            Interruption::TimeOver(_) => Self::TimeOver,
        }
    }
}

/// Whether a server works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Works,
    WorksWithGaps,
    DoesNotWork,
}

/// The verdict on a server.
#[derive(Debug, Clone)]
pub struct Verdict {
    pub outcome: Outcome,
    /// For people: what it means, and what to do.
    pub sentence: String,
    /// What does not work, each with the id of its question.
    pub gaps: Vec<(&'static str, &'static str)>,
}

impl Verdict {
    fn failure(sentence: impl Into<String>) -> Self {
        Self { outcome: Outcome::DoesNotWork, sentence: sentence.into(), gaps: Vec::new() }
    }

    /// Whether the server does not work at all.
    pub(crate) fn is_failure(&self) -> bool {
        self.outcome == Outcome::DoesNotWork
    }

    /// Whether all questions were asked.
    pub(super) fn is_complete(&self) -> bool {
        !LeftOut::ALL.iter().any(|left_out| self.gaps.contains(&left_out.gap()))
    }

    /// Whether doctor was stopped before all questions were asked.
    pub fn was_stopped(&self) -> bool {
        self.gaps.contains(&LeftOut::Stopped.gap())
    }

    /// The exit code of the command.
    pub fn exit_code(&self) -> u8 {
        match self.outcome {
            Outcome::Works => 0,
            Outcome::WorksWithGaps => 1,
            Outcome::DoesNotWork => 2,
        }
    }
}

/// The verdict on a server that refuses its list of models.
pub(super) fn no_access(status: u16) -> Verdict {
    Verdict::failure(format!(
        "The server answers with status {status}: it wants a key. Set ANTWORT_UPSTREAM_API_KEY to one that it accepts."
    ))
}

/// The verdict on a server of which no model is known.
pub(super) fn no_model(problem: Option<&str>) -> Verdict {
    Verdict::failure(match problem {
        None => "The server lists no model: load one, or name one with --model.".to_owned(),
        Some(problem) if problem.starts_with("the server cannot be reached") => {
            format!("{}. Is it running, and is the address right?", capitalized(problem))
        }
        Some(problem) => format!(
            "The list of models cannot be read ({problem}). Check the URL, which usually ends in /v1, or name a model with \
             --model."
        ),
    })
}

/// The verdict on a server that answered at first, and then no more.
pub(super) fn no_more_answers(last: &str) -> Verdict {
    Verdict::failure(format!(
        "The server stopped answering ({last}). See its log, and ask again; if it is slow, allow more time with --answer-timeout."
    ))
}

/// The verdict if the examination ended before the first completion.
pub(super) fn too_early(interruption: Interruption) -> Verdict {
    Verdict::failure(match interruption {
        Interruption::Stopped => {
            "Nothing is known of the server: doctor was stopped before its first completion had ended."
                .to_owned()
        }
        Interruption::TimeOver(limit) => format!(
            "There was no completion within {} s. If the server is slow, or loads the model first, allow more time with --timeout \
             and --answer-timeout.",
            limit.as_secs_f64()
        ),
    })
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// The verdict on a server that was asked; `left_out`: why questions were left out, if some were.
pub(super) fn of(findings: &[Finding], left_out: Option<LeftOut>) -> Verdict {
    let answer = |id: &str| findings.iter().find(|finding| finding.id == id);
    if let Some(Finding { answer: Answer::No | Answer::Unknown, evidence, .. }) = answer("stream") {
        return Verdict::failure(format!(
            "There is no completion ({evidence}). Check that the model is loaded and serves /chat/completions, or name \
             another with --model."
        ));
    }
    let is_gap = |answer: Answer| matches!(answer, Answer::No | Answer::Ignored | Answer::Unstable);
    let has_cap = findings.iter().any(|finding| is_cap(finding.id) && !is_gap(finding.answer));
    let gap = |id: &str| questions::all().find(|question| question.id == id)?.gap;
    let found = findings.iter().filter(|finding| is_gap(finding.answer) && !(is_cap(finding.id) && has_cap));
    let left_out = left_out.map(LeftOut::gap);
    let gaps: Vec<_> =
        found.filter_map(|finding| Some((finding.id, gap(finding.id)?))).chain(left_out).collect();
    let (outcome, sentence) = match gaps.len() {
        0 => (Outcome::Works, "The server works behind the gateway."),
        1 => (Outcome::WorksWithGaps, "The server works behind the gateway, with one gap."),
        _ => (Outcome::WorksWithGaps, "The server works behind the gateway, with gaps."),
    };
    Verdict { outcome, sentence: sentence.to_owned(), gaps }
}

#[cfg(test)]
mod tests {
    use super::{Answer, Finding, LeftOut, Outcome, of};

    fn works(answers: &[(&'static str, Answer)]) -> (Outcome, usize) {
        let finding = |(id, answer): &(&'static str, Answer)| Finding {
            id,
            question: "",
            answer: *answer,
            evidence: String::new(),
            detail: None,
        };
        let verdict = of(&answers.iter().map(finding).collect::<Vec<_>>(), None);
        (verdict.outcome, verdict.gaps.len())
    }

    #[test]
    fn what_is_missing_decides() {
        use Answer::{Ignored, No, Unknown, Unstable, Yes};
        assert_eq!(works(&[("stream", Yes), ("calls", Yes), ("image_data", No)]), (Outcome::Works, 0));
        assert_eq!(works(&[("stream", Yes), ("calls", Unstable)]), (Outcome::WorksWithGaps, 1));
        assert_eq!(works(&[("stream", Ignored), ("calls", Unknown)]), (Outcome::WorksWithGaps, 1));
        assert_eq!(works(&[("stream", No)]), (Outcome::DoesNotWork, 0));
        assert_eq!(of(&[], Some(LeftOut::Tokens)).outcome, Outcome::WorksWithGaps);
    }

    #[test]
    fn one_field_for_the_limit_of_tokens_is_enough() {
        use Answer::{Ignored, No, Yes};
        let caps = |new, old| works(&[("stream", Yes), ("max_completion_tokens", new), ("max_tokens", old)]);
        assert_eq!(caps(Ignored, Yes), (Outcome::Works, 0));
        assert_eq!(caps(Yes, No), (Outcome::Works, 0));
        assert_eq!(caps(Ignored, No), (Outcome::WorksWithGaps, 1));
    }
}
