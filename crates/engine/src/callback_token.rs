//! The token of a callback: which call it is for, sealed. Whoever has it may report the result of that call and nothing else.

use serde::{Deserialize, Serialize};

use antwort_identity::Owner;
use antwort_protocol::id::Id;
use antwort_response::seal::SealKeys;
use antwort_store::AsyncCallKey;

/// What a token says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CallbackToken {
    #[serde(rename = "t")]
    tenant: String,
    #[serde(rename = "p")]
    principal: String,
    #[serde(rename = "r")]
    response: String,
    #[serde(rename = "n")]
    turn: u32,
    #[serde(rename = "i")]
    index: u32,
    /// In Unix seconds.
    #[serde(rename = "e")]
    pub expires_at: i64,
}

impl CallbackToken {
    pub(super) fn new(key: &AsyncCallKey, expires_at: i64) -> Self {
        Self {
            tenant: key.owner.tenant.to_string(),
            principal: key.owner.principal.to_string(),
            response: key.response.to_string(),
            turn: key.turn,
            index: key.index,
            expires_at,
        }
    }

    /// `None` if it cannot be sealed.
    pub(super) fn seal(&self, keys: &SealKeys) -> Option<String> {
        keys.seal_callback(&serde_json::to_vec(self).ok()?)
    }

    /// `None` if it was not sealed with one of these keys.
    pub(super) fn open(keys: &SealKeys, sealed: &str) -> Option<Self> {
        serde_json::from_slice(&keys.open_callback(sealed)?).ok()
    }

    /// The call that it is for.
    pub(super) fn into_key(self) -> AsyncCallKey {
        AsyncCallKey {
            owner: Owner { tenant: self.tenant.into(), principal: self.principal.into() },
            response: Id::from(self.response),
            turn: self.turn,
            index: self.index,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_opened_by_its_keys_and_changed_by_nobody() {
        let keys = SealKeys::new(&[vec![7; 32]]).unwrap();
        let owner = Owner { tenant: "acme".into(), principal: "ann".into() };
        let key = AsyncCallKey { owner, response: "resp_1".into(), turn: 2, index: 1 };
        let token = CallbackToken::new(&key, 99);
        let sealed = token.seal(&keys).unwrap();
        assert!(
            !sealed.contains("resp_1")
                && sealed.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
        );
        assert_eq!(CallbackToken::open(&keys, &sealed), Some(token.clone()));
        assert_eq!(token.into_key(), key);
        for at in 0..sealed.len() {
            let mut forged = sealed.clone().into_bytes();
            forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
            let forged = String::from_utf8(forged).unwrap();
            // The last character may have bits that nobody reads.
            let opened = CallbackToken::open(&keys, &forged);
            assert!(opened.is_none() || at + 1 == sealed.len(), "{at}");
        }
        assert_eq!(CallbackToken::open(&SealKeys::new(&[vec![8; 32]]).unwrap(), &sealed), None);
        for text in ["", "x", &keys.seal_run("acme", b"{}").map(|_| "run".to_owned()).unwrap()] {
            assert_eq!(CallbackToken::open(&keys, text), None);
        }
    }
}
