//! Routing of models to providers: aliases, prefixes, patterns, the default provider.

mod form;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::http::{ChatProvider, InvalidProvider};
use super::{CallContext, Provider, ProxiedBody, ProxiedResponse};
use antwort_config::ProviderSettings;
use antwort_protocol::error::{ApiError, ErrorKind};
use antwort_protocol::parse::truncate_for_display;
use antwort_telemetry::metrics::Metrics;
use antwort_util::pattern;

/// The configured providers, and the rules that select one by model name.
pub struct ProviderRouter {
    entries: Vec<Entry>,
}

struct Entry {
    provider: Arc<dyn Provider>,
    aliases: BTreeMap<String, String>,
    prefix: Option<String>,
    models: Vec<String>,
    default: bool,
}

/// A provider, and the names that the settings give its models.
#[derive(Clone, Copy)]
pub(super) struct ModelNames<'a> {
    pub provider: &'a Arc<dyn Provider>,
    pub prefix: Option<&'a str>,
    pub aliases: &'a BTreeMap<String, String>,
    /// Patterns of the models that it serves.
    pub patterns: &'a [String],
}

/// The provider and model that serve a request.
#[derive(Clone)]
pub struct ModelRoute {
    /// The provider that is called.
    pub provider: Arc<dyn Provider>,
    /// The provider's own model name.
    pub model: String,
}

impl ProviderRouter {
    /// A router for the configured providers, in the order of their names.
    pub fn new(
        providers: &BTreeMap<String, ProviderSettings>,
        metrics: &Arc<Metrics>,
    ) -> Result<Self, InvalidProvider> {
        let providers = providers.iter().map(|(name, settings)| {
            metrics.known_provider(name);
            let provider: Arc<dyn Provider> = Arc::new(ChatProvider::new(name, settings, metrics)?);
            Ok((provider, settings.clone()))
        });
        Ok(Self::from_providers(providers.collect::<Result<Vec<_>, InvalidProvider>>()?))
    }

    /// A router for providers of any kind.
    pub(super) fn from_providers(
        providers: impl IntoIterator<Item = (Arc<dyn Provider>, ProviderSettings)>,
    ) -> Self {
        let providers: Vec<_> = providers.into_iter().collect();
        let only = providers.len() == 1;
        Self {
            entries: providers
                .into_iter()
                .map(|(provider, settings)| Entry::new(provider, &settings, only))
                .collect(),
        }
    }

    /// Selects the provider for a model: by alias, then prefix, then pattern, then the default provider.
    pub fn resolve(&self, model: &str) -> Result<ModelRoute, ApiError> {
        let found = self
            .find(|entry| entry.aliases.get(model).cloned())
            .or_else(|| self.find(|entry| entry.without_prefix(model).map(str::to_owned)))
            .or_else(|| self.find(|entry| entry.claims(model).then(|| model.to_owned())))
            .or_else(|| self.find(|entry| entry.default.then(|| model.to_owned())));
        found.ok_or_else(|| {
            ApiError::new(
                ErrorKind::NotFound,
                format!(
                    "The model '{}' does not exist: no provider is configured for it.",
                    truncate_for_display(model)
                ),
            )
            .with_code("model_not_found")
            .with_param("model")
        })
    }

    fn find(&self, name: impl Fn(&Entry) -> Option<String>) -> Option<ModelRoute> {
        self.entries
            .iter()
            .find_map(|entry| Some(ModelRoute { model: name(entry)?, provider: Arc::clone(&entry.provider) }))
    }

    /// All configured providers, in the order of their names.
    pub fn providers(&self) -> impl Iterator<Item = &Arc<dyn Provider>> {
        self.entries.iter().map(|entry| &entry.provider)
    }

    /// Whether requests that name this model go to that model of the provider.
    pub(super) fn leads_to(&self, name: &str, provider: &Arc<dyn Provider>, model: &str) -> bool {
        self.resolve(name).is_ok_and(|route| Arc::ptr_eq(&route.provider, provider) && route.model == model)
    }

    /// Each provider with the names that the settings give its models.
    pub(super) fn model_names(&self) -> impl Iterator<Item = ModelNames<'_>> {
        self.entries.iter().map(|entry| ModelNames {
            provider: &entry.provider,
            prefix: entry.prefix.as_deref(),
            aliases: &entry.aliases,
            patterns: &entry.models,
        })
    }

    /// Routes a proxied form by its field `model`; the rest of it is not parsed.
    ///
    /// # Errors
    /// If the form has no such field, or more than one, or no provider serves the model.
    pub fn route_form(&self, content_type: &str, body: &Bytes) -> Result<RoutedBody, ApiError> {
        let field = form::model_field(content_type, body)?;
        let route = self.resolve(field.model)?;
        let bytes =
            if route.model == field.model { body.clone() } else { field.replaced(body, &route.model) };
        let body = ProxiedBody { bytes, form: Some(content_type.to_owned()) };
        Ok(RoutedBody { provider: route.provider, model: route.model, body })
    }

    /// Routes a proxied request body by its `model`; the rest of the body is not parsed.
    ///
    /// # Errors
    /// If the body is not an object with a model, or no provider serves it.
    pub fn route_body(&self, body: &Bytes) -> Result<RoutedBody, ApiError> {
        let model = read_model(body)?;
        let route = self.resolve(&model)?;
        let bytes = if route.model == model { body.clone() } else { replace_model(body, &route.model)? };
        let body = ProxiedBody { bytes, form: None };
        Ok(RoutedBody { provider: route.provider, model: route.model, body })
    }
}

