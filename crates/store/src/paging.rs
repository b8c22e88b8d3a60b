//! Pages of lists: what a request for one means, and which elements are in it.
//!
//! Elements are chosen by their lengths, so that only those of the page need to be read.

use std::sync::Arc;

use super::error::StoreError;
use antwort_protocol::id::Id;
use antwort_protocol::response::ResponseStatus;

/// The size of a page: it ends before the element that would exceed it, but has at least one.
pub const MAX_PAGE_BYTES: u64 = 4 << 20;

/// Elements of a page.
const MAX_PAGE_ELEMENTS: usize = 100;

/// A request for a page of a list.
#[derive(Debug, Clone)]
pub struct PageRequest {
    /// 1 to 100; a page of large elements has fewer, see [`MAX_PAGE_BYTES`].
    pub limit: usize,
    /// Whether the oldest element comes first.
    pub ascending: bool,
    /// The id of the element before the page, in the page's order.
    pub after: Option<String>,
    /// The id of the element after the page, in the page's order.
    pub before: Option<String>,
    /// If the page has more bytes than this, none is read, and the error is [`StoreError::TooLarge`] with the size.
    pub max_bytes: u64,
}

/// Which responses a list has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResponseFilter {
    /// Only those of this status.
    pub status: Option<ResponseStatus>,
    /// Only those of this model, as the client named it.
    pub model: Option<String>,
}

/// JSON of the elements, and whether more follow.
#[derive(Debug, Clone)]
pub struct Page {
    /// Each an object with an `id`.
    pub data: Vec<(Id, Arc<str>)>,
    /// Whether more follow in the page's order; of a page before a cursor, whether more come before it.
    pub has_more: bool,
}

/// The part of a list that a page is cut from, in terms of the sort key.
#[derive(Debug)]
pub struct PageRange<K> {
    /// Only elements above this key; `None`: from the lowest one on.
    pub above: Option<K>,
    /// Only elements below this key; `None`: up to the highest one.
    pub below: Option<K>,
    /// The order in which rows are fetched. A page before a cursor is fetched backwards from the cursor.
    pub ascending: bool,
    backwards: bool,
    limit: usize,
    max_bytes: u64,
}

/// An element of a list, before it is read.
#[derive(Debug)]
pub struct Element<K> {
    /// The id, by which clients page.
    pub id: Id,
    /// The length of its JSON in bytes.
    pub bytes: u64,
    /// The key by which it is read.
    pub key: K,
}

impl<K> PageRange<K> {
    /// `find` returns the place of a cursor, `None` if the list has no such element.
    pub fn new(
        page: &PageRequest,
        find: impl Fn(&str) -> Result<Option<K>, StoreError>,
    ) -> Result<Self, StoreError> {
        let place = |cursor: &Option<String>, param| match cursor {
            None => Ok(None),
            Some(cursor) => match find(cursor)? {
                None => Err(StoreError::UnknownCursor { param, cursor: cursor.clone() }),
                found => Ok(found),
            },
        };
        let (after, before) = (place(&page.after, "after")?, place(&page.before, "before")?);
        let backwards = after.is_none() && before.is_some();
        let (above, below) = if page.ascending { (after, before) } else { (before, after) };
        let limit = page.limit.clamp(1, MAX_PAGE_ELEMENTS);
        let ascending = page.ascending != backwards;
        Ok(Self { above, below, ascending, backwards, limit, max_bytes: page.max_bytes })
    }

    /// How many rows to fetch: one more than the page holds shows whether there are more.
    pub fn fetch(&self) -> usize {
        self.limit + 1
    }

    /// Chooses the elements of the page from those of the range, in the order in which they are fetched. Also returns
    /// whether there are more.
    pub fn choose<E>(
        &self,
        elements: impl Iterator<Item = Result<Element<E>, StoreError>>,
    ) -> Result<(Vec<Element<E>>, bool), StoreError> {
        let (mut chosen, mut bytes, mut has_more) = (Vec::new(), 0_u64, false);
        for element in elements {
            let element = element?;
            let with = bytes.saturating_add(element.bytes);
            if chosen.len() == self.limit || (with > MAX_PAGE_BYTES && !chosen.is_empty()) {
                has_more = true;
                break;
            }
            bytes = with;
            chosen.push(element);
        }
        if bytes > self.max_bytes {
            return Err(StoreError::TooLarge { bytes });
        }
        if self.backwards {
            chosen.reverse();
        }
        Ok((chosen, has_more))
    }
}

/// Whether a cursor is an id as they are minted for responses. That of a deleted response is still a place in the
/// list: clients delete while they page.
pub fn is_response_id(cursor: &str) -> bool {
    cursor
        .strip_prefix("resp_")
        .is_some_and(|hex| hex.len() == 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn element(bytes: u64) -> Result<Element<u64>, StoreError> {
        Ok(Element { id: "x".into(), bytes, key: bytes })
    }

    fn range(limit: usize, max_bytes: u64) -> PageRange<u64> {
        let page = PageRequest { limit, ascending: true, after: None, before: None, max_bytes };
        PageRange::new(&page, |_| Ok(None)).unwrap()
    }

    #[test]
    fn a_page_ends_before_the_element_that_would_exceed_its_size_but_has_one() {
        let half = MAX_PAGE_BYTES / 2;
        for (sizes, chosen, has_more) in [
            (vec![half, half, 1], 2, true),
            (vec![2 * MAX_PAGE_BYTES, 1], 1, true),
            (vec![half, half], 2, false),
        ] {
            let (elements, more) = range(10, u64::MAX).choose(sizes.into_iter().map(element)).unwrap();
            assert_eq!((elements.len(), more), (chosen, has_more));
        }
        let refused = range(10, 99).choose([element(100)].into_iter());
        assert!(matches!(refused, Err(StoreError::TooLarge { bytes: 100 })));
        assert_eq!(range(1_000, 0).fetch(), 101);
    }
}
