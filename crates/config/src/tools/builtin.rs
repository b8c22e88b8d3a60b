//! Built-in tools, and mock tools.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use crate::masks;
use crate::units::{self, MIB};

/// Built-in tools.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BuiltinSettings {
    /// `calculate`
    pub calculate: SimpleTool,
    /// `datetime`
    pub datetime: SimpleTool,
    /// `get_weather`
    pub get_weather: WeatherSettings,
    /// `web_search`
    pub web_search: WebSearchSettings,
    /// `file_read`
    pub file_read: FileReadSettings,
}

/// A tool without settings.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SimpleTool {
    /// Whether the tool exists.
    pub enabled: bool,
}

impl Default for SimpleTool {
    fn default() -> Self {
        Self { enabled: true }
    }
}

/// `get_weather`, from OpenWeatherMap.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WeatherSettings {
    /// The tool is not available without it.
    #[serde(serialize_with = "masks::masked_option", skip_serializing_if = "Option::is_none")]
    pub api_key: Option<SecretString>,
    /// The base URL of the API.
    pub base_url: String,
    /// The gateway does not start without the tool.
    pub required: bool,
}

impl Default for WeatherSettings {
    fn default() -> Self {
        Self { api_key: None, base_url: "https://api.openweathermap.org".into(), required: false }
    }
}

/// `web_search`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebSearchSettings {
    /// The search provider. Without one, the key decides; without both, the tool is not available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<SearchProvider>,
    /// The base URL of the API; required for SearXNG.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Required for Brave and Tavily.
    #[serde(serialize_with = "masks::masked_option", skip_serializing_if = "Option::is_none")]
    pub api_key: Option<SecretString>,
    /// The gateway does not start without the tool.
    pub required: bool,
}

/// A search provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchProvider {
    /// A SearXNG instance with its JSON format enabled.
    Searxng,
    /// Brave Search.
    Brave,
    /// Tavily.
    Tavily,
    /// Instant answers of DuckDuckGo; needs no key.
    #[serde(rename = "duckduckgo")]
    DuckDuckGo,
}

impl WebSearchSettings {
    /// The configured search provider, or else the one that the key belongs to.
    pub fn search_provider(&self) -> Option<SearchProvider> {
        let of_key = |key: &SecretString| match key.expose_secret().trim() {
            "" => None,
            key if key.starts_with("tvly-") => Some(SearchProvider::Tavily),
            _ => Some(SearchProvider::Brave),
        };
        self.provider.or_else(|| self.api_key.as_ref().and_then(of_key))
    }
}

/// `file_read`; not available unless `allow_file_access` is set.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FileReadSettings {
    /// Directories below which files may be read; missing ones are ignored with a warning.
    pub allowed_paths: Vec<PathBuf>,
    /// Maximum bytes of one read.
    #[serde(with = "units::ByteSize")]
    pub max_bytes: usize,
    /// The gateway does not start without the tool.
    pub required: bool,
}

impl Default for FileReadSettings {
    fn default() -> Self {
        Self {
            allowed_paths: ["/tmp/", "./data/", "./uploads/"].map(PathBuf::from).into(),
            max_bytes: MIB,
            required: false,
        }
    }
}

/// A tool with a fixed result.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MockTool {
    /// Shown to the model.
    pub description: String,
    /// JSON Schema of its arguments; absent: any object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<serde_json::Value>,
    /// The result: a text, or any value. Without it, and without an `error`, every call fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<serde_json::Value>,
    /// Fail with this message instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Delay of the result; absent: `tools.mock_delay`.
    #[serde(with = "units::OptionalDuration", skip_serializing_if = "Option::is_none")]
    pub delay: Option<Duration>,
    /// Say `started`, log the URL of the callback, and leave the result to whoever calls it.
    #[serde(rename = "async")]
    pub asynchronous: bool,
}

impl Default for MockTool {
    fn default() -> Self {
        Self {
            description: "A tool with a fixed answer.".into(),
            parameters: None,
            output: None,
            error: None,
            delay: None,
            asynchronous: false,
        }
    }
}
