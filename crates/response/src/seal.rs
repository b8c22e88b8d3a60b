//! Encrypts what clients carry from one response to the next and can neither read nor forge: provider state, results
//! of hosted calls, and summaries.
//!
//! Format: `aw1.` and base64url of key id (4 bytes), nonce (12 bytes) and AES-256-GCM ciphertext with tag; of the state
//! of runs, which no client carries, the bytes themselves. The
//! associated data binds a blob to its kind and tenant, provider state also to the provider, so that a blob of one
//! kind never opens as another. State and results that cannot be opened are dropped by the caller, never forwarded; a
//! summary stands for a whole history, and the caller refuses a request whose summary cannot be opened.

use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::digest;
use aws_lc_rs::hmac;
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;

use super::machine::{Seal, SealSummary};
use super::turn::ProviderState;
use antwort_protocol::item::hosted::McpCall;

const VERSION: &str = "aw1.";
const KEY_ID_LEN: usize = 4;
/// Begins the associated data of summaries. Not UTF-8, unlike tenants and providers, so that no other data begins so.
const SUMMARY: &[u8] = b"\xffcompaction\0";
/// The same, of summaries that replace the messages before them, too.
const SUMMARY_OF_ALL: &[u8] = b"\xffcompaction of all\0";
/// Begins the associated data of runs' states. Not UTF-8 either.
const RUN: &[u8] = b"\xferun\0";
/// The associated data of callbacks.
const CALLBACK: &[u8] = b"\xfdcallback\0";
/// Derives the key of fingerprints from a seal key.
const FINGERPRINTS: &[u8] = b"antwort fingerprints\0";
/// Length of a seal key, in bytes.
pub(crate) const KEY_LEN: usize = 32;

/// The seal keys of a deployment: the first one seals, each of them opens.
pub struct SealKeys {
    keys: Vec<SealKey>,
    random: SystemRandom,
}

struct SealKey {
    /// The first bytes of the key's SHA-256, stored in each blob to find its key.
    id: [u8; KEY_ID_LEN],
    key: LessSafeKey,
    /// Derived from the key, for fingerprints.
    fingerprints: hmac::Key,
}

/// Why a set of seal keys cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SealKeyError {
    /// There is no key.
    #[error("no seal key was given")]
    None,
    /// A key is not 32 bytes long.
    #[error("seal key {0} is not 32 bytes long (counted from 1)")]
    Length(usize),
}

impl SealKeys {
    /// Keys from their raw bytes.
    pub fn new(keys: &[Vec<u8>]) -> Result<Arc<Self>, SealKeyError> {
        let keys = keys
            .iter()
            .enumerate()
            .map(|(i, bytes)| SealKey::new(bytes).ok_or(SealKeyError::Length(i + 1)))
            .collect::<Result<Vec<_>, _>>()?;
        if keys.is_empty() {
            return Err(SealKeyError::None);
        }
        Ok(Arc::new(Self { keys, random: SystemRandom::new() }))
    }

    /// A new random key, as raw bytes.
    pub fn generate() -> Vec<u8> {
        let mut key = vec![0; KEY_LEN];
        // The system's random generator fails only where there is none; then nothing can be sealed either.
        let _filled = SystemRandom::new().fill(&mut key);
        key
    }

    /// The seal of one tenant; provider state is also bound to the provider.
    pub fn bound_to(self: &Arc<Self>, tenant: &str, provider: &str) -> Arc<BoundSeal> {
        let context = |parts: [&[u8]; 2]| parts.join(&0);
        Arc::new(BoundSeal {
            keys: Arc::clone(self),
            state: context([tenant.as_bytes(), provider.as_bytes()]),
            // No provider's name begins with a zero byte.
            results: context([tenant.as_bytes(), b"\0hosted_results"]),
        })
    }

