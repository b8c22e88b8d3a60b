//! A model server: its URL, its models, and the features and quirks of its API.
//!
//! The defaults suit any OpenAI-compatible server; a [`Preset`] changes them for one kind of server.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use self::errors::{ErrorPattern, ProviderErrors};
pub use self::preset::Preset;
pub(super) use self::roles::RawRoles;
pub use self::roles::{RoleChanges, RoleSettings, Roles};
pub use self::variants::{
    DeveloperRole, ForwardedField, MaxTokensField, ProviderClient, ProviderFeatures, ReasoningField,
    SystemPlacement, ThinkTags, TokenizerApi, TokenizerUse,
};
use super::agents::ModelPrice;
use super::masks;
use super::units::{self, MIB};
use antwort_net::client::{HttpClientOptions, ProxyUrl};

mod errors;
mod preset;
mod roles;
mod variants;

/// One model server, with its preset applied.
#[derive(Debug, Clone, Serialize)]
pub struct ProviderSettings {
    /// The preset that the defaults below come from.
    pub preset: Preset,
    /// Base URL, usually ending in `/v1`, without a trailing slash or a query.
    pub url: String,
    /// Sent as `Authorization: Bearer`.
    #[serde(serialize_with = "masks::masked_option", skip_serializing_if = "Option::is_none")]
    pub api_key: Option<SecretString>,
    /// Patterns of the model names that it serves: `*` matches any characters.
    pub models: Vec<String>,
    /// Models named `prefix/NAME` are sent here as `NAME`.
    pub prefix: Option<String>,
    /// Serves all models that match no other provider.
    pub default: bool,
    /// Name in requests → the provider's name of the model.
    pub aliases: BTreeMap<String, String>,
    /// Headers of every request. Values are treated as secrets.
    #[serde(serialize_with = "masks::masked_map")]
    pub headers: BTreeMap<String, SecretString>,
    /// Timeouts of calls.
    pub timeouts: ProviderTimeouts,
    /// Retries of calls.
    pub retries: RetrySettings,
    /// The HTTP client of its completions.
    pub client: ProviderClient,
    /// The HTTP proxy; absent: as `network.proxy`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<ProxyUrl>,
    /// A PEM file of trusted certificate authorities, besides the system's and those of `tls.ca_file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// A PEM file with the client certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_cert: Option<PathBuf>,
    /// A PEM file with the private key of that certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_key: Option<PathBuf>,
    /// The four settings above, combined with those for all clients.
    #[serde(skip)]
    pub http: HttpClientOptions,
    /// Maximum tokens of its models.
    pub context_window: ContextWindow,
    /// Prices by the provider's name of the model; `*` for all other models.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub prices: BTreeMap<String, ModelPrice>,
    /// Request fields outside the API that are forwarded unchanged.
    pub passthrough: Vec<String>,
    /// How it tells its errors.
    pub errors: ProviderErrors,
    /// How roles are translated, and which orders of messages it accepts.
    pub roles: RoleSettings,
    /// The field that carries `max_output_tokens`.
    pub max_tokens_field: MaxTokensField,
    /// The field of an assistant message in which reasoning is sent back.
    pub reasoning_field: ReasoningField,
    /// Whether reasoning has to be extracted from the text of its answers.
    pub think_tags: ThinkTags,
    /// Supported features.
    pub supports: ProviderFeatures,
    /// Request fields of the API that are forwarded for the provider's own bookkeeping.
    pub forward: Vec<ForwardedField>,
    /// Whether its tokenizer is asked to count prompts.
    pub tokenizer: TokenizerUse,
    /// Maximum bytes of one event of its streams.
    #[serde(with = "units::ByteSize")]
    pub max_event_bytes: usize,
    /// Maximum bytes of a response that is not streamed, and of a proxied one that is buffered.
    #[serde(with = "units::ByteSize")]
    pub max_answer_bytes: usize,
}

impl ProviderSettings {
    /// The settings of a preset, for the server at `url`.
    pub fn new(preset: Preset, url: impl Into<String>) -> Self {
        Self {
            preset,
            url: url.into(),
            api_key: None,
            models: Vec::new(),
            prefix: None,
            default: false,
            aliases: BTreeMap::new(),
            headers: BTreeMap::new(),
            timeouts: ProviderTimeouts::default(),
            retries: RetrySettings::default(),
            client: ProviderClient::Auto,
            proxy: None,
            ca_file: None,
            client_cert: None,
            client_key: None,
            http: HttpClientOptions::default(),
            context_window: ContextWindow::Unknown,
            prices: BTreeMap::new(),
            passthrough: preset.passthrough().iter().map(|name| (*name).to_owned()).collect(),
            errors: ProviderErrors::default(),
            roles: preset.roles().into(),
            max_tokens_field: preset.max_tokens_field(),
            reasoning_field: preset.reasoning_field(),
            think_tags: ThinkTags::None,
            supports: preset.supports(),
            forward: preset.forward().to_vec(),
            tokenizer: TokenizerUse::Auto,
            max_event_bytes: 16 * MIB,
            max_answer_bytes: 64 * MIB,
        }
    }
}

