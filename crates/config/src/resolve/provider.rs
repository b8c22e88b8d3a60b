//! Model servers: URL, preset and overrides of each; duplicate prefixes and aliases.

use std::collections::BTreeMap;

use http::header::{HeaderName, HeaderValue};
use secrecy::ExposeSecret;
use url::Url;

use super::checker::{Checker, has_credentials, parse_http};
use super::{agents, network};
use crate::provider::{
    ContextWindow, ErrorPattern, Preset, ProviderErrors, ProviderFeatures, ProviderSettings, RoleSettings,
    is_translated_field,
};
use crate::raw::{RawProvider, RawProviderErrors, RawSupports};
use antwort_net::client::HttpClientOptions;

/// Headers of the connection or the request body.
const RESERVED_HEADERS: &[&str] = &[
    "host",
    "content-length",
    "content-type",
    "content-encoding",
    "transfer-encoding",
    "connection",
    "upgrade",
    "accept",
    "accept-encoding",
    "te",
    "trailer",
];

pub(super) fn resolve_all(
    raw: BTreeMap<String, RawProvider>,
    clients: &HttpClientOptions,
    check: &mut Checker<'_>,
) -> BTreeMap<String, ProviderSettings> {
    let mut providers: BTreeMap<_, _> = raw
        .into_iter()
        .map(|(name, raw)| {
            let settings = resolve_one(&name, raw, clients, check);
            (name, settings)
        })
        .collect();
    check_unique_claims(&providers, check);
    choose_default(&mut providers);
    providers
}

/// If no provider is marked as default: the only one, or the one that the environment defines.
fn choose_default(providers: &mut BTreeMap<String, ProviderSettings>) {
    if providers.values().any(|provider| provider.default) {
        return;
    }
    let only = if providers.len() == 1 { providers.values_mut().next() } else { None };
    if let Some(provider) = only {
        provider.default = true;
    } else if let Some(provider) = providers.get_mut("default") {
        provider.default = true;
    }
}

fn check_unique_claims(providers: &BTreeMap<String, ProviderSettings>, check: &mut Checker<'_>) {
    let (mut default, mut prefixes, mut aliases) = (None, BTreeMap::new(), BTreeMap::new());
    for (name, provider) in providers {
        if provider.default
            && let Some(other) = default.replace(name)
        {
            check.error(
                &["providers", name, "default"],
                format!("only one provider can be the default, and `{other}` is, too"),
            );
        }
        if let Some(prefix) = &provider.prefix
            && let Some(other) = prefixes.insert(prefix, name)
        {
            check
                .error(&["providers", name, "prefix"], format!("`{prefix}` is also the prefix of `{other}`"));
        }
        for alias in provider.aliases.keys() {
            if let Some(other) = aliases.insert(alias, name) {
                check.error(&["providers", name, "aliases", alias], format!("is also an alias of `{other}`"));
            }
        }
    }
}

