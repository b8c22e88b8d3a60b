//! The catalogue of all providers' models, under the names that requests use; cached.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::sync::Mutex;

use super::routing::{ModelNames, ProviderRouter};
use super::{ModelInfo, ProviderError, ProviderErrorKind};

/// How long a failure is cached: requests that waited for the same list must not ask the providers one after the other.
const FAILURE_TTL: Duration = Duration::from_secs(1);

/// The cached list of models; concurrent requests share one fetch.
pub struct ModelCatalog {
    router: Arc<ProviderRouter>,
    ttl: Duration,
    /// Locked while the providers are asked, so that concurrent requests wait for the same result.
    cache: Mutex<ModelCache>,
}

#[derive(Default)]
struct ModelCache {
    models: Option<(Arc<[ModelInfo]>, Instant)>,
    failure: Option<(ProviderError, Instant)>,
}

impl ModelCatalog {
    /// An empty catalogue.
    pub fn new(router: Arc<ProviderRouter>, ttl: Duration) -> Self {
        Self { router, ttl, cache: Mutex::default() }
    }

    /// All models. A provider that does not answer is left out; if none answers, the last list is used, if there is one.
    pub async fn list(&self) -> Result<Arc<[ModelInfo]>, ProviderError> {
        let mut cache = self.cache.lock().await;
        let ModelCache { models, failure } = &mut *cache;
        if let Some((models, _)) = models.as_ref().filter(|(_, at)| at.elapsed() < self.ttl) {
            return Ok(Arc::clone(models));
        }
        if failure.as_ref().is_none_or(|(_, at)| at.elapsed() >= FAILURE_TTL) {
            *failure = match self.fetch().await {
                Ok(found) => {
                    *models = Some((Arc::clone(&found), Instant::now()));
                    return Ok(found);
                }
                Err(error) => Some((error, Instant::now())),
            };
        }
        match (models, failure) {
            (Some((stale, _)), failure) => {
                tracing::warn!(error = ?failure, "listing models failed for all providers; serving the cached list");
                Ok(Arc::clone(stale))
            }
            (None, Some((error, _))) => Err(error.clone()),
            (None, None) => Ok(Arc::from([])),
        }
    }

    /// Whether each provider answers within the timeout, by name.
    pub async fn reachability(&self, timeout: Duration) -> BTreeMap<String, bool> {
        let checks = self.router.providers().map(async |provider| {
            let reachable = match tokio::time::timeout(timeout, provider.models()).await {
                Ok(Ok(_)) => true,
                // A server without a list of models is reachable, too: it answers with an error.
                Ok(Err(error)) => error.is_upstream_response(),
                Err(_) => false,
            };
            (provider.name().to_owned(), reachable)
        });
        join_all(checks).await.into_iter().collect()
    }

    async fn fetch(&self) -> Result<Arc<[ModelInfo]>, ProviderError> {
        let mut models = Vec::new();
        let mut failed = None;
        let lists = self.router.model_names().map(|names| listed(&self.router, names));
        for (found, failure) in join_all(lists).await {
            models.extend(found);
            failed = failure.or(failed);
        }
        if models.is_empty()
            && let Some(error) = failed
        {
            return Err(error);
        }
        models.sort_by(|a, b| a.id.cmp(&b.id));
        models.dedup_by(|a, b| a.id == b.id);
        Ok(models.into())
    }
}

/// The models of a provider in its order, and why it lists none. Without a list, what is known of them is in the settings.
pub(super) async fn listed(
    router: &ProviderRouter,
    names: ModelNames<'_>,
) -> (Vec<ModelInfo>, Option<ProviderError>) {
    match names.provider.models().await {
        Ok(found) => (usable(router, names, &found), None),
        Err(error) => {
            let provider = names.provider.name();
            tracing::debug!(provider, %error, "listing the models of a provider failed");
            let has_no_list = matches!(error.kind, ProviderErrorKind::Status(404 | 405 | 501));
            let models = if has_no_list { usable(router, names, &configured(names)) } else { Vec::new() };
            (models, Some(error))
        }
    }
}

/// These models and the aliases under names by which requests reach them; what no name leads to is left out.
fn usable(router: &ProviderRouter, names: ModelNames<'_>, found: &[ModelInfo]) -> Vec<ModelInfo> {
    let leads = |name: &str, model: &str| router.leads_to(name, names.provider, model);
    let listed = found.iter().filter_map(|model| {
        let prefixed = names.prefix.map(|prefix| format!("{prefix}/{}", model.id));
        let mut ids = prefixed.into_iter().chain([model.id.clone()]);
        ids.find(|id| leads(id, &model.id)).map(|id| ModelInfo { id, ..model.clone() })
    });
    let aliases = names.aliases.iter().filter(|(alias, model)| leads(alias, model));
    listed.chain(aliases.map(|(alias, model)| alias_of(alias, model, found))).collect()
}

/// The models that the settings name.
fn configured(names: ModelNames<'_>) -> Vec<ModelInfo> {
    let named = names.patterns.iter().filter(|pattern| !pattern.contains('*'));
    named.map(|model| ModelInfo { id: model.clone(), created: 0, owned_by: String::new() }).collect()
}

