//! Truncates oversized results to head and tail, and stores the full text. Files are whole or left out: half a picture
//! is none.

use std::sync::Arc;

use tower::Service;

use super::{ToolFuture, ToolRequest, ToolService, always_ready};
use crate::context::ToolContext;
use crate::output::ToolOutput;
use crate::policy::{AccessPolicy, PolicySubject};
use crate::read_output::ReadToolOutput;
use crate::result_store::ResultStore;

/// Of what notes, ids and sources take in an item.
const MAX_NOTES: usize = 4096;

/// Truncates what the model reads; it can read the rest with `read_tool_output`.
#[derive(Clone)]
pub(crate) struct Truncate<S> {
    inner: S,
    results: Arc<ResultStore>,
    policy: Arc<AccessPolicy>,
}

impl<S> Truncate<S> {
    pub(crate) fn new(inner: S, results: Arc<ResultStore>, policy: Arc<AccessPolicy>) -> Self {
        Self { inner, results, policy }
    }
}

impl<S: ToolService> Service<ToolRequest> for Truncate<S> {
    always_ready!();

    fn call(&mut self, request: ToolRequest) -> ToolFuture {
        let (plan, context) = (Arc::clone(&request.plan), Arc::clone(&request.context));
        let arguments = request.call.raw.len();
        let (results, policy) = (Arc::clone(&self.results), Arc::clone(&self.policy));
        let response = self.inner.call(request);
        Box::pin(async move {
            let mut output = response.await?;
            let max = plan.max_result_bytes;
            leave_out_large_files(&mut output, max, arguments, &context);
            // Texts for clients and users have the same limit, and there is no way to read their rest.
            [&mut output.for_client, &mut output.for_user]
                .into_iter()
                .flatten()
                .for_each(|text| shorten(text, max));
            if output.for_model.len() <= max {
                return Ok(output);
            }
            // Without access to `read_tool_output` nothing is stored and the note does not mention it. Neither if the
            // client sees another text: the output of `read_tool_output` is shown to clients.
            let may_read_on = context.can_read_stored_results
                && output.for_client.is_none()
                && policy
                    .refusal(PolicySubject::from_context(&context), None, ReadToolOutput::NAME)
                    .is_none();
            let reader = may_read_on.then_some(&*context);
            Ok(truncate_middle(output, max, &results, reader))
        })
    }
}

/// The item of a call has room for its arguments, the texts and what is left of the limit of files.
fn leave_out_large_files(output: &mut ToolOutput, max_text: usize, arguments: usize, context: &ToolContext) {
    let Some(max) = context.max_item_bytes else { return };
    let shown = [&output.for_client, &output.for_user].into_iter().flatten().map(String::len);
    let texts: usize = shown.chain([output.for_model.len()]).map(|length| length.min(max_text)).sum();
    let others = texts + arguments + MAX_NOTES;
    if output.file_bytes() > max.saturating_sub(others) {
        output.leave_out_files("they are larger than an item may be");
    }
}

/// Truncates a text for clients or users; a note in place of its end says how much is missing.
pub fn shorten(text: &mut String, max: usize) {
    if text.len() <= max {
        return;
    }
    let total = text.len();
    text.truncate(text.floor_char_boundary(max.saturating_sub(64)));
    let note = Note { total, kept: total, id: None }.text(text.len(), total);
    text.push_str(&note);
}

fn truncate_middle(
    mut output: ToolOutput,
    max: usize,
    results: &ResultStore,
    reader: Option<&ToolContext>,
) -> ToolOutput {
    let whole = std::mem::take(&mut output.for_model);
    let note = Note { total: whole.len(), kept: whole.len().min(results.max_bytes()), id: None };
    // Reserve room for the longest possible note before its numbers are known.
    let longest = Note { id: Some("out_00000000000000000000000000000000".into()), ..note }
        .text(whole.len(), 2 * whole.len());
    let (head, tail) = ends(&whole, max.saturating_sub(longest.len()));
    let (head, tail, end) = (head.to_owned(), tail.to_owned(), whole.len() - tail.len());
    if whole.len() > results.max_bytes() {
        // Results of this size are not kept in memory.
        output.structured = None;
    }
    let note = Note { id: reader.and_then(|reader| results.store(reader, whole)), ..note };
    output.for_model = format!("{head}{}{tail}", note.text(head.len(), end));
    output.meta.truncated = true;
    output
}

/// The note that replaces the omitted part.
struct Note {
    total: usize,
    kept: usize,
    id: Option<String>,
}

impl Note {
    /// `from..to` is the omitted byte range.
    fn text(&self, from: usize, to: usize) -> String {
        let Self { total, kept, id } = self;
        let omitted = to - from;
        let Some(id) = id else { return format!("\n[{omitted} of {total} bytes are left out here]\n") };
        let what = match kept {
            kept if kept < total => format!("Of the result only the first {kept} bytes are kept"),
            _ => "The whole result is kept".to_owned(),
        };
        format!(
            "\n[{omitted} of {total} bytes are left out here. {what}; to read on, call read_tool_output with \
             {{\"id\":\"{id}\",\"offset\":{from}}}]\n"
        )
    }
}

/// Head and tail of a text within `room` bytes, cut at line ends if lines are short.
pub(super) fn ends(text: &str, room: usize) -> (&str, &str) {
    // Two thirds for the head, which is usually more informative than the tail.
    let (head, _) = text.split_at(text.floor_char_boundary(room * 2 / 3));
    let (_, tail) = text.split_at(text.ceil_char_boundary(text.len() - (room - head.len()).min(text.len())));
    let head = match head.rfind('\n') {
        Some(line) if line >= head.len() / 2 => head.get(..=line).unwrap_or(head),
        _ => head,
    };
    let tail = match tail.find('\n') {
        Some(line) if line <= tail.len() / 2 => tail.get(line + 1..).unwrap_or(tail),
        _ => tail,
    };
    (head, tail)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn beginning_and_end_fit_and_do_not_overlap(text in "[aä漢\\n]{0,80}", room in 0..300_usize) {
            let (head, tail) = ends(&text, room);
            prop_assert!(text.starts_with(head) && text.ends_with(tail));
            prop_assert!(head.len() + tail.len() <= room.min(text.len()) || room > text.len());
        }
    }

    #[test]
    fn whole_lines_are_kept_where_they_are_short() {
        let text = "one\ntwo\nthree\nfour\nfive\n";
        assert_eq!(ends(text, 18), ("one\ntwo\n", "five\n"));
        assert_eq!(ends(&"x".repeat(99), 9), ("xxxxxx", "xxx"));
    }
}
