//! Settings from all sources: precedence, errors, and that no secret is shown.

use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::ExposeSecret;

use super::*;

mod limits;
mod mcp;
mod network;
mod sources;
mod tools;

/// Loads a file's text with environment variables.
fn load_with(yaml: &str, environment: &[(&str, &str)]) -> Result<LoadedConfig, ConfigErrors> {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("antwort.yaml");
    std::fs::write(&file, yaml).expect("written");
    load(&LoadOptions { file: Some(file), ..options(environment) })
}

fn options(environment: &[(&str, &str)]) -> LoadOptions {
    let environment =
        environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    LoadOptions { environment, ..LoadOptions::default() }
}

fn settings(yaml: &str, environment: &[(&str, &str)]) -> Settings {
    load_with(yaml, environment).map(|loaded| loaded.settings).unwrap_or_else(|errors| panic!("{errors}"))
}

/// `path: message` of all errors.
fn errors(yaml: &str, environment: &[(&str, &str)]) -> Vec<String> {
    let errors = load_with(yaml, environment).expect_err("wrong settings");
    errors.iter().map(|error| format!("{}: {}", error.path, error.message)).collect()
}

fn yaml(settings: &Settings) -> String {
    serde_norway::to_string(settings).expect("YAML")
}

#[test]
fn an_upstream_url_is_enough() {
    let settings =
        Settings::load(&options(&[("ANTWORT_UPSTREAM_URL", "http://localhost:8000/v1/")])).expect("valid");
    let provider = &settings.providers["default"];
    assert_eq!(
        (provider.url.as_str(), provider.preset, provider.default),
        ("http://localhost:8000/v1", Preset::Generic, true)
    );
    assert_eq!(settings.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(settings.store.url, StoreUrl::Sqlite("antwort.db".into()));
    assert_eq!(settings.seal.file.as_deref(), Some(Path::new("antwort.db.seal-key")));
}

#[test]
fn default_yaml_says_the_defaults() {
    assert_eq!(yaml(&settings(DEFAULT_CONFIG, &[])), yaml(&settings("", &[])));
    let mut default = Settings::default();
    default.seal.file = Some("antwort.db.seal-key".into());
    assert_eq!(yaml(&settings(DEFAULT_CONFIG, &[])), yaml(&default));
}

/// Readers of the file would not find a missing key.
#[test]
fn default_yaml_has_every_key() {
    fn keys(value: &serde_norway::Value, prefix: &str, found: &mut Vec<String>) {
        for (key, value) in value.as_mapping().into_iter().flatten() {
            let path = format!("{prefix}.{}", key.as_str().expect("a word"));
            keys(value, &path, found);
            found.push(path);
        }
    }
    let (mut documented, mut known) = (Vec::new(), Vec::new());
    keys(&serde_norway::from_str(DEFAULT_CONFIG).expect("YAML"), "", &mut documented);
    keys(&serde_norway::to_value(Settings::default()).expect("a value"), "", &mut known);
    documented.sort();
    known.sort();
    assert_eq!(documented, known);

    let provider = serde_norway::to_value(ProviderSettings::default()).expect("a value");
    for key in provider.as_mapping().expect("a mapping").keys() {
        let key = key.as_str().expect("a word");
        assert!(DEFAULT_CONFIG.contains(&format!("\n#   {key} ")), "providers.<name>.{key} is not described");
    }
}

#[test]
fn the_example_is_valid() {
    let dir = tempfile::tempdir().expect("a directory");
    let key = dir.path().join("key");
    std::fs::write(&key, "exporters-key\n").expect("written");
    let example = include_str!("../../../config/example.yaml")
        .replace("/run/secrets/export-key", key.to_str().expect("UTF-8"));
    let seal_key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    let environment = [("METRICS_KEY", "m"), ("OPENAI_API_KEY", "sk-o"), ("SEAL_KEY", seal_key)];
    let settings = settings(&example, &environment);
    assert_eq!(settings.providers["ollama"].url, "http://localhost:11434/v1");
    assert_eq!(settings.providers["openai"].api_key.as_ref().expect("a key").expose_secret(), "sk-o");
    assert_eq!(settings.providers["ollama"].context_window.for_model("llama3.2"), Some(8192));
    assert_eq!(settings.auth.keys["prometheus"].scopes, [Scope::MetricsRead]);
    assert_eq!(&*settings.auth.keys["nightly-export"].owner, "chat-frontend");
    assert_eq!(settings.seal.keys[0].expose_secret()[31], 31);
}

#[test]
fn the_image_serves_everybody_with_a_key_and_keeps_responses_in_its_volume() {
    let image = include_str!("../../../config/image.yaml");
    let settings = settings(image, &[("ANTWORT_API_KEY", "a-key-of-this-test")]);
    assert!(settings.listen.ip().is_unspecified());
    assert_eq!(settings.store.url, StoreUrl::Sqlite("/data/antwort.db".into()));
    assert!(!errors(image, &[]).is_empty(), "and without keys nobody");
}

#[test]
fn flags_beat_the_environment_beats_the_file_beats_defaults() {
    let yaml = "log: {filter: debug}\nserver: {max_runs: 5, write_timeout: 9s}\nlisten: 127.0.0.1:1";
    let environment =
        [("ANTWORT__SERVER__MAX_RUNS", "6"), ("ANTWORT_LISTEN", "127.0.0.1:2"), ("ANTWORT_LOG", "")];
    let from_file = settings(yaml, &environment);
    assert_eq!((from_file.server.max_runs, from_file.server.write_timeout), (6, Duration::from_secs(9)));
    assert_eq!(from_file.listen.port(), 2);
    assert_eq!(from_file.log.filter, "debug", "an empty variable counts as unset");
    let flags = LoadOptions { listen: Some("localhost:3".into()), ..options(&environment) };
    assert_eq!(Settings::load(&flags).expect("valid").listen.to_string(), "127.0.0.1:3");
}

#[test]
fn the_file_is_found_by_flag_then_variable_then_place() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = |name: &str, port: u16| -> PathBuf {
        let path = dir.path().join(name);
        std::fs::write(&path, format!("listen: 127.0.0.1:{port}")).expect("written");
        path
    };
    let (flag, variable) = (file("flag.yaml", 1), file("variable.yaml", 2));
    let port = |options: &LoadOptions| Settings::load(options).expect("valid").listen.port();
    let mut options = options(&[("ANTWORT_CONFIG", variable.to_str().expect("UTF-8"))]);
    options.directory = Some(dir.path().to_owned());
    options.file = Some(flag);
    assert_eq!(port(&options), 1);
    options.file = None;
    assert_eq!(port(&options), 2);
    options.environment.clear();
    assert_eq!(port(&options), 8080);
    options.system_file = Some(dir.path().join("system.yaml"));
    assert_eq!(port(&options), 8080, "it need not be there");
    file("system.yaml", 4);
    assert_eq!(port(&options), 4);
    options.environment.insert("ANTWORT_LISTEN".into(), "127.0.0.1:5".into());
    assert_eq!(port(&options), 5);
    options.environment.clear();
    file("antwort.yaml", 3);
    assert_eq!(port(&options), 3);
    options.file = Some("/no/such/file".into());
    let error = load(&options).expect_err("no file").to_string();
    assert!(error.contains("/no/such/file"), "{error}");
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let yaml = "
        listn: 127.0.0.1:80
        sse: {keepaliv: 15s, commit_after: 5}
        server: {max_runs: '7', write_timeout: 3 parsecs}
        engine: {dialect: klingon}
        auth: {keys: {ci: {key: k, scopes: [responses:create, responses:destroy]}}}
        providers:
          a: {url: 'ftp://host/v1', timeouts: {idle: 0s}}
          b: {}
        store: {maintenance_interval: 20s, conversation_ttl: 0s, tenants: {acme: {ttl: 0s, max_size: 0}}}";
    let expected = [
        "auth.keys.ci.scopes[1]: expected one of responses:create, responses:read, responses:delete, models:read, chat:create, embeddings:create, pass_through:create, metrics:read, tools:read, tools:execute, tools:admin, mcp:admin, agents:read, data:admin, *, found \"responses:destroy\"",
        "engine.dialect: expected one of openai, open_responses, found \"klingon\"",
        "listn: unknown key; did you mean `listen`?",
        "server.max_runs: expected a whole number, 0 or more, found text",
        "server.write_timeout: expected a duration with its unit, such as 500ms, 15s, 2m, 1h or 30d, found string \"3 parsecs\"",
        "sse.commit_after: expected a duration with its unit, such as 500ms, 15s, 2m, 1h or 30d, found a number",
        "sse.keepaliv: unknown key; did you mean `keepalive`?",
        "providers.a.url: expected an http or https URL, such as http://localhost:8000/v1",
        "providers.a.timeouts.idle: must be more than 0",
        "providers.b.url: is missing: the base URL, usually ending in /v1",
        "store.conversation_ttl: must be more than 0",
        "store.tenants.acme.ttl: must be more than 0",
        "store.tenants.acme.max_size: must be more than 0",
        "store.maintenance_interval: must be at most half of store.lease, or a live process may lose its leases",
    ];
    assert_eq!(errors(yaml, &[]), expected);
}

