//! JSON that preserves numbers exactly as written: 123456789012345678901234567890 is not 1.2345678901234568e29, and a
//! call approved with the one must not be executed with the other.
//!
//! Used beside serde_json's [`Value`], which schemas are validated against and which rounds numbers that do not fit
//! into 64 bits.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Number, Value};

use antwort_protocol::schema::defaults::{FilledMember, PathStep};

/// Maximum nesting depth, the same as serde_json's.
const MAX_DEPTH: usize = 128;

/// A JSON value.
#[derive(Debug)]
pub enum Verbatim<'t> {
    /// A number as written.
    Number(&'t str),
    /// A string with its quotes and escapes, `true`, `false` or `null`, as written.
    Plain(&'t str),
    /// An array.
    List(Vec<Verbatim<'t>>),
    /// An object. A duplicate key keeps its first position and its last value, as in serde_json.
    Object(Vec<Member<'t>>),
}

/// A member of an object.
#[derive(Debug)]
pub struct Member<'t> {
    /// Key, unescaped.
    key: Cow<'t, str>,
    /// Value of the key.
    value: Verbatim<'t>,
}

/// How a value is written.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// In the order of its keys.
    Sent,
    /// Sorted, with normalized strings.
    Canonical,
    /// The same, with numbers as doubles.
    Doubles,
}

impl<'t> Verbatim<'t> {
    /// Parses a text; `None` if it is not JSON or nests too deeply.
    pub fn parse(text: &'t str) -> Option<Self> {
        // The text is valid JSON from here on: the reader only has to split it.
        serde_json::from_str::<IgnoredAny>(text).ok()?;
        Reader { text, at: 0 }.value(MAX_DEPTH)
    }

    /// Whether [`Value`] would change any of the numbers.
    pub(crate) fn is_rounded_by_value(&self) -> bool {
        match self {
            Self::Number(digits) => exact_number(digits).is_none(),
            Self::Plain(_) => false,
            Self::List(values) => values.iter().any(Self::is_rounded_by_value),
            Self::Object(members) => members.iter().any(|member| member.value.is_rounded_by_value()),
        }
    }

    /// As a [`Value`], with each number that it would round replaced by a string of its digits.
    pub fn to_value_with_digits(&self) -> Value {
        match self {
            Self::Number(digits) => exact_number(digits).map_or_else(|| Value::from(*digits), Value::Number),
            Self::Plain(text) => serde_json::from_str(text).unwrap_or_else(|_| Value::from(*text)),
            Self::List(values) => values.iter().map(Self::to_value_with_digits).collect(),
            Self::Object(members) => Value::Object(
                members
                    .iter()
                    .map(|Member { key, value }| (key.to_string(), value.to_value_with_digits()))
                    .collect(),
            ),
        }
    }

    fn part<'a>(&'a mut self, step: &PathStep) -> Option<&'a mut Self> {
        match (self, step) {
            (Self::Object(members), PathStep::Key(key)) => {
                members.iter_mut().find(|member| member.key == *key).map(|member| &mut member.value)
            }
            (Self::List(elements), PathStep::Index(index)) => elements.get_mut(*index),
            _ => None,
        }
    }

    /// As compact JSON, keys in their original order.
    pub(crate) fn to_text(&self) -> String {
        let mut out = Vec::new();
        self.write(Form::Sent, &mut out);
        // Concatenated from `str`s, hence always UTF-8.
        String::from_utf8(out).unwrap_or_default()
    }

    /// As compact JSON with sorted keys and normalized strings: equal values give equal bytes.
    pub(crate) fn to_canonical(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(Form::Canonical, &mut out);
        out
    }

    /// The same with each number as the double that it is: 1, 1.0 and 1e0 are one, as in a client that has read and
    /// written it.
    pub(crate) fn to_canonical_doubles(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(Form::Doubles, &mut out);
        out
    }

    fn write(&self, form: Form, out: &mut Vec<u8>) {
        match self {
            Self::Plain(text) if form != Form::Sent && text.contains('\\') => {
                match serde_json::from_str::<String>(text) {
                    Ok(text) => write_string(&text, out),
                    // A lone surrogate, which cannot be unescaped, is kept as written.
                    Err(_) => out.extend_from_slice(text.as_bytes()),
                }
            }
            Self::Number(digits) if form == Form::Doubles => write_double(digits, out),
            Self::Number(text) | Self::Plain(text) => out.extend_from_slice(text.as_bytes()),
            Self::List(values) => {
                out.push(b'[');
                for (i, value) in values.iter().enumerate() {
                    separate(i, out);
                    value.write(form, out);
                }
                out.push(b']');
            }
            Self::Object(members) => {
                out.push(b'{');
                let mut members: Vec<_> = members.iter().collect();
                if form != Form::Sent {
                    members.sort_unstable_by(|a, b| a.key.cmp(&b.key));
                }
                for (i, member) in members.into_iter().enumerate() {
                    separate(i, out);
                    write_string(&member.key, out);
                    out.push(b':');
                    member.value.write(form, out);
                }
                out.push(b'}');
            }
        }
    }
}

