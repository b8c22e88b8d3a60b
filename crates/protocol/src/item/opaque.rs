//! Items that are only carried: the gateway neither makes nor reads them, and gives them back as they came, byte for byte.
//!
//! Of such an item it knows the type, the id, and which shape its fields have (`kinds`). What it must add to the text, an
//! id and a status where the client gave none, is written into it; everything else keeps its spelling and its order.

mod kinds;
mod members;
mod shape;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

pub use self::members::with_id;
use self::members::{Edits, Members};
use super::ItemStatus;
use crate::dialect::Dialect;
use crate::id::Id;
use crate::json;
use crate::parse::{self, ParseError};

pub(super) use kinds::{OpaqueKind, find};

/// An item that is only carried.
#[derive(Clone)]
pub struct OpaqueItem {
    kind: &'static OpaqueKind,
    id: Id,
    /// Its type in the plain spelling, with the id.
    json: Arc<RawValue>,
}

impl OpaqueItem {
    /// Reads an item of that kind. `sent`: its type as the sender spelled it.
    pub(super) fn read(kind: &'static OpaqueKind, sent: &str, raw: &RawValue) -> Result<Self, ParseError> {
        if json::nests_too_deeply(raw.get()) {
            return Err(json::too_deep());
        }
        let members = Members::of(raw)?;
        shape::check(kind.fields, &members)?;
        let mut edits = Edits::of(&members);
        if sent != kind.name {
            edits.set("type", &quoted(kind.name));
            if !kind.has_status {
                // The dialect that spells the type so has added it.
                edits.remove("status");
            }
        }
        let id = match members.get("id").map(shape::text).transpose()? {
            Some(id) if !id.is_empty() => Id::from(id.as_ref()),
            _ => {
                let id = Id::generate(kind.id_prefix);
                edits.set_behind("type", "id", &quoted(id.as_str()));
                id
            }
        };
        match members.only("status")?.filter(|status| !parse::is_null(status)) {
            Some(status) => drop(parse::read::<ItemStatus>(status).map_err(|e| e.within("status"))?),
            None if kind.has_status => edits.set("status", &quoted("completed")),
            None => {}
        }
        Ok(Self { kind, id, json: edits.apply().into() })
    }

    /// The type, without the prefix of a dialect.
    pub fn kind(&self) -> &'static str {
        self.kind.name
    }

    /// The id.
    pub fn id(&self) -> &Id {
        &self.id
    }

    /// The item as it came.
    pub fn json(&self) -> &RawValue {
        &self.json
    }

    /// Replaces the id, also in the text.
    pub(super) fn set_id(&mut self, id: Id) {
        self.json = self.edited(|edits| edits.set("id", &quoted(id.as_str())));
        self.id = id;
    }

    /// The text at a path of fields.
    pub(crate) fn text(&self, path: &[&str]) -> Option<Cow<'_, str>> {
        let inner = |raw, name: &&str| Members::of(raw).ok()?.get(name);
        shape::text(path.iter().try_fold(&*self.json, inner)?).ok()
    }

    /// The item as a dialect writes it. `begins`: for the event that adds it.
    pub(super) fn in_dialect(&self, dialect: Dialect, begins: bool) -> Arc<RawValue> {
        let prefix = dialect.item_prefix(self.kind.name);
        let needs_status = dialect.requires_item_status() && !self.kind.has_status;
        if prefix.is_empty() && !needs_status {
            return Arc::clone(&self.json);
        }
        self.edited(|edits| {
            edits.set("type", &quoted(&format!("{prefix}{}", self.kind.name)));
            if needs_status && !edits.has("status") {
                edits.set("status", &quoted(if begins { "in_progress" } else { "completed" }));
            }
        })
    }

    fn edited(&self, edit: impl FnOnce(&mut Edits<'_>)) -> Arc<RawValue> {
        // Only objects are read.
        let Ok(members) = Members::of(&self.json) else { return Arc::clone(&self.json) };
        let mut edits = Edits::of(&members);
        edit(&mut edits);
        edits.apply().into()
    }
}

/// A name as JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

impl Serialize for OpaqueItem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.json.serialize(serializer)
    }
}

impl PartialEq for OpaqueItem {
    fn eq(&self, other: &Self) -> bool {
        self.json.get() == other.json.get()
    }
}

impl Eq for OpaqueItem {}

impl fmt::Debug for OpaqueItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.json.get())
    }
}

#[cfg(test)]
mod tests;