    /// Keyed hashes of a secret, one for each key; the first is the one to store. Without the keys a secret cannot be
    /// found by trying.
    pub fn fingerprints(&self, secret: &[u8]) -> impl Iterator<Item = [u8; 32]> {
        self.keys.iter().map(move |key| {
            let mut fingerprint = [0; 32];
            fingerprint.copy_from_slice(hmac::sign(&key.fingerprints, secret).as_ref());
            fingerprint
        })
    }

    /// The seal for summaries of one tenant's conversations, whichever provider wrote them.
    pub fn summaries_of(self: &Arc<Self>, tenant: &str) -> Arc<SummarySeal> {
        Arc::new(SummarySeal {
            keys: Arc::clone(self),
            context: [SUMMARY, tenant.as_bytes()].concat(),
            of_all: [SUMMARY_OF_ALL, tenant.as_bytes()].concat(),
        })
    }

    /// Seals the state of a tenant's run, which is stored with it.
    pub fn seal_run(&self, tenant: &str, plain: &[u8]) -> Option<Vec<u8>> {
        self.seal_bytes(&[RUN, tenant.as_bytes()].concat(), plain)
    }

    /// Opens the state of a tenant's run.
    pub fn open_run(&self, tenant: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        self.open_bytes(&[RUN, tenant.as_bytes()].concat(), sealed)
    }

    /// Seals the token of a callback, for a URL.
    pub fn seal_callback(&self, plain: &[u8]) -> Option<String> {
        Some(URL_SAFE_NO_PAD.encode(self.seal_bytes(CALLBACK, plain)?))
    }

    /// Opens the token of a callback.
    pub fn open_callback(&self, token: &str) -> Option<Vec<u8>> {
        self.open_bytes(CALLBACK, &URL_SAFE_NO_PAD.decode(token).ok()?)
    }

    fn seal(&self, context: &[u8], plain: &[u8]) -> Option<String> {
        let envelope = self.seal_bytes(context, plain)?;
        Some(format!("{VERSION}{}", URL_SAFE_NO_PAD.encode(envelope)))
    }

    fn open(&self, context: &[u8], blob: &str) -> Option<Vec<u8>> {
        self.open_bytes(context, &URL_SAFE_NO_PAD.decode(blob.strip_prefix(VERSION)?).ok()?)
    }

    /// Key id, nonce, ciphertext, tag.
    fn seal_bytes(&self, context: &[u8], plain: &[u8]) -> Option<Vec<u8>> {
        let key = self.keys.first()?;
        let mut nonce = [0; NONCE_LEN];
        self.random.fill(&mut nonce).ok()?;
        let mut envelope = Vec::with_capacity(KEY_ID_LEN + NONCE_LEN + plain.len() + AES_256_GCM.tag_len());
        envelope.extend_from_slice(&key.id);
        envelope.extend_from_slice(&nonce);
        envelope.extend_from_slice(plain);
        let (_, text) = envelope.split_at_mut_checked(KEY_ID_LEN + NONCE_LEN)?;
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = key.key.seal_in_place_separate_tag(nonce, Aad::from(context), text).ok()?;
        envelope.extend_from_slice(tag.as_ref());
        Some(envelope)
    }

    fn open_bytes(&self, context: &[u8], envelope: &[u8]) -> Option<Vec<u8>> {
        let (id, rest) = envelope.split_at_checked(KEY_ID_LEN)?;
        let (nonce, sealed) = rest.split_at_checked(NONCE_LEN)?;
        let nonce: [u8; NONCE_LEN] = nonce.try_into().ok()?;
        self.keys.iter().filter(|key| key.id == id).find_map(|key| {
            let mut plain = sealed.to_vec();
            let nonce = Nonce::assume_unique_for_key(nonce);
            Some(key.key.open_in_place(nonce, Aad::from(context), &mut plain).ok()?.to_vec())
        })
    }
}

