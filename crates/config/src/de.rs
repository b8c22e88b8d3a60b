//! A serde deserializer over the values of the `config` crate: exact types, and the path of what is wrong.
//!
//! Text of the environment, a flag, `${…}` or `file:` becomes what the key asks for (number, bool, list by commas); text
//! of the file does not, so `"007"` stays text and `max_runs: "7"` is refused. The crate's own deserializer converts
//! between all types and stops at the first error.

use std::iter::Enumerate;
use std::{fmt, slice, vec};

use config::{Value, ValueKind};
use serde::de::value::{SeqDeserializer, StrDeserializer};
use serde::de::{
    self, DeserializeSeed, Deserializer, Expected, IntoDeserializer, MapAccess, SeqAccess, Unexpected,
    Visitor,
};

use super::tree::{self, Origin, OriginKind};

/// What is wrong, and where below the value that was read.
#[derive(Debug)]
pub(super) struct Error {
    /// From the innermost key outwards.
    steps: Vec<String>,
    pub(super) message: String,
}

impl Error {
    fn new(message: impl Into<String>) -> Self {
        Self { steps: Vec::new(), message: message.into() }
    }

    fn under(mut self, step: impl Into<String>) -> Self {
        self.steps.push(step.into());
        self
    }

    /// The path from the outermost key inwards.
    pub(super) fn path(&self) -> Vec<String> {
        self.steps.iter().rev().cloned().collect()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl de::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(message.to_string())
    }

    /// Names the type that was found, not the value: it may be a secret in the wrong place.
    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let quotes = match found {
            Unexpected::Bool(_) | Unexpected::Unsigned(_) | Unexpected::Signed(_) | Unexpected::Float(_)
                if expected.to_string().contains("string") =>
            {
                " (put it in quotes)"
            }
            _ => "",
        };
        Self::new(format!(
            "expected {}, found {}{quotes}",
            describe_expected(expected),
            describe_found(found)
        ))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(format!("expected {}, found {found}", describe_expected(expected)))
    }

    fn unknown_field(field: &str, known: &'static [&'static str]) -> Self {
        let hint = super::elsewhere::hint(field, known);
        Self::new(format!("unknown key{}", hint.map_or_else(|| suggestion(field, known), str::to_owned)))
    }

    fn unknown_variant(variant: &str, known: &'static [&'static str]) -> Self {
        Self::new(format!("expected one of {}, found \"{variant}\"", known.join(", ")))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(format!("`{field}` is missing"))
    }
}

/// Types in words for operators.
fn describe_expected(expected: &dyn Expected) -> String {
    match expected.to_string() {
        name if ["u16", "u32", "u64", "usize"].contains(&name.as_str()) => "a whole number, 0 or more".into(),
        name if name == "f32" || name == "f64" => "a number".into(),
        name if name == "a string" || name.contains("string") => "text".into(),
        name if name == "a boolean" => "true or false".into(),
        name if name == "a sequence" => "a list".into(),
        name if name == "a map" || name.starts_with("struct ") => "a section of keys".into(),
        name => name,
    }
}

fn describe_found(found: Unexpected<'_>) -> &'static str {
    match found {
        Unexpected::Bool(_) => "true or false",
        Unexpected::Unsigned(_) | Unexpected::Signed(_) | Unexpected::Float(_) => "a number",
        Unexpected::Str(_) => "text",
        Unexpected::Seq => "a list",
        Unexpected::Map => "a section of keys",
        _ => "something else",
    }
}

/// The nearest known word; or all of them if none is near.
pub fn suggestion(word: &str, known: &[&str]) -> String {
    let near = known
        .iter()
        .map(|known| (strsim::damerau_levenshtein(&word.to_lowercase(), known), known))
        .filter(|(distance, known)| *distance <= 1.max(known.len() / 3))
        .min_by_key(|(distance, _)| *distance);
    match near {
        Some((_, known)) => format!("; did you mean `{known}`?"),
        None => format!("; known are {}", known.join(", ")),
    }
}

/// Reads a value into a type.
pub(super) fn from_value<'de, T: de::Deserialize<'de>>(value: &'de Value) -> Result<T, Error> {
    T::deserialize(ValueDeserializer(value))
}

struct ValueDeserializer<'de>(&'de Value);

