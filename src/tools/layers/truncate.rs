//! Shows the model head and tail of results that are too large for it, and keeps the whole.

use std::sync::Arc;

use tower::Service;

use super::{ToolFuture, ToolRequest, ToolService, always_ready};
use crate::tools::context::ToolContext;
use crate::tools::output::ToolOutput;
use crate::tools::policy::{AccessPolicy, PolicySubject};
use crate::tools::read_output::ReadToolOutput;
use crate::tools::result_store::ResultStore;

/// Cuts what the model reads. What it does not see it can ask for with `read_tool_output`.
#[derive(Clone)]
pub(in crate::tools) struct Truncate<S> {
    inner: S,
    results: Arc<ResultStore>,
    policy: Arc<AccessPolicy>,
}

impl<S> Truncate<S> {
    pub(in crate::tools) fn new(inner: S, results: Arc<ResultStore>, policy: Arc<AccessPolicy>) -> Self {
        Self { inner, results, policy }
    }
}

impl<S: ToolService> Service<ToolRequest> for Truncate<S> {
    always_ready!();

    fn call(&mut self, request: ToolRequest) -> ToolFuture {
        let (plan, context) = (Arc::clone(&request.plan), Arc::clone(&request.context));
        let (results, policy) = (Arc::clone(&self.results), Arc::clone(&self.policy));
        let answer = self.inner.call(request);
        Box::pin(async move {
            let mut output = answer.await?;
            let most = plan.max_result_bytes;
            // What clients are shown has no more room, and nobody reads on in it.
            [&mut output.for_client, &mut output.for_user]
                .into_iter()
                .flatten()
                .for_each(|text| shorten(text, most));
            if output.for_model.len() <= most {
                return Ok(output);
            }
            // Who may not read on is told nothing of it, and nothing is kept for them. Nor is what the user must not
            // see: what `read_tool_output` gives is shown.
            let may_read_on = context.can_read_stored_results
                && output.for_client.is_none()
                && policy
                    .refusal(PolicySubject::from_context(&context), None, ReadToolOutput::NAME)
                    .is_none();
            let reader = may_read_on.then_some(&*context);
            Ok(cut(output, most, &results, reader))
        })
    }
}

/// Cuts a text that is shown; in place of its end it says how much is missing.
fn shorten(text: &mut String, most: usize) {
    if text.len() <= most {
        return;
    }
    let total = text.len();
    text.truncate(text.floor_char_boundary(most.saturating_sub(64)));
    let note = Note { total, kept: total, id: None }.text(text.len(), total);
    text.push_str(&note);
}

fn cut(
    mut output: ToolOutput,
    most: usize,
    results: &ResultStore,
    reader: Option<&ToolContext>,
) -> ToolOutput {
    let whole = std::mem::take(&mut output.for_model);
    let note = Note { total: whole.len(), kept: whole.len().min(results.max_bytes()), id: None };
    // The note must be as long as it can become before it is known how much room it leaves.
    let longest = Note { id: Some("out_00000000000000000000000000000000".into()), ..note }
        .text(whole.len(), 2 * whole.len());
    let (head, tail) = ends(&whole, most.saturating_sub(longest.len()));
    let (head, tail, end) = (head.to_owned(), tail.to_owned(), whole.len() - tail.len());
    if whole.len() > results.max_bytes() {
        // Beyond that size nothing of a call stays in memory.
        output.structured = None;
    }
    let note = Note { id: reader.and_then(|reader| results.store(reader, whole)), ..note };
    output.for_model = format!("{head}{}{tail}", note.text(head.len(), end));
    output.meta.truncated = true;
    output
}

/// What stands in the place of what is left out.
struct Note {
    total: usize,
    kept: usize,
    id: Option<String>,
}

impl Note {
    /// `from` and `to` bound what is left out.
    fn text(&self, from: usize, to: usize) -> String {
        let Self { total, kept, id } = self;
        let left_out = to - from;
        let Some(id) = id else { return format!("\n[{left_out} of {total} bytes are left out here]\n") };
        let what = match kept {
            kept if kept < total => format!("Of the result only the first {kept} bytes are kept"),
            _ => "The whole result is kept".to_owned(),
        };
        format!(
            "\n[{left_out} of {total} bytes are left out here. {what}; to read on, call read_tool_output with \
             {{\"id\":\"{id}\",\"offset\":{from}}}]\n"
        )
    }
}

/// Beginning and end of a text within so many bytes, whole lines if they are not too long.
pub(super) fn ends(text: &str, room: usize) -> (&str, &str) {
    // The beginning mostly says more than the end.
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
