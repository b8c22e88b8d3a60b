//! The file, the environment and flags as sources: what YAML means, and what the merge keeps.

use std::time::Duration;

use super::{errors, load_with, settings};
use crate::show;

#[test]
fn a_dotted_key_is_an_unknown_key_and_no_path() {
    let found = errors("server.max_runs: 7\nproviders: {a.b: {url: 'http://h', 'timeouts.idle': 1s}}", &[]);
    let keys = ["providers.\"a.b\".\"timeouts.idle\": unknown key", "\"server.max_runs\": unknown key"];
    assert!(
        found.len() == 2 && found.iter().zip(keys).all(|(error, key)| error.starts_with(key)),
        "{found:#?}"
    );
}

#[test]
fn keys_for_what_a_proxy_has_to_do_say_so() {
    let yaml = "auth: {keys: {a: {key: k, rpm: 5, budget: 3}}}\nserver: {tls: {cert: /c.pem}}\nproviders: {a: {url: 'http://h'}}";
    let found = errors(yaml, &[]);
    assert_eq!(found.len(), 3, "{found:#?}");
    for (error, key) in found.iter().zip(["auth.keys.a.budget: ", "auth.keys.a.rpm: ", "server.tls: "]) {
        assert!(error.starts_with(key) && error.contains("not supported: put a proxy in front"), "{error}");
    }
}

#[test]
fn merge_keys_and_aliases_are_expanded() {
    let yaml = "
        providers:
          a: &a {url: 'http://h', models: &models [m], timeouts: {idle: 7s}}
          b: {<<: *a, models: [n]}
          c: {url: 'http://h', models: *models}";
    let providers = settings(yaml, &[]).providers;
    assert_eq!(
        (&*providers["b"].models, providers["b"].timeouts.idle),
        (&["n".to_owned()][..], Duration::from_secs(7))
    );
    assert_eq!(providers["c"].models, ["m"]);
}

#[test]
fn a_mistake_in_the_file_is_an_error_even_if_the_environment_overrides_the_key() {
    let found = errors("listen: ${NO_SUCH}", &[("ANTWORT_LISTEN", "127.0.0.1:1")]);
    assert!(found.len() == 1 && found[0].starts_with("listen: the variable NO_SUCH is not set"), "{found:?}");
}

#[test]
fn origins_are_in_the_order_of_keys_whatever_source_sets_them() {
    let environment = [("ANTWORT__SSE__KEEPALIVE", "5s"), ("ANTWORT_LISTEN", "127.0.0.1:1")];
    let yaml = "sse: {commit_after: 2s}\nlog: {filter: warn}\nproviders: {b: {url: 'http://h'}, a: {url: 'http://h'}}";
    for _ in 0..10 {
        let loaded = load_with(yaml, &environment).expect("valid");
        let keys: Vec<_> = loaded.origins.iter().map(|(key, _)| key.as_str()).collect();
        let expected = [
            "listen",
            "log.filter",
            "providers.a.url",
            "providers.b.url",
            "sse.commit_after",
            "sse.keepalive",
        ];
        assert_eq!(keys, expected);
        assert!(show(&loaded).contains("#   sse.keepalive (ANTWORT__SSE__KEEPALIVE)"), "{}", show(&loaded));
    }
}