#[test]
fn errors_name_where_the_key_was_said() {
    let environment = [("ANTWORT__SSE__KEEPALIVE", "15"), ("ANTWORT__SSE__X", "1")];
    let errors = load(&options(&environment)).expect_err("wrong").to_string();
    assert!(errors.contains("(ANTWORT__SSE__KEEPALIVE)"), "{errors}");
    assert!(
        errors.contains("sse.x: unknown key; known are keepalive, commit_after (ANTWORT__SSE__X)"),
        "{errors}"
    );
}

#[test]
fn broken_yaml_is_placed() {
    for yaml in ["listen: [", "- a\n- b", "a: 1\na: 2", "listen: !tag x"] {
        let error = load_with(yaml, &[]).expect_err(yaml).to_string();
        assert!(error.contains("antwort.yaml: "), "{error}");
    }
    assert!(load_with("", &[]).is_ok());
    assert!(load_with("server:\n  # all commented out\n", &[]).is_ok());
}

/// Asserts that each configuration has exactly this error.
fn assert_each_refused(cases: &[(&str, &str)]) {
    for (yaml, expected) in cases {
        let errors = errors(yaml, &[]);
        assert!(errors.len() == 1 && errors[0].starts_with(expected), "{yaml}: {errors:#?}");
        assert!(!errors[0].contains("secret"), "{errors:?}");
    }
}

