//! Writes the fields of deltas, the events that streams consist of, without serde, to which the names of fields are text
//! to be escaped like any other.

use super::ResponseEvent;

/// The fields of a delta.
pub(super) struct Delta<'a> {
    item_id: &'a str,
    output_index: u32,
    part: Part,
    delta: &'a str,
    has_logprobs: bool,
}

/// Which part of the item the delta belongs to.
enum Part {
    Whole,
    Content(u32),
    Summary(u32),
}

impl<'a> Delta<'a> {
    /// The fields of an event that is a delta of text alone; `None` if serde has to write it.
    pub(super) fn of(event: &'a ResponseEvent) -> Option<Self> {
        use ResponseEvent as E;
        let (item_id, output_index, part, delta, has_logprobs) = match event {
            E::OutputTextDelta { item_id, output_index, content_index, delta, logprobs }
                if logprobs.is_empty() =>
            {
                (item_id, output_index, Part::Content(*content_index), delta, true)
            }
            E::RefusalDelta { item_id, output_index, content_index, delta }
            | E::ReasoningTextDelta { item_id, output_index, content_index, delta } => {
                (item_id, output_index, Part::Content(*content_index), delta, false)
            }
            E::SummaryTextDelta { item_id, output_index, summary_index, delta } => {
                (item_id, output_index, Part::Summary(*summary_index), delta, false)
            }
            E::FunctionArgumentsDelta { item_id, output_index, delta }
            | E::CustomInputDelta { item_id, output_index, delta }
            | E::McpArgumentsDelta { item_id, output_index, delta }
            | E::CodeDelta { item_id, output_index, delta } => {
                (item_id, output_index, Part::Whole, delta, false)
            }
            _ => return None,
        };
        Some(Self { item_id: item_id.as_str(), output_index: *output_index, part, delta, has_logprobs })
    }

    /// Appends the fields as an object, as serde would write the event.
    pub(super) fn write(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        out.extend_from_slice(b"{\"item_id\":");
        serde_json::to_writer(&mut *out, self.item_id)?;
        out.extend_from_slice(b",\"output_index\":");
        serde_json::to_writer(&mut *out, &self.output_index)?;
        let part: Option<(&[u8], u32)> = match self.part {
            Part::Whole => None,
            Part::Content(index) => Some((b",\"content_index\":", index)),
            Part::Summary(index) => Some((b",\"summary_index\":", index)),
        };
        if let Some((name, index)) = part {
            out.extend_from_slice(name);
            serde_json::to_writer(&mut *out, &index)?;
        }
        out.extend_from_slice(b",\"delta\":");
        serde_json::to_writer(&mut *out, self.delta)?;
        out.extend_from_slice(if self.has_logprobs { b",\"logprobs\":[]}" } else { b"}" });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::content::LogProb;
    use crate::id::Id;

    /// All kinds of deltas with these fields.
    fn deltas(item_id: &str, [output_index, index]: [u32; 2], text: &str) -> [ResponseEvent; 8] {
        use ResponseEvent as E;
        let (item_id, delta) = (|| Id::from(item_id), || text.to_owned());
        let (content_index, summary_index) = (index, index);
        [
            E::OutputTextDelta {
                item_id: item_id(),
                output_index,
                content_index,
                delta: delta(),
                logprobs: Vec::new(),
            },
            E::RefusalDelta { item_id: item_id(), output_index, content_index, delta: delta() },
            E::ReasoningTextDelta { item_id: item_id(), output_index, content_index, delta: delta() },
            E::SummaryTextDelta { item_id: item_id(), output_index, summary_index, delta: delta() },
            E::FunctionArgumentsDelta { item_id: item_id(), output_index, delta: delta() },
            E::CustomInputDelta { item_id: item_id(), output_index, delta: delta() },
            E::McpArgumentsDelta { item_id: item_id(), output_index, delta: delta() },
            E::CodeDelta { item_id: item_id(), output_index, delta: delta() },
        ]
    }

    proptest! {
        #[test]
        fn every_delta_is_written_as_serde_writes_it(
            id in "[a-z_0-9\"é\\\\]{0,40}",
            indexes in any::<[u32; 2]>(),
            text in prop_oneof!["[ -~é€😀]{0,40}", any::<String>(), "[\\x00-\\x20\"\\\\\\x7f]{0,10}"],
        ) {
            for event in deltas(&id, indexes, &text) {
                prop_assert!(event.is_delta());
                let mut written = b"before".to_vec();
                Delta::of(&event).unwrap().write(&mut written).unwrap();
                let expected = format!("before{}", serde_json::to_string(&event).unwrap());
                prop_assert_eq!(String::from_utf8(written).unwrap(), expected);
            }
        }
    }

    #[test]
    fn serde_writes_what_is_more_than_text() {
        let token = LogProb { token: "a".into(), logprob: -1.0, bytes: [97].into(), top_logprobs: [].into() };
        let [mut event, ..] = deltas("msg_1", [0, 0], "a");
        let ResponseEvent::OutputTextDelta { logprobs, .. } = &mut event else { panic!("{event:?}") };
        logprobs.push(token);
        assert!(Delta::of(&event).is_none() && event.is_delta());
    }
}
