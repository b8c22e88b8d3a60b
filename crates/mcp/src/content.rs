//! Converts the result of an MCP tool to a [`ToolOutput`].
//!
//! The text has a note in the place of each image, recording and file. Those of a type that models can be given are kept
//! beside it; which of them a model sees, its provider decides.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::connection::{ContentAudience, RemoteContent, RemoteResult};
use antwort_protocol::item::hosted::ResultFile;
use antwort_tools::ToolOutput;

/// Maximum characters of a name, URI or description in a note: text of the server.
const MAX_NOTE_CHARS: usize = 2000;
/// Maximum characters of a file's name.
const MAX_NAME_CHARS: usize = 200;
/// Maximum characters of a MIME type in a note.
const MAX_MIME_TYPE_CHARS: usize = 100;

/// Converts a result. Content with the audience `user` never reaches the model; it is shown to the user if
/// `user_output` is set and dropped otherwise. Content with the audience `assistant` never reaches the user.
pub(crate) fn to_output(result: RemoteResult, user_output: bool) -> ToolOutput {
    let RemoteResult { content, structured, exact_structured, is_error, is_async, .. } = result;
    let (mut for_model, mut for_user, mut shown) = (String::new(), String::new(), String::new());
    let is_shown_all = content.iter().all(|part| part.audience != ContentAudience::Model);
    let mut files = Vec::new();
    for part in content {
        let file = if part.audience == ContentAudience::User { None } else { to_file(&part.content) };
        let text = to_text(part.content, file.is_some());
        files.extend(file);
        match part.audience {
            ContentAudience::User => append_paragraph(&mut for_user, &text),
            ContentAudience::Model => append_paragraph(&mut for_model, &text),
            ContentAudience::Everybody => {
                append_paragraph(&mut for_model, &text);
                if !is_shown_all {
                    append_paragraph(&mut shown, &text);
                }
            }
        }
    }
    if for_model.is_empty() {
        let placeholder = match for_user.as_str() {
            "" => "(no content)",
            _ if user_output => "(the result was shown to the user)",
            _ => "(the result is for the user alone)",
        };
        let structured = || structured.as_ref().map(ToString::to_string);
        for_model = exact_structured.or_else(structured).unwrap_or_else(|| placeholder.to_owned());
    }
    if shown.is_empty() {
        "(not shown)".clone_into(&mut shown);
    }
    ToolOutput {
        for_model,
        files,
        for_user: Some(for_user).filter(|text| user_output && !text.is_empty()),
        forces_user_output: user_output,
        for_client: (!is_shown_all).then_some(shown),
        structured,
        is_error,
        is_async,
        ..ToolOutput::default()
    }
}

/// Appends a paragraph unless it is blank.
fn append_paragraph(text: &mut String, more: &str) {
    if more.trim().is_empty() {
        return;
    }
    if !text.is_empty() {
        text.push_str("\n\n");
    }
    text.push_str(more);
}

fn to_text(content: RemoteContent, is_attached: bool) -> String {
    match content {
        RemoteContent::Text(text) => clean(text),
        RemoteContent::Image { mime_type, data } => note("image", Some(&mime_type), &data, is_attached),
        RemoteContent::Audio { mime_type, data } => note("audio", Some(&mime_type), &data, is_attached),
        RemoteContent::TextResource { uri, text, .. } => {
            format!("[{}]\n{}", line(&uri, MAX_NOTE_CHARS), clean(text))
        }
        RemoteContent::BlobResource { uri, mime_type, data } => {
            let what = format!("file {}", line(&uri, MAX_NOTE_CHARS));
            note(&what, mime_type.as_deref(), &data, is_attached)
        }
        RemoteContent::ResourceLink { uri, name, description } => {
            let mut link = format!("{}: {}", line(&name, MAX_NOTE_CHARS), line(&uri, MAX_NOTE_CHARS));
            if let Some(description) = description.filter(|text| !text.trim().is_empty()) {
                _ = write!(link, " \u{2014} {}", line(&description, MAX_NOTE_CHARS));
            }
            link
        }
        RemoteContent::Unknown(kind) => format!("[{}: not shown]", line(&kind, MAX_MIME_TYPE_CHARS)),
    }
}

/// Removes NUL characters, at which some stores and models would cut the text.
fn clean(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "") } else { text }
}

