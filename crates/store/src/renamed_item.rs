//! Another id for an item whose own is taken in its conversation.

use std::sync::Arc;

use super::{ModelView, StoredItem};
use antwort_protocol::id::Id;
use antwort_protocol::item::with_id;

/// The item with an id of its own. Ids of clients repeat, and lists of conversations are paged by them.
pub fn renamed(item: &StoredItem) -> StoredItem {
    let is_prefix = |prefix: &&str| prefix.bytes().all(|byte| byte.is_ascii_lowercase());
    let prefix = item.id.as_str().split_once('_').map(|(prefix, _)| prefix).filter(is_prefix);
    let id = Id::generate(prefix.unwrap_or("item"));
    // Its text is edited and not parsed: it may be long.
    let rename = |json: &Arc<str>| match serde_json::from_str(json) {
        Ok(object) => with_id(object, id.as_str()).get().into(),
        Err(_) => Arc::clone(json),
    };
    let model_view = match &item.model_view {
        ModelView::Override(other) => ModelView::Override(rename(other)),
        same => same.clone(),
    };
    StoredItem { wire: rename(&item.wire), model_view, id, ..item.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Direction;

    #[test]
    fn an_item_of_a_taken_id_gets_another_and_stays_the_same_otherwise() {
        let item = StoredItem {
            id: "msg_1".into(),
            direction: Direction::Input,
            wire: r#"{"type":"message","id":"msg_1","z":1,"a":[2.50]}"#.into(),
            model_view: ModelView::Override(r#"{"id":"msg_1"}"#.into()),
            state: None,
        };
        let other = renamed(&item);
        assert!(other.id.as_str().starts_with("msg_") && other.id != item.id);
        assert_eq!(*other.wire, *item.wire.replace("msg_1", other.id.as_str()));
        assert_eq!(other.model_view, ModelView::Override(format!(r#"{{"id":"{}"}}"#, other.id).into()));
        let odd = StoredItem { id: "../x_1".into(), ..item };
        assert!(renamed(&odd).id.as_str().starts_with("item_"));
    }
}
