//! The built-in tools, and the executor of those that the configuration enables.
//!
//! A tool with missing settings is not offered: silently if nothing was configured for it, else with a warning, and
//! with an error if it is `required`.

pub(crate) mod calculate;
pub(crate) mod datetime;
pub(crate) mod file_read;
#[cfg(test)]
mod tests;
pub(crate) mod weather;
mod web;
pub(crate) mod web_search;

use std::sync::Arc;

use reqwest::Url;
use secrecy::{ExposeSecret, SecretString};

use super::{LocalExecutor, Tool, ToolKind};
use antwort_config::{
    BuiltinSettings, FileReadSettings, SearchProvider, ToolsSettings, WeatherSettings, WebSearchSettings,
};
use antwort_net::egress::Egress;
use calculate::Calculate;
use datetime::Datetime;
use file_read::FileRead;
use weather::Weather;
use web_search::{Brave, DuckDuckGo, SearchEngine, Searxng, Tavily, WebSearch, brave, duckduckgo, tavily};

/// Id of the executor.
pub(crate) const EXECUTOR: &str = "builtin";

/// A missing or invalid setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct BuiltinError {
    /// Key of the setting, such as `tools.builtin.get_weather.api_key`.
    pub key: &'static str,
    /// What is wrong with the setting.
    pub problem: String,
}

impl BuiltinError {
    fn new(key: &'static str, problem: impl Into<String>) -> Self {
        Self { key, problem: problem.into() }
    }
}

/// Why a tool cannot be set up.
enum SetupError {
    Missing(BuiltinError),
    Invalid(BuiltinError),
}

/// The executor of all enabled tools whose settings are complete.
pub fn executor(
    settings: &BuiltinSettings,
    allow_file_access: bool,
    egress: &Arc<Egress>,
) -> Result<LocalExecutor, BuiltinError> {
    let BuiltinSettings { calculate, datetime, get_weather, web_search, file_read } = settings;
    let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
    if calculate.enabled {
        tools.push(Arc::new(Calculate));
    }
    if datetime.enabled {
        tools.push(Arc::new(Datetime::default()));
    }
    let configured =
        get_weather.api_key.is_some() || get_weather.base_url != WeatherSettings::default().base_url;
    if let Some(tool) =
        resolve_setup("get_weather", weather(get_weather, egress), get_weather.required, configured)?
    {
        tools.push(tool);
    }
    if let Some(tool) = build_web_search(web_search, egress)? {
        tools.push(tool);
    }
    let read = files(file_read, allow_file_access);
    if let Some(tool) = resolve_setup("file_read", read, file_read.required, allow_file_access)? {
        tools.push(tool);
    }
    Ok(LocalExecutor::new(EXECUTOR, ToolKind::Builtin, tools))
}

/// `web_search` alone, for the hosted tool of that name; `None` if it is not configured.
pub(crate) fn build_web_search(
    settings: &WebSearchSettings,
    egress: &Arc<Egress>,
) -> Result<Option<Arc<WebSearch>>, BuiltinError> {
    let configured = settings.provider.is_some() || settings.base_url.is_some() || settings.api_key.is_some();
    resolve_setup("web_search", search(settings, egress), settings.required, configured)
}

/// A tool that could be set up, nothing if it is optional, or the error.
fn resolve_setup<T>(
    name: &str,
    tool: Result<Arc<T>, SetupError>,
    required: bool,
    configured: bool,
) -> Result<Option<Arc<T>>, BuiltinError> {
    match tool {
        Ok(tool) => Ok(Some(tool)),
        Err(SetupError::Invalid(error)) => Err(error),
        Err(SetupError::Missing(error)) if required => Err(error),
        Err(SetupError::Missing(error)) => {
            if configured {
                tracing::warn!(tool = name, %error, "built-in tool not offered: a setting is missing");
            }
            Ok(None)
        }
    }
}

fn weather(settings: &WeatherSettings, egress: &Arc<Egress>) -> Result<Arc<Weather>, SetupError> {
    let key = non_empty(settings.api_key.as_ref())
        .ok_or_else(|| missing("tools.builtin.get_weather.api_key", "is needed for get_weather"))?;
    let base_url = check_base_url("tools.builtin.get_weather.base_url", &settings.base_url, egress)?;
    Ok(Arc::new(Weather::new(base_url, key.clone(), Arc::clone(egress))))
}

