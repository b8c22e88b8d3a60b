//! What comes with a text: log probabilities and citations.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::wire::first_elements;
use crate::lenient::{LenientNumber, LenientText};
use antwort_protocol::content::{Annotation, LogProb};
use antwort_response::machine::MAX_ANNOTATIONS;

/// Log probabilities of tokens without text that a chunk may have, in addition to one for each byte of its text.
const MAX_TEXTLESS_TOKENS: usize = 64;
/// Maximum number of alternatives for a token, by the API.
const MAX_TOP_LOGPROBS: usize = 20;

/// Parses the log probabilities of a text: at most one token for each of its bytes, and [`MAX_TEXTLESS_TOKENS`] more.
pub(super) fn read_logprobs(raw: &RawValue, text_bytes: usize) -> Vec<LogProb> {
    #[derive(Deserialize)]
    struct LogProbs<'a> {
        #[serde(borrow)]
        content: Option<&'a RawValue>,
    }
    let Ok(LogProbs { content: Some(content) }) = serde_json::from_str(raw.get()) else { return Vec::new() };
    let mut tokens = first_elements::<LogProb>(content, text_bytes + MAX_TEXTLESS_TOKENS).unwrap_or_default();
    for token in tokens.iter_mut().filter(|token| token.top_logprobs.len() > MAX_TOP_LOGPROBS) {
        let known = std::mem::take(&mut token.top_logprobs).into_iter().take(MAX_TOP_LOGPROBS);
        token.top_logprobs = known.collect();
    }
    tokens
}

/// Parses URL citations, nested as in chat completions or flat; other annotations are dropped.
pub(super) fn read_annotations(raw: &RawValue) -> Vec<Annotation> {
    #[derive(Deserialize)]
    struct Outer<'a> {
        #[serde(borrow, default)]
        url_citation: Option<Citation<'a>>,
        #[serde(borrow, flatten)]
        flat: Citation<'a>,
    }
    #[derive(Deserialize)]
    struct Citation<'a> {
        #[serde(borrow, default)]
        url: LenientText<'a>,
        #[serde(borrow, default)]
        title: LenientText<'a>,
        #[serde(default)]
        start_index: LenientNumber,
        #[serde(default)]
        end_index: LenientNumber,
    }
    let annotations = first_elements::<Outer<'_>>(raw, MAX_ANNOTATIONS).unwrap_or_default();
    let citations = annotations.into_iter().map(|outer| outer.url_citation.unwrap_or(outer.flat));
    citations
        .filter(|citation| !citation.url.is_empty())
        .map(|citation| Annotation::UrlCitation {
            url: citation.url.0.into_owned(),
            title: citation.title.0.into_owned(),
            start_index: citation.start_index.count(),
            end_index: citation.end_index.count(),
        })
        .collect()
}