#[test]
fn keys_and_addresses_that_contradict_each_other_are_refused() {
    assert_each_refused(&[
        ("listen: 0.0.0.0:80", "listen: 0.0.0.0:80 can be reached from other machines"),
        ("listen: '[::]:80'", "listen: [::]:80 can be reached"),
        ("listen: ':80'", "listen: expected an address and a port"),
        ("auth: {none: true, keys: {a: {key: k}}}", "auth.none: contradicts auth.keys"),
        ("ui: {dir: /nowhere/page}", "ui.dir: /nowhere/page is not a directory"),
        (
            "{listen: '0.0.0.0:80', auth: {none: true}, ui: {enabled: on}}",
            "ui.enabled: the page would be open to everyone",
        ),
        ("auth: {keys: {a: {}}}", "auth.keys.a: needs `hash`"),
        ("auth: {keys: {a: {key: k, hash: 'sha256:0'}}}", "auth.keys.a: has both"),
        ("auth: {keys: {a: {hash: 'sha256:0'}}}", "auth.keys.a.hash: expected `sha256:` and 64"),
        ("auth: {keys: {a: {key: 'with space'}}}", "auth.keys.a.key: is empty or contains white space"),
        ("auth: {keys: {a: {key: k}, b: {key: k}}}", "auth.keys.b: is the same key as `a`"),
        ("listen: ${NO_SUCH}", "listen: the variable NO_SUCH is not set"),
        ("listen: file:/no/such", "listen: cannot read the file /no/such"),
    ]);
}