impl<'de> ValueDeserializer<'de> {
    /// Text from where everything is text: the key decides which type it has.
    fn untyped(&self) -> Option<&'de str> {
        match &self.0.kind {
            ValueKind::String(text) if !is_typed(self.0) => Some(text),
            _ => None,
        }
    }

    /// Parses untyped text as `T`; anything else is visited as it is.
    fn parsed<T: std::str::FromStr, V: Visitor<'de>>(
        self,
        visitor: V,
        visit: impl FnOnce(V, T) -> Result<V::Value, Error>,
    ) -> Result<V::Value, Error> {
        match self.untyped().map(|text| text.trim().parse().map_err(|_| text)) {
            Some(Ok(value)) => visit(visitor, value),
            Some(Err(text)) => Err(de::Error::invalid_type(Unexpected::Str(text), &visitor)),
            None => self.deserialize_any(visitor),
        }
    }
}

/// Whether YAML gave the value its type.
fn is_typed(value: &Value) -> bool {
    Origin::of(value).is_some_and(|origin| origin.kind == OriginKind::File)
}

/// Numbers, for which untyped text is parsed.
macro_rules! parsed {
    ($($method:ident, $visit:ident, $type:ty;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            self.parsed(visitor, |visitor, value: $type| visitor.$visit(value))
        }
    )*};
}

