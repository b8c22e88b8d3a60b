//! MCP servers: errors, and what is shown of them.

use std::time::Duration;

use secrecy::ExposeSecret;

use super::{errors, load_with, settings};
use crate::settings::McpAuth;
use crate::show;

/// A section `mcp` with one server.
fn server(said: &str) -> String {
    format!("mcp: {{servers: {{a: {{{said}}}}}}}")
}

fn assert_refused(yaml: &str, expected: &str) {
    let errors = errors(yaml, &[]);
    assert!(errors.len() == 1 && errors[0].starts_with(expected), "{yaml}: {errors:#?}");
}

#[test]
fn servers_that_could_not_be_used_are_refused() {
    for (said, expected) in [
        ("", ": needs a `url`, or a `command`"),
        ("url: 'http://h', command: c", ": has both `url` and `command`"),
        ("url: 'ftp://h'", ".url: expected an http or https URL"),
        ("url: 'http://u:s3cret@h'", ".url: must not hold a user"),
        ("url: 'http://h/#x'", ".url: must not have `#`"),
        ("url: 'http://h/rpc', transport: json_rpc", ".url: must not end in /rpc"),
        ("url: 'http://h/?a=b', transport: json_rpc", ".url: must not have `?`"),
        ("url: 'http://h', transport: stdio", ".transport: `stdio` needs a `command`"),
        ("url: 'http://h', transport: http", ".transport: expected one of auto, streamable_http"),
        ("command: c, transport: sse", ".transport: a `command` requires `stdio`"),
        ("url: 'http://h', args: [x]", ".args: is for servers with a `command`"),
        ("url: 'http://h', env: {A: b}", ".env: is for servers with a `command`"),
        ("url: 'http://h', cwd: /", ".cwd: is for servers with a `command`"),
        ("command: ''", ".command: expected the name"),
        ("command: c, cwd: ''", ".cwd: is empty"),
        ("command: c, env: {A=B: c}", ".env.A=B: is not a valid variable name"),
        ("command: c, headers: {a: b}", ".headers: are for servers with a `url`"),
        ("command: c, auth: {type: bearer, token: t}", ".auth: is for servers with a `url`"),
        ("command: c, timeout: 0s", ".timeout: must be more"),
        ("command: c, max_time: 0s", ".max_time: must be more"),
        ("command: c, tool_ttl: 0s", ".tool_ttl: must be more"),
        ("command: c, max_in_flight: 0", ".max_in_flight: must be more"),
        ("command: c, timeout: 2m, max_time: 1m", ".max_time: is less than timeout"),
        ("command: c, allowed_tools: ['a[']", ".allowed_tools[0]: expected a pattern"),
        ("command: c, blocked_tools: ['']", ".blocked_tools[0]: is empty"),
        ("command: c, rules: {'{a': ask}", ".rules.{a: expected a pattern"),
        ("command: c, rules: {a: maybe}", ".rules.a: expected one of ask, allow, deny"),
        ("command: c, tenants: []", ".tenants: is empty, so no tenant"),
        ("command: c, tenants: [a, '']", ".tenants[1]: the name of a tenant is empty"),
        ("command: c, trust: yes_please", ".trust: expected one of trusted"),
        ("command: c, comand: c", ".comand: unknown key; did you mean `command`?"),
    ] {
        assert_refused(&server(said), &format!("mcp.servers.a{expected}"));
    }
    assert_refused("mcp: {servers: {a b: {command: c}}}", "mcp.servers.\"a b\": a name has 1 to 64");
    assert_refused(
        "mcp: {servers: {antwort: {command: c}}}",
        "mcp.servers.antwort: is reserved for the gateway's",
    );
}