fn alias_of(alias: &str, name: &str, found: &[ModelInfo]) -> ModelInfo {
    let known = found.iter().find(|model| model.id == name);
    ModelInfo {
        id: alias.to_owned(),
        created: known.map_or(0, |model| model.created),
        owned_by: known.map(|model| model.owned_by.clone()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use bytes::Bytes;

    use super::*;
    use crate::{CallContext, ModelStream, Provider, ProviderInfo, ProxiedBody, ProxiedResponse};
    use antwort_config::{Preset, ProviderSettings};
    use antwort_response::turn::ModelRequest;

    /// Lists these models, or fails.
    struct Lister {
        models: Option<Vec<&'static str>>,
        failure: ProviderErrorKind,
        asked: AtomicUsize,
        profile: ProviderInfo,
    }

    #[async_trait]
    impl Provider for Lister {
        fn name(&self) -> &str {
            "lister"
        }

        fn info(&self) -> &ProviderInfo {
            &self.profile
        }

        fn infer(
            &self,
            _: &Arc<ModelRequest>,
            _: &CallContext,
        ) -> Result<Box<dyn ModelStream>, ProviderError> {
            Err(ProviderError::new(ProviderErrorKind::Connect, ""))
        }

        fn encode_for_tokenizer(&self, _: &ModelRequest) -> Result<Option<Bytes>, ProviderError> {
            Ok(None)
        }

        async fn count_tokens(&self, _: Bytes, _: &CallContext) -> Option<u64> {
            None
        }

        fn estimate_tokens(&self, _: &ModelRequest) -> Result<u64, ProviderError> {
            Ok(0)
        }

        async fn models(&self) -> Result<Vec<ModelInfo>, ProviderError> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            let info = |id: &&str| ModelInfo { id: (*id).to_owned(), created: 7, owned_by: "o".to_owned() };
            let models = self.models.as_ref().map(|models| models.iter().map(info).collect());
            models.ok_or_else(|| ProviderError::new(self.failure, ""))
        }

        async fn pass_through(
            &self,
            _: &str,
            _: ProxiedBody,
            _: &CallContext,
        ) -> Result<ProxiedResponse, ProviderError> {
            Err(ProviderError::new(ProviderErrorKind::Connect, ""))
        }
    }

    fn lister(models: Option<Vec<&'static str>>) -> Arc<Lister> {
        let failure = ProviderErrorKind::Connect;
        Arc::new(Lister { models, failure, asked: AtomicUsize::new(0), profile: ProviderInfo::default() })
    }

    fn catalog(listers: &[(&Arc<Lister>, Option<&str>)], ttl: Duration) -> ModelCatalog {
        let entries = listers.iter().enumerate().map(|(index, (lister, prefix))| {
            let aliases = BTreeMap::from([("fast".to_owned(), "org/m:7b".to_owned())]);
            let prefix = prefix.map(str::to_owned);
            let base = ProviderSettings::new(Preset::Generic, "");
            let settings = ProviderSettings { prefix, aliases, default: index == 0, ..base };
            (Arc::clone(lister) as Arc<dyn Provider>, settings)
        });
        ModelCatalog::new(Arc::new(ProviderRouter::from_providers(entries)), ttl)
    }

    fn ids(models: &[ModelInfo]) -> Vec<&str> {
        models.iter().map(|model| model.id.as_str()).collect()
    }

    #[tokio::test]
    async fn the_list_has_all_models_under_the_names_of_requests() {
        let (a, b, broken) = (lister(Some(vec!["org/m:7b", "z"])), lister(Some(vec!["m"])), lister(None));
        let catalog = catalog(&[(&a, None), (&b, Some("b")), (&broken, None)], Duration::from_secs(60));
        let models = catalog.list().await.unwrap();
        assert_eq!(ids(&models), ["b/m", "fast", "org/m:7b", "z"]);
        assert_eq!((models[1].created, models[1].owned_by.as_str()), (7, "o"));
    }

    #[tokio::test]
    async fn of_a_server_without_a_list_the_names_of_the_settings_are_listed() {
        for (failure, expected) in [
            (ProviderErrorKind::Status(404), Some(vec!["fast", "named"])),
            (ProviderErrorKind::Status(500), None),
        ] {
            let (asked, profile) = (AtomicUsize::new(0), ProviderInfo::default());
            let provider: Arc<dyn Provider> = Arc::new(Lister { models: None, failure, asked, profile });
            let settings = ProviderSettings {
                models: vec!["named".to_owned(), "x*".to_owned()],
                aliases: BTreeMap::from([("fast".to_owned(), "m".to_owned())]),
                ..ProviderSettings::new(Preset::Generic, "")
            };
            let router = Arc::new(ProviderRouter::from_providers([(provider, settings)]));
            let listed = ModelCatalog::new(router, Duration::ZERO).list().await.ok();
            assert_eq!(listed.as_deref().map(ids), expected);
        }
    }

    #[tokio::test]
    async fn many_who_ask_at_once_are_one_question() {
        for models in [Some(vec!["m"]), None] {
            let lister = lister(models);
            let catalog = catalog(&[(&lister, None)], Duration::from_secs(60));
            let answers = join_all((0..20).map(|_| catalog.list())).await;
            assert!(answers.iter().all(|answer| answer.is_ok() == lister.models.is_some()));
            assert_eq!(lister.asked.load(Ordering::Relaxed), 1);
        }
    }

    #[tokio::test]
    async fn a_list_is_asked_for_again_when_it_is_old() {
        let lister = lister(Some(vec!["m"]));
        let catalog = catalog(&[(&lister, None)], Duration::ZERO);
        catalog.list().await.unwrap();
        catalog.list().await.unwrap();
        assert_eq!(lister.asked.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn each_provider_is_asked_whether_it_answers() {
        for models in [Some(vec!["m"]), None] {
            let answers = models.is_some();
            let asked = lister(models);
            let found =
                catalog(&[(&asked, None)], Duration::ZERO).reachability(Duration::from_secs(60)).await;
            assert_eq!(found, BTreeMap::from([("lister".to_owned(), answers)]));
        }
    }
}
