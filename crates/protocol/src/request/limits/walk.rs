//! Walks a field of a request and counts the entries of its lists: what they count as, and what is skipped.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::counter::{CountedKind, PathSegment, RequestSizeCounter};
use crate::parse::check_cancelled;
use crate::request::body::Key;

/// The place of a value, which decides what lists in it count as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WalkContext {
    /// `input`.
    Input,
    Item,
    WithinItem,
    /// A list of tools, counted as this kind.
    Tools(CountedKind),
    Tool(CountedKind),
    WithinTool,
    /// An object with arbitrary keys, such as headers.
    Map,
    /// `text`, and the objects in it that have a schema.
    Format,
}

impl WalkContext {
    /// The context of a request field whose lists are counted.
    pub(super) fn for_field(name: &str) -> Option<Self> {
        match name {
            // `items` is that of conversations.
            "input" | "items" => Some(Self::Input),
            "tools" => Some(Self::Tools(CountedKind::Tool)),
            "tool_choice" | "allowed_tools" => Some(Self::WithinTool),
            "text" => Some(Self::Format),
            _ => None,
        }
    }

    /// What the entries of a list count as, and the context of each.
    fn entries(self) -> (Option<CountedKind>, Self) {
        match self {
            Self::Input => (Some(CountedKind::Item), Self::Item),
            Self::Item | Self::WithinItem => (Some(CountedKind::Part), Self::WithinItem),
            Self::Tools(kind) => (Some(kind), Self::Tool(kind)),
            Self::Tool(_) | Self::WithinTool | Self::Map => (Some(CountedKind::Name), Self::WithinTool),
            Self::Format => (None, Self::Format),
        }
    }

    /// How a field of an object is read.
    fn field(self, name: &str) -> FieldAction {
        match (self, name) {
            (Self::Item, "type" | "role" | "id") => FieldAction::Discriminator,
            (Self::Item, "tools") => FieldAction::Walk(Self::Tools(CountedKind::ListedTool)),
            (Self::Item | Self::WithinItem, "arguments" | "attributes" | "logprobs") => FieldAction::Skip,
            (Self::WithinItem, "env") | (Self::Tool(_), "headers") => FieldAction::Walk(Self::Map),
            (Self::Item | Self::WithinItem | Self::Input, _) => FieldAction::Walk(Self::WithinItem),
            (Self::Tool(kind), "tools") => FieldAction::Walk(Self::Tools(kind)),
            // The chat API's form of a function.
            (Self::Tool(kind), "function") => FieldAction::Walk(Self::Tool(kind)),
            (Self::Tool(_), "parameters" | "output_schema") | (Self::Format, "schema") => FieldAction::Schema,
            // In a list of tools as a server sent it, which is only shown again.
            (Self::Tool(_), "input_schema") => FieldAction::Skip,
            (Self::Tool(_) | Self::WithinTool | Self::Tools(_) | Self::Map, _) => {
                FieldAction::Walk(Self::WithinTool)
            }
            (Self::Format, "format" | "json_schema") => FieldAction::Walk(Self::Format),
            (Self::Format, _) => FieldAction::Skip,
        }
    }
}

/// How a field of an object is read.
enum FieldAction {
    Walk(WalkContext),
    /// A string by which the object is told from others.
    Discriminator,
    Schema,
    /// Kept as text, or bounded by the body.
    Skip,
}

/// Walks a value and counts its entries.
pub(super) struct Walk<'w, 'de> {
    pub counter: &'w mut RequestSizeCounter<'de>,
    pub place: WalkContext,
}

impl<'de> DeserializeSeed<'de> for Walk<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        if matches!(self.place, WalkContext::Item | WalkContext::Tool(_)) {
            // The list is of the wrong type and refused later.
            while list.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(());
        }
        let (kind, place) = self.place.entries();
        let mut index = 0;
        while list.next_element_seed(Entry { counter: &mut *self.counter, kind, place, index })?.is_some() {
            index += 1;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        let Self { counter, place } = self;
        let (mut kind, mut role, mut id) = (None, None, None);
        let mut entries = 0;
        while let Some(Key(key)) = object.next_key()? {
            if place == WalkContext::Map {
                entries += 1;
                counter.check_entry_count(entries)?;
            }
            let field = place.field(&key);
            counter.path.push(PathSegment::Key(key.clone()));
            match field {
                FieldAction::Walk(place) => object.next_value_seed(Walk { counter: &mut *counter, place })?,
                FieldAction::Schema => counter.schema(object.next_value::<&'de RawValue>()?)?,
                FieldAction::Skip => _ = object.next_value::<IgnoredAny>()?,
                FieldAction::Discriminator => match key.as_ref() {
                    "type" => kind = object.next_value_seed(OptionalStr)?,
                    "role" => role = object.next_value_seed(OptionalStr)?,
                    _ => id = object.next_value_seed(OptionalStr)?,
                },
            }
            counter.path.pop();
        }
        if place == WalkContext::Item {
            counter.count_listed_tools(kind.as_deref())?;
            match (kind.as_deref(), role, id) {
                (Some("item_reference"), _, Some(id)) | (None, None, Some(id)) => {
                    counter.count_reference(id)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// An entry of a list, which is counted before it is read.
struct Entry<'w, 'de> {
    counter: &'w mut RequestSizeCounter<'de>,
    kind: Option<CountedKind>,
    place: WalkContext,
    index: usize,
}

impl<'de> DeserializeSeed<'de> for Entry<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        let Self { counter, kind, place, index } = self;
        check_cancelled().map_err(D::Error::custom)?;
        kind.map_or(Ok(()), |kind| counter.count(kind))?;
        counter.path.push(PathSegment::Index(index));
        from.deserialize_any(Walk { counter: &mut *counter, place })?;
        counter.path.pop();
        Ok(())
    }
}

/// Reads a string; anything else is `None`.
struct OptionalStr;

impl<'de> DeserializeSeed<'de> for OptionalStr {
    type Value = Option<Cow<'de, str>>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        let raw = <&'de RawValue>::deserialize(from)?;
        let text = raw.get().starts_with('"').then(|| serde_json::from_str::<Key<'de>>(raw.get()));
        text.transpose().map(|text| text.map(|Key(text)| text)).map_err(D::Error::custom)
    }
}
