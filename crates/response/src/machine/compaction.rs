//! A response that is a compaction: the model's text is a summary, which clients do not see. It becomes one sealed
//! item at the end; reasoning is not part of it, and calls are not made.

use super::{Events, ResponseMachine, Violation};
use crate::turn::ModelEvent;
use antwort_protocol::item::{Compaction, Item};
use antwort_protocol::response::Usage;

/// The longest summary, in bytes: sealed, it must fit into an input item.
pub const MAX_SUMMARY_BYTES: usize = 2 << 20;

/// Encrypts summaries.
pub trait SealSummary: Send + Sync {
    /// The blob that stands for the summary; `None` if sealing failed.
    fn seal(&self, summary: &str) -> Option<String>;
}

/// The summary so far.
#[derive(Debug, Default)]
pub(super) struct Summary {
    text: String,
    /// The model has refused to write one.
    refused: bool,
}

impl ResponseMachine {
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

    /// Counts the tokens of an inference that is no turn.
    pub fn count_usage(&mut self, usage: &Usage) {
        self.usage.get_or_insert_default().add(usage);
    }

    /// Adds the item of a compaction that took place between two turns. Returns it.
    pub fn add_compaction(
        &mut self,
        encrypted_content: String,
        out: &mut Events,
    ) -> Result<Compaction, Violation> {
        let item = Compaction { id: self.ids.next("cm"), encrypted_content };
        self.bytes += item.encrypted_content.len();
        let output_index = self.add_item(Item::Compaction(item.clone()), out)?;
        self.finish_item(output_index, out, |_| {})?;
        // It belongs to no turn.
        self.turn.first = self.response().output.len();
        // They are in the summary.
        self.itemless_turns.clear();
        Ok(item)
    }

    /// Writes the item of a complete summary. Without a summary the output stays empty.
    pub(super) fn write_compaction(&mut self, out: &mut Events) -> Result<(), Violation> {
        let Some(seal) = self.options.summary.clone() else { return Ok(()) };
        let summary = std::mem::take(&mut self.summary);
        let text = summary.text.trim();
        if text.is_empty() || summary.refused {
            return Ok(());
        }
        let Some(encrypted_content) = seal.seal(text) else {
            tracing::error!("encrypting a compaction summary failed; the compaction has no output");
            return Ok(());
        };
        let item = Compaction { id: self.ids.next("cm"), encrypted_content };
        let output_index = self.add_item(Item::Compaction(item), out)?;
        self.finish_item(output_index, out, |_| {})
    }
}