/// Sanitizes text of the server for a note: one line, bounded length.
fn line(text: &str, max_chars: usize) -> String {
    let mut line: String =
        text.trim().chars().take(max_chars).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.len() < text.trim().len() {
        line.push('\u{2026}');
    }
    line
}

fn note(what: &str, mime_type: Option<&str>, base64: &str, is_attached: bool) -> String {
    let kind = mime_type.map(|kind| line(kind, MAX_MIME_TYPE_CHARS)).filter(|kind| !kind.is_empty());
    let kind = kind.as_deref().unwrap_or("of an unknown kind");
    let omitted = if is_attached { "" } else { ", not shown" };
    format!("[{what}: {kind}, {}{omitted}]", size(base64))
}

/// A part as a file that models can be given; `None`: it is none, or of a type that servers refuse.
fn to_file(content: &RemoteContent) -> Option<ResultFile> {
    let (mime_type, data, name) = match content {
        RemoteContent::Image { mime_type, data } if is_kind(mime_type, "image/") => (mime_type, data, None),
        RemoteContent::Audio { mime_type, data } if is_kind(mime_type, "audio/") => (mime_type, data, None),
        RemoteContent::BlobResource { uri, mime_type, data } => {
            let name = uri.rsplit('/').next().filter(|name| !name.is_empty());
            (mime_type.as_ref()?, data, Some(line(name.unwrap_or("file"), MAX_NAME_CHARS)))
        }
        _ => return None,
    };
    let kind = media_type(mime_type)?;
    let data = base64(data)?;
    let name = name.filter(|_| !kind.starts_with("image/") && !kind.starts_with("audio/"));
    Some(ResultFile { name, url: format!("data:{kind};base64,{data}") })
}

fn is_kind(mime_type: &str, kind: &str) -> bool {
    mime_type.trim_ascii_start().get(..kind.len()).is_some_and(|start| start.eq_ignore_ascii_case(kind))
}

/// The type as providers know it; one of another would be refused, and the whole request with it.
fn media_type(mime_type: &str) -> Option<Cow<'static, str>> {
    let kind = mime_type.split(';').next().unwrap_or_default().trim_ascii().to_ascii_lowercase();
    Some(Cow::Borrowed(match &*kind {
        "image/png" => "image/png",
        "image/jpeg" | "image/jpg" => "image/jpeg",
        "image/gif" => "image/gif",
        "image/webp" => "image/webp",
        "audio/wav" | "audio/x-wav" | "audio/wave" | "audio/vnd.wave" => "audio/wav",
        "audio/mpeg" | "audio/mp3" => "audio/mpeg",
        "application/pdf" => "application/pdf",
        "application/json" => "application/json",
        "application/xml" => "application/xml",
        "application/yaml" => "application/yaml",
        text if text.starts_with("text/") && text.len() <= MAX_MIME_TYPE_CHARS && is_token(text) => {
            return Some(Cow::Owned(kind));
        }
        _ => return None,
    }))
}

fn is_token(kind: &str) -> bool {
    kind.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/.+-_".contains(&byte))
}

/// Base64 without line ends, if it is base64 and not empty.
fn base64(data: &str) -> Option<String> {
    let digits: String = data.chars().filter(|digit| !digit.is_ascii_whitespace()).collect();
    let bare = digits.trim_end_matches('=');
    let is_valid = bare.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/')
        && digits.len() - bare.len() <= 2
        && bare.len() % 4 != 1;
    // Some servers leave out the padding, which providers demand.
    let padding = "=".repeat((4 - bare.len() % 4) % 4);
    (is_valid && !bare.is_empty()).then(|| format!("{bare}{padding}"))
}

