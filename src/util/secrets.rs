//! Words that look like keys.

/// Whether a word begins as keys of well-known services do, or a JSON Web Token begins.
pub(crate) fn is_key(word: &str) -> bool {
    const PREFIXES: [&str; 8] = ["sk-", "sk_", "gsk_", "hf_", "xai-", "AIza", "eyJ", "key-"];
    word.len() > 8 && PREFIXES.iter().any(|prefix| word.starts_with(prefix))
}
