//! Headers that list names of the request: fields that were ignored, tools that were left out.

use axum::http::{HeaderMap, HeaderName, HeaderValue};

use crate::protocol::parse::truncate_for_display;

/// Fields of the request that were ignored.
const IGNORED_FIELDS: HeaderName = HeaderName::from_static("antwort-ignored-fields");
/// Types of tools that were left out.
const OMITTED_TOOLS: HeaderName = HeaderName::from_static("antwort-omitted-tools");
/// Maximum length of a header that lists names: proxies reject much longer ones.
const MAX_HEADER_BYTES: usize = 4000;

/// Adds a header for each list that is not empty.
pub(super) fn add(headers: &mut HeaderMap, ignored_fields: &[String], omitted_tools: &[&str]) {
    for (header, value) in [(IGNORED_FIELDS, list(ignored_fields)), (OMITTED_TOOLS, list(omitted_tools))] {
        if let Some(value) = value {
            headers.insert(header, value);
        }
    }
}

/// The names, escaped, and shortened with a count of the rest, so that no name is dropped silently.
fn list(names: &[impl AsRef<str>]) -> Option<HeaderValue> {
    let mut list = String::new();
    for (i, name) in names.iter().enumerate() {
        let name = truncate_for_display(name.as_ref()).escape_default().to_string();
        if list.len() + name.len() > MAX_HEADER_BYTES {
            list.push_str(&format!(", and {} more", names.len() - i));
            break;
        }
        if i > 0 {
            list.push_str(", ");
        }
        list.push_str(&name);
    }
    HeaderValue::from_str(&list).ok().filter(|value| !value.is_empty())
}
