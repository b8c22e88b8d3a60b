//! One server-sent event.

use std::borrow::Cow;
use std::time::Duration;

/// One event, by the rules of the standard. Of comments and unknown fields nothing is left.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event<'a> {
    /// The `event` field. `None` for `message`, which the standard takes events without one for.
    pub name: Option<Cow<'a, str>>,
    /// The `data` lines, joined by line feeds. Bytes that are not UTF-8 became U+FFFD.
    pub data: Cow<'a, str>,
    /// The `id` field, unless it is empty.
    pub id: Option<String>,
    /// The `retry` field.
    pub retry: Option<Duration>,
}
