//! serde's view of the tree: exact about types, with the path of what is wrong.
//!
//! Text from the environment or `${…}` becomes what the key asks for (number, bool, list by commas); text
//! from the file does not, so `"007"` stays text and `max_runs: "7"` is refused.

use std::fmt;

use serde::de::value::StringDeserializer;
use serde::de::{
    self, DeserializeSeed, Deserializer, Expected, IntoDeserializer, MapAccess, SeqAccess, Unexpected,
    Visitor,
};

use super::tree::{Node, Scalar};

/// What is wrong, and where below the node that was read.
#[derive(Debug)]
pub(super) struct Error {
    /// From the innermost key outwards.
    steps: Vec<String>,
    /// What is wrong there.
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

    /// Says what kind of thing was found and not the thing: it may be a secret in the wrong place.
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
        Self::new(format!("unknown key{}", suggestion(field, known)))
    }

    fn unknown_variant(variant: &str, known: &'static [&'static str]) -> Self {
        Self::new(format!("expected one of {}, found \"{variant}\"", known.join(", ")))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(format!("`{field}` is missing"))
    }
}

/// serde's names of types in words for people.
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

/// What was probably meant; or, where nothing is close, what there is.
pub(super) fn suggestion(word: &str, known: &[&str]) -> String {
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

/// Reads a node into a type.
pub(super) fn from_node<'de, T: de::Deserialize<'de>>(node: &'de Node) -> Result<T, Error> {
    T::deserialize(NodeDeserializer(node))
}

struct NodeDeserializer<'de>(&'de Node);

impl<'de> NodeDeserializer<'de> {
    /// Reads text from the environment as `T`; anything else goes its usual way.
    fn parsed<T: std::str::FromStr, V: Visitor<'de>>(
        self,
        visitor: V,
        visit: impl FnOnce(V, T) -> Result<V::Value, Error>,
    ) -> Result<V::Value, Error> {
        match self.0 {
            Node::Leaf { value: Scalar::Untyped(text), .. } => match text.trim().parse() {
                Ok(value) => visit(visitor, value),
                Err(_) => Err(de::Error::invalid_type(Unexpected::Str(text), &visitor)),
            },
            _ => self.deserialize_any(visitor),
        }
    }
}

/// Numbers, for which text from the environment is parsed.
macro_rules! parsed {
    ($($method:ident, $visit:ident, $type:ty;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            self.parsed(visitor, |visitor, value: $type| visitor.$visit(value))
        }
    )*};
}

impl<'de> Deserializer<'de> for NodeDeserializer<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Node::Leaf { value, .. } => match value {
                Scalar::Bool(value) => visitor.visit_bool(*value),
                Scalar::Unsigned(value) => visitor.visit_u64(*value),
                Scalar::Signed(value) => visitor.visit_i64(*value),
                Scalar::Float(value) => visitor.visit_f64(*value),
                Scalar::Text(value) | Scalar::Untyped(value) => visitor.visit_borrowed_str(value),
            },
            Node::List(nodes) => visitor.visit_seq(Elements { nodes: nodes.iter().enumerate() }),
            Node::Map(nodes) => visitor.visit_map(Entries { nodes: nodes.iter(), next: None }),
            Node::Absent => visitor.visit_unit(),
        }
    }

    parsed! {
        deserialize_u8, visit_u8, u8; deserialize_u16, visit_u16, u16; deserialize_u32, visit_u32, u32;
        deserialize_u64, visit_u64, u64; deserialize_i8, visit_i8, i8; deserialize_i16, visit_i16, i16;
        deserialize_i32, visit_i32, i32; deserialize_i64, visit_i64, i64;
        deserialize_f32, visit_f32, f32; deserialize_f64, visit_f64, f64;
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Node::Leaf { value: Scalar::Untyped(text), .. } => match text.trim() {
                "true" | "1" => visitor.visit_bool(true),
                "false" | "0" => visitor.visit_bool(false),
                _ => Err(de::Error::invalid_type(Unexpected::Str(text), &visitor)),
            },
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Node::Leaf { value: Scalar::Untyped(text), origin } => {
                let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
                let nodes: Vec<_> = words.map(|word| Node::untyped(word, origin.clone())).collect();
                // The nodes live here only, so what is read from them is owned.
                visitor.visit_seq(Words { words: nodes.into_iter() })
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Node::Absent => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.0 {
            Node::Leaf { value: Scalar::Text(word) | Scalar::Untyped(word), .. } => {
                visitor.visit_enum(word.as_str().into_deserializer())
            }
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
    nodes: std::collections::btree_map::Iter<'de, String, Node>,
    next: Option<(&'de str, &'de Node)>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((key, node)) = self.nodes.find(|(_, node)| !matches!(node, Node::Absent)) else {
            return Ok(None);
        };
        self.next = Some((key, node));
        let reader: StringDeserializer<Error> = key.clone().into_deserializer();
        seed.deserialize(reader).map(Some).map_err(|error| error.under(key))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let Some((key, node)) = self.next.take() else { return Err(Error::new("a value without a key")) };
        seed.deserialize(NodeDeserializer(node)).map_err(|error| error.under(key))
    }
}

struct Elements<'de> {
    nodes: std::iter::Enumerate<std::slice::Iter<'de, Node>>,
}

impl<'de> SeqAccess<'de> for Elements<'de> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        let Some((index, node)) = self.nodes.find(|(_, node)| !matches!(node, Node::Absent)) else {
            return Ok(None);
        };
        seed.deserialize(NodeDeserializer(node)).map(Some).map_err(|error| error.under(index.to_string()))
    }
}

/// The words of a list from the environment.
struct Words<I> {
    words: I,
}

impl<'de, I: Iterator<Item = Node>> SeqAccess<'de> for Words<I> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        let Some(Node::Leaf { value: Scalar::Untyped(word), .. }) = self.words.next() else {
            return Ok(None);
        };
        seed.deserialize(StringDeserializer::new(word)).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::{Error, from_node, suggestion};
    use crate::config::tree::{Node, Origin};

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
        from_node(&Node::from_yaml(value, &Origin::Flag("test")).expect("a tree").expect("something"))
    }

    fn from_environment(key: &str, text: &str) -> Result<Sample, Error> {
        from_node(&Node::at(&[key.to_owned()], Node::untyped(text, Origin::Flag("test"))))
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