/// A proxied request with its provider.
pub struct RoutedBody {
    provider: Arc<dyn Provider>,
    model: String,
    body: ProxiedBody,
}

impl RoutedBody {
    /// The name of the provider in the configuration.
    pub fn provider(&self) -> &str {
        self.provider.name()
    }

    /// The provider's own model name.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Sends it to the provider.
    ///
    /// # Errors
    /// If the provider fails.
    pub async fn pass_through(self, path: &str, call: &CallContext) -> Result<ProxiedResponse, ApiError> {
        Ok(self.provider.pass_through(path, self.body, call).await?)
    }
}

impl Entry {
    fn new(provider: Arc<dyn Provider>, settings: &ProviderSettings, only: bool) -> Self {
        Self {
            provider,
            aliases: settings.aliases.clone(),
            prefix: settings.prefix.clone(),
            models: settings.models.clone(),
            // A single provider without models or prefix serves every model.
            default: settings.default || (only && settings.models.is_empty() && settings.prefix.is_none()),
        }
    }

    fn without_prefix<'a>(&self, model: &'a str) -> Option<&'a str> {
        let rest = model.strip_prefix(self.prefix.as_deref()?)?.strip_prefix('/')?;
        (!rest.is_empty()).then_some(rest)
    }

    fn claims(&self, model: &str) -> bool {
        self.models.iter().any(|pattern| pattern::matches(pattern, model))
    }
}

fn read_model(body: &[u8]) -> Result<String, ApiError> {
    #[derive(Deserialize)]
    struct Fields<'a> {
        #[serde(borrow, default)]
        model: Option<Cow<'a, str>>,
    }
    let unreadable = |problem: String| {
        let message = format!("The request body cannot be read: {problem}.");
        ApiError::new(ErrorKind::InvalidRequest, message).with_code("invalid_json")
    };
    // serde would deserialize a struct from an array, too.
    if body.trim_ascii_start().starts_with(b"[") {
        return Err(unreadable("an object is expected".to_owned()));
    }
    let fields: Fields<'_> = serde_json::from_slice(body).map_err(|error| unreadable(error.to_string()))?;
    match fields.model {
        Some(model) if !model.is_empty() => Ok(model.into_owned()),
        _ => Err(form::missing_model()),
    }
}

/// The same body with another model; every other field stays byte for byte.
fn replace_model(body: &[u8], model: &str) -> Result<Bytes, ApiError> {
    let internal = |_| ApiError::internal();
    let mut fields: serde_json::Map<String, serde_json::Value> = serde_json::Map::new();
    let raw: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_slice(body).map_err(internal)?;
    fields.insert("model".to_owned(), model.into());
    let mut out = serde_json::to_vec(&fields).map_err(internal)?;
    out.pop();
    for (name, value) in raw.iter().filter(|(name, _)| name.as_ref() != "model") {
        out.push(b',');
        serde_json::to_writer(&mut out, name).map_err(internal)?;
        out.push(b':');
        out.extend_from_slice(value.get().as_bytes());
    }
    out.push(b'}');
    Ok(out.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use antwort_config::Preset;

    fn provider(change: impl FnOnce(&mut ProviderSettings)) -> ProviderSettings {
        let mut settings = ProviderSettings::new(Preset::Generic, "http://127.0.0.1:1/v1");
        change(&mut settings);
        settings
    }

    fn router() -> ProviderRouter {
        let providers = BTreeMap::from([
            ("a".to_owned(), provider(|p| p.models = vec!["gpt-*".into(), "exact".into()])),
            ("b".to_owned(), provider(|p| p.prefix = Some("local".into()))),
            (
                "c".to_owned(),
                provider(|p| {
                    p.default = true;
                    p.aliases = BTreeMap::from([("fast".into(), "org/model:7b".into())]);
                }),
            ),
        ]);
        ProviderRouter::new(&providers, &Metrics::new()).unwrap()
    }

    #[test]
    fn a_model_is_found_by_alias_prefix_pattern_and_default() {
        for (model, provider, upstream) in [
            ("gpt-5", "a", "gpt-5"),
            ("exact", "a", "exact"),
            ("local/llama:3", "b", "llama:3"),
            ("fast", "c", "org/model:7b"),
            ("anything", "c", "anything"),
        ] {
            let route = router().resolve(model).unwrap();
            assert_eq!((route.provider.name(), route.model.as_str()), (provider, upstream), "{model}");
        }
    }

    #[test]
    fn a_model_that_nobody_serves_is_not_found() {
        let settings = provider(|p| p.models = vec!["gpt-*".into()]);
        let router =
            ProviderRouter::new(&BTreeMap::from([("a".to_owned(), settings)]), &Metrics::new()).unwrap();
        let error = router.resolve("llama").err().unwrap();
        assert_eq!((error.kind.status(), error.code()), (404, "model_not_found"));
    }

    #[test]
    fn renaming_changes_the_model_and_nothing_else() {
        let replaced = replace_model(br#"{"model":"fast","seed": 1.50,"n":{"model":"x"}}"#, "slow").unwrap();
        let text = String::from_utf8(replaced.to_vec()).unwrap();
        assert_eq!(text, r#"{"model":"slow","n":{"model":"x"},"seed":1.50}"#);
    }
}