#[test]
fn headers_and_auth_that_could_not_be_sent_are_refused() {
    for (said, expected) in [
        ("headers: {'a b': c}", ".headers.\"a b\": is not a valid header name"),
        ("headers: {Mcp-Session-Id: c}", ".headers.Mcp-Session-Id: is set by the gateway"),
        ("headers: {Content-Type: c}", ".headers.Content-Type: is set by the gateway"),
        ("headers: {x: \"a\\nb\"}", ".headers.x: has an invalid header value"),
        ("headers: {X: a, x: b}", ".headers.x: is a duplicate"),
        (
            "headers: {Authorization: a}, auth: {type: bearer, token: t}",
            ".headers.Authorization: is also sent by `auth`",
        ),
        ("auth: {type: bearer}", ".auth: `token` is missing"),
        ("auth: {type: bearer, token: t, scopes: [a]}", ".auth: `scopes` is not used by this"),
        ("auth: {token: t}", ".auth: `token` is not used by this"),
        ("auth: {type: bearer, token: t, tokn: t}", ".auth.tokn: unknown key; did you mean `token`?"),
        ("auth: {type: basic}", ".auth.type: expected one of none, bearer"),
        ("auth: {type: bearer, token: 'a b'}", ".auth.token: is empty, or contains white space"),
        ("auth: {type: bearer, token: 'Bearer x'}", ".auth.token: must not include the prefix"),
        ("auth: {type: client_credentials, client_secret: s}", ".auth: `client_id` is missing"),
        ("auth: {type: client_credentials, client_id: c}", ".auth: needs `client_secret` or `private_key`"),
        (
            "auth: {type: client_credentials, client_id: c, client_secret: s, private_key: p}",
            ".auth.private_key: cannot be combined",
        ),
        (
            "auth: {type: client_credentials, client_id: c, client_secret: s, key_id: k}",
            ".auth.key_id: requires `private_key`",
        ),
        (
            "auth: {type: client_credentials, client_id: c, private_key: p3m}",
            ".auth.private_key: expected a private key in PEM",
        ),
        (
            "auth: {type: client_credentials, client_id: c, private_key: p, algorithm: HS256}",
            ".auth.algorithm: expected one of RS256, PS256, ES256, EdDSA",
        ),
        (
            "auth: {type: client_credentials, client_id: c, client_secret: s, token_url: 'http://h/t'}",
            ".auth.token_url: must be https",
        ),
        (
            "auth: {type: client_credentials, client_id: c, client_secret: s, scopes: ['a b']}",
            ".auth.scopes[0]: expected one scope",
        ),
        (
            "auth: {type: token_exchange, client_id: c}",
            ".auth.token_url: is missing: callers' tokens are never",
        ),
        (
            "auth: {type: token_exchange, client_id: c, token_url: 'https://h/t', resource: 'a b'}",
            ".auth.resource: expected an absolute URI",
        ),
    ] {
        let yaml = server(&format!("url: 'https://h', {said}"));
        assert_refused(&yaml, &format!("mcp.servers.a{expected}"));
    }
    for fine in ["http://localhost:1/t", "http://127.0.0.9/t", "http://[::1]:9/t", "https://h/t?x=y"] {
        let auth = format!("{{type: token_exchange, client_id: c, token_url: '{fine}'}}");
        settings(&server(&format!("url: 'https://h', auth: {auth}")), &[]);
    }
}

#[test]
fn limits_that_stop_everything_and_sampling_without_a_model_are_refused() {
    for (said, expected) in [
        ("tool_ttl: 0s", "tool_ttl: must be more"),
        ("list_timeout: 0s", "list_timeout: must be more"),
        ("max_message_bytes: 0", "max_message_bytes: must be more"),
        ("requests: {timeout: 1h}", "requests.max_time: is less than timeout"),
        ("requests: {max_servers: 0}", "requests.max_servers: must be more"),
        ("requests: {allowed_domains: ['https://a']}", "requests.allowed_domains[0]: expected a domain"),
        ("sessions: {max: 0}", "sessions.max: must be more"),
        ("approvals: {expires_after: 0s}", "approvals.expires_after: must be more"),
        ("sampling: {enabled: true}", "sampling.model: is missing"),
        ("sampling: {model: ''}", "sampling.model: is empty"),
        ("sampling: {max_tokens: 0}", "sampling.max_tokens: must be more"),
        ("elicitation: ask", "elicitation: expected one of decline, cancel, off"),
    ] {
        assert_refused(&format!("mcp: {{{said}}}"), &format!("mcp.{expected}"));
    }
}

