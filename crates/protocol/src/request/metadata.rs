//! `metadata`: key-value pairs of the client.

use std::fmt;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::scalar::check_length;
use crate::parse::{self, FromJson, ParseError, truncate_for_display};

const MAX_PAIRS: usize = 16;
const MAX_KEY_CHARS: usize = 64;
const MAX_VALUE_CHARS: usize = 512;

/// Up to 16 pairs, in the order they came.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Metadata(pub Vec<(String, String)>);

impl FromJson for Metadata {
    fn from_json(raw: &RawValue) -> Result<Self, ParseError> {
        let Counted { metadata, pairs } = parse::read(raw)?;
        if pairs > MAX_PAIRS {
            let problem = format!("at most {MAX_PAIRS} pairs are allowed, got {pairs}.");
            return Err(ParseError::invalid("", problem).with_code("object_above_max_properties"));
        }
        for (i, (key, value)) in metadata.0.iter().enumerate() {
            if metadata.0.iter().take(i).any(|(earlier, _)| earlier == key) {
                return Err(ParseError::invalid(truncate_for_display(key), "the key is given twice."));
            }
            check_length("", key, MAX_KEY_CHARS).map_err(|e| e.within(&truncate_for_display(key)))?;
            check_length("", value, MAX_VALUE_CHARS).map_err(|e| e.within(key))?;
        }
        Ok(metadata)
    }
}

impl Serialize for Metadata {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Counted::deserialize(deserializer)?.metadata)
    }
}

/// The first pairs of an object, and how many it has.
struct Counted {
    metadata: Metadata,
    pairs: usize,
}

impl<'de> Deserialize<'de> for Counted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Counted;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Counted, A::Error> {
                let mut kept = Vec::new();
                while kept.len() < MAX_PAIRS
                    && let Some(pair) = map.next_entry()?
                {
                    kept.push(pair);
                }
                let mut pairs = kept.len();
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
                    pairs += 1;
                }
                Ok(Counted { metadata: Metadata(kept), pairs })
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}
