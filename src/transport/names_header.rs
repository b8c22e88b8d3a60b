//! Headers that list names of the request: fields that were ignored, tools that were left out.

use axum::http::{HeaderName, HeaderValue};

use crate::protocol::parse::truncate_for_display;

/// Fields of the request that were ignored.
pub(super) const IGNORED_FIELDS: HeaderName = HeaderName::from_static("antwort-ignored-fields");
/// Types of tools that were left out.
pub(super) const OMITTED_TOOLS: HeaderName = HeaderName::from_static("antwort-omitted-tools");
/// Maximum length of a header that lists names: proxies reject much longer ones.
const MAX_HEADER_BYTES: usize = 4000;

/// A header that lists names, such as those of ignored fields: escaped, and shortened with a count of the rest, so that no
/// name is dropped silently.
pub(super) fn names_header(names: &[impl AsRef<str>]) -> Option<HeaderValue> {
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