#[test]
fn providers_that_contradict_each_other_are_refused() {
    assert_each_refused(&[
        ("providers: {a: {url: 'http://h/v1/chat/completions'}}", "providers.a.url: must be the base URL"),
        ("providers: {a: {url: 'http://u:p@h/v1'}}", "providers.a.url: must not hold a user or password"),
        ("providers: {a: {url: 'http://h/v1?key=x'}}", "providers.a.url: must not have `?`"),
        (
            "providers: {a: {url: 'http://h', passthrough: [seed, tools]}}",
            "providers.a.passthrough[1]: `tools` is translated",
        ),
        (
            "providers: {a: {url: 'http://h', errors: {context_overflow: ['too long', '(']}}}",
            "providers.a.errors.context_overflow[1]: is not a regular expression",
        ),
        (
            "providers: {a: {url: 'http://h', headers: {Host: x}}}",
            "providers.a.headers.host: is set by the gateway",
        ),
        (
            "providers: {a: {url: 'http://h', headers: {authorization: x}, api_key: y}}",
            "providers.a.headers.authorization: is also sent for api_key",
        ),
        ("providers: {a: {url: 'http://h', context_window: 0}}", "providers.a.context_window: must be more"),
        (
            "providers: {a: {url: 'http://h', default: true}, b: {url: 'http://h', default: true}}",
            "providers.b.default: only one",
        ),
        (
            "providers: {a: {url: 'http://h', prefix: p}, b: {url: 'http://h', prefix: p/}}",
            "providers.b.prefix: `p` is also the prefix of `a`",
        ),
        (
            "providers: {a: {url: 'http://h', aliases: {m: x}}, b: {url: 'http://h', aliases: {m: y}}}",
            "providers.b.aliases.m: is also an alias of `a`",
        ),
    ]);
}

#[test]
fn invalid_values_of_stores_logs_and_traces_are_refused() {
    assert_each_refused(&[
        ("store: {url: 'postgres://u:secret@h/db'}", "seal.keys: a store in PostgreSQL needs keys"),
        (
            "{store: {url: 'postgres://h/db', max_size: 1GiB}, seal: {keys: [AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=]}}",
            "store.max_size: the size of a PostgreSQL database",
        ),
        (
            "{store: {url: 'postgres://h/db', synchronous: full}, seal: {keys: [AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=]}}",
            "store.synchronous: the durability of a commit",
        ),
        ("store: {pool_size: 1}", "store.pool_size: must be 2 or more"),
        ("store: {pool_size: 1001}", "store.pool_size: must be 1000 or less"),
        ("store: {failed_requests: 100001}", "store.failed_requests: must be at most 100000"),
        ("store: {statement_timeout: 30d}", "store.statement_timeout: must be 1h or less"),
        ("store: {statement_timeout: 0s}", "store.statement_timeout: must be more than 0"),
        ("store: {url: 'mysql://h'}", "store.url: expected sqlite:PATH, memory: or postgres:"),
        ("store: {url: 'sqlite:'}", "store.url: the path is missing"),
        ("seal: {keys: [c2hvcnQ=]}", "seal.keys[0]: expected base64 of exactly 32 bytes"),
        ("engine: {max_item_bytes: 1GiB}", "engine.max_item_bytes: is more than"),
        ("log: {filter: 'antwort=loud'}", "log.filter: expected a level"),
        ("telemetry: {otlp_endpoint: 'localhost:4317'}", "telemetry.otlp_endpoint: expected an http"),
        ("telemetry: {sample_ratio: 2}", "telemetry.sample_ratio: expected a number from 0 to 1"),
    ]);
}