/// Decoded size of base64 data.
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
    use crate::connection::RemotePart;

    fn text(content: Vec<RemoteContent>) -> String {
        let content = content.into_iter().map(Into::into).collect();
        to_output(RemoteResult { content, ..RemoteResult::default() }, false).for_model
    }

    #[test]
    fn each_kind_is_told_in_text() {
        let data = || "A".repeat(16 << 10);
        for (content, expected) in [
            (RemoteContent::Text("a\0b".into()), "ab"),
            (
                RemoteContent::Image { mime_type: "image/png".into(), data: data() },
                "[image: image/png, 12 KiB]",
            ),
            (
                RemoteContent::Image { mime_type: "image/tiff".into(), data: data() },
                "[image: image/tiff, 12 KiB, not shown]",
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
    fn what_models_can_be_given_is_kept_beside_the_text() {
        let image =
            |kind: &str, data: &str| RemoteContent::Image { mime_type: kind.into(), data: data.into() };
        let blob = |uri: &str, kind: &str| RemoteContent::BlobResource {
            uri: uri.into(),
            mime_type: Some(kind.into()),
            data: "QUI=".into(),
        };
        let file = |name: Option<&str>, url: &str| {
            Some(ResultFile { name: name.map(str::to_owned), url: url.to_owned() })
        };
        for (content, expected) in [
            (image("image/png", "QU\nI"), file(None, "data:image/png;base64,QUI=")),
            (image("Image/JPG; q=1", "QUI="), file(None, "data:image/jpeg;base64,QUI=")),
            (image("image/svg+xml", "QUI="), None),
            (image("application/pdf", "QUI="), None),
            (image("image/png", "not base64!"), None),
            (image("image/png", ""), None),
            (image("image/png", "QUIQU"), None),
            (
                blob("file:///a/b.pdf", "application/pdf"),
                file(Some("b.pdf"), "data:application/pdf;base64,QUI="),
            ),
            (blob("shot:1", "image/webp"), file(None, "data:image/webp;base64,QUI=")),
            (blob("u/", "text/csv"), file(Some("file"), "data:text/csv;base64,QUI=")),
            (blob("u", "text/x,y"), None),
            (blob("a.zip", "application/zip"), None),
            (RemoteContent::Text("x".into()), None),
        ] {
            let result = RemoteResult { content: vec![content.into()], ..RemoteResult::default() };
            let output = to_output(result, false);
            assert_eq!(output.for_model.contains("not shown"), expected.is_none() && output.for_model != "x");
            assert_eq!(output.files, Vec::from_iter(expected));
        }
        // What is for the user alone no model sees.
        let part = RemotePart { content: image("image/png", "QUI="), audience: ContentAudience::User };
        let output = to_output(RemoteResult { content: vec![part], ..RemoteResult::default() }, false);
        assert!(output.files.is_empty());
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
        let result = |content| RemoteResult {
            content,
            structured: Some(json!({"a": 1})),
            is_error: true,
            ..RemoteResult::default()
        };
        let alone = to_output(result(Vec::new()), false);
        assert_eq!((alone.for_model.as_str(), alone.is_error), (r#"{"a":1}"#, true));
        assert_eq!(alone.structured, Some(json!({"a": 1})));
        let both = to_output(result(vec![RemoteContent::Text("one".into()).into()]), false);
        assert_eq!((both.for_model.as_str(), both.structured), ("one", Some(json!({"a": 1}))));
    }

    #[test]
    fn each_part_is_told_to_those_whom_it_is_for() {
        let part = |text: &str, audience| RemotePart { content: RemoteContent::Text(text.into()), audience };
        let to_text = |content: Vec<RemotePart>, user_output| {
            let output = to_output(RemoteResult { content, ..RemoteResult::default() }, user_output);
            (output.for_model, output.for_user, output.for_client)
        };
        let (all, user, model) = (ContentAudience::Everybody, ContentAudience::User, ContentAudience::Model);
        let some = |text: &str| Some(text.to_owned());
        for (content, user_output, for_model, for_user, shown) in [
            (vec![part("a", all), part("u", user)], true, "a", some("u"), None),
            (vec![part("a", all), part("u", user)], false, "a", None, None),
            (
                vec![part("u", user), part("v", user)],
                true,
                "(the result was shown to the user)",
                some("u\n\nv"),
                None,
            ),
            (vec![part("u", user)], false, "(the result is for the user alone)", None, None),
            (
                vec![part("a", all), part("m", model), part("b", all)],
                false,
                "a\n\nm\n\nb",
                None,
                some("a\n\nb"),
            ),
            (vec![part("m", model)], true, "m", None, some("(not shown)")),
            (vec![part("m", model), part("u", user)], true, "m", some("u"), some("(not shown)")),
        ] {
            assert_eq!(to_text(content, user_output), (for_model.to_owned(), for_user, shown));
        }
    }
}
