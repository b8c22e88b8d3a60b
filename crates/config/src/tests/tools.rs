//! Tools, agents and limits: errors, and legacy keys.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::ExposeSecret;

use super::{assert_each_refused, errors, load_with, settings};
use crate::{SearchProvider, show};

#[test]
fn tools_are_checked() {
    assert_each_refused(&[
        ("tools: {allowed_tools: ['a[']}", "tools.allowed_tools[0]: expected a pattern"),
        ("tools: {blocked_tools: ['']}", "tools.blocked_tools[0]: is empty"),
        ("tools: {tenants: {t: {allowed_tools: ['{a']}}}", "tools.tenants.t.allowed_tools[0]: expected"),
        ("tools: {max_parallel: 0}", "tools.max_parallel: must be more"),
        ("tools: {timeout: 0s}", "tools.timeout: must be more"),
        ("tools: {timeout: 30}", "tools.timeout: expected a duration with its unit"),
        ("tools: {cache: {ttl: {a: 0s}}}", "tools.cache.ttl.a: must be more"),
        ("tools: {retry: {max: 11}}", "tools.retry.max: must be at most 10"),
        ("tools: {overrides: {a: {timeout: 0s}}}", "tools.overrides.a.timeout: must be more"),
        ("tools: {overrides: {a: {max_calls: 0}}}", "tools.overrides.a.max_calls: must be more"),
        (
            "tools: {overrides: {a: {serial: true, max_parallel: 2}}}",
            "tools.overrides.a.max_parallel: contra",
        ),
        ("tools: {overrides: {a: {on_error: 'fallback:a'}}}", "tools.overrides.a.on_error: falls back"),
        ("tools: {overrides: {a: {on_error: panic}}}", "tools.overrides.a.on_error: expected continue, fail"),
        ("tools: {on_error: 'fallback:b'}", "tools.on_error: b would fall back to itself"),
        ("tools: {routes: {a: {executors: [x, x]}}}", "tools.routes.a.executors[1]: `x` is a duplicate"),
        (
            "tools: {routes: {a: {executors: [x, z], strategy: weighted, weights: {y: 1}}}}",
            "tools.routes.a.weights.y: is not among",
        ),
        ("tools: {routes: {a: {executors: [x, z], weights: {x: 1}}}}", "tools.routes.a.weights: require"),
        ("tools: {mock: {a b: {}}}", "tools.mock.\"a b\": a name has 1 to 64"),
        ("tools: {mock: {a: {parameters: x}}}", "tools.mock.a.parameters: expected a JSON Schema"),
    ]);
}

#[test]
fn built_in_tools_and_egress_are_checked() {
    assert_each_refused(&[
        (
            "tools: {builtin: {web_search: {provider: searxng}}}",
            "tools.builtin.web_search.base_url: is missing",
        ),
        (
            "tools: {builtin: {web_search: {provider: brave, required: true}}}",
            "tools.builtin.web_search.api_key: is missing, and the tool is required",
        ),
        (
            "tools: {builtin: {get_weather: {required: true}}}",
            "tools.builtin.get_weather.api_key: is missing, and",
        ),
        (
            "tools: {builtin: {get_weather: {base_url: 'ftp://x'}}}",
            "tools.builtin.get_weather.base_url: expected an http",
        ),
        (
            "tools: {builtin: {file_read: {required: true}}}",
            "tools.builtin.file_read.required: is set, yet tools.allow_file_access",
        ),
        (
            "tools: {builtin: {file_read: {allowed_paths: ['/tmp/', '']}}}",
            "tools.builtin.file_read.allowed_paths[1]: is empty",
        ),
        (
            "tools: {builtin: {web_search: {base_url: 'http://u:p@h'}}}",
            "tools.builtin.web_search.base_url: must not hold a user or password",
        ),
        (
            "tools: {builtin: {get_weather: {base_url: 'http://h/?key=k'}}}",
            "tools.builtin.get_weather.base_url: must not hold a query or fragment",
        ),
        ("egress: {allow: ['http://h']}", "egress.allow[0]: expected a host"),
        ("egress: {allowed_domains: ['a/b']}", "egress.allowed_domains[0]: expected a domain"),
        ("egress: {timeout: 0s}", "egress.timeout: must be more"),
    ]);
}

