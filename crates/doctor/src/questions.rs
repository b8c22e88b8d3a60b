//! All questions, in the order in which they are asked and shown: later ones use what earlier ones found out.

mod basics;
mod calls;
mod choices;
mod images;
mod limits;
mod orders;
mod passing;
mod roles;
mod sampling;
mod schemas;

use super::question::Question;

/// All questions.
pub(super) fn all() -> impl Iterator<Item = &'static Question> {
    let groups: [&'static [Question]; 13] = [
        passing::OF_MODELS,
        basics::QUESTIONS,
        passing::OF_STREAMS,
        roles::QUESTIONS,
        orders::QUESTIONS,
        calls::QUESTIONS,
        passing::OF_CALLS,
        choices::QUESTIONS,
        schemas::QUESTIONS,
        images::QUESTIONS,
        sampling::QUESTIONS,
        limits::QUESTIONS,
        passing::OF_LIMITS,
    ];
    groups.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    #[test]
    fn every_question_has_an_id_of_its_own() {
        let ids: Vec<_> = super::all().map(|question| question.id).collect();
        let different: BTreeSet<_> = ids.iter().collect();
        assert_eq!(ids.len(), different.len());
        assert!(ids.len() > 40, "{}", ids.len());
    }
}