fn search(settings: &WebSearchSettings, egress: &Arc<Egress>) -> Result<Arc<WebSearch>, SetupError> {
    const URL: &str = "tools.builtin.web_search.base_url";
    const KEY: &str = "tools.builtin.web_search.api_key";
    let no_header = || {
        SetupError::Invalid(BuiltinError::new(KEY, "has characters that are not allowed in an HTTP header"))
    };
    let url =
        |default: &'static str| check_base_url(URL, settings.base_url.as_deref().unwrap_or(default), egress);
    let key = |service: &str| {
        non_empty(settings.api_key.as_ref()).ok_or_else(|| missing(KEY, format!("is needed for {service}")))
    };
    let egress = Arc::clone(egress);
    let engine: Arc<dyn SearchEngine> = match settings.search_provider() {
        None => {
            let problem = "is needed for web_search: searxng, brave, tavily or duckduckgo";
            return Err(missing("tools.builtin.web_search.provider", problem));
        }
        Some(SearchProvider::Searxng) if settings.base_url.as_ref().is_none_or(String::is_empty) => {
            return Err(missing(URL, "is needed for searxng"));
        }
        Some(SearchProvider::Searxng) => Arc::new(Searxng::new(url("")?, egress)),
        Some(SearchProvider::Brave) => {
            let key = key("brave")?;
            Arc::new(Brave::new(url(brave::BASE_URL)?, key, egress).ok_or_else(no_header)?)
        }
        Some(SearchProvider::Tavily) => {
            let key = key("tavily")?;
            Arc::new(Tavily::new(url(tavily::BASE_URL)?, key, egress).ok_or_else(no_header)?)
        }
        Some(SearchProvider::DuckDuckGo) => Arc::new(DuckDuckGo::new(url(duckduckgo::BASE_URL)?, egress)),
    };
    Ok(Arc::new(WebSearch::new(engine)))
}

fn files(settings: &FileReadSettings, allow_file_access: bool) -> Result<Arc<FileRead>, SetupError> {
    const PATHS: &str = "tools.builtin.file_read.allowed_paths";
    if !allow_file_access {
        return Err(missing("tools.allow_file_access", "must be true for file_read"));
    }
    let working = std::env::current_dir()
        .map_err(|error| missing(PATHS, format!("the working directory cannot be found: {error}")))?;
    let tool = FileRead::open(&settings.allowed_paths, &working, settings.max_bytes)
        .ok_or_else(|| missing(PATHS, "names no directory that can be opened"))?;
    Ok(Arc::new(tool))
}

/// Why the built-in tool of this name is not offered under these settings, for a model that calls it anyway; `None`:
/// there is no such built-in tool.
pub fn unavailable_reason(name: &str, settings: &ToolsSettings) -> Option<&'static str> {
    Some(match name {
        "calculate" | "datetime" => "it is disabled",
        "get_weather" => "WEATHER_API_KEY environment variable not set",
        "web_search" => "SEARCH_API_KEY environment variable not set",
        "file_read" if settings.allow_file_access => {
            "tools.builtin.file_read.allowed_paths has no directory that can be opened"
        }
        "file_read" => "file access is disabled",
        _ => return None,
    })
}

/// A secret that is set; one left empty by an unset variable counts as unset.
fn non_empty(secret: Option<&SecretString>) -> Option<&SecretString> {
    secret.filter(|secret| !secret.expose_secret().trim().is_empty())
}

fn missing(key: &'static str, problem: impl Into<String>) -> SetupError {
    SetupError::Missing(BuiltinError::new(key, problem))
}

/// A server's base URL. A URL that the egress policy forbids is only logged: calls fail with the reason.
fn check_base_url(key: &'static str, text: &str, egress: &Egress) -> Result<String, SetupError> {
    let url = web::base_url(text).map_err(|problem| SetupError::Invalid(BuiltinError::new(key, problem)))?;
    if let Ok(Err(error)) = Url::parse(&url).map(|url| egress.check(&url)) {
        tracing::warn!(key, %error, "egress policy forbids this URL, calls will fail; see egress.allow and egress.allowed_domains");
    }
    Ok(url)
}
