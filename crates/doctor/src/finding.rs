//! Answers to questions, and what several askings of one question come to.

use std::collections::BTreeMap;

use serde::Serialize;

/// The answer to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// The server does it.
    Yes,
    /// It does not, or refuses the request.
    No,
    /// It accepts the request and does not do it.
    Ignored,
    /// The same question was answered differently.
    Unstable,
    /// It could not be found out.
    Unknown,
}

impl Answer {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Ignored => "ignored",
            Self::Unstable => "unstable",
            Self::Unknown => "unknown",
        }
    }
}

/// What one asking came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Judgement {
    pub answer: Answer,
    pub evidence: String,
    /// Which of several ways it is, for the settings: the name of a field.
    pub detail: Option<&'static str>,
}

impl Judgement {
    pub(super) fn new(answer: Answer, evidence: impl Into<String>) -> Self {
        Self { answer, evidence: evidence.into(), detail: None }
    }

    pub(super) fn yes(evidence: impl Into<String>) -> Self {
        Self::new(Answer::Yes, evidence)
    }

    pub(super) fn no(evidence: impl Into<String>) -> Self {
        Self::new(Answer::No, evidence)
    }

    pub(super) fn ignored(evidence: impl Into<String>) -> Self {
        Self::new(Answer::Ignored, evidence)
    }

    pub(super) fn unknown(evidence: impl Into<String>) -> Self {
        Self::new(Answer::Unknown, evidence)
    }
}

/// The judgement of several askings: what the definite ones agree upon, else unstable.
pub(super) fn combine(judgements: Vec<Judgement>) -> Judgement {
    let asked = judgements.len();
    let mut answers: BTreeMap<Answer, (usize, Judgement)> = BTreeMap::new();
    for judgement in judgements {
        answers.entry(judgement.answer).or_insert((0, judgement)).0 += 1;
    }
    let unknown = answers.remove(&Answer::Unknown);
    let counts: Vec<String> =
        answers.values().map(|(count, judgement)| format!("{} {count}", judgement.answer.name())).collect();
    let rarest = answers.into_values().rev().min_by_key(|(count, _)| *count);
    match (rarest, unknown) {
        (Some((_, judgement)), _) if counts.len() > 1 => {
            let Judgement { answer, evidence, .. } = judgement;
            let evidence = format!("{} of {asked}; {}: {evidence}", counts.join(", "), answer.name());
            Judgement::new(Answer::Unstable, evidence)
        }
        (Some((count, judgement)), _) if asked > 1 => {
            let evidence = format!("{count} of {asked}: {}", judgement.evidence);
            Judgement { evidence, ..judgement }
        }
        (Some((_, judgement)), _) | (None, Some((_, judgement))) => judgement,
        (None, None) => Judgement::unknown("not asked"),
    }
}

/// A question's answer, as it is reported.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Finding {
    pub id: &'static str,
    pub question: &'static str,
    pub answer: Answer,
    pub evidence: String,
    #[serde(skip)]
    pub detail: Option<&'static str>,
}

#[cfg(test)]
mod tests {
    use super::{Answer, Judgement, combine};

    #[test]
    fn askings_that_differ_are_unstable_and_those_without_an_answer_do_not_count() {
        let (yes, no) = (|| Judgement::yes("a call"), || Judgement::no("only text"));
        let unknown = || Judgement::unknown("cut");
        let rows = [
            (vec![yes()], Answer::Yes, "a call"),
            (vec![yes(), yes(), yes()], Answer::Yes, "3 of 3: a call"),
            (vec![yes(), unknown(), yes()], Answer::Yes, "2 of 3: a call"),
            (vec![yes(), no(), yes()], Answer::Unstable, "yes 2, no 1 of 3; no: only text"),
            (vec![unknown(), unknown()], Answer::Unknown, "cut"),
            (vec![], Answer::Unknown, "not asked"),
        ];
        for (judgements, answer, evidence) in rows {
            let combined = combine(judgements);
            assert_eq!((combined.answer, combined.evidence.as_str()), (answer, evidence));
        }
    }
}