/// A misspelt key must not be reported as missing, too.
#[test]
fn what_was_said_wrongly_is_not_said_to_be_missing() {
    let found = errors("listen: 0.0.0.0:80\nauth: {keys: {a: {kye: k}}}", &[]);
    assert_eq!(found, ["auth.keys.a.kye: unknown key; did you mean `key`?"]);
}

#[test]
fn no_key_is_needed_where_that_is_said() {
    for yaml in ["listen: 0.0.0.0:80\nauth: none", "listen: 0.0.0.0:80\nauth: {none: true}"] {
        assert!(settings(yaml, &[]).auth.none, "{yaml}");
    }
    assert!(settings("listen: 0.0.0.0:80", &[("ANTWORT__AUTH__NONE", "1")]).auth.none);
    assert!(errors("auth: nobody", &[])[0].contains("expected a section"), "only this word");
}

#[test]
fn a_key_is_kept_as_its_hash() {
    // printf %s sk-test | sha256sum
    let hash = "f3abf2a6cc4f00987743db5f544ba345b4899ae31f326d8ee9c4816de153c9e0";
    let from_key = settings("", &[("ANTWORT_API_KEY", "sk-test")]).auth.keys["env"].clone();
    assert_eq!((&*from_key.tenant, &*from_key.owner), ("default", "env"));
    assert_eq!(from_key.scopes, [Scope::All]);
    let shown = yaml(&settings("", &[("ANTWORT_API_KEY", "sk-test")]));
    assert!(!shown.contains("sk-test") && shown.contains("hash: sha256:"), "{shown}");
    let from_hash =
        settings(&format!("auth: {{keys: {{a: {{hash: 'sha256:{hash}'}}}}}}"), &[]).auth.keys["a"].clone();
    assert_eq!(from_hash.hash, from_key.hash);
}

#[test]
fn variables_in_the_file_become_what_the_key_asks_for() {
    let yaml = "
        server: {max_runs: '${RUNS}', cors: {allowed_origins: '${ORIGINS:-}'}}
        tools: {execution_enabled: '${TOOLS:-false}'}
        providers: {a: {url: 'http://${HOST}/v1', api_key: '${KEY:-}'}}";
    let environment = [("RUNS", "12"), ("HOST", "h")];
    let found = settings(yaml, &environment);
    assert_eq!((found.server.max_runs, found.tools.execution_enabled), (12, false));
    assert!(found.providers["a"].api_key.is_none() && found.server.cors.allowed_origins.is_empty());
    assert_eq!(found.providers["a"].url, "http://h/v1");
}

#[test]
fn variables_cannot_change_the_structure() {
    let found = settings(
        "providers: {a: {url: 'http://h', api_key: '${KEY}'}}",
        &[("KEY", "x}, default: true, y: {")],
    );
    assert_eq!(
        found.providers["a"].api_key.as_ref().expect("a key").expose_secret(),
        "x}, default: true, y: {"
    );
}

#[test]
fn the_environment_is_taken_as_it_is() {
    let found =
        settings("", &[("ANTWORT_UPSTREAM_URL", "http://h"), ("ANTWORT_UPSTREAM_API_KEY", "${x}007")]);
    assert_eq!(found.providers["default"].api_key.as_ref().expect("a key").expose_secret(), "${x}007");
}

#[test]
fn the_environment_reaches_names_with_dashes_and_capitals() {
    let yaml = "providers: {My-vLLM: {url: 'http://h'}}";
    let found = settings(yaml, &[("ANTWORT__PROVIDERS__MY_VLLM__TIMEOUTS__IDLE", "7s")]);
    assert_eq!(found.providers["My-vLLM"].timeouts.idle, Duration::from_secs(7));
    let found = settings(yaml, &[("ANTWORT__PROVIDERS__MY_VLLM__MODELS", "a*, b")]);
    assert_eq!(found.providers["My-vLLM"].models, ["a*", "b"]);
}

