//! JSON whose numbers stay as they were written: 123456789012345678901234567890 is not 1.2345678901234568e29, and what a
//! person has allowed with the one is not to be done with the other.
//!
//! Read beside serde_json's [`Value`], which schemas are checked on, and which rounds what does not
//! fit into 64 bits.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Number, Value};

/// How deeply values may nest: as serde_json has it.
const MAX_DEPTH: usize = 128;

/// A JSON value.
#[derive(Debug)]
pub(super) enum Verbatim<'t> {
    /// A number, as it was written.
    Number(&'t str),
    /// A string with its quotes and escapes, `true`, `false` or `null`, as it was written.
    Plain(&'t str),
    /// A list.
    List(Vec<Verbatim<'t>>),
    /// An object: each key once, where it came first, with the value that it had last.
    Object(Vec<Member<'t>>),
}

/// A member of an object.
#[derive(Debug)]
pub(super) struct Member<'t> {
    /// Its key.
    key: Cow<'t, str>,
    /// Its value.
    value: Verbatim<'t>,
}

impl<'t> Verbatim<'t> {
    /// Reads a text; `None` if it is no JSON, or nests too deeply.
    pub(super) fn parse(text: &'t str) -> Option<Self> {
        // From here on the text is known to be JSON, and only has to be taken apart.
        serde_json::from_str::<IgnoredAny>(text).ok()?;
        Reader { text, at: 0 }.value(MAX_DEPTH)
    }

    /// Whether the text differs from what [`Value`] would make of it in any number.
    pub(super) fn is_rounded_by_value(&self) -> bool {
        match self {
            Self::Number(digits) => exact_number(digits).is_none(),
            Self::Plain(_) => false,
            Self::List(values) => values.iter().any(Self::is_rounded_by_value),
            Self::Object(members) => members.iter().any(|member| member.value.is_rounded_by_value()),
        }
    }

    /// The same with each number that [`Value`] would round as a string of its digits.
    pub(super) fn to_value_with_digits(&self) -> Value {
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

    /// Without spaces, in its own order.
    pub(super) fn to_text(&self) -> String {
        let mut out = Vec::new();
        self.write(false, &mut out);
        // It was made of texts.
        String::from_utf8(out).unwrap_or_default()
    }

    /// Without spaces, keys in order and strings in one form: the same bytes for the same value.
    pub(super) fn to_canonical(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(true, &mut out);
        out
    }

    fn write(&self, canonical: bool, out: &mut Vec<u8>) {
        match self {
            Self::Plain(text) if canonical && text.contains('\\') => {
                match serde_json::from_str::<String>(text) {
                    Ok(text) => write_string(&text, out),
                    // Half of a character, which no reader takes: it stands for itself.
                    Err(_) => out.extend_from_slice(text.as_bytes()),
                }
            }
            Self::Number(text) | Self::Plain(text) => out.extend_from_slice(text.as_bytes()),
            Self::List(values) => {
                out.push(b'[');
                for (i, value) in values.iter().enumerate() {
                    separate(i, out);
                    value.write(canonical, out);
                }
                out.push(b']');
            }
            Self::Object(members) => {
                out.push(b'{');
                let mut members: Vec<_> = members.iter().collect();
                if canonical {
                    members.sort_unstable_by(|a, b| a.key.cmp(&b.key));
                }
                for (i, member) in members.into_iter().enumerate() {
                    separate(i, out);
                    write_string(&member.key, out);
                    out.push(b':');
                    member.value.write(canonical, out);
                }
                out.push(b'}');
            }
        }
    }
}

/// The number, if it is written as it was.
fn exact_number(digits: &str) -> Option<Number> {
    serde_json::from_str::<Number>(digits).ok().filter(|number| number.to_string() == digits)
}

/// The text in one line, if it has numbers that a [`Value`] would round.
pub(super) fn exact_text(text: &str) -> Option<Box<RawValue>> {
    if !may_be_rounded(text) {
        return None;
    }
    let exact = Verbatim::parse(text).filter(Verbatim::is_rounded_by_value)?;
    RawValue::from_string(exact.to_text()).ok()
}

/// Whether there is anything but small integers, which most arguments have at most, as far as a glance tells.
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

fn separate(place: usize, out: &mut Vec<u8>) {
    if place > 0 {
        out.push(b',');
    }
}

fn write_string(text: &str, out: &mut Vec<u8>) {
    // Writing a string to memory cannot fail.
    _ = serde_json::to_writer(out, text);
}

/// Takes a text apart that is known to be JSON.
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
        let mut places: HashMap<Cow<'t, str>, usize> = HashMap::new();
        self.at += 1;
        while self.peek()? != b'}' {
            self.skip(b',');
            self.peek()?;
            let written = self.string()?;
            // Most keys have no escapes.
            let key: Cow<'t, str> = match written.get(1..written.len() - 1) {
                Some(plain) if !plain.contains('\\') => Cow::Borrowed(plain),
                _ => Cow::Owned(serde_json::from_str(written).ok()?),
            };
            self.peek()?;
            self.skip(b':');
            let value = self.value(depth)?;
            let place = *places.entry(key.clone()).or_insert(members.len());
            match members.get_mut(place) {
                Some(member) => member.value = value,
                None => members.push(Member { key, value }),
            }
        }
        self.at += 1;
        Some(Verbatim::Object(members))
    }

    /// The next byte that is no space.
    fn peek(&mut self) -> Option<u8> {
        let rest = self.text.as_bytes().get(self.at..)?;
        self.at += rest.iter().position(|byte| !byte.is_ascii_whitespace())?;
        self.text.as_bytes().get(self.at).copied()
    }

    /// Passes over a sign and the spaces behind it, if it is there.
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

    /// A number, or a word such as `true`.
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

/// Any JSON, with such keys.
#[cfg(test)]
pub(super) fn any_json(
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
