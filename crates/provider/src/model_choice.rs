//! The model for whoever names none: the first in the order of the server that holds conversations. If there is none: what
//! was asked for, why there is no answer, and what helps.

use std::collections::BTreeMap;

use super::models::listed;
use super::routing::ProviderRouter;
use super::{ProviderError, ProviderErrorKind, redact_url};
use antwort_config::ProviderSettings;
use antwort_net::causes::ConnectFailure;

/// A provider without a model to choose.
#[derive(Debug)]
pub struct NoModel {
    /// Its base URL, without secrets.
    url: String,
    /// Why it lists none; `None`: its list is empty.
    failure: Option<ProviderError>,
}

/// What helps against a [`NoModel`].
#[derive(Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Nothing answers at the address: to start the server, or to correct the address.
    Address,
    /// Another API key.
    ApiKey,
    /// This base URL, which ends in `/v1` as those of most servers do.
    BaseUrl(String),
    /// The name of a model that is not listed.
    Name,
}

/// Whether a model does not look like one for other work than conversations.
pub fn holds_conversations(name: &str) -> bool {
    // Servers do not say what a model is for. Embedding models are often named after their family.
    const OTHERS: [&str; 10] = [
        "embed",
        "minilm",
        "bge-",
        "multilingual-e5",
        "rerank",
        "whisper",
        "tts",
        "moderation",
        "dall-e",
        "image",
    ];
    let name = name.to_ascii_lowercase();
    !OTHERS.iter().any(|other| name.contains(other))
}

/// The first model that holds conversations; the first if none does.
pub fn first_chat_model<'a>(names: &[&'a str]) -> Option<&'a str> {
    names.iter().find(|name| holds_conversations(name)).or_else(|| names.first()).copied()
}

/// Asks one provider after the other for its models, and returns the name of the first that suits, else of the first.
///
/// # Errors
/// If there is none: why, for each provider.
pub async fn choose(
    router: &ProviderRouter,
    settings: &BTreeMap<String, ProviderSettings>,
    suits: fn(&str) -> bool,
) -> Result<String, Vec<NoModel>> {
    let (mut other, mut failures) = (None, Vec::new());
    for names in router.model_names() {
        let (models, failure) = listed(router, names).await;
        if let Some(model) = models.iter().find(|model| suits(&model.id)) {
            return Ok(model.id.clone());
        }
        match models.into_iter().next() {
            Some(model) => other = other.or(Some(model.id)),
            None => {
                let url = settings.get(names.provider.name()).map(|provider| redact_url(&provider.url));
                failures.push(NoModel { url: url.unwrap_or_default(), failure });
            }
        }
    }
    other.ok_or(failures)
}

impl NoModel {
    /// What was asked for, and why there is no model.
    pub fn problem(&self) -> String {
        let list = format!("{}/models", self.url);
        let Some(error) = &self.failure else { return format!("{list} lists no models") };
        let refused = ConnectFailure::Refused.kind();
        let unknown = ConnectFailure::NameNotFound.kind();
        let why: &str = match (error.kind, error.kind_name()) {
            (ProviderErrorKind::Connect, kind) if kind == refused => {
                "nothing answers at this address (connection refused)"
            }
            (ProviderErrorKind::Connect, kind) if kind == unknown => "there is no host of this name",
            (ProviderErrorKind::Connect, _) => error.cause_for_log().unwrap_or(&error.message),
            (ProviderErrorKind::ConnectTimeout, _) => {
                "nothing answers at this address (no connection in time)"
            }
            (ProviderErrorKind::Malformed, _) => "the answer is no list of models",
            (ProviderErrorKind::Status(status), _) => {
                return format!("{list} cannot be read: status {status}");
            }
            _ => &error.message,
        };
        format!("{list} cannot be read: {}", why.trim_end_matches('.'))
    }

    /// What helps, as far as the failure tells.
    pub fn remedy(&self) -> Remedy {
        use ProviderErrorKind::{Connect, ConnectTimeout, Malformed, Redirect, Status};
        match self.failure.as_ref().map(|error| error.kind) {
            Some(Connect | ConnectTimeout) => Remedy::Address,
            Some(Status(401 | 403)) => Remedy::ApiKey,
            Some(Status(404 | 405) | Malformed | Redirect) if !self.url.ends_with("/v1") => {
                Remedy::BaseUrl(format!("{}/v1", self.url))
            }
            _ => Remedy::Name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use antwort_net::FailureCause;

    #[test]
    fn a_model_that_holds_conversations_is_the_first_choice() {
        let of_ollama = ["all-minilm:latest", "bge-m3:latest", "llama3.2:latest", "nomic-embed-text:latest"];
        assert_eq!(first_chat_model(&of_ollama), Some("llama3.2:latest"));
        assert_eq!(first_chat_model(&of_ollama[..1]), Some("all-minilm:latest"), "better than none");
        assert_eq!(first_chat_model(&[]), None);
    }

    /// Every failure was answered with the advice to name a model.
    #[test]
    fn what_helps_fits_the_failure() {
        let kind = |kind| ProviderError::new(kind, "The reason.");
        let refused = ProviderError {
            cause: Some(Box::new(FailureCause::new("connection_refused", "os error 111"))),
            ..kind(ProviderErrorKind::Connect)
        };
        let with_v1 = || Remedy::BaseUrl("http://h/v1".to_owned());
        for (url, failure, problem, remedy) in [
            ("http://h/v1", None, "lists no models", Remedy::Name),
            ("http://h", Some(refused), "(connection refused)", Remedy::Address),
            (
                "http://h",
                Some(kind(ProviderErrorKind::ConnectTimeout)),
                "(no connection in time)",
                Remedy::Address,
            ),
            ("http://h", Some(kind(ProviderErrorKind::Status(401))), "status 401", Remedy::ApiKey),
            ("http://h", Some(kind(ProviderErrorKind::Status(404))), "status 404", with_v1()),
            ("http://h/v1", Some(kind(ProviderErrorKind::Status(404))), "status 404", Remedy::Name),
            ("http://h", Some(kind(ProviderErrorKind::Malformed)), "no list of models", with_v1()),
            ("http://h", Some(kind(ProviderErrorKind::Status(500))), "status 500", Remedy::Name),
            ("http://h", Some(kind(ProviderErrorKind::FirstByteTimeout)), "read: The reason", Remedy::Name),
        ] {
            let none = NoModel { url: url.to_owned(), failure };
            let found = none.problem();
            assert!(found.starts_with(&format!("{url}/models ")) && found.ends_with(problem), "{found}");
            assert_eq!(none.remedy(), remedy, "{found}");
        }
    }
}