#[test]
fn agents_name_servers_that_there_are() {
    let yaml = "mcp: {servers: {docs: {command: c}}}\nagents: {a: {mcp_servers: [docs]}}";
    assert_eq!(settings(yaml, &[]).agents["a"].mcp_servers, ["docs"]);
    let near = "mcp: {servers: {docs: {command: c}}}\nagents: {a: {mcp_servers: [docs, dosc]}}";
    assert_refused(near, "agents.a.mcp_servers[1]: is not in mcp.servers; did you mean `docs`?");
    assert_refused(
        "agents: {a: {mcp_servers: [x]}}",
        "agents.a.mcp_servers[0]: is not in mcp.servers, which",
    );
}

/// A P-256 key that signs nothing but this test's words.
fn private_key() -> String {
    let rng = aws_lc_rs::rand::SystemRandom::new();
    let algorithm = &aws_lc_rs::signature::ECDSA_P256_SHA256_FIXED_SIGNING;
    let der = aws_lc_rs::signature::EcdsaKeyPair::generate_pkcs8(algorithm, &rng).expect("a key");
    let text = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, der.as_ref());
    format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n")
}

#[test]
fn secrets_come_from_variables_and_files_and_are_never_shown() {
    let dir = tempfile::tempdir().expect("a directory");
    let key = dir.path().join("key.pem");
    std::fs::write(&key, private_key()).expect("written");
    let yaml = format!(
        "
        mcp:
          servers:
            bearer:
              url: https://h/mcp?key=${{TOKEN}}
              headers: {{X-Key: '${{TOKEN}}'}}
              auth: {{type: bearer, token: '${{TOKEN}}'}}
              timeout: 5s
            program: {{command: c, env: {{KEY: '${{TOKEN}}', NONE: '${{NONE:-}}'}}, max_time: 20s}}
            client:
              url: https://h
              auth:
                type: client_credentials
                client_id: c
                private_key: file:{}
                scopes: ${{SCOPES}}
            other: {{url: 'https://h', auth: {{type: token_exchange, client_id: c, token_url: 'https://h/t', client_secret: '${{TOKEN}}'}}}}",
        key.display()
    );
    let environment = [("TOKEN", "t0ken-of-ours"), ("SCOPES", "read, write")];
    let loaded = load_with(&yaml, &environment).unwrap_or_else(|errors| panic!("{errors}"));
    let servers = &loaded.settings.mcp.servers;
    let McpAuth::Bearer { token } = &servers["bearer"].auth else { panic!("bearer") };
    assert_eq!(token.expose_secret(), "t0ken-of-ours");
    assert_eq!(servers["bearer"].call_timeouts(), (Duration::from_secs(5), Duration::from_mins(10)));
    assert_eq!(servers["program"].call_timeouts(), (Duration::from_secs(20), Duration::from_secs(20)));
    assert_eq!(servers["program"].env["KEY"].expose_secret(), "t0ken-of-ours");
    assert!(!servers["program"].env.contains_key("NONE"), "what is empty was not said");
    let McpAuth::ClientCredentials(client) = &servers["client"].auth else { panic!("client") };
    assert!(client.private_key.as_ref().expect("a key").expose_secret().starts_with("-----BEGIN"));
    assert_eq!(client.scopes, ["read", "write"]);
    let shown = format!("{}{:?}", show(&loaded), loaded.settings.mcp.servers["client"].auth);
    for secret in ["t0ken", "-----BEGIN"] {
        assert!(!shown.contains(secret), "{shown}");
    }
    for part in ["type: bearer", "token: '********'", "X-Key: '********'", "https://h/mcp?********"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

#[test]
fn a_key_has_to_fit_its_algorithm() {
    let yaml = |algorithm: &str| {
        let auth = format!("{{type: client_credentials, client_id: c, private_key: '${{KEY}}'{algorithm}}}");
        server(&format!("url: 'https://h', auth: {auth}"))
    };
    let environment = [("KEY", &*private_key())];
    settings(&yaml(""), &environment);
    settings(&yaml(", algorithm: ES256"), &environment);
    let errors = errors(&yaml(", algorithm: RS256"), &environment);
    assert!(errors[0].starts_with("mcp.servers.a.auth.private_key: cannot sign"), "{errors:?}");
}
