//! The keys that encrypt what clients and the database keep.

use std::path::PathBuf;
use std::sync::Arc;

use secrecy::SecretBox;
use serde::Serialize;

use super::masks;

/// A key of 32 bytes that is never printed, and zeroed when dropped.
pub type SealKey = Arc<SecretBox<[u8; 32]>>;

/// Keys that encrypt provider state that clients hold.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SealSettings {
    /// The first encrypts, all decrypt. Empty: the key in `file`.
    #[serde(serialize_with = "masks::masked_keys")]
    pub keys: Vec<SealKey>,
    /// Where a generated key is stored; by default beside the SQLite file, `None` with a store in memory.
    pub file: Option<PathBuf>,
}
