//! How secrets are written: masked.

use std::collections::BTreeMap;
use std::fmt;

use secrecy::SecretString;
use serde::Serializer;
use serde::ser::SerializeMap;

/// Replaces secrets in output.
pub(super) const MASK: &str = "********";

/// Masks a secret.
pub(super) fn masked<S: Serializer>(_: &SecretString, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(MASK)
}

/// Masks a secret, if there is one.
pub(super) fn masked_option<S: Serializer>(value: &Option<SecretString>, to: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(_) => to.serialize_str(MASK),
        None => to.serialize_none(),
    }
}

/// A URL without its query, which may contain a key.
pub(super) fn masked_query<S: Serializer>(value: &Option<String>, to: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(url) => masked_query_of(url, to),
        None => to.serialize_none(),
    }
}

/// The same of a URL that must be there.
pub(super) fn masked_query_of<S: Serializer>(url: &str, to: S) -> Result<S::Ok, S::Error> {
    match url.split_once('?') {
        Some((place, _)) => to.collect_str(&format_args!("{place}?{MASK}")),
        None => to.serialize_str(url),
    }
}

/// Masks the secrets, not their names.
pub(super) fn masked_map<S: Serializer>(
    value: &BTreeMap<String, SecretString>,
    to: S,
) -> Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(Some(value.len()))?;
    for name in value.keys() {
        map.serialize_entry(name, MASK)?;
    }
    map.end()
}

/// Masks each key.
pub(super) fn masked_keys<T, S: Serializer>(value: &[T], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(value.iter().map(|_| MASK))
}

/// `sha256:` and hex digits. A hash is not secret: keys are too long to be guessed from it.
pub(super) fn digest<S: Serializer>(value: &[u8; 32], to: S) -> Result<S::Ok, S::Error> {
    struct Hex<'a>(&'a [u8]);
    impl fmt::Display for Hex<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("sha256:")?;
            self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
        }
    }
    to.collect_str(&Hex(value))
}
