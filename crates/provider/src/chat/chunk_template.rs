//! Reads the chunks of a text without parsing them: most chunks of an answer differ in their text alone.
//!
//! After a chunk that holds nothing but one text, the JSON before and behind that text is kept. Where a later chunk has the
//! same JSON around one whole string, that string is its text. Every other chunk is parsed, and may be the next template.
//! A template stays true to the end of the answer, since all else that its chunk says has no effect when it is said again.

use std::borrow::Cow;

use super::wire::{CallPieces, Choice, CompletionChunk, Delta, DeltaContent, FirstChoice};
use crate::lenient::LenientText;

/// Maximum bytes of JSON around a text. Chunks with more are parsed.
const MAX_TEMPLATE_BYTES: usize = 4096;

/// The last chunk that held nothing but one text.
#[derive(Debug, Default)]
pub(super) struct ChunkTemplate {
    /// `None`: there was no such chunk yet.
    kind: Option<TextKind>,
    /// JSON before the text, without the opening quote.
    before: String,
    /// JSON behind the text, without the closing quote.
    behind: String,
}

/// What the text of a chunk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextKind {
    Content,
    /// One of the fields with plain reasoning.
    Reasoning,
}

impl ChunkTemplate {
    /// The text of a chunk that differs from the template in its text alone; `None` if it must be parsed. Never empty.
    pub(super) fn read<'a>(&self, json: &'a str) -> Option<(TextKind, Cow<'a, str>)> {
        let kind = self.kind?;
        let string = json.strip_prefix(&*self.before)?.strip_suffix(&*self.behind)?;
        // Other values than strings have meanings of their own.
        let string = Some(string).filter(|string| string.starts_with('"'))?;
        // This fails if the string ends early: what follows would be JSON that the template does not have.
        let LenientText(text) = serde_json::from_str(string).ok()?;
        Some((kind, text)).filter(|(_, text)| !text.is_empty())
    }

    /// Makes a chunk that was parsed from this JSON the template, if it holds nothing but one text.
    pub(super) fn learn(&mut self, json: &str, chunk: &CompletionChunk<'_>, wants_logprobs: bool) {
        let Some((kind, text)) = only_text(chunk, wants_logprobs) else { return };
        let Some((before, behind)) = around(json, text) else { return };
        if before.len() + behind.len() > MAX_TEMPLATE_BYTES {
            return;
        }
        self.kind = Some(kind);
        self.before.clear();
        self.before.push_str(before);
        self.behind.clear();
        self.behind.push_str(behind);
    }
}

/// The text of a chunk that says nothing else that would have an effect, were it said twice. All fields are named here, so
/// that a new one has to be thought of.
fn only_text<'a>(chunk: &CompletionChunk<'a>, wants_logprobs: bool) -> Option<(TextKind, &'a str)> {
    let CompletionChunk {
        choices: FirstChoice(Some(choice)),
        usage: None,
        // Only its first mention counts.
        service_tier: _,
        error: None,
        object,
        // Of an `object` that is an error.
        message: _,
        code: _,
        kind: _,
    } = chunk
    else {
        return None;
    };
    let Choice {
        index: _,
        delta: Some(delta),
        message: None,
        finish_reason,
        logprobs,
        usage: None,
        error: None,
    } = choice
    else {
        return None;
    };
    let Delta {
        content: DeltaContent::Text(content),
        refusal,
        reasoning_content,
        reasoning,
        thinking,
        reasoning_details: None,
        thinking_blocks: None,
        extra_content: None,
        provider_specific_fields: None,
        annotations: None,
        tool_calls: CallPieces(calls),
        function_call: None,
    } = delta
    else {
        return None;
    };
    let says_more = object.as_str() == "error"
        || !finish_reason.is_empty()
        || !refusal.is_empty()
        || !calls.is_empty()
        || wants_logprobs && logprobs.is_some();
    let texts = [
        (TextKind::Content, content),
        (TextKind::Reasoning, &reasoning_content.0),
        (TextKind::Reasoning, &reasoning.0),
        (TextKind::Reasoning, &thinking.0),
    ];
    let mut texts = texts.into_iter().filter(|(_, text)| !text.is_empty());
    match (texts.next(), texts.next()) {
        // A text with escapes is not in the JSON as it is.
        (Some((kind, Cow::Borrowed(text))), None) if !says_more => Some((kind, *text)),
        _ => None,
    }
}