#[test]
fn misspelt_variables_are_warned_of_and_those_of_kubernetes_are_not() {
    let environment = [
        ("ANTWORT_UPSTREAM_APIKEY", "x"),
        // One typo in three letters is close enough, three in six are not.
        ("ANTWORT_LOF", "x"),
        ("ANTWORT_LOGGER", "x"),
        ("ANTWORT_PORT", "tcp://10.0.0.1:80"),
        ("ANTWORT_SERVICE_HOST", "x"),
    ];
    let warnings = load(&options(&environment)).expect("valid").warnings;
    assert_eq!(
        warnings,
        [
            "unknown environment variable ANTWORT_LOF; did you mean ANTWORT_LOG?",
            "unknown environment variable ANTWORT_UPSTREAM_APIKEY; did you mean ANTWORT_UPSTREAM_API_KEY?"
        ]
    );
}

#[test]
fn a_file_that_is_not_there_is_told_how_it_is_named_and_one_that_cannot_be_read_is_not() {
    let dir = tempfile::tempdir().expect("a directory");
    let error =
        |file: PathBuf| load(&LoadOptions { file: Some(file), ..options(&[]) }).unwrap_err().to_string();
    let hint = "--config or ANTWORT_CONFIG names it";
    let (missing, unreadable) = (error(dir.path().join("none.yaml")), error(dir.path().to_owned()));
    assert!(missing.contains("cannot read") && missing.contains(hint), "{missing}");
    assert!(unreadable.contains("cannot read") && !unreadable.contains(hint), "{unreadable}");
}

#[test]
fn presets_give_way_to_what_is_said() {
    let yaml = "
        providers:
          openai: {url: 'https://api.openai.com/v1', supports: {files: false}}
          vllm: {preset: vllm, url: 'http://h:8000/v1', forward: [metadata], roles: {system: keep}}
          ollama: {url: 'http://h:11434/v1'}
          default: {url: 'http://h/v1'}";
    let providers = settings(yaml, &[]).providers;
    let openai = &providers["openai"];
    assert_eq!(
        (openai.preset, openai.max_tokens_field),
        (Preset::OpenAi, MaxTokensField::MaxCompletionTokens)
    );
    assert!(
        !openai.supports.files
            && openai.supports.strict
            && openai.forward.contains(&ForwardedField::ServiceTier)
    );
    let vllm = &providers["vllm"];
    assert_eq!(
        (vllm.forward.as_slice(), vllm.roles.all.system),
        ([ForwardedField::Metadata].as_slice(), SystemPlacement::Keep)
    );
    assert_eq!(vllm.roles.all.developer, DeveloperRole::System);
    assert_eq!(providers["ollama"].preset, Preset::Ollama);
    assert!(providers["default"].default && !openai.default);
}

#[test]
fn what_is_shown_reads_back_and_holds_no_secret() {
    let yaml = "
        providers: {a: {url: 'http://h/v1', api_key: s3cret, headers: {x-key: s3cret}, context_window: {m: 5}}}
        auth: {keys: {k: {key: s3cret, dialect: open_responses}}}
        seal: {keys: [AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=]}
        engine: {limits: {max_tool_calls: off}}
        store: {ttl: off, max_size: off}";
    let loaded = load_with(yaml, &[("ANTWORT_LISTEN", "127.0.0.1:99")]).expect("valid");
    let shown = show(&loaded);
    assert!(!shown.contains("s3cret") && !shown.contains("AAEC"), "{shown}");
    assert!(shown.contains("#   listen (ANTWORT_LISTEN)"), "{shown}");
    assert!(!format!("{loaded:?}").contains("s3cret"));
    // Only the masked key cannot be read back.
    let again = settings(&shown.replace("keys:\n  - '********'", "keys: []"), &[]);
    assert_eq!(again.store.ttl, None);
    assert_eq!(
        (again.engine.limits.max_tool_calls, Settings::default().engine.limits.max_tool_calls),
        (None, Some(128))
    );
    let again = yaml_without_seal(&again);
    assert_eq!(again, yaml_without_seal(&loaded.settings));
}

fn yaml_without_seal(settings: &Settings) -> String {
    let text = yaml(settings);
    text.split("seal:").next().unwrap_or_default().to_owned()
}
