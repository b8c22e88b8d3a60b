//! Reads a field of a request for what its lists hold: which list is what, and what is not looked into.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::{Counter, Kind, Step};
use crate::protocol::interrupt;
use crate::protocol::request::body::Key;

/// Where a value stands, which says what lists in it hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// `input`.
    Input,
    Item,
    WithinItem,
    /// A list of tools, counted as this.
    Tools(Kind),
    Tool(Kind),
    WithinTool,
    /// An object whose fields have any names, such as headers.
    Map,
    /// `text`, and the objects in it that have a schema.
    Format,
}

impl Place {
    /// Where the value of a field of the request stands, if what it lists is counted.
    pub(super) fn of_field(name: &str) -> Option<Self> {
        match name {
            "input" => Some(Self::Input),
            "tools" => Some(Self::Tools(Kind::Tool)),
            "tool_choice" | "allowed_tools" => Some(Self::WithinTool),
            "text" => Some(Self::Format),
            _ => None,
        }
    }

    /// What the entries of a list are, and where each stands.
    fn entries(self) -> (Option<Kind>, Self) {
        match self {
            Self::Input => (Some(Kind::Item), Self::Item),
            Self::Item | Self::WithinItem => (Some(Kind::Part), Self::WithinItem),
            Self::Tools(kind) => (Some(kind), Self::Tool(kind)),
            Self::Tool(_) | Self::WithinTool | Self::Map => (Some(Kind::Name), Self::WithinTool),
            Self::Format => (None, Self::Format),
        }
    }

    /// How a field of an object is read.
    fn field(self, name: &str) -> Field {
        match (self, name) {
            (Self::Item, "type" | "role" | "id") => Field::Word,
            (Self::Item, "tools") => Field::Walk(Self::Tools(Kind::ListedTool)),
            (Self::Item | Self::WithinItem, "arguments" | "attributes" | "logprobs") => Field::Skip,
            (Self::WithinItem, "env") | (Self::Tool(_), "headers") => Field::Walk(Self::Map),
            (Self::Item | Self::WithinItem | Self::Input, _) => Field::Walk(Self::WithinItem),
            (Self::Tool(kind), "tools") => Field::Walk(Self::Tools(kind)),
            // Chat's form of a function.
            (Self::Tool(kind), "function") => Field::Walk(Self::Tool(kind)),
            (Self::Tool(_), "parameters" | "output_schema") | (Self::Format, "schema") => Field::Schema,
            // Of a list of tools as a server gave it, which is shown again and nothing else.
            (Self::Tool(_), "input_schema") => Field::Skip,
            (Self::Tool(_) | Self::WithinTool | Self::Tools(_) | Self::Map, _) => {
                Field::Walk(Self::WithinTool)
            }
            (Self::Format, "format" | "json_schema") => Field::Walk(Self::Format),
            (Self::Format, _) => Field::Skip,
        }
    }
}

/// How a field of an object is read.
enum Field {
    Walk(Place),
    /// A text by which the object is told from others.
    Word,
    Schema,
    /// Kept as text, or as much as the body allows.
    Skip,
}

/// Reads a value and counts what lists in it hold.
pub(super) struct Walk<'w, 'de> {
    pub counter: &'w mut Counter<'de>,
    pub place: Place,
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
        if matches!(self.place, Place::Item | Place::Tool(_)) {
            // Such a list is refused for what it is.
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
            if place == Place::Map {
                entries += 1;
                counter.entries(entries)?;
            }
            let field = place.field(&key);
            counter.path.push(Step::Key(key.clone()));
            match field {
                Field::Walk(place) => object.next_value_seed(Walk { counter: &mut *counter, place })?,
                Field::Schema => counter.schema(object.next_value::<&'de RawValue>()?)?,
                Field::Skip => _ = object.next_value::<IgnoredAny>()?,
                Field::Word => match key.as_ref() {
                    "type" => kind = object.next_value_seed(Word)?,
                    "role" => role = object.next_value_seed(Word)?,
                    _ => id = object.next_value_seed(Word)?,
                },
            }
            counter.path.pop();
        }
        if place == Place::Item {
            counter.settle(kind.as_deref())?;
            match (kind.as_deref(), role, id) {
                (Some("item_reference"), _, Some(id)) | (None, None, Some(id)) => counter.refer(id)?,
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

/// An entry of a list, which counts before it is read.
struct Entry<'w, 'de> {
    counter: &'w mut Counter<'de>,
    kind: Option<Kind>,
    place: Place,
    index: usize,
}

impl<'de> DeserializeSeed<'de> for Entry<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        let Self { counter, kind, place, index } = self;
        interrupt::check().map_err(D::Error::custom)?;
        kind.map_or(Ok(()), |kind| counter.count(kind))?;
        counter.path.push(Step::Index(index));
        from.deserialize_any(Walk { counter: &mut *counter, place })?;
        counter.path.pop();
        Ok(())
    }
}

/// Reads a text; anything else is none.
struct Word;

impl<'de> DeserializeSeed<'de> for Word {
    type Value = Option<Cow<'de, str>>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        let raw = <&'de RawValue>::deserialize(from)?;
        let text = raw.get().starts_with('"').then(|| serde_json::from_str::<Key<'de>>(raw.get()));
        text.transpose().map(|text| text.map(|Key(text)| text)).map_err(D::Error::custom)
    }
}