impl SealKey {
    fn new(bytes: &[u8]) -> Option<Self> {
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, bytes).ok()?);
        let hash = digest::digest(&digest::SHA256, bytes);
        let derived = digest::digest(&digest::SHA256, &[FINGERPRINTS, bytes].concat());
        let fingerprints = hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref());
        Some(Self { id: hash.as_ref().get(..KEY_ID_LEN)?.try_into().ok()?, key, fingerprints })
    }
}

/// The content of a blob.
#[derive(Debug, Clone, PartialEq)]
pub enum OpenedBlob {
    /// Provider state.
    State(ProviderState),
    /// A hosted call with its results, as the model sees it.
    Results(McpCall),
}

/// Seals and opens blobs of one tenant and one provider.
pub struct BoundSeal {
    keys: Arc<SealKeys>,
    /// The associated data of provider state.
    state: Vec<u8>,
    /// The associated data of hosted results: without the provider, as they are the gateway's own.
    results: Vec<u8>,
}

impl BoundSeal {
    /// The content of a blob; `None` if it was not sealed by this gateway for this tenant and provider, or is
    /// damaged.
    pub fn open(&self, blob: &str) -> Option<OpenedBlob> {
        if let Some(plain) = self.keys.open(&self.state, blob) {
            return serde_json::from_slice(&plain).ok().map(OpenedBlob::State);
        }
        serde_json::from_slice(&self.keys.open(&self.results, blob)?).ok().map(OpenedBlob::Results)
    }

    /// The provider state in a blob.
    pub fn open_state(&self, blob: &str) -> Option<ProviderState> {
        match self.open(blob)? {
            OpenedBlob::State(state) => Some(state),
            OpenedBlob::Results(_) => None,
        }
    }

    fn seal_json(&self, context: &[u8], content: &impl Serialize) -> String {
        let sealed = serde_json::to_vec(content).ok().and_then(|plain| self.keys.seal(context, &plain));
        sealed.unwrap_or_else(|| {
            tracing::error!(
                "encrypting provider state or a tool result failed; later requests will not have it"
            );
            String::new()
        })
    }
}

impl Seal for BoundSeal {
    fn seal(&self, state: &ProviderState) -> String {
        self.seal_json(&self.state, state)
    }

    fn seal_results(&self, call: &McpCall) -> String {
        self.seal_json(&self.results, call)
    }
}

/// Seals and opens summaries of one tenant.
pub struct SummarySeal {
    keys: Arc<SealKeys>,
    context: Vec<u8>,
    /// The associated data of summaries that replace the messages before them.
    of_all: Vec<u8>,
}

/// A summary that was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenedSummary {
    /// What the model wrote.
    pub text: String,
    /// Whether it replaces all items before it. If not, the messages that are kept beside it stand before it.
    pub replaces_all: bool,
}

impl SummarySeal {
    /// The summary in a blob; `None` if it was not sealed by this gateway for this tenant, is no summary, or is
    /// damaged.
    pub fn open(&self, blob: &str) -> Option<OpenedSummary> {
        let (plain, replaces_all) = match self.keys.open(&self.context, blob) {
            Some(plain) => (plain, false),
            None => (self.keys.open(&self.of_all, blob)?, true),
        };
        Some(OpenedSummary { text: String::from_utf8(plain).ok()?, replaces_all })
    }

    /// Seals a summary that replaces all items before it.
    pub fn seal_all(&self, summary: &str) -> Option<String> {
        self.keys.seal(&self.of_all, summary.as_bytes())
    }
}