#[test]
fn agents_limits_and_prices_are_checked() {
    assert_each_refused(&[
        ("agents: {a b: {}}", "agents.\"a b\": a name has 1 to 64"),
        ("agents: {a: {tools: ['']}}", "agents.a.tools[0]: the name of a tool is empty"),
        ("agents: {a: {blocked_tools: ['[']}}", "agents.a.blocked_tools[0]: expected a pattern"),
        ("agents: {a: {limits: {max_seconds: 0}}}", "agents.a.limits.max_seconds: expected a number that"),
        ("agents: {a: {temperature: 2.5}}", "agents.a.temperature: expected a number from 0 to 2"),
        ("agents: {a: {top_p: -1}}", "agents.a.top_p: expected a number from 0 to 1"),
        ("agents: {a: {max_output_tokens: 0}}", "agents.a.max_output_tokens: expected 1 to"),
        (
            "agents: {a: {reasoning: {efort: low}}}",
            "agents.a.reasoning.efort: unknown key; did you mean `effort`?",
        ),
        ("agents: {a: {reasoning: {effort: brutal}}}", "agents.a.reasoning.effort: "),
        ("agents: {a: {text: {verbosity: loud}}}", "agents.a.text.verbosity: "),
        ("agents: {a: {text: {format: {type: xml}}}}", "agents.a.text.format: "),
        (
            "agents: {a: {text: {format: {type: json_schema, name: x, schema: {type: 7}}}}}",
            "agents.a.text.format.schema: ",
        ),
        ("engine: {limits: {max_turns: 0}}", "engine.limits.max_turns: must be more"),
        ("engine: {ceilings: {max_cost_usd: -1}}", "engine.ceilings.max_cost_usd: expected a number that"),
        (
            "providers: {a: {url: 'http://h', prices: {m: {input: 1, output: -1}}}}",
            "providers.a.prices.m.output: expected US dollars",
        ),
        ("providers: {a: {url: 'http://h', prices: {m: {input: 1}}}}", "providers.a.prices.m: `output` is"),
    ]);
}

#[test]
fn fallbacks_in_a_circle_are_refused() {
    let circle =
        errors("tools: {overrides: {a: {on_error: 'fallback:b'}, b: {on_error: 'fallback:a'}}}", &[]);
    assert_eq!(circle.len(), 2, "{circle:?}");
}

#[test]
fn a_missing_key_is_not_wrong_unless_its_tool_is_required() {
    let found = settings("tools: {builtin: {web_search: {provider: tavily, api_key: '${KEY:-}'}}}", &[]);
    assert!(found.tools.builtin.web_search.api_key.is_none());
}

#[test]
fn keys_of_the_environment_alone_switch_their_tools_on() {
    let search = |yaml: &str, environment: &[(&str, &str)]| {
        let found = settings(yaml, environment).tools.builtin.web_search;
        let key = found.api_key.as_ref().map(|key| key.expose_secret().to_owned());
        (found.search_provider(), key)
    };
    let weather = |yaml: &str| settings(yaml, &[("WEATHER_API_KEY", "w")]).tools.builtin.get_weather.api_key;
    assert_eq!(weather("").expect("a key").expose_secret(), "w");
    let said = weather("tools: {builtin: {get_weather: {api_key: own}}}");
    assert_eq!(said.expect("a key").expose_secret(), "own", "what this gateway was told counts");
    assert_eq!(weather("tools: {api_keys: {weather: own}}").expect("a key").expose_secret(), "own");
    let key = |key: &str| Some(key.to_owned());
    for (yaml, environment, expected) in [
        ("", &[][..], (None, None)),
        ("", &[("SEARCH_API_KEY", " ")], (None, None)),
        ("", &[("SEARCH_API_KEY", "BSA1")], (Some(SearchProvider::Brave), key("BSA1"))),
        ("", &[("SEARCH_API_KEY", "tvly-1")], (Some(SearchProvider::Tavily), key("tvly-1"))),
        ("", &[("TAVILY_API_KEY", "t")], (Some(SearchProvider::Tavily), key("t"))),
        ("", &[("SEARCH_API_KEY", "s"), ("TAVILY_API_KEY", "t")], (Some(SearchProvider::Brave), key("s"))),
        // A key is sent only to its own provider.
        (
            "tools: {builtin: {web_search: {provider: brave}}}",
            &[("TAVILY_API_KEY", "t")],
            (Some(SearchProvider::Brave), None),
        ),
        (
            "tools: {builtin: {web_search: {provider: brave, api_key: own}}}",
            &[("BRAVE_API_KEY", "b"), ("SEARCH_API_KEY", "s")],
            (Some(SearchProvider::Brave), key("own")),
        ),
        (
            "tools: {builtin: {web_search: {provider: duckduckgo}}}",
            &[],
            (Some(SearchProvider::DuckDuckGo), None),
        ),
    ] {
        assert_eq!(search(yaml, environment), expected, "{yaml} {environment:?}");
    }
    let loaded = load_with("", &[("WEATHER_API_KEY", "w-key")]).unwrap_or_else(|errors| panic!("{errors}"));
    let shown = show(&loaded);
    assert!(
        shown.contains("tools.builtin.get_weather.api_key (WEATHER_API_KEY)") && !shown.contains("w-key"),
        "{shown}"
    );
}

