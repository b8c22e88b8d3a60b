//! What a stream says of a text before the text comes: log probabilities of tokens that are part of a character only, and
//! annotations. It is kept for the text, within a limit of bytes.

use antwort_protocol::content::{Annotation, LogProb};
use antwort_response::turn::ModelEvent;

/// Bytes of either that are kept, as they count in the response; what exceeds them is dropped.
const MAX_BYTES: usize = 64 << 10;

#[derive(Debug, Default)]
pub(super) struct EarlyParts {
    logprobs: Vec<LogProb>,
    logprob_bytes: usize,
    annotations: Vec<ModelEvent>,
    annotation_bytes: usize,
    has_text: bool,
}

impl EarlyParts {
    pub(super) fn keep_logprobs(&mut self, logprobs: Vec<LogProb>) {
        let event = ModelEvent::Text { delta: String::new(), logprobs };
        let bytes = self.logprob_bytes + event.size();
        if let ModelEvent::Text { mut logprobs, .. } = event
            && bytes <= MAX_BYTES
        {
            self.logprob_bytes = bytes;
            self.logprobs.append(&mut logprobs);
        }
    }

    /// They are of reasoning or of a call, not of text.
    pub(super) fn drop_logprobs(&mut self) {
        self.logprobs.clear();
        self.logprob_bytes = 0;
    }

    /// A text comes: its log probabilities follow those that are kept.
    pub(super) fn begin_text(&mut self, logprobs: &mut Vec<LogProb>) {
        self.has_text = true;
        if !self.logprobs.is_empty() {
            logprobs.splice(..0, self.logprobs.drain(..));
            self.logprob_bytes = 0;
        }
    }

    pub(super) fn keep_annotations(&mut self, annotations: Vec<Annotation>) {
        for event in annotations.into_iter().map(ModelEvent::Annotation) {
            let bytes = self.annotation_bytes + event.size();
            if self.has_text || bytes <= MAX_BYTES {
                self.annotation_bytes = bytes;
                self.annotations.push(event);
            }
        }
    }

    /// Writes the annotations, once there is text.
    pub(super) fn write_annotations(&mut self, out: &mut Vec<ModelEvent>) {
        if self.has_text && !self.annotations.is_empty() {
            out.append(&mut self.annotations);
            self.annotation_bytes = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded() {
        let mut early = EarlyParts::default();
        let annotation = || Annotation::UrlCitation {
            url: "u".repeat(MAX_BYTES / 3),
            title: String::new(),
            start_index: 0,
            end_index: 0,
        };
        let logprob = || LogProb {
            token: "t".repeat(MAX_BYTES / 3).into(),
            logprob: -1.0,
            bytes: Box::default(),
            top_logprobs: Box::default(),
        };
        for _ in 0..10 {
            early.keep_annotations(vec![annotation()]);
            early.keep_logprobs(vec![logprob()]);
        }
        let (mut logprobs, mut events) = (vec![logprob()], Vec::new());
        early.begin_text(&mut logprobs);
        early.write_annotations(&mut events);
        assert_eq!((logprobs.len(), events.len()), (3, 2));
        early.keep_logprobs(vec![logprob()]);
        early.keep_annotations(vec![annotation(), annotation(), annotation()]);
        early.write_annotations(&mut events);
        early.begin_text(&mut logprobs);
        assert_eq!((logprobs.len(), events.len()), (4, 5));
    }
}
