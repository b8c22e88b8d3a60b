//! The models of all providers, under the names that requests use; kept for a while.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::routing::Router;
use super::{ModelInfo, ProviderError};

/// How long a provider that was found well is not asked again by readiness probes.
const WELL_FOR: Duration = Duration::from_secs(5);

/// A list of models that is asked for once by many, and kept.
pub struct ModelCatalog {
    router: Arc<Router>,
    ttl: Duration,
    /// Held while the providers are asked: whoever comes meanwhile waits for the same answer.
    kept: Mutex<Option<Kept>>,
    well_since: std::sync::Mutex<Option<Instant>>,
}

struct Kept {
    models: Arc<[ModelInfo]>,
    at: Instant,
}

impl ModelCatalog {
    /// A catalogue that has asked nobody yet.
    pub fn new(router: Arc<Router>, ttl: Duration) -> Self {
        Self { router, ttl, kept: Mutex::new(None), well_since: std::sync::Mutex::new(None) }
    }

    /// All models. A provider that does not answer is left out, unless none answers; then the last list
    /// counts, if there is one.
    pub async fn list(&self) -> Result<Arc<[ModelInfo]>, ProviderError> {
        let mut kept = self.kept.lock().await;
        if let Some(fresh) = kept.as_ref().filter(|kept| kept.at.elapsed() < self.ttl) {
            return Ok(Arc::clone(&fresh.models));
        }
        match (self.ask().await, kept.as_ref()) {
            (Ok(models), _) => {
                *kept = Some(Kept { models: Arc::clone(&models), at: Instant::now() });
                Ok(models)
            }
            (Err(error), Some(stale)) => {
                tracing::warn!(%error, "no provider listed its models; the last list is served");
                Ok(Arc::clone(&stale.models))
            }
            (Err(error), None) => Err(error),
        }
    }

    /// Whether a provider answers at all.
    pub async fn ready(&self) -> bool {
        let well = |since: &Option<Instant>| since.is_some_and(|at| at.elapsed() < WELL_FOR);
        if self.well_since.lock().is_ok_and(|since| well(&since)) {
            return true;
        }
        for provider in self.router.providers() {
            // A server without a list of models answers too: with an error.
            let answers = match provider.models().await {
                Ok(_) => true,
                Err(error) => error.is_an_answer(),
            };
            if answers {
                if let Ok(mut since) = self.well_since.lock() {
                    *since = Some(Instant::now());
                }
                return true;
            }
        }
        false
    }

    async fn ask(&self) -> Result<Arc<[ModelInfo]>, ProviderError> {
        let mut models = Vec::new();
        let mut failed = None;
        for (provider, prefix, aliases) in self.router.named() {
            match provider.models().await {
                Ok(found) => {
                    let aliased: Vec<_> = aliases.iter().map(|(alias, name)| alias_of(alias, name, &found)).collect();
                    models.extend(found.into_iter().map(|model| under(prefix, model)));
                    models.extend(aliased);
                }
                Err(error) => {
                    tracing::warn!(provider = provider.name(), %error, "models");
                    failed = Some(error);
                }
            }
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

fn under(prefix: Option<&str>, model: ModelInfo) -> ModelInfo {
    match prefix {
        Some(prefix) => ModelInfo { id: format!("{prefix}/{}", model.id), ..model },
        None => model,
    }
}

fn alias_of(alias: &str, name: &str, found: &[ModelInfo]) -> ModelInfo {
    let known = found.iter().find(|model| model.id == name);
    ModelInfo {
        id: alias.to_owned(),
        created: known.map_or(0, |model| model.created),
        owned_by: known.map(|model| model.owned_by.clone()).unwrap_or_default(),
    }
}
