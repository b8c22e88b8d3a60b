//! A response that is a compaction: what the model writes is a summary, which no client reads. It becomes one
//! sealed item when it is whole; thoughts are not part of it, and calls are not made.

use super::{Events, ResponseMachine, Violation};
use crate::protocol::item::{Compaction, Item};
use crate::response::turn::ModelEvent;

/// The longest summary, in bytes: sealed, it must fit into an input item again.
pub const MAX_SUMMARY_BYTES: usize = 2 << 20;

/// Makes a summary opaque.
pub trait SealSummary: Send + Sync {
    /// The blob that stands for the summary; `None` where it could not be made.
    fn seal(&self, summary: &str) -> Option<String>;
}

/// The summary, as far as the model has written it.
#[derive(Debug, Default)]
pub(super) struct Summary {
    text: String,
    /// The model said that it would not write one.
    refused: bool,
}

impl ResponseMachine {
    /// Takes in a piece of the summary.
    pub(super) fn append_summary(&mut self, event: ModelEvent) -> Result<(), Violation> {
        match event {
            ModelEvent::Text { delta, .. } => {
                self.count_in_item(delta.len());
                self.summary.text.push_str(&delta);
                if self.summary.text.len() > MAX_SUMMARY_BYTES {
                    return Err(Violation::LongSummary);
                }
            }
            ModelEvent::Refusal(_) => self.summary.refused = true,
            _ => {}
        }
        Ok(())
    }

    /// Writes the item of a summary that is whole. Without one the output stays empty.
    pub(super) fn write_compaction(&mut self, out: &mut Events) -> Result<(), Violation> {
        let Some(seal) = self.options.summary.clone() else { return Ok(()) };
        let summary = std::mem::take(&mut self.summary);
        let text = summary.text.trim();
        if text.is_empty() || summary.refused {
            return Ok(());
        }
        let Some(encrypted_content) = seal.seal(text) else {
            tracing::error!("a summary could not be sealed");
            return Ok(());
        };
        let item = Compaction { id: self.ids.next("cm"), encrypted_content };
        let output_index = self.add_item(Item::Compaction(item), out)?;
        self.finish_item(output_index, out, |_| {})
    }
}