fn resolve_one(
    name: &str,
    raw: RawProvider,
    clients: &HttpClientOptions,
    check: &mut Checker<'_>,
) -> ProviderSettings {
    if name.is_empty()
        || name.len() > 64
        || !name.bytes().all(|c| c.is_ascii_alphanumeric() || b"-_.".contains(&c))
    {
        check.error(&["providers", name], "a provider's name has 1 to 64 letters, digits, `-`, `_` or `.`");
    }
    let url = base_url(name, raw.url.as_deref(), check);
    let preset = raw.preset.unwrap_or_else(|| url.as_ref().map_or(Preset::Generic, guess_preset));
    let base =
        ProviderSettings::new(preset, url.as_ref().map_or("", |url| url.as_str().trim_end_matches('/')));
    let mut settings = ProviderSettings {
        api_key: raw.api_key,
        models: raw.models,
        prefix: raw.prefix.map(|prefix| prefix.trim_end_matches('/').to_owned()),
        default: raw.default,
        aliases: raw.aliases,
        headers: raw.headers.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect(),
        timeouts: raw.timeouts,
        retries: raw.retries,
        proxy: raw.proxy,
        ca_file: raw.ca_file,
        client_cert: raw.client_cert,
        client_key: raw.client_key,
        http: clients.clone(),
        context_window: raw.context_window,
        prices: raw.prices,
        passthrough: raw.passthrough.unwrap_or(base.passthrough),
        errors: error_words(name, &raw.errors, check),
        roles: RoleSettings { all: raw.roles.all.apply(base.roles.all), models: raw.roles.models },
        max_tokens_field: raw.max_tokens_field.unwrap_or(base.max_tokens_field),
        reasoning_field: raw.reasoning_field.unwrap_or(base.reasoning_field),
        think_tags: raw.think_tags.unwrap_or(base.think_tags),
        supports: supports(&raw.supports, base.supports),
        forward: raw.forward.unwrap_or(base.forward),
        client: raw.client.unwrap_or(base.client),
        tokenizer: raw.tokenizer.unwrap_or(base.tokenizer),
        max_event_bytes: raw.max_event_bytes.unwrap_or(base.max_event_bytes),
        max_answer_bytes: raw.max_answer_bytes.unwrap_or(base.max_answer_bytes),
        preset: base.preset,
        url: base.url,
    };
    if let Some(url) = &url {
        network::provider(name, &mut settings, url, check);
    }
    names(name, &settings, check);
    headers(name, &settings, check);
    limits(name, &settings, check);
    agents::prices(name, &settings.prices, check);
    settings
}

fn error_words(name: &str, raw: &RawProviderErrors, check: &mut Checker<'_>) -> ProviderErrors {
    let mut context_overflow = Vec::new();
    for (index, pattern) in raw.context_overflow.iter().enumerate() {
        match ErrorPattern::new(pattern) {
            Ok(pattern) => context_overflow.push(pattern),
            Err(problem) => {
                check.error(&["providers", name, "errors", "context_overflow", &index.to_string()], problem);
            }
        }
    }
    ProviderErrors { context_overflow }
}

/// The URL is never quoted in an error: it may contain a key.
fn base_url(name: &str, url_text: Option<&str>, check: &mut Checker<'_>) -> Option<Url> {
    let path = ["providers", name, "url"];
    let Some(url_text) = url_text else {
        let hint = if name == "default" { " (or set ANTWORT_UPSTREAM_URL)" } else { "" };
        check.missing(&path, format!("is missing: the base URL, usually ending in /v1{hint}"));
        return None;
    };
    let Some(url) = parse_http(url_text) else {
        check.error(&path, "expected an http or https URL, such as http://localhost:8000/v1");
        return None;
    };
    let wrong = if has_credentials(&url) {
        "must not hold a user or password: use api_key or headers"
    } else if url.query().is_some() || url.fragment().is_some() {
        "must not have `?` or `#`: paths are appended to it"
    } else if ["/chat/completions", "/responses", "/models"].iter().any(|end| url.path().ends_with(end)) {
        "must be the base URL, usually ending in /v1, and not one endpoint"
    } else {
        return Some(url);
    };
    check.error(&path, wrong);
    None
}

/// The preset of a well-known address, if only the URL is configured.
fn guess_preset(url: &Url) -> Preset {
    match (url.host_str(), url.port()) {
        (Some("api.openai.com"), _) => Preset::OpenAi,
        (Some("openrouter.ai"), _) => Preset::OpenRouter,
        (Some("api.mistral.ai"), _) => Preset::Mistral,
        (_, Some(11434)) => Preset::Ollama,
        _ => Preset::Generic,
    }
}