/// The shortest digits of the double; those that are beyond it stay as they are written.
fn write_double(digits: &str, out: &mut Vec<u8>) {
    match digits.parse::<f64>().ok().filter(|number| number.is_finite()) {
        // Of the two zeros the positive one.
        Some(number) => out.extend_from_slice(format!("{:?}", number + 0.0).as_bytes()),
        None => out.extend_from_slice(digits.as_bytes()),
    }
}

/// The number, if it round-trips unchanged.
fn exact_number(digits: &str) -> Option<Number> {
    serde_json::from_str::<Number>(digits).ok().filter(|number| number.to_string() == digits)
}

/// The compact text, if it has numbers that a [`Value`] would round.
pub fn exact_text(text: &str) -> Option<Box<RawValue>> {
    if !may_be_rounded(text) {
        return None;
    }
    let exact = Verbatim::parse(text).filter(Verbatim::is_rounded_by_value)?;
    RawValue::from_string(exact.to_text()).ok()
}

/// The compact text with these members added, each number as it was written; `None` if it is not JSON.
pub(crate) fn with_members(text: &str, added: &[FilledMember]) -> Option<String> {
    let text = if text.trim_ascii().is_empty() { "{}" } else { text };
    let mut json = Verbatim::parse(text)?;
    for FilledMember { path, key, text } in added {
        let Some(Verbatim::Object(members)) = path.iter().try_fold(&mut json, Verbatim::part) else {
            continue;
        };
        members.push(Member { key: Cow::Borrowed(key), value: Verbatim::parse(text)? });
    }
    Some(json.to_text())
}

/// Cheap check that avoids parsing: false only if all numbers are short integers, as in most arguments.
fn may_be_rounded(text: &str) -> bool {
    let mut digits = 0;
    text.contains("-0")
        || text.bytes().any(|byte| match byte {
            b'0'..=b'9' => {
                digits += 1;
                digits > 15
            }
            b'.' | b'e' | b'E' => digits > 0,
            _ => {
                digits = 0;
                false
            }
        })
}

fn separate(index: usize, out: &mut Vec<u8>) {
    if index > 0 {
        out.push(b',');
    }
}

fn write_string(text: &str, out: &mut Vec<u8>) {
    // Writing a string to memory cannot fail.
    _ = serde_json::to_writer(out, text);
}

