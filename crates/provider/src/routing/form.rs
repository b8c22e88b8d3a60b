//! The field `model` of a form (`multipart/form-data`, RFC 7578), which is otherwise passed on byte for byte.

use std::ops::Range;

use bytes::Bytes;
use memchr::memmem;

use antwort_protocol::error::{ApiError, ErrorKind};

/// Longest boundary (RFC 2046 5.1.1).
const MAX_BOUNDARY: usize = 70;
/// Most parts of a form.
const MAX_PARTS: usize = 1000;
/// Most bytes of the headers of a part.
const MAX_HEAD: usize = 8 << 10;
/// Longest model name that is read.
const MAX_MODEL: usize = 1024;

/// A model's name with its place in the body.
#[derive(Debug)]
pub(super) struct ModelField<'b> {
    pub model: &'b str,
    place: Range<usize>,
}

impl ModelField<'_> {
    /// The body with another model.
    pub(super) fn replaced(&self, body: &[u8], model: &str) -> Bytes {
        let (before, after) = (body.get(..self.place.start), body.get(self.place.end..));
        [before.unwrap_or_default(), model.as_bytes(), after.unwrap_or_default()].concat().into()
    }
}

/// Finds the model.
pub(super) fn model_field<'b>(content_type: &str, body: &'b [u8]) -> Result<ModelField<'b>, ApiError> {
    let boundary =
        boundary(content_type).ok_or_else(|| unreadable("its Content-Type has no valid boundary"))?;
    let mut found = None;
    for place in parts(&boundary, body)? {
        let part = body.get(place.clone()).unwrap_or_default();
        let Some(end) = memmem::find(part.get(..MAX_HEAD).unwrap_or(part), b"\r\n\r\n") else {
            return Err(unreadable("the headers of a part do not end, or are too long"));
        };
        let (head, value) = (part.get(..end).unwrap_or_default(), place.start + end + 4..place.end);
        if !is_model(head) {
            continue;
        }
        // A server might take the other one.
        if found.replace(value).is_some() {
            return Err(ApiError::invalid("invalid_value", "model", "The form has the field 'model' twice."));
        }
    }
    let place = found.ok_or_else(missing_model)?;
    let value = body.get(place.clone()).unwrap_or_default();
    match std::str::from_utf8(value) {
        Ok("") => Err(missing_model()),
        Ok(model) if model.len() <= MAX_MODEL => Ok(ModelField { model, place }),
        _ => {
            Err(ApiError::invalid("invalid_value", "model", "The field 'model' is not the name of a model."))
        }
    }
}

pub(super) fn missing_model() -> ApiError {
    ApiError::invalid("missing_required_parameter", "model", "Missing required parameter 'model'.")
}

/// The places of the parts, each with its headers. The last delimiter must be there: a form that is cut off is refused.
fn parts(boundary: &str, body: &[u8]) -> Result<Vec<Range<usize>>, ApiError> {
    let delimiter = format!("\r\n--{boundary}");
    let first = delimiter.trim_start().as_bytes();
    let start = body.starts_with(first).then_some((0, first.len()));
    let others = memmem::find_iter(body, delimiter.as_bytes()).map(|at| (at, at + delimiter.len()));
    let (mut parts, mut begin) = (Vec::new(), None);
    for (at, end) in start.into_iter().chain(others) {
        let rest = body.get(end..).unwrap_or_default();
        let ends = rest.starts_with(b"--");
        let padding = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        // Otherwise it only begins like a delimiter.
        if !ends && !rest.get(padding..).is_some_and(|rest| rest.starts_with(b"\r\n")) {
            continue;
        }
        parts.extend(begin.take().map(|begin: usize| begin..at.max(begin)));
        if ends {
            return Ok(parts);
        }
        if parts.len() == MAX_PARTS {
            return Err(unreadable("it has more than 1000 parts"));
        }
        begin = Some(end + padding + 2);
    }
    Err(unreadable("its last boundary is missing"))
}