fn supports(raw: &RawSupports, base: ProviderFeatures) -> ProviderFeatures {
    ProviderFeatures {
        json: raw.json.unwrap_or(base.json),
        stream_options: raw.stream_options.unwrap_or(base.stream_options),
        strict: raw.strict.unwrap_or(base.strict),
        parallel_tool_calls: raw.parallel_tool_calls.unwrap_or(base.parallel_tool_calls),
        response_format: raw.response_format.unwrap_or(base.response_format),
        custom_tools: raw.custom_tools.unwrap_or(base.custom_tools),
        named_tool_choice: raw.named_tool_choice.unwrap_or(base.named_tool_choice),
        allowed_tools: raw.allowed_tools.unwrap_or(base.allowed_tools),
        images: raw.images.unwrap_or(base.images),
        audio: raw.audio.unwrap_or(base.audio),
        files: raw.files.unwrap_or(base.files),
        video: raw.video.unwrap_or(base.video),
    }
}

fn names(name: &str, settings: &ProviderSettings, check: &mut Checker<'_>) {
    if settings.prefix.as_deref() == Some("") {
        check.error(&["providers", name, "prefix"], "is empty");
    }
    for (index, pattern) in settings.models.iter().enumerate() {
        if pattern.is_empty() {
            check.error(
                &["providers", name, "models", &index.to_string()],
                "is empty; `*` stands for all models",
            );
        }
    }
    for pattern in settings.roles.models.keys().filter(|pattern| pattern.is_empty()) {
        check.error(&["providers", name, "roles", pattern], "an empty pattern matches no model");
    }
    for (alias, model) in &settings.aliases {
        if alias.is_empty() || model.is_empty() {
            check
                .error(&["providers", name, "aliases", alias], "neither an alias nor its model can be empty");
        }
    }
    for (index, field) in settings.passthrough.iter().enumerate() {
        if is_translated_field(field) {
            let path = ["providers", name, "passthrough", &index.to_string()];
            check
                .error(&path, format!("`{field}` is translated by the gateway and cannot be passed through"));
        }
    }
}

fn headers(name: &str, settings: &ProviderSettings, check: &mut Checker<'_>) {
    for (header, value) in &settings.headers {
        let path = ["providers", name, "headers", header];
        if HeaderName::try_from(header).is_err() {
            check.error(&path, "is not a valid header name");
        } else if RESERVED_HEADERS.contains(&header.as_str()) {
            check.error(&path, "is set by the gateway");
        } else if header == "authorization" && settings.api_key.is_some() {
            check.error(&path, "is also sent for api_key: remove one of the two");
        }
        if HeaderValue::try_from(value.expose_secret()).is_err() {
            check.error(&path, "has an invalid header value");
        }
    }
    if let Some(key) = &settings.api_key
        && (key.expose_secret().is_empty() || HeaderValue::try_from(key.expose_secret()).is_err())
    {
        check.error(
            &["providers", name, "api_key"],
            "cannot be sent in a header: it is empty or contains line ends",
        );
    }
}

fn limits(name: &str, settings: &ProviderSettings, check: &mut Checker<'_>) {
    let timeouts = &settings.timeouts;
    for (key, value) in [
        ("connect", timeouts.connect),
        ("first_byte", timeouts.first_byte),
        ("idle", timeouts.idle),
        ("total", timeouts.total),
    ] {
        if value.is_zero() {
            check.error(&["providers", name, "timeouts", key], "must be more than 0");
        }
    }
    if settings.retries.max > 10 {
        check.error(&["providers", name, "retries", "max"], "must be at most 10");
    }
    for (key, value) in
        [("max_event_bytes", settings.max_event_bytes), ("max_answer_bytes", settings.max_answer_bytes)]
    {
        if value == 0 {
            check.error(&["providers", name, key], "must be more than 0");
        }
    }
    let zero = match &settings.context_window {
        ContextWindow::Unknown => false,
        ContextWindow::All(tokens) => *tokens == 0,
        ContextWindow::Models(models) => models.values().any(|tokens| *tokens == 0),
    };
    if zero {
        check.error(&["providers", name, "context_window"], "must be more than 0");
    }
}
