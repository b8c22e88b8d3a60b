//! `context_management`: what happens as a conversation grows.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::scalar::integer;
use crate::parse::{self, FromJson, ParseError};

/// The least number of tokens at which a conversation is compacted.
const MIN_THRESHOLD: u64 = 1000;
/// Beyond all context windows.
const MAX_THRESHOLD: u64 = u32::MAX as u64;

/// Compaction of a conversation that has reached a number of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextManagement {
    /// The number of tokens; `None`: by the model's context window.
    pub compact_threshold: Option<u64>,
}

impl FromJson for ContextManagement {
    fn from_json(raw: &RawValue) -> Result<Self, ParseError> {
        let entries = parse::elements_up_to(raw, 1)?;
        let Some(entry) = entries.first() else {
            let problem = "expected an entry of type 'compaction'.";
            return Err(ParseError::invalid("", problem).with_code("array_below_min_length"));
        };
        read_entry(entry).map_err(|error| error.at(0))
    }
}

fn read_entry(raw: &RawValue) -> Result<ContextManagement, ParseError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Fields<'a> {
        #[serde(rename = "type")]
        _kind: serde::de::IgnoredAny,
        #[serde(borrow, default)]
        compact_threshold: Option<&'a RawValue>,
    }
    match parse::peek_discriminator(raw)?.kind.as_deref() {
        Some("compaction") => {}
        Some(other) => return Err(ParseError::unknown_type(other, "compaction")),
        None => return Err(ParseError::missing("type")),
    }
    let fields: Fields<'_> = parse::read(raw)?;
    let threshold = fields.compact_threshold.filter(|raw| !parse::is_null(raw));
    let threshold = threshold.map(|raw| integer(raw, MIN_THRESHOLD, MAX_THRESHOLD)).transpose();
    Ok(ContextManagement { compact_threshold: threshold.map_err(|error| error.within("compact_threshold"))? })
}
