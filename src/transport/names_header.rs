//! Headers that list names of the request: fields that were ignored, tools that were left out. Over WebSocket, which has
//! no headers for a response, the log has the fields; the engine logs the tools.

use axum::http::{HeaderMap, HeaderName, HeaderValue};

use antwort_protocol::parse::truncate_for_display;

/// Fields of the request that were ignored.
const IGNORED_FIELDS: HeaderName = HeaderName::from_static("antwort-ignored-fields");
/// Types of tools that were left out.
const OMITTED_TOOLS: HeaderName = HeaderName::from_static("antwort-omitted-tools");
/// Maximum length of a header that lists names: proxies reject much longer ones.
const MAX_HEADER_BYTES: usize = 4000;

/// Adds a header for each list that is not empty.
pub(super) fn add(headers: &mut HeaderMap, ignored_fields: &[String], omitted_tools: &[&str]) {
    for (header, names) in [(IGNORED_FIELDS, list(ignored_fields)), (OMITTED_TOOLS, list(omitted_tools))] {
        if let Some(value) = HeaderValue::from_str(&names).ok().filter(|value| !value.is_empty()) {
            headers.insert(header, value);
        }
    }
}

/// Logs the ignored fields of a request whose answer has no headers, if there are any.
pub(super) fn log_ignored(request_id: &str, ignored_fields: &[String]) {
    if !ignored_fields.is_empty() {
        let fields = list(ignored_fields);
        tracing::info!(%request_id, %fields, "ignored fields of the request");
    }
}

/// The names, escaped, and shortened with a count of the rest, so that no name is dropped silently.
fn list(names: &[impl AsRef<str>]) -> String {
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
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_listed_escaped_and_none_is_dropped_silently() {
        assert_eq!(list(&["tools[0].async", "a\nb"]), "tools[0].async, a\\nb");
        let many = list(&["x".repeat(100).as_str(); 50]);
        assert!(many.len() < MAX_HEADER_BYTES + 100 && many.ends_with(" more"), "{many}");
        let mut headers = HeaderMap::new();
        add(&mut headers, &["a".to_owned()], &[]);
        assert_eq!(headers.get(IGNORED_FIELDS).unwrap(), "a");
        assert_eq!(headers.len(), 1);
    }
}