/// Splits a text that is known to be valid JSON.
struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    fn value(&mut self, depth: usize) -> Option<Verbatim<'t>> {
        match self.peek()? {
            b'{' => self.object(depth.checked_sub(1)?),
            b'[' => self.list(depth.checked_sub(1)?),
            b'"' => Some(Verbatim::Plain(self.string()?)),
            b'-' | b'0'..=b'9' => Some(Verbatim::Number(self.word()?)),
            _ => Some(Verbatim::Plain(self.word()?)),
        }
    }

    fn list(&mut self, depth: usize) -> Option<Verbatim<'t>> {
        let mut values = Vec::new();
        self.at += 1;
        while self.peek()? != b']' {
            self.skip(b',');
            values.push(self.value(depth)?);
        }
        self.at += 1;
        Some(Verbatim::List(values))
    }

    fn object(&mut self, depth: usize) -> Option<Verbatim<'t>> {
        let mut members: Vec<Member<'t>> = Vec::new();
        let mut positions: HashMap<Cow<'t, str>, usize> = HashMap::new();
        self.at += 1;
        while self.peek()? != b'}' {
            self.skip(b',');
            self.peek()?;
            let quoted = self.string()?;
            // Borrow keys without escapes, which is nearly all.
            let key: Cow<'t, str> = match quoted.get(1..quoted.len() - 1) {
                Some(plain) if !plain.contains('\\') => Cow::Borrowed(plain),
                _ => Cow::Owned(serde_json::from_str(quoted).ok()?),
            };
            self.peek()?;
            self.skip(b':');
            let value = self.value(depth)?;
            let index = *positions.entry(key.clone()).or_insert(members.len());
            match members.get_mut(index) {
                Some(member) => member.value = value,
                None => members.push(Member { key, value }),
            }
        }
        self.at += 1;
        Some(Verbatim::Object(members))
    }

    /// Skips whitespace and returns the next byte.
    fn peek(&mut self) -> Option<u8> {
        let rest = self.text.as_bytes().get(self.at..)?;
        self.at += rest.iter().position(|byte| !byte.is_ascii_whitespace())?;
        self.text.as_bytes().get(self.at).copied()
    }

    /// Consumes `sign` if it is the next byte.
    fn skip(&mut self, sign: u8) {
        if self.text.as_bytes().get(self.at) == Some(&sign) {
            self.at += 1;
        }
    }

    fn string(&mut self) -> Option<&'t str> {
        let rest = self.text.as_bytes().get(self.at + 1..)?;
        let mut escaped = false;
        let length = rest.iter().position(|byte| match byte {
            _ if escaped => {
                escaped = false;
                false
            }
            b'\\' => {
                escaped = true;
                false
            }
            byte => *byte == b'"',
        })?;
        self.take(length + 2)
    }

    /// A number, `true`, `false` or `null`.
    fn word(&mut self) -> Option<&'t str> {
        let rest = self.text.as_bytes().get(self.at..)?;
        let ends = |byte: &u8| matches!(byte, b',' | b']' | b'}') || byte.is_ascii_whitespace();
        self.take(rest.iter().position(ends).unwrap_or(rest.len()))
    }

    fn take(&mut self, length: usize) -> Option<&'t str> {
        let taken = self.text.get(self.at..self.at + length)?;
        self.at += length;
        Some(taken)
    }
}

