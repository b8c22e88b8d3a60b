//! Keys of agent files that a configuration may have, too: `tools.api_keys`, `tools.security_policy` and a `tools.timeout` in
//! nanoseconds. `antwort config import` translates them; people also copy them by hand. `config::moved_keys` moves them.

use std::time::Duration;

/// A section below `tools` whose keys were replaced by others.
pub(crate) struct LegacySection {
    /// The name of the section.
    pub name: &'static str,
    /// Its keys, and the paths of the keys that replaced them.
    pub keys: &'static [(&'static str, &'static [&'static str])],
    /// Whether the key that replaced one may have another value, and takes precedence; otherwise that is an error.
    pub(crate) gives_way: bool,
}

/// All sections.
pub(crate) const SECTIONS: [LegacySection; 2] = [
    LegacySection {
        name: "api_keys",
        keys: &[
            ("weather", &["tools", "builtin", "get_weather", "api_key"]),
            ("search", &["tools", "builtin", "web_search", "api_key"]),
        ],
        gives_way: true,
    },
    LegacySection {
        name: "security_policy",
        keys: &[
            ("allow_file_access", &["tools", "allow_file_access"]),
            ("allow_network_access", &["tools", "allow_network_access"]),
            ("allowed_paths", &["tools", "builtin", "file_read", "allowed_paths"]),
            ("allowed_domains", &["egress", "allowed_domains"]),
        ],
        gives_way: false,
    },
];

/// The key whose numbers may be nanoseconds.
pub(crate) const TIMEOUT: [&str; 2] = ["tools", "timeout"];

/// Smaller numbers are not nanoseconds: no tool has a timeout below a millisecond.
const MIN_NANOSECONDS: u64 = 1_000_000;

/// A number at [`TIMEOUT`] as Go writes durations in JSON: in nanoseconds.
pub(crate) fn timeout(number: u64) -> Option<Duration> {
    (number >= MIN_NANOSECONDS).then(|| Duration::from_nanos(number))
}
