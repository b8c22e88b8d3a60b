//! `antwort config check --connect`: asks each provider for its models, as the gateway does, and says in one line what it found.

use std::collections::BTreeMap;

use futures_util::future::join_all;

use antwort_config::ProviderSettings;
use antwort_provider::routing::ProviderRouter;
use antwort_provider::{ModelInfo, ProviderError, ProviderErrorKind};
use antwort_telemetry::metrics::Metrics;

/// What is known of a provider.
pub(super) struct Finding {
    /// One line.
    pub line: String,
    /// Whether it can serve, as far as is known.
    pub serves: bool,
}

/// Why there is no list of models.
struct NoList {
    why: String,
    /// The server has none, and may serve all the same.
    is_unsupported: bool,
    /// The server has answered, so that another address of it may have one.
    has_answered: bool,
}

/// Asks all of them at once.
pub(super) async fn ask_all(providers: &BTreeMap<String, ProviderSettings>) -> Vec<Finding> {
    join_all(providers.iter().map(|(name, provider)| ask(name, provider))).await
}

async fn ask(name: &str, provider: &ProviderSettings) -> Finding {
    let url = &provider.url;
    let (line, serves) = match models(name, provider).await {
        Ok(models) if models.is_empty() => (format!("{url} lists no models"), false),
        Ok(models) => (format!("ok, {} at {url}{}", count(&models), unlisted(provider, &models)), true),
        Err(problem) => match elsewhere(name, provider, &problem).await {
            Some((other, models)) => (
                format!(
                    "no list of models at {url} ({}), but {other} has {}: set providers.{name}.url to {other}",
                    problem.why,
                    count(&models)
                ),
                false,
            ),
            None if problem.is_unsupported => {
                (format!("{url} answers, but has no list of models ({})", problem.why), true)
            }
            None => (format!("{url} cannot be used: {}", problem.why), false),
        },
    };
    Finding { line: format!("{name}: {line}"), serves }
}

/// The list of models, through the client of requests.
async fn models(name: &str, provider: &ProviderSettings) -> Result<Vec<ModelInfo>, NoList> {
    let invalid = |why: String| NoList { why, is_unsupported: false, has_answered: false };
    let one = BTreeMap::from([(name.to_owned(), provider.clone())]);
    let router = ProviderRouter::new(&one, &Metrics::new()).map_err(|error| invalid(error.to_string()))?;
    let provider = router.providers().next().ok_or_else(|| invalid("it could not be set up".to_owned()))?;
    provider.models().await.map_err(|error| NoList {
        why: why(&error),
        is_unsupported: matches!(error.kind, ProviderErrorKind::Status(404 | 405 | 501)),
        has_answered: error.is_upstream_response(),
    })
}

/// Why there is no list, in words: for an operator, with the cause.
fn why(error: &ProviderError) -> String {
    match (error.kind, error.cause_for_log()) {
        (ProviderErrorKind::Status(status), _) => format!("status {status}"),
        (_, Some(cause)) => cause.to_owned(),
        (_, None) => error.message.trim_end_matches('.').to_owned(),
    }
}

/// Another base URL of the same server that lists models: with `/v1`, without a second one, or without it.
async fn elsewhere(
    name: &str,
    provider: &ProviderSettings,
    problem: &NoList,
) -> Option<(String, Vec<ModelInfo>)> {
    if !problem.has_answered {
        return None;
    }
    let url = provider.url.as_str();
    let root = url.trim_end_matches("/v1");
    let others = [format!("{root}/v1"), root.to_owned()];
    for other in others.into_iter().filter(|other| other != url) {
        let provider = ProviderSettings { url: other.clone(), ..provider.clone() };
        if let Ok(models) = models(name, &provider).await
            && !models.is_empty()
        {
            return Some((other, models));
        }
    }
    None
}

/// Names of the settings that the server does not list; some servers serve more than they list.
fn unlisted(provider: &ProviderSettings, models: &[ModelInfo]) -> String {
    let named = provider.models.iter().filter(|name| !name.contains('*')).chain(provider.aliases.values());
    let missing: Vec<_> = named
        .filter(|name| !models.iter().any(|model| model.id == **name))
        .map(|name| format!("`{name}`"))
        .collect();
    if missing.is_empty() { String::new() } else { format!("; it does not list {}", missing.join(", ")) }
}

fn count(models: &[ModelInfo]) -> String {
    match models.len() {
        1 => "1 model".to_owned(),
        many => format!("{many} models"),
    }
}
