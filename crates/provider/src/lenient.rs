//! Lenient deserialization of providers' JSON: a value of an unexpected type is taken as absent instead of an error, and
//! strings without escapes are borrowed from the chunk.
//!
//! serde's own `Option<Cow<str>>` always copies, which is too expensive on the path of every token.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

/// A string; empty if null, absent, or of another type. Numbers become their digits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LenientText<'a>(pub Cow<'a, str>);

impl LenientText<'_> {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text, unless it is empty.
    pub(super) fn some(&self) -> Option<&str> {
        Some(self.as_str()).filter(|text| !text.is_empty())
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = LenientText<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<LenientText<'de>, E> {
        Ok(LenientText(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<LenientText<'de>, E> {
        Ok(LenientText(Cow::Owned(text.to_owned())))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<LenientText<'de>, E> {
        Ok(LenientText(Cow::Owned(text)))
    }

    fn visit_unit<E: Error>(self) -> Result<LenientText<'de>, E> {
        Ok(LenientText::default())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<LenientText<'de>, E> {
        Ok(LenientText::default())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<LenientText<'de>, E> {
        self.visit_string(number.to_string())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<LenientText<'de>, E> {
        self.visit_string(number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<LenientText<'de>, E> {
        self.visit_string(number.to_string())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<LenientText<'de>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(LenientText::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<LenientText<'de>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(LenientText::default())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for LenientText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

/// An integer, also from a string or a float; `None` for anything else.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct LenientNumber(pub Option<i64>);

impl LenientNumber {
    /// As a count: 0 if absent or negative.
    pub(super) fn count(self) -> u64 {
        self.0.and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
    }
}

impl<'de> Deserialize<'de> for LenientNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = LenientText::deserialize(deserializer)?;
        let whole = text.as_str().split('.').next().unwrap_or_default();
        Ok(Self(whole.parse().ok()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anything_reads_as_text_and_plain_strings_are_borrowed() {
        let rows = [
            (r#""a""#, "a"),
            (r#""\n""#, "\n"),
            ("null", ""),
            ("429", "429"),
            ("[1]", ""),
            (r#"{"a":1}"#, ""),
        ];
        for (json, expected) in rows {
            assert_eq!(serde_json::from_str::<LenientText<'_>>(json).unwrap().as_str(), expected, "{json}");
        }
        assert!(matches!(serde_json::from_str::<LenientText<'_>>(r#""a""#).unwrap().0, Cow::Borrowed(_)));
    }

    #[test]
    fn numbers_come_in_many_forms() {
        for (json, expected) in
            [("7", Some(7)), ("7.0", Some(7)), (r#""7""#, Some(7)), ("null", None), (r#""x""#, None)]
        {
            assert_eq!(serde_json::from_str::<LenientNumber>(json).unwrap().0, expected, "{json}");
        }
    }
}