impl<'de> Deserializer<'de> for ValueDeserializer<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.0.kind {
            ValueKind::Nil => visitor.visit_unit(),
            ValueKind::Boolean(value) => visitor.visit_bool(*value),
            ValueKind::I64(value) => visitor.visit_i64(*value),
            ValueKind::U64(value) => visitor.visit_u64(*value),
            ValueKind::I128(value) => visitor.visit_i128(*value),
            ValueKind::U128(value) => visitor.visit_u128(*value),
            ValueKind::Float(value) => visitor.visit_f64(*value),
            ValueKind::String(value) => visitor.visit_borrowed_str(value),
            ValueKind::Array(values) => visitor.visit_seq(Elements(values.iter().enumerate())),
            ValueKind::Table(table) => {
                visitor.visit_map(Entries { entries: tree::sorted(table).into_iter(), value: None })
            }
        }
    }

    parsed! {
        deserialize_u8, visit_u8, u8; deserialize_u16, visit_u16, u16; deserialize_u32, visit_u32, u32;
        deserialize_u64, visit_u64, u64; deserialize_i8, visit_i8, i8; deserialize_i16, visit_i16, i16;
        deserialize_i32, visit_i32, i32; deserialize_i64, visit_i64, i64;
        deserialize_f32, visit_f32, f32; deserialize_f64, visit_f64, f64;
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.untyped().map(|text| (text, text.trim())) {
            Some((_, "true" | "1")) => visitor.visit_bool(true),
            Some((_, "false" | "0")) => visitor.visit_bool(false),
            Some((text, _)) => Err(de::Error::invalid_type(Unexpected::Str(text), &visitor)),
            None => self.deserialize_any(visitor),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.untyped() {
            Some(text) => {
                let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
                visitor.visit_seq(SeqDeserializer::new(words))
            }
            None => self.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0.kind {
            ValueKind::Nil => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match &self.0.kind {
            ValueKind::String(word) => visitor.visit_enum(word.as_str().into_deserializer()),
            _ => Err(Error::new(format!("expected one of {}", known.join(", ")))),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    serde::forward_to_deserialize_any! {
        i128 u128 char str string bytes byte_buf unit unit_struct tuple tuple_struct map struct identifier ignored_any
    }
}

struct Entries<'de> {
    entries: vec::IntoIter<(&'de String, &'de Value)>,
    /// The value of the key that was read last.
    value: Option<(&'de str, &'de Value)>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((key, value)) = self.entries.find(|(_, value)| value.kind != ValueKind::Nil) else {
            return Ok(None);
        };
        self.value = Some((key, value));
        let reader: StrDeserializer<'_, Error> = key.as_str().into_deserializer();
        seed.deserialize(reader).map(Some).map_err(|error| error.under(key))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let Some((key, value)) = self.value.take() else { return Err(Error::new("a value without a key")) };
        seed.deserialize(ValueDeserializer(value)).map_err(|error| error.under(key))
    }
}

struct Elements<'de>(Enumerate<slice::Iter<'de, Value>>);

impl<'de> SeqAccess<'de> for Elements<'de> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        let Some((index, value)) = self.0.find(|(_, value)| value.kind != ValueKind::Nil) else {
            return Ok(None);
        };
        seed.deserialize(ValueDeserializer(value)).map(Some).map_err(|error| error.under(index.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::{Error, from_value, suggestion};
    use crate::tree::{Origin, OriginKind, Tree};

    #[derive(Debug, Deserialize, PartialEq, Default)]
    #[serde(default, deny_unknown_fields)]
    struct Sample {
        text: Option<String>,
        number: usize,
        flag: bool,
        ratio: f64,
        list: Vec<Kind>,
        map: BTreeMap<String, Sample>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "snake_case")]
    enum Kind {
        One,
        TwoWords,
    }

    fn from_file(yaml: &str) -> Result<Sample, Error> {
        let value = serde_norway::from_str(yaml).expect("YAML");
        let tree = Tree::from_yaml(value, &Origin::new(OriginKind::File, "test")).expect("a tree");
        from_value(tree.root())
    }

    fn from_environment(key: &str, text: &str) -> Result<Sample, Error> {
        let mut tree = Tree::default();
        tree.set(&[key], Origin::new(OriginKind::Environment, "TEST").leaf(text));
        from_value(tree.root())
    }

    #[test]
    fn the_file_is_taken_exactly() {
        let sample =
            from_file("text: '007'\nnumber: 7\nflag: true\nratio: 1\nlist: [one, two_words]").expect("read");
        assert_eq!(sample.text.as_deref(), Some("007"));
        assert_eq!((sample.number, sample.flag, sample.ratio), (7, true, 1.0));
        assert_eq!(sample.list, [Kind::One, Kind::TwoWords]);
        for (yaml, path, message) in [
            ("text: 7", "text", "expected text, found a number (put it in quotes)"),
            ("number: '7'", "number", "expected a whole number, 0 or more, found text"),
            ("number: -7", "number", "expected a whole number, 0 or more, found integer `-7`"),
            ("flag: 'true'", "flag", "expected true or false, found text"),
            ("list: one", "list", "expected a list, found text"),
            ("list: [one, three]", "list/1", "expected one of one, two_words, found \"three\""),
            ("map: {a: {map: {b: {numbr: 1}}}}", "map/a/map/b/numbr", "unknown key; did you mean `number`?"),
            ("map: {a: secret}", "map/a", "expected a section of keys, found text"),
        ] {
            let error = from_file(yaml).expect_err(yaml);
            assert_eq!((error.path().join("/").as_str(), error.message.as_str()), (path, message), "{yaml}");
        }
    }

    #[test]
    fn the_environment_says_everything_as_text() {
        assert_eq!(from_environment("text", "007").expect("read").text.as_deref(), Some("007"));
        assert_eq!(from_environment("number", "7").expect("read").number, 7);
        assert!(from_environment("flag", "true").expect("read").flag);
        assert!(from_environment("ratio", "0.5").expect("read").ratio < 0.6);
        assert_eq!(
            from_environment("list", "one, two_words").expect("read").list,
            [Kind::One, Kind::TwoWords]
        );
        assert!(from_environment("number", "seven").is_err());
        assert!(from_environment("flag", "perhaps").is_err());
    }

    #[test]
    fn what_was_meant_is_guessed_only_if_it_is_close() {
        assert_eq!(suggestion("keepaliv", &["keepalive", "commit_after"]), "; did you mean `keepalive`?");
        assert_eq!(
            suggestion("colour", &["keepalive", "commit_after"]),
            "; known are keepalive, commit_after"
        );
    }
}