/// Any JSON value; object keys match the pattern `keys`.
#[cfg(test)]
pub(crate) fn any_json(
    keys: &'static str,
) -> impl proptest::strategy::Strategy<Value = serde_json::Value> + Clone {
    use proptest::prelude::*;

    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<i32>().prop_map(|halves| Value::from(f64::from(halves) / 2.0)),
        ".{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((keys, inner), 0..4)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn members_are_added_and_all_else_stays_as_it_was_written() {
        let member = |path: &[PathStep], key: &str, text: &str| FilledMember {
            path: path.to_vec(),
            key: key.to_owned(),
            text: text.to_owned(),
        };
        let (list, first) = (PathStep::Key("l".into()), PathStep::Index(0));
        let added = [
            member(&[], "o", "{}"),
            member(&[PathStep::Key("o".into())], "k", "[1]"),
            member(&[list, first], "n", "2"),
        ];
        assert_eq!(
            with_members(r#"{"l": [{"m": 1.00}], "a": 12345678901234567890123}"#, &added).unwrap(),
            r#"{"l":[{"m":1.00,"n":2}],"a":12345678901234567890123,"o":{"k":[1]}}"#
        );
        assert_eq!(with_members(" ", &added[..1]).unwrap(), r#"{"o":{}}"#);
    }

    #[test]
    fn numbers_stay_as_they_were_written() {
        let text =
            r#"{ "b": 123456789012345678901234567890, "a": [1, 1.0, 1e0, -0, 0.10, 1E+400], "c": "\u0041" }"#;
        let json = Verbatim::parse(text).unwrap();
        assert!(json.is_rounded_by_value());
        assert_eq!(
            json.to_text(),
            r#"{"b":123456789012345678901234567890,"a":[1,1.0,1e0,-0,0.10,1E+400],"c":"\u0041"}"#
        );
        assert_eq!(
            json.to_canonical(),
            br#"{"a":[1,1.0,1e0,-0,0.10,1E+400],"b":123456789012345678901234567890,"c":"A"}"#
        );
    }

    #[test]
    fn a_number_that_a_value_would_round_is_a_text_in_it() {
        let text = r#"{"a":{"b":[123456789012345678901234567890,7]},"c":1e0,"d":"\u0041"}"#;
        let value = Verbatim::parse(text).unwrap().to_value_with_digits();
        let digits = "123456789012345678901234567890";
        assert_eq!(value, serde_json::json!({"a": {"b": [digits, 7]}, "c": "1e0", "d": "A"}));
    }

    #[test]
    fn what_a_value_keeps_need_not_be_carried() {
        for text in [
            r#"{"a":18446744073709551615,"b":-9223372036854775808,"c":0.5,"d":"1e999"}"#,
            "[]",
            "7",
            "null",
            "no json 1e5",
            "",
        ] {
            assert!(exact_text(text).is_none(), "{text}");
        }
        for text in [r#"{"a":18446744073709551616}"#, "[1e5]", "[0.1000]", "[-0.0e1]"] {
            assert_eq!(exact_text(text).unwrap().get(), text);
        }
        assert_eq!(exact_text("{\n \"a\" : [ 1.50 ]\r\n}").unwrap().get(), r#"{"a":[1.50]}"#, "in one line");
    }

    #[test]
    fn of_a_key_that_is_said_twice_the_last_value_counts_as_everywhere() {
        let text = r#"{"a":1e2,"b":2,"\u0061":3e4}"#;
        let value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(value["a"], 3e4);
        assert_eq!(exact_text(text).unwrap().get(), r#"{"a":3e4,"b":2}"#);
    }

    #[test]
    fn what_nests_too_deeply_is_not_read() {
        let nested = |depth: usize| format!("{}1e5{}", "[".repeat(depth), "]".repeat(depth));
        assert!(Verbatim::parse(&nested(MAX_DEPTH - 1)).is_some());
        assert!(Verbatim::parse(&nested(MAX_DEPTH + 1)).is_none());
        assert!(Verbatim::parse(&nested(100_000)).is_none());
    }

    fn value_of(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    proptest! {
        #[test]
        fn any_json_is_read_as_serde_json_reads_it(value in any_json(".{0,3}"), pretty in any::<bool>()) {
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
            let text = text.unwrap();
            let json = Verbatim::parse(&text).unwrap();
            prop_assert_eq!(&value_of(&json.to_text()), &value);
            prop_assert_eq!(serde_json::from_slice::<Value>(&json.to_canonical()).unwrap(), value);
            prop_assert!(!json.is_rounded_by_value());
            prop_assert_eq!(json.to_value_with_digits(), value_of(&text));
        }

        #[test]
        fn what_is_passed_over_at_a_glance_is_kept_by_a_value(number in "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,3})?([eE][+-]?[0-9]{1,2})?") {
            let text = format!(r#"{{"a":[{number}]}}"#);
            if !may_be_rounded(&text) {
                let value: Value = serde_json::from_str(&text).unwrap();
                prop_assert_eq!(value.to_string(), text);
            }
        }

        #[test]
        fn no_text_is_too_odd(text in "[\\[\\]{}:,\"\\\\0-9eE.+ a-f-]{0,24}") {
            if let Some(json) = Verbatim::parse(&text) {
                let canonical = json.to_canonical();
                let again = std::str::from_utf8(&canonical).ok().and_then(Verbatim::parse).unwrap();
                prop_assert_eq!(again.to_canonical(), canonical);
            }
        }
    }
}
