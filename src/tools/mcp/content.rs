//! What the model reads of a server's result.
//!
//! A tool's message holds text and nothing else in the chat API that providers are spoken to by, so pictures,
//! recordings and other files become a note that they were there.

use std::fmt::Write as _;

use super::connection::{RemoteContent, RemoteResult};
use crate::tools::ToolOutput;

/// Characters of a name, an address or a description that somebody else wrote into a note.
const MOST_IN_NOTE: usize = 2000;
/// The same of a kind of file.
const MOST_IN_KIND: usize = 100;

/// Tells a result to the model, and keeps its structured form for programs.
pub fn to_output(result: RemoteResult) -> ToolOutput {
    let RemoteResult { content, structured, is_error } = result;
    let mut for_model = String::new();
    for text in content.into_iter().map(told).filter(|text| !text.trim().is_empty()) {
        if !for_model.is_empty() {
            for_model.push_str("\n\n");
        }
        for_model.push_str(&text);
    }
    if for_model.is_empty() {
        for_model = structured.as_ref().map_or_else(|| "(no content)".to_owned(), ToString::to_string);
    }
    ToolOutput { for_model, structured, is_error, ..ToolOutput::default() }
}

fn told(content: RemoteContent) -> String {
    match content {
        RemoteContent::Text(text) => clean(text),
        RemoteContent::Image { mime_type, data } => not_shown("image", Some(&mime_type), &data),
        RemoteContent::Audio { mime_type, data } => not_shown("audio", Some(&mime_type), &data),
        RemoteContent::TextResource { uri, text, .. } => {
            format!("[{}]\n{}", line(&uri, MOST_IN_NOTE), clean(text))
        }
        RemoteContent::BlobResource { uri, mime_type, data } => {
            let what = format!("file {}", line(&uri, MOST_IN_NOTE));
            not_shown(&what, mime_type.as_deref(), &data)
        }
        RemoteContent::ResourceLink { uri, name, description } => {
            let mut link = format!("{}: {}", line(&name, MOST_IN_NOTE), line(&uri, MOST_IN_NOTE));
            if let Some(description) = description.filter(|text| !text.trim().is_empty()) {
                _ = write!(link, " \u{2014} {}", line(&description, MOST_IN_NOTE));
            }
            link
        }
        RemoteContent::Unknown(kind) => format!("[{}: not shown]", line(&kind, MOST_IN_KIND)),
    }
}

/// Text as it came, without NULs: some stores and models end a text there.
fn clean(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "") } else { text }
}

/// A note has one line and one end, whatever is written into it.
fn line(text: &str, most: usize) -> String {
    let mut line: String =
        text.trim().chars().take(most).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.len() < text.trim().len() {
        line.push('\u{2026}');
    }
    line
}

fn not_shown(what: &str, mime_type: Option<&str>, base64: &str) -> String {
    let kind = mime_type.map(|kind| line(kind, MOST_IN_KIND)).filter(|kind| !kind.is_empty());
    let kind = kind.as_deref().unwrap_or("of an unknown kind");
    format!("[{what}: {kind}, {}, not shown]", size(base64))
}

/// How large a file is that came in base64.
fn size(base64: &str) -> String {
    let digits = base64.bytes().filter(|byte| !byte.is_ascii_whitespace() && *byte != b'=').count();
    match digits / 4 * 3 + (digits % 4).saturating_sub(1) {
        bytes @ 0..1024 => format!("{bytes} bytes"),
        bytes @ 1024..1_048_576 => format!("{} KiB", bytes.div_ceil(1 << 10)),
        bytes => format!("{} MiB", bytes.div_ceil(1 << 20)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(content: Vec<RemoteContent>) -> String {
        to_output(RemoteResult { content, ..RemoteResult::default() }).for_model
    }

    #[test]
    fn each_kind_is_told_in_text() {
        let data = || "A".repeat(16 << 10);
        for (content, expected) in [
            (RemoteContent::Text("a\0b".into()), "ab"),
            (
                RemoteContent::Image { mime_type: "image/png".into(), data: data() },
                "[image: image/png, 12 KiB, not shown]",
            ),
            (
                RemoteContent::Audio { mime_type: String::new(), data: "QUI=".into() },
                "[audio: of an unknown kind, 2 bytes, not shown]",
            ),
            (
                RemoteContent::TextResource {
                    uri: "file:///a\nb".into(),
                    mime_type: None,
                    text: "one\ntwo".into(),
                },
                "[file:///a b]\none\ntwo",
            ),
            (
                RemoteContent::BlobResource {
                    uri: "file:///a.zip".into(),
                    mime_type: Some("application/zip".into()),
                    data: "A".repeat(4 << 20),
                },
                "[file file:///a.zip: application/zip, 3 MiB, not shown]",
            ),
            (
                RemoteContent::ResourceLink { uri: "u:1".into(), name: "n".into(), description: None },
                "n: u:1",
            ),
            (
                RemoteContent::ResourceLink {
                    uri: "u:1".into(),
                    name: "n".into(),
                    description: Some("d".into()),
                },
                "n: u:1 \u{2014} d",
            ),
            (RemoteContent::Unknown("video\n".into()), "[video: not shown]"),
        ] {
            assert_eq!(text(vec![content]), expected);
        }
    }

    #[test]
    fn parts_are_told_apart_and_nothing_is_said_to_be_nothing() {
        let parts = ["a", " ", "", "b"].map(|part| RemoteContent::Text(part.into()));
        assert_eq!(text(parts.into()), "a\n\nb");
        assert_eq!(text(Vec::new()), "(no content)");
        assert_eq!(text(vec![RemoteContent::Text("\0".into())]), "(no content)");
        let long = RemoteContent::Unknown("x".repeat(10_000));
        assert!(text(vec![long]).len() < 200);
    }

    #[test]
    fn structured_results_are_the_text_where_there_is_no_other() {
        let result = |content| RemoteResult { content, structured: Some(json!({"a": 1})), is_error: true };
        let alone = to_output(result(Vec::new()));
        assert_eq!((alone.for_model.as_str(), alone.is_error), (r#"{"a":1}"#, true));
        assert_eq!(alone.structured, Some(json!({"a": 1})));
        let both = to_output(result(vec![RemoteContent::Text("one".into())]));
        assert_eq!((both.for_model.as_str(), both.structured), ("one", Some(json!({"a": 1}))));
    }
}