/// The JSON before and behind a string, without its quotes, that was borrowed from it.
fn around<'a>(json: &'a str, string: &str) -> Option<(&'a str, &'a str)> {
    let start = string.as_ptr().addr().checked_sub(json.as_ptr().addr())?;
    let before = json.get(..start)?.strip_suffix('"')?;
    let behind = json.get(start + string.len()..)?.strip_prefix('"')?;
    Some((before, behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template_of(json: &str, wants_logprobs: bool) -> ChunkTemplate {
        let mut template = ChunkTemplate::default();
        template.learn(json, &serde_json::from_str(json).unwrap(), wants_logprobs);
        template
    }

    /// Chunks with the text `TEXT`.
    const CHUNKS: [&str; 4] = [
        r#"{"id":"c","created":1,"choices":[{"index":0,"delta":{"content":"TEXT"},"logprobs":null,"finish_reason":null}]}"#,
        r#"{"choices":[{"delta":{"role":"assistant","content":"TEXT","refusal":null,"tool_calls":[]}}],"usage":null}"#,
        r#"{"choices":[{"delta":{"reasoning_content":"TEXT","content":null}}],"service_tier":"default","object":"x"}"#,
        r#" {"choices" : [ {"delta" : {"content" : "TEXT"} } ] , "é" : "TEXT"} "#,
    ];

    #[test]
    fn a_chunk_that_differs_in_its_text_alone_is_read_by_the_template() {
        for (chunk, kind) in
            CHUNKS.iter().zip([TextKind::Content, TextKind::Content, TextKind::Reasoning, TextKind::Content])
        {
            let template = template_of(chunk, true);
            for (json, text) in [("b", "b"), ("é€😀", "é€😀"), (r#"a\n\"b\\"#, "a\n\"b\\"), ("\\u00e9", "é")]
            {
                let chunk = chunk.replacen("TEXT", json, 1);
                assert_eq!(template.read(&chunk), Some((kind, Cow::Borrowed(text))), "{chunk}");
            }
            assert!(matches!(template.read(chunk), Some((_, Cow::Borrowed("TEXT")))));
        }
    }

    #[test]
    fn what_may_mean_more_is_parsed() {
        let [chunk, ..] = CHUNKS;
        let template = template_of(chunk, false);
        for text in ["", "\\ud83d", "\\", "a\nb", r#"a","content":"b"#, r#"a"},"x":{"y":"b"#, "\u{1}"] {
            assert_eq!(template.read(&chunk.replace("TEXT", text)), None, "{text}");
        }
        for value in ["null", "7", r#"["a"]"#, ""] {
            assert_eq!(template.read(&chunk.replace("\"TEXT\"", value)), None, "{value}");
        }
        for other in ["", "[DONE]", "\"\"", "\"a\"", &chunk[1..], &chunk[..chunk.len() - 1]] {
            assert_eq!(template.read(other), None, "{other}");
            assert_eq!(ChunkTemplate::default().read(other), None, "{other}");
        }
    }

    #[test]
    fn no_chunk_that_says_more_than_a_text_is_a_template() {
        let in_delta = |more: &str| format!(r#"{{"choices":[{{"delta":{{"content":"a",{more}}}}}]}}"#);
        let in_choice = |more: &str| format!(r#"{{"choices":[{{"delta":{{"content":"a"}},{more}}}]}}"#);
        let in_chunk = |more: &str| format!(r#"{{"choices":[{{"delta":{{"content":"a"}}}}],{more}}}"#);
        let chunks = [
            in_delta(r#""reasoning":"b""#),
            in_delta(r#""refusal":"b""#),
            in_delta(r#""reasoning_details":[]"#),
            in_delta(r#""thinking_blocks":[]"#),
            in_delta(r#""extra_content":{}"#),
            in_delta(r#""annotations":[]"#),
            in_delta(r#""tool_calls":[{}]"#),
            in_delta(r#""function_call":{}"#),
            in_choice(r#""finish_reason":"stop""#),
            in_choice(r#""message":{}"#),
            in_choice(r#""logprobs":{}"#),
            in_choice(r#""error":"x""#),
            in_chunk(r#""usage":{}"#),
            in_chunk(r#""error":{}"#),
            in_chunk(r#""object":"error""#),
            in_chunk(&format!(r#""padding":"{}""#, "x".repeat(MAX_TEMPLATE_BYTES))),
            r#"{"choices":[{"delta":{"content":"a\n"}}]}"#.to_owned(),
            r#"{"choices":[{"delta":{"content":""}}]}"#.to_owned(),
            r#"{"choices":[]}"#.to_owned(),
        ];
        for chunk in chunks {
            assert_eq!(template_of(&chunk, true).kind, None, "{chunk}");
        }
        assert!(template_of(&in_choice(r#""logprobs":{}"#), false).kind.is_some(), "nobody wants them");
    }
}
