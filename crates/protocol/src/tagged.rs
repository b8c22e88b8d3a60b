//! Enums with the tag `type`, declared once for reading and writing.
//!
//! They are read from raw JSON: serde's own tagged enums buffer their content, accept arrays for objects, and lose
//! the path of a mistake.

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, EnumAccess, Error, IntoDeserializer, VariantAccess, Visitor,
};
use serde::{Deserializer, forward_to_deserialize_any};
use serde_json::value::RawValue;

use super::json;
use super::parse::{self, ParseError};
use super::strict::Strict;

/// Declares an enum whose variants are objects with a `type`, the variant's name in snake case.
///
/// Attributes of fields apply to reading and writing.
macro_rules! tagged {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $(
                $(#[$of_variant:meta])*
                $variant:ident $({ $( $(#[$of_field:meta])* $field:ident: $type:ty ),* $(,)? })?
            ),* $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(serde::Serialize)]
        #[serde(tag = "type", rename_all = "snake_case")]
        pub enum $name {
            $( $(#[$of_variant])* $variant $({ $( $(#[$of_field])* $field: $type ),* })? ),*
        }

        impl $crate::parse::FromJson for $name {
            fn from_json(
                raw: &serde_json::value::RawValue,
            ) -> Result<Self, $crate::parse::ParseError> {
                #[derive(serde::Deserialize)]
                #[serde(rename_all = "snake_case")]
                #[allow(clippy::enum_variant_names, reason = "the names are the API's own")]
                enum Read {
                    $( $variant $({ $( $(#[$of_field])* $field: $type ),* })? ),*
                }
                Ok(match $crate::tagged::read(raw)? {
                    $( Read::$variant $({ $($field),* })? => Self::$variant $({ $($field),* })? ),*
                })
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::parse::deserialize_from_json(deserializer)
            }
        }
    };
}
pub(super) use tagged;

/// Reads an enum of such objects; `T` has the names of the variants as they appear in `type`.
pub(super) fn read<T: DeserializeOwned>(raw: &RawValue) -> Result<T, ParseError> {
    let kind = parse::peek_discriminator(raw)?.kind.ok_or_else(|| ParseError::missing("type"))?;
    // Such objects may contain others of their kind, each of which is parsed anew.
    if json::nests_too_deeply(raw.get()) {
        return Err(json::too_deep());
    }
    let tagged = || Tagged { kind: &kind, raw };
    T::deserialize(tagged()).map_err(|error| {
        let (path, text) = match serde_path_to_error::deserialize::<_, T>(tagged()) {
            Err(error) => (error.path().to_string(), error.inner().to_string()),
            Ok(_) => (String::new(), error.to_string()),
        };
        if text.starts_with("unknown variant ") && !path.contains('.') {
            return ParseError::invalid("type", format!("{}.", parse::truncate_for_display(&text)));
        }
        // The path begins with the variant.
        let path = path.split_once(['.', '[']).map_or("", |(_, rest)| rest);
        parse::translate_serde_error(path, &text)
    })
}

/// An object whose `type` is known.
struct Tagged<'a> {
    kind: &'a str,
    raw: &'a RawValue,
}

impl<'de> Deserializer<'de> for Tagged<'de> {
    type Error = serde_json::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_enum(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de> EnumAccess<'de> for Tagged<'de> {
    type Error = serde_json::Error;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), Self::Error> {
        let kind: StrDeserializer<'_, Self::Error> = self.kind.into_deserializer();
        Ok((seed.deserialize(kind)?, self))
    }
}

impl<'de> VariantAccess<'de> for Tagged<'de> {
    type Error = serde_json::Error;

    fn unit_variant(self) -> Result<(), Self::Error> {
        Ok(())
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        Strict(&mut serde_json::Deserializer::from_str(self.raw.get())).deserialize_map(visitor)
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, _: S) -> Result<S::Value, Self::Error> {
        Err(not_an_object())
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Self::Error> {
        Err(not_an_object())
    }
}

fn not_an_object() -> serde_json::Error {
    Error::custom("variants are objects")
}
