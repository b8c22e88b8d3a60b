//! Keys of other gateways for what this one leaves to a proxy in front of it.

/// Limits over time and money.
const BUDGETS: [&str; 14] = [
    "rpm",
    "tpm",
    "max_rpm",
    "max_rpd",
    "max_tpd",
    "rpm_limit",
    "tpm_limit",
    "rate_limit",
    "rate_limits",
    "requests_per_minute",
    "tokens_per_minute",
    "budget",
    "max_budget",
    "quota",
];
/// Certificates of a server.
const CERTIFICATES: [&str; 10] = [
    "tls",
    "ssl",
    "https",
    "cert",
    "certificate",
    "cert_file",
    "key_file",
    "tls_cert",
    "tls_key",
    "tls_port",
];

/// What to do in place of a key, in a section that is known by its other keys.
pub(super) fn hint(key: &str, known: &[&str]) -> Option<&'static str> {
    let is_api_key = known.contains(&"scopes");
    let is_server = known.contains(&"request_body_limit");
    let is_top = known.contains(&"providers");
    // Authorities that clients trust: the only key of this section.
    let is_tls = known == ["ca_file"];
    if is_api_key && BUDGETS.contains(&key) {
        return Some(
            "; limits of requests, tokens or money over time are not supported: put a proxy in front that has them \
             (max_runs limits the runs at one time)",
        );
    }
    if (is_server || is_top) && BUDGETS.contains(&key) {
        return Some(
            "; limits of requests, tokens or money over time are not supported: put a proxy in front that has them \
             (server.max_runs limits the runs at one time, engine.limits those of a run)",
        );
    }
    let is_certificate = CERTIFICATES.contains(&key) || key.starts_with("ssl_") || is_tls && key == "key";
    ((is_server || is_tls || is_top) && is_certificate).then_some(
        "; TLS is not supported: put a proxy in front (docs/deploying.md has tested configurations)",
    )
}

#[cfg(test)]
mod tests {
    use super::hint;

    #[test]
    fn only_the_sections_where_others_have_such_keys_get_a_hint() {
        assert!(hint("rpm", &["key", "scopes"]).is_some_and(|hint| hint.contains("put a proxy in front")));
        assert!(
            hint("tls", &["request_body_limit"]).is_some_and(|hint| hint.contains("put a proxy in front"))
        );
        for (key, known) in [
            ("max_rpd", "scopes"),
            ("max_tpd", "scopes"),
            ("rate_limit", "request_body_limit"),
            ("budget", "providers"),
            ("ssl_certfile", "request_body_limit"),
            ("cert", "ca_file"),
            ("key", "ca_file"),
        ] {
            assert!(
                hint(key, &[known]).is_some_and(|hint| hint.contains("put a proxy in front")),
                "{key} in {known}"
            );
        }
        for (key, known) in [
            ("budget", "url"),
            ("tls", "scopes"),
            ("kye", "scopes"),
            ("tls", "url"),
            ("key", "request_body_limit"),
            ("ca_fiel", "ca_file"),
        ] {
            assert_eq!(hint(key, &[known]), None, "{key} in {known}");
        }
    }
}
