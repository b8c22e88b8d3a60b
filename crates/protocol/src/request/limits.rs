//! The size limits of a request, counted in one place before anything is parsed into types, and no further than the
//! limit.
//!
//! A list is counted by its place and not by its name, so that none can be forgotten: every list within an item
//! counts as content parts, every list within a tool, or among the allowed tools, as names. Values that are kept as
//! text are not walked: schemas are measured, arguments are bounded by the body, and log probabilities are skipped,
//! of which a replayed answer has several for each word.

mod counter;
mod walk;

use serde::de::Deserializer;
use serde_json::value::RawValue;

pub(super) use self::counter::RequestSizeCounter;
pub use self::counter::RequestSizeLimits;
use self::counter::may_have_patterns;
use self::walk::{Walk, WalkContext};

use super::body::RawFields;
use crate::error::ApiError;
use crate::parse::{self, ParseError};

/// A pattern takes at least this many bytes of a schema: a key of one byte and `true`, or `"pattern":""`.
const MIN_PATTERN_BYTES: usize = 6;

impl<'de> RequestSizeCounter<'de> {
    /// Counts the entries of all fields, and returns which exceeds its limit or cannot be read.
    pub(super) fn check(&mut self, pairs: &RawFields<'de>) -> Result<(), ApiError> {
        let small = self.is_surely_within_limits(pairs);
        for (name, raw) in pairs {
            parse::check_cancelled().map_err(|error| error.into_api_error(""))?;
            let counted = match WalkContext::for_field(name) {
                Some(place) if !small => self.field(place, raw),
                None if matches!(name.as_ref(), "instructions" | "prompt") => self.text(raw),
                _ => Ok(()),
            };
            counted.map_err(|error| error.into_api_error(&parse::truncate_for_display(name)))?;
        }
        Ok(())
    }

    /// Whether no limit can be exceeded, by a quick estimate: most requests are not walked.
    fn is_surely_within_limits(&self, pairs: &RawFields<'de>) -> bool {
        let limits = &self.limits;
        let lists = [
            limits.max_tools,
            limits.max_allowed_tools,
            limits.max_input_items,
            limits.max_content_parts,
            limits.max_item_references,
        ];
        let fewest = lists.into_iter().min().unwrap_or(0);
        let mut entries = 0;
        pairs.iter().filter(|(name, _)| WalkContext::for_field(name).is_some()).all(|(_, raw)| {
            let text = raw.get();
            entries += max_possible_entries(text);
            entries <= fewest
                && text.len() <= limits.max_schema_bytes
                && (text.len() / MIN_PATTERN_BYTES <= limits.max_schema_patterns || !may_have_patterns(text))
        })
    }

    fn field(&mut self, place: WalkContext, raw: &'de RawValue) -> Result<(), ParseError> {
        self.path.clear();
        let walk = Walk { counter: self, place };
        match serde_json::Deserializer::from_str(raw.get()).deserialize_any(walk) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.problem.take().unwrap_or_else(|| self.unreadable(&error))),
        }
    }
}

/// An upper bound of the number of list entries in a JSON text: each but the first of a list follows a comma.
fn max_possible_entries(text: &str) -> usize {
    if text.starts_with('"') {
        return 0;
    }
    let count = |byte| memchr::memchr_iter(byte, text.as_bytes()).count();
    count(b',') + count(b'[')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::request::body;

    /// Requests with the keys that the walk knows, in every place.
    fn request() -> impl Strategy<Value = String> {
        let key = prop::sample::select(vec![
            "input",
            "tools",
            "text",
            "type",
            "id",
            "content",
            "function",
            "parameters",
            "format",
            "schema",
            "pattern",
            "patternProperties",
            "",
            "a",
        ]);
        let leaf =
            prop_oneof![Just(json!(1)), Just(json!("")), Just(json!("item_reference")), Just(json!("b,["))];
        let value = leaf.prop_recursive(6, 60, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
                prop::collection::vec((key.clone(), inner), 0..6).prop_map(|fields| {
                    Value::Object(fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
                }),
            ]
        });
        let field = prop::sample::select(vec!["input", "tools", "allowed_tools", "text"]);
        prop::collection::hash_map(field, value, 1..4).prop_map(|fields| json!(fields).to_string())
    }

    proptest! {
        #[test]
        fn a_request_that_is_small_at_a_glance_is_within_its_limits(text in request(), most in 0_usize..12) {
            let limits = RequestSizeLimits {
                max_tools: most,
                max_allowed_tools: most,
                max_input_items: most,
                max_content_parts: most,
                max_item_references: most,
                max_schema_patterns: most,
                max_schema_bytes: most * 8,
                max_instructions_bytes: 0,
            };
            let pairs = body::split_fields(text.as_bytes()).unwrap();
            let mut counter = RequestSizeCounter::new(limits);
            prop_assume!(counter.is_surely_within_limits(&pairs));
            for (name, raw) in &pairs {
                let place = WalkContext::for_field(name).unwrap();
                prop_assert!(counter.field(place, raw).is_ok(), "{}", text);
            }
        }
    }
}