impl SealSummary for SummarySeal {
    fn seal(&self, summary: &str) -> Option<String> {
        self.keys.seal(&self.context, summary.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turn::StatePosition;

    fn keys(bytes: &[u8]) -> Arc<SealKeys> {
        SealKeys::new(&bytes.iter().map(|b| vec![*b; KEY_LEN]).collect::<Vec<_>>()).unwrap()
    }

    fn state() -> ProviderState {
        ProviderState { text: "because".into(), ..ProviderState::default() }
    }

    #[test]
    fn positions_are_sealed_under_stable_names() {
        let names = [StatePosition::Before, StatePosition::Within, StatePosition::After]
            .map(|position| serde_json::to_value(position).unwrap());
        assert_eq!(names, ["leads", "within", "trails"]);
    }

    fn search() -> McpCall {
        let call = r#"{"id": "ws_1", "server_label": "antwort", "name": "web_search", "arguments": "{}", "output": "x"}"#;
        serde_json::from_str(call).unwrap()
    }

    #[test]
    fn a_blob_opens_under_any_of_the_keys_and_only_for_its_tenant_and_provider() {
        let blob = keys(&[1]).bound_to("acme", "vllm").seal(&state());
        assert_eq!(keys(&[2, 1]).bound_to("acme", "vllm").open(&blob), Some(OpenedBlob::State(state())));
        assert_eq!(keys(&[2]).bound_to("acme", "vllm").open(&blob), None);
        assert_eq!(keys(&[1]).bound_to("other", "vllm").open(&blob), None);
        assert_eq!(keys(&[1]).bound_to("acme", "openai").open(&blob), None);
        assert_eq!(keys(&[1]).bound_to("acmev", "llm").open(&blob), None);
    }

    #[test]
    fn a_summary_opens_for_its_tenant_alone_and_is_never_taken_for_provider_state() {
        let summaries = keys(&[1]).summaries_of("acme");
        let blob = summaries.seal("all that was said").expect("sealed");
        assert_eq!(
            keys(&[2, 1]).summaries_of("acme").open(&blob).map(|summary| summary.text).as_deref(),
            Some("all that was said")
        );
        for tenant in ["other", "", "acme\0vllm"] {
            assert_eq!(keys(&[1]).summaries_of(tenant).open(&blob), None, "{tenant}");
        }
        assert_eq!(keys(&[1]).bound_to("acme", "vllm").open(&blob), None);
        for (tenant, provider) in [("acme", ""), ("acme", "vllm"), ("compaction", "acme")] {
            let state = keys(&[1]).bound_to(tenant, provider).seal(&state());
            assert_eq!(summaries.open(&state), None, "{tenant} {provider}");
        }
    }

    #[test]
    fn hosted_results_open_for_their_tenant_whichever_provider_answers() {
        let blob = keys(&[1]).bound_to("acme", "vllm").seal_results(&search());
        assert_eq!(keys(&[1]).bound_to("acme", "openai").open(&blob), Some(OpenedBlob::Results(search())));
        assert_eq!(keys(&[1]).bound_to("other", "vllm").open(&blob), None);
        assert_eq!(keys(&[1]).bound_to("acme", "vllm").open_state(&blob), None, "results are no state");
        let state = keys(&[1]).bound_to("acme", "\0hosted_results").seal(&ProviderState::default());
        assert!(
            !matches!(keys(&[1]).bound_to("acme", "vllm").open(&state), Some(OpenedBlob::Results(_))),
            "state is no results"
        );
    }

    #[test]
    fn state_that_was_sealed_before_calls_had_their_own_opens() {
        let keys = keys(&[1]);
        let context = [&b"acme"[..], b"vllm"].join(&0);
        let blob = keys.seal(&context, br#"{"text":"because","fields":{}}"#).unwrap();
        assert_eq!(keys.bound_to("acme", "vllm").open_state(&blob), Some(state()));
    }

    #[test]
    fn what_is_damaged_or_foreign_does_not_open() {
        let seal = keys(&[1]).bound_to("acme", "vllm");
        let blob = seal.seal(&state());
        assert_eq!(seal.open(&blob[..blob.len() - 2]), None);
        for foreign in ["", "aw1.", "aw1.AAAA", "gAAAAABo-from-elsewhere", "aw1.!!!"] {
            assert_eq!(seal.open(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn a_short_key_is_refused_by_its_place() {
        assert_eq!(SealKeys::new(&[vec![0; 32], vec![0; 31]]).err(), Some(SealKeyError::Length(2)));
    }
}