fn boundary(content_type: &str) -> Option<String> {
    let value = parameter(content_type, "boundary")?;
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(&byte);
    ((1..=MAX_BOUNDARY).contains(&value.len()) && value.bytes().all(is_valid)).then(|| value.to_owned())
}

/// Whether these are the headers of the field `model`, which is no file.
fn is_model(head: &[u8]) -> bool {
    let head = String::from_utf8_lossy(head);
    let disposition = head.split("\r\n").find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.trim().eq_ignore_ascii_case("content-disposition").then_some(value)
    });
    let is_field = |value: &str| parameter(value, "filename").is_none();
    disposition.is_some_and(|value| parameter(value, "name") == Some("model") && is_field(value))
}

/// A parameter of a header, without its quotes.
fn parameter<'h>(header: &'h str, name: &str) -> Option<&'h str> {
    let mut rest = header;
    while let Some((_, after)) = rest.split_once(';') {
        let (key, value) = after.split_once('=')?;
        let quoted = value.strip_prefix('"').map(|value| value.split_once('"'));
        let (value, after) = match quoted {
            Some(split) => split?,
            None => value.split_at(value.find(';').unwrap_or(value.len())),
        };
        if key.trim().eq_ignore_ascii_case(name) {
            return Some(value.trim_end());
        }
        rest = after;
    }
    None
}

fn unreadable(problem: &str) -> ApiError {
    let message = format!("The form of the request cannot be read: {problem}.");
    ApiError::new(ErrorKind::InvalidRequest, message).with_code("invalid_body")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: &str = "multipart/form-data; charset=utf-8; boundary=\"x y\"";

    fn form(parts: &[(&str, &str)]) -> String {
        let parts = parts.iter().map(|(head, value)| {
            format!("--x y\r\nContent-Disposition: form-data; {head}\r\n\r\n{value}\r\n")
        });
        format!("{}--x y--\r\n", parts.collect::<String>())
    }

    #[test]
    fn the_model_is_found_among_files_and_replaced_alone() {
        let file = (
            "name=\"file\"; filename=\"a.wav\"\r\nContent-Type: audio/wav",
            "--x yz\r\n--x y\u{0}; name=\"model\"\r\n\r\nno",
        );
        for head in [
            "name=\"model\"",
            "name=model",
            "NAME=\"model\"; x=\"1\"",
            "name=\"model\"\r\nContent-Type: text/plain",
        ] {
            let body = form(&[file, (head, "whisper-1"), ("name=\"language\"", "en")]);
            let found = model_field(TYPE, body.as_bytes()).unwrap();
            assert_eq!(found.model, "whisper-1", "{head}");
            let expected = form(&[file, (head, "large"), ("name=\"language\"", "en")]);
            assert_eq!(found.replaced(body.as_bytes(), "large"), expected);
        }
    }

    #[test]
    fn what_could_be_read_in_two_ways_or_not_at_all_is_refused() {
        let model = ("name=\"model\"", "m");
        let long = "m".repeat(MAX_MODEL + 1);
        for (content_type, body, code) in [
            (TYPE, form(&[model, model]), "invalid_value"),
            (TYPE, form(&[("name=\"model\"", &long)]), "invalid_value"),
            (TYPE, form(&[("name=\"model\"", "")]), "missing_required_parameter"),
            (TYPE, form(&[("name=\"models\"", "m")]), "missing_required_parameter"),
            (TYPE, form(&[]), "missing_required_parameter"),
            (TYPE, form(&[model]).replace("--x y--", ""), "invalid_body"),
            (TYPE, form(&[model]).replace("\r\n", "\n"), "invalid_body"),
            (TYPE, String::new(), "invalid_body"),
            ("multipart/form-data", form(&[model]), "invalid_body"),
            ("multipart/form-data; boundary=", form(&[model]), "invalid_body"),
            ("multipart/form-data; boundary=\"x y", form(&[model]), "invalid_body"),
        ] {
            assert_eq!(
                model_field(content_type, body.as_bytes()).unwrap_err().code(),
                code,
                "{content_type} {body}"
            );
        }
    }
}
