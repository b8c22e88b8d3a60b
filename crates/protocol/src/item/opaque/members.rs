//! The fields of a JSON object with their places in its text, and edits that leave all else as it was written.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::parse::{self, ParseError};

/// The fields of an object; values are slices of its text.
pub(super) struct Members<'a> {
    object: &'a RawValue,
    fields: Vec<(Cow<'a, str>, &'a RawValue)>,
}

impl<'a> Members<'a> {
    pub(super) fn of(object: &'a RawValue) -> Result<Self, ParseError> {
        if !object.get().starts_with('{') {
            let got = parse::json_type(object);
            return Err(ParseError::wrong_type("", format!("expected an object, got {got}.")));
        }
        parse::read(object).map(|Fields(fields)| Self { object, fields })
    }

    /// The value of a field that is there and not null.
    pub(super) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.place(name).map(|(_, value)| value).filter(|value| !parse::is_null(value))
    }

    /// The value of a field, null included.
    ///
    /// # Errors
    /// Two parsers may read different values of a field that is there twice.
    pub(super) fn only(&self, name: &str) -> Result<Option<&'a RawValue>, ParseError> {
        let mut values = self.fields.iter().filter(|(key, _)| key == name).map(|(_, value)| *value);
        match (values.next(), values.next()) {
            (_, Some(_)) => Err(ParseError::invalid(name, "the field is there twice.")),
            (value, None) => Ok(value),
        }
    }

    /// All values.
    pub(super) fn values(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.fields.iter().map(|(name, value)| (name.as_ref(), *value))
    }

    fn place(&self, name: &str) -> Option<(usize, &'a RawValue)> {
        let place = self.fields.iter().position(|(key, _)| key == name)?;
        self.fields.get(place).map(|(_, value)| (place, *value))
    }

    /// Where a value stands in the text.
    fn span(&self, value: &RawValue) -> Range<usize> {
        let start = value.get().as_ptr().addr().saturating_sub(self.object.get().as_ptr().addr());
        start..start + value.get().len()
    }

    /// Where the field before this one ends; for the first one behind the brace.
    fn end_before(&self, place: usize) -> usize {
        let before = place.checked_sub(1).and_then(|place| self.fields.get(place));
        before.map_or(1, |(_, value)| self.span(value).end)
    }
}

/// The text of an object with another `id`; all else is as it was written.
pub fn with_id(object: &RawValue, id: &str) -> Box<RawValue> {
    let Ok(members) = Members::of(object) else { return object.to_owned() };
    let mut edits = Edits::of(&members);
    edits.set("id", &serde_json::Value::from(id).to_string());
    edits.apply()
}

/// Changes to the text of an object.
pub(super) struct Edits<'a> {
    members: &'a Members<'a>,
    /// What is replaced by what.
    changes: Vec<(Range<usize>, String)>,
}

impl<'a> Edits<'a> {
    pub(super) fn of(members: &'a Members<'a>) -> Self {
        Self { members, changes: Vec::new() }
    }

    /// Whether the object has a value for a field.
    pub(super) fn has(&self, name: &str) -> bool {
        self.members.get(name).is_some()
    }

    /// Replaces the value of a field; one that is not there becomes the last.
    pub(super) fn set(&mut self, name: &str, value: &str) {
        let last = self.members.fields.len();
        self.set_at(name, value, last);
    }

    /// Replaces the value of a field; one that is not there is written behind another.
    pub(super) fn set_behind(&mut self, other: &str, name: &str, value: &str) {
        let behind = self.members.place(other).map_or(0, |(place, _)| place + 1);
        self.set_at(name, value, behind);
    }

    fn set_at(&mut self, name: &str, value: &str, place: usize) {
        if let Some((_, old)) = self.members.place(name) {
            self.changes.push((self.members.span(old), value.to_owned()));
            return;
        }
        let at = self.members.end_before(place);
        let text = if place == 0 { format!("\"{name}\":{value},") } else { format!(",\"{name}\":{value}") };
        self.changes.push((at..at, text));
    }

    /// Removes a field.
    pub(super) fn remove(&mut self, name: &str) {
        let Some((place, value)) = self.members.place(name) else { return };
        let (start, mut end) = (self.members.end_before(place), self.members.span(value).end);
        if place == 0 {
            // With the comma behind it; the others are removed with the one before them.
            let rest = self.members.object.get().get(end..).unwrap_or_default();
            end += rest.find(',').map_or(0, |comma| comma + 1);
        }
        self.changes.push((start..end, String::new()));
    }

    /// The text with all changes, which do not overlap.
    pub(super) fn apply(mut self) -> Box<RawValue> {
        let before = self.members.object;
        if self.changes.is_empty() {
            return before.to_owned();
        }
        self.changes.sort_by_key(|(range, _)| range.start);
        let text = before.get();
        let mut edited = String::with_capacity(text.len() + 64);
        let mut at = 0;
        for (range, new) in &self.changes {
            edited.push_str(text.get(at..range.start).unwrap_or_default());
            edited.push_str(new);
            at = range.end;
        }
        edited.push_str(text.get(at..).unwrap_or_default());
        // JSON stays JSON.
        RawValue::from_string(edited).unwrap_or_else(|_| before.to_owned())
    }
}

struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

/// A key that borrows from the text if it has no escapes.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldsVisitor;

        impl<'de> Visitor<'de> for FieldsVisitor {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::with_capacity(8);
                while let Some((Key(key), value)) = map.next_entry::<Key<'de>, &'de RawValue>()? {
                    fields.push((key, value));
                }
                Ok(Fields(fields))
            }
        }

        deserializer.deserialize_map(FieldsVisitor)
    }
}
