//! The shape that the fields of a carried item must have: an object is an object and a text is a text, so that no client
//! gets back what it cannot read. Values that a later version of the API may add are not looked at.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::members::Members;
use crate::parse::{self, FromJson, ParseError};
use crate::tool::Tool;

/// A field whose shape is checked.
pub(in crate::item) struct Field {
    pub name: &'static str,
    pub shape: Shape,
    /// Otherwise it may be absent or null.
    pub required: bool,
}

/// What a value must be.
pub(in crate::item) enum Shape {
    /// Any JSON.
    Any,
    Text,
    /// A number without a fraction.
    Whole,
    Number,
    List(&'static Self),
    /// An object with arbitrary keys.
    Map(&'static Self),
    /// An object with these fields among others.
    Object(&'static [Field]),
    /// Definitions of tools; they and their options may be of types that a later version of the API has added.
    Tools,
}

/// Checks the fields of an object.
pub(super) fn check(fields: &[Field], members: &Members<'_>) -> Result<(), ParseError> {
    for Field { name, shape, required } in fields {
        match members.only(name)? {
            None if *required => return Err(ParseError::missing(name)),
            None => {}
            Some(value) if parse::is_null(value) && !required => {}
            Some(value) => shape.check(value).map_err(|error| error.within(name))?,
        }
    }
    Ok(())
}

impl Shape {
    fn check(&self, value: &RawValue) -> Result<(), ParseError> {
        match self {
            Self::Any => Ok(()),
            Self::Text => text(value).map(drop),
            Self::Whole => parse::read::<i64>(value).map(drop),
            Self::Number => parse::read::<f64>(value).map(drop),
            Self::List(shape) => {
                for (i, element) in parse::elements(value)?.into_iter().enumerate() {
                    parse::check_cancelled()?;
                    shape.check(element).map_err(|error| error.at(i))?;
                }
                Ok(())
            }
            Self::Map(shape) => {
                let members = Members::of(value)?;
                members.values().try_for_each(|(name, value)| shape.check(value).map_err(|e| e.within(name)))
            }
            Self::Object(fields) => check(fields, &Members::of(value)?),
            Self::Tools => {
                for (i, tool) in parse::elements(value)?.into_iter().enumerate() {
                    parse::check_cancelled()?;
                    match Tool::from_json(tool) {
                        Err(error) if !error.is_unknown_value() && !error.is_unknown_type() => {
                            return Err(error.at(i));
                        }
                        Ok(_) | Err(_) => {}
                    }
                }
                Ok(())
            }
        }
    }
}

/// Reads a text.
pub(super) fn text(value: &RawValue) -> Result<Cow<'_, str>, ParseError> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    parse::read::<Text<'_>>(value).map(|Text(text)| text)
}