impl ProviderSettings {
    /// How its tokenizer is asked, if it has one.
    pub fn tokenizer_api(&self) -> Option<TokenizerApi> {
        match self.tokenizer {
            TokenizerUse::Auto => self.preset.tokenizer_api(),
            TokenizerUse::None => None,
        }
    }
}

impl Default for ProviderSettings {
    fn default() -> Self {
        Self::new(Preset::Generic, "")
    }
}

/// Timeouts of calls to a provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderTimeouts {
    /// Of connecting, including TLS.
    #[serde(with = "units::HumanDuration")]
    pub connect: Duration,
    /// From the request to the first byte of the response body.
    #[serde(with = "units::HumanDuration")]
    pub first_byte: Duration,
    /// Between two chunks of a response.
    #[serde(with = "units::HumanDuration")]
    pub idle: Duration,
    /// Of one call in total.
    #[serde(with = "units::HumanDuration")]
    pub total: Duration,
}

impl Default for ProviderTimeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            first_byte: Duration::from_mins(10),
            idle: Duration::from_mins(1),
            total: Duration::from_mins(30),
        }
    }
}

/// Retries of calls that failed before their first output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetrySettings {
    /// Maximum retries; 0: none.
    pub max: u32,
    /// Backoff before the first retry; doubles with each, with jitter.
    #[serde(with = "units::HumanDuration")]
    pub initial_backoff: Duration,
    /// Maximum backoff.
    #[serde(with = "units::HumanDuration")]
    pub max_backoff: Duration,
    /// A longer `Retry-After` is passed to the client instead of being waited for.
    #[serde(with = "units::HumanDuration")]
    pub max_retry_after: Duration,
}

impl Default for RetrySettings {
    fn default() -> Self {
        Self {
            max: 2,
            initial_backoff: Duration::from_millis(250),
            max_backoff: Duration::from_secs(4),
            max_retry_after: Duration::from_secs(10),
        }
    }
}

/// Maximum tokens of a provider's models.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ContextWindow {
    /// Not configured.
    #[default]
    Unknown,
    /// The same for all models.
    All(u64),
    /// By the provider's name of the model.
    Models(BTreeMap<String, u64>),
}

impl Serialize for ContextWindow {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Unknown => to.serialize_none(),
            Self::All(tokens) => to.serialize_u64(*tokens),
            Self::Models(models) => models.serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for ContextWindow {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ContextWindowVisitor)
    }
}

struct ContextWindowVisitor;

impl<'de> Visitor<'de> for ContextWindowVisitor {
    type Value = ContextWindow;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of tokens, or a section of model: tokens")
    }

    fn visit_u64<E: de::Error>(self, tokens: u64) -> Result<ContextWindow, E> {
        Ok(ContextWindow::All(tokens))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<ContextWindow, E> {
        match text.trim().parse() {
            Ok(tokens) => Ok(ContextWindow::All(tokens)),
            Err(_) => Err(E::invalid_type(de::Unexpected::Str(text), &self)),
        }
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<ContextWindow, A::Error> {
        BTreeMap::deserialize(de::value::MapAccessDeserializer::new(map)).map(ContextWindow::Models)
    }
}

impl ContextWindow {
    /// Maximum tokens of this model, if known.
    pub fn for_model(&self, model: &str) -> Option<u64> {
        match self {
            Self::Unknown => None,
            Self::All(tokens) => Some(*tokens),
            Self::Models(models) => models.get(model).copied(),
        }
    }
}

/// Fields of a chat completion that the gateway writes itself: passing one through would send it twice.
const TRANSLATED_FIELDS: &[&str] = &[
    "model",
    "messages",
    "stream",
    "stream_options",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "response_format",
    "temperature",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "logprobs",
    "top_logprobs",
    "max_tokens",
    "max_completion_tokens",
    "reasoning_effort",
    "verbosity",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "service_tier",
    "metadata",
    "store",
    "n",
    "functions",
    "function_call",
];

/// Whether the gateway writes a field of this name itself, so that it cannot be passed through.
pub fn is_translated_field(name: &str) -> bool {
    TRANSLATED_FIELDS.contains(&name)
}
