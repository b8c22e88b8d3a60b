//! The ids under which calls go back to a provider: its own, word for word; in place of one that it does not know, one that
//! every server takes, if the gateway made it or the provider takes no other.

use std::borrow::Cow;

use antwort_protocol::item::Item;
use antwort_response::turn::HistoryItem;
use antwort_util::digest::sha256;

const ALPHABET: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// The id of a call for the provider; `own` is the gateway's, or the client's.
///
/// Items of calls that the gateway makes do not show the provider's id, so that what they are called is the gateway's to
/// choose. A client's call has the provider's id in most cases, whoever kept its state. `short_only`: as of
/// [`client_call_id`].
pub(super) fn provider_call_id<'a>(call: &'a HistoryItem, own: &'a str, short_only: bool) -> Cow<'a, str> {
    match call.call_state.as_ref().and_then(|state| state.id.as_deref()) {
        Some(id) => Cow::Borrowed(id),
        None if matches!(*call.item, Item::McpCall(_)) => Cow::Owned(plain_id(own)),
        None => client_call_id(own, short_only),
    }
}

/// The id of a call of which nothing but the client's id is known, and of its output. `short_only`: the provider takes nine
/// letters and digits only, which an id of another provider, or a client's own, seldom is.
pub(super) fn client_call_id(own: &str, short_only: bool) -> Cow<'_, str> {
    let is_short = own.len() == 9 && own.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if short_only && !is_short { Cow::Owned(plain_id(own)) } else { Cow::Borrowed(own) }
}

/// Nine letters and digits, always the same ones for an id: servers of Mistral's models take no others, and all take these.
pub(super) fn plain_id(id: &str) -> String {
    let hash = sha256(id.as_bytes());
    let mut rest = hash.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
    let mut letter = || {
        let at = usize::try_from(rest % 62).unwrap_or_default();
        rest /= 62;
        ALPHABET.get(at).copied().map_or('0', char::from)
    };
    (0..9).map(|_| letter()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::plain_id;

    #[test]
    fn an_id_that_no_provider_made_is_nine_letters_and_digits_and_stays_the_same() {
        let ids: HashSet<String> = (0..10_000).map(|n| plain_id(&format!("mcp_{n}"))).collect();
        assert_eq!(ids.len(), 10_000);
        assert!(ids.iter().all(|id| id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric())));
        assert_eq!(plain_id("mcp_1"), plain_id("mcp_1"));
    }
}