#[test]
fn limits_are_numbers_and_the_environment_has_short_names() {
    let yaml = "engine: {limits: {max_turns: 3, max_seconds: 90, max_cost_usd: 0.25}}";
    let found = settings(yaml, &[("ANTWORT_MAX_TURNS", "5"), ("ANTWORT_EGRESS_ALLOW", "a:80, 10.0.0.0/8")]);
    assert_eq!(found.engine.limits.max_turns, 5);
    assert_eq!(found.engine.limits.wall_clock(), Some(Duration::from_secs(90)));
    assert_eq!(found.engine.limits.max_cost_usd, Some(0.25));
    assert_eq!(found.egress.allow, ["a:80", "10.0.0.0/8"]);
}

#[test]
fn older_spellings_mean_the_same() {
    let yaml = "
        tools:
          timeout: 20000000000
          api_keys: {weather: '${W}', search: '${S:-}'}
          security_policy:
            allow_file_access: true
            allow_network_access: false
            allowed_paths: [/srv]
            allowed_domains: [api.openweathermap.org]
          allow_file_access: true";
    let loaded = load_with(yaml, &[("W", "w-key")]).unwrap_or_else(|errors| panic!("{errors}"));
    let (tools, egress) = (&loaded.settings.tools, &loaded.settings.egress);
    let weather = tools.builtin.get_weather.api_key.as_ref().expect("a key");
    assert_eq!(weather.expose_secret(), "w-key");
    assert!(tools.builtin.web_search.api_key.is_none());
    assert!(tools.allow_file_access && !tools.allow_network_access);
    assert_eq!(tools.builtin.file_read.allowed_paths, [PathBuf::from("/srv")]);
    assert_eq!(egress.allowed_domains.as_deref(), Some(["api.openweathermap.org".to_owned()].as_slice()));
    assert_eq!(tools.timeout, Duration::from_secs(20));
    assert!(loaded.warnings[0].contains("interpreted as nanoseconds: write 20s"), "{:?}", loaded.warnings);
    assert!(!show(&loaded).contains("w-key"));
}

#[test]
fn older_spellings_never_hide_what_else_was_said() {
    let both = "tools: {api_keys: {weather: old}, builtin: {get_weather: {api_key: own}}}";
    let key = settings(both, &[]).tools.builtin.get_weather.api_key.expect("a key");
    assert_eq!(key.expose_secret(), "own");
    for (yaml, expected) in [
        (
            "tools: {allow_file_access: false, security_policy: {allow_file_access: true}}",
            "tools.allow_file_access: contradicts tools.security_policy.allow_file_access",
        ),
        ("tools: {api_keys: {wether: k}}", "tools.api_keys.wether: unknown key; did you mean `weather`?"),
        ("tools: {security_policy: {allow_all: true}}", "tools.security_policy.allow_all: unknown key"),
        ("tools: {api_keys: k}", "tools.api_keys: unknown key"),
    ] {
        let errors = errors(yaml, &[]);
        assert!(errors.len() == 1 && errors[0].starts_with(expected), "{yaml}: {errors:#?}");
    }
    let environment = [("ANTWORT__TOOLS__ALLOW_FILE_ACCESS", "true")];
    let found = settings("tools: {security_policy: {allow_file_access: false}}", &environment);
    assert!(found.tools.allow_file_access, "the environment beats the file, however each is spelled");
}
