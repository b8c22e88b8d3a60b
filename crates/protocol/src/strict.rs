//! Reads JSON as the API defines it, where serde's derived code is more lenient: an array is not an object (derived
//! structs accept their fields by position), a name is a string (derived enums also accept `{"auto": null}`), and a
//! number without a fraction is an integer however it is written (`100.0`).
//!
//! Wraps another deserializer and everything that is read through it, so that the rules hold at every depth. Enums
//! with a tag are declared by `tagged!`: serde's own buffer their content and read it by other rules.

use std::fmt;

use serde::Deserializer;
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor};

/// The wrapper of a deserializer.
pub(super) struct Strict<D>(pub D);

/// A visitor that is held to the rules.
struct Reader<V> {
    visitor: V,
    /// An integer is expected.
    whole: bool,
}

fn reader<V>(visitor: V) -> Reader<V> {
    Reader { visitor, whole: false }
}

macro_rules! as_it_is {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method(reader(visitor))
        }
    )*};
}

macro_rules! integers {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method(Reader { visitor, whole: true })
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Strict<D> {
    type Error = D::Error;

    as_it_is! {
        deserialize_any deserialize_bool deserialize_f32 deserialize_f64 deserialize_char deserialize_str
        deserialize_string deserialize_bytes deserialize_byte_buf deserialize_option deserialize_unit
        deserialize_seq deserialize_map deserialize_identifier deserialize_ignored_any
    }

    integers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(reader(visitor))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_str(Name(visitor))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_newtype_struct(name, reader(visitor))
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_unit_struct(name, reader(visitor))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_tuple(length, reader(visitor))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_tuple_struct(name, length, reader(visitor))
    }
}

macro_rules! values {
    ($($method:ident($type:ty))*) => {$(
        fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> {
            self.visitor.$method(value)
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Reader<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    values! {
        visit_bool(bool) visit_i64(i64) visit_u64(u64) visit_char(char) visit_str(&str)
        visit_borrowed_str(&'de str) visit_string(String) visit_bytes(&[u8]) visit_borrowed_bytes(&'de [u8])
        visit_byte_buf(Vec<u8>)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<V::Value, E> {
        match to_integer(number).filter(|_| self.whole) {
            Some(Ok(number)) => self.visitor.visit_u64(number),
            Some(Err(number)) => self.visitor.visit_i64(number),
            None => self.visitor.visit_f64(number),
        }
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.visitor.visit_some(Strict(inner))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.visitor.visit_newtype_struct(Strict(inner))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_seq(Strict(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_map(Strict(object))
    }
}

/// The integer that a number without a fraction equals, within 64 bits.
fn to_integer(number: f64) -> Option<Result<u64, i64>> {
    // 2^64 and -2^63, which an f64 represents exactly.
    const U64_END: f64 = 18_446_744_073_709_551_616.0;
    const I64_MIN: f64 = -9_223_372_036_854_775_808.0;
    if number.fract() != 0.0 || !(I64_MIN..U64_END).contains(&number) {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the number has no fraction and lies within the range"
    )]
    let integer = if number < 0.0 { Err(number as i64) } else { Ok(number as u64) };
    Some(integer)
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Strict<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(Strict(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Strict<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.0.next_key_seed(Strict(seed))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(Strict(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Strict<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Strict(inner))
    }
}

/// Reads the name of a variant.
struct Name<V>(V);

impl<'de, V: Visitor<'de>> Visitor<'de> for Name<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<V::Value, E> {
        let name: StrDeserializer<'_, E> = name.into_deserializer();
        self.0.visit_enum(name)
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use serde::Deserialize;

    use super::*;

    fn read<'a, T: Deserialize<'a> + Debug>(json: &'a str) -> Result<T, String> {
        let mut inner = serde_json::Deserializer::from_str(json);
        T::deserialize(Strict(&mut inner)).map_err(|error| error.to_string())
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Outer {
        inner: Option<Vec<Inner>>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Inner {
        n: i64,
        name: Option<Name>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Name {
        One,
    }

    #[test]
    fn an_array_is_no_object_at_any_depth() {
        let right = Outer { inner: Some(vec![Inner { n: 1, name: Some(Name::One) }]) };
        assert_eq!(read::<Outer>(r#"{"inner":[{"n":1,"name":"one"}]}"#).unwrap(), right);
        for wrong in [r#"[[]]"#, r#"{"inner":[[1,"one"]]}"#, r#"{"inner":[{"n":1,"name":{"one":null}}]}"#] {
            assert!(read::<Outer>(wrong).is_err(), "{wrong}");
            assert!(serde_json::from_str::<Outer>(wrong).is_ok(), "serde itself takes {wrong}");
        }
    }

    #[test]
    fn a_number_without_a_fraction_is_an_integer() {
        for (json, number) in [("100.0", 100), ("1e2", 100), ("-7.0", -7), ("-0.0", 0), ("7", 7)] {
            assert_eq!(read::<i64>(json).unwrap(), number, "{json}");
        }
        assert_eq!(read::<u8>("255.0").unwrap(), 255);
        assert_eq!(read::<Vec<u64>>("[1.0]").unwrap(), [1]);
        assert_eq!(read::<u64>("18446744073709549568.0").unwrap(), 18_446_744_073_709_549_568);
        for wrong in ["100.5", "1e300", "-9.3e18"] {
            assert!(read::<i64>(wrong).is_err(), "{wrong}");
        }
        assert!(read::<u8>("256.0").is_err());
        assert!(read::<u64>("-1.0").is_err());
        assert!((read::<f64>("100.0").unwrap() - 100.0).abs() < f64::EPSILON);
    }
}
