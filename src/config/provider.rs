//! A model server: where it is, which models are its own, and how it likes to be asked.
//!
//! The defaults suit any OpenAI-compatible server; a [`Preset`] changes them to what is known of one kind.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use self::preset::Preset;
use super::agents::ModelPrice;
use super::units::{self, MIB};
use crate::net::client::{HttpClientOptions, ProxyUrl};

mod preset;

/// One model server, with its preset applied.
#[derive(Debug, Clone, Serialize)]
pub struct ProviderSettings {
    /// What the defaults below were taken from.
    pub preset: Preset,
    /// Base URL, usually ending in `/v1`; no slash behind it, no query.
    pub url: String,
    /// Sent as `Authorization: Bearer`.
    #[serde(serialize_with = "units::masked_option", skip_serializing_if = "Option::is_none")]
    pub api_key: Option<SecretString>,
    /// Patterns of the model names that it serves: `*` stands for any characters.
    pub models: Vec<String>,
    /// Models named `prefix/…` come here, with the prefix taken off.
    pub prefix: Option<String>,
    /// Takes the models that no provider claims.
    pub default: bool,
    /// Further names of its models: what a client says → the provider's name.
    pub aliases: BTreeMap<String, String>,
    /// Headers of every request to it. Values are as secret as keys.
    #[serde(serialize_with = "units::masked_map")]
    pub headers: BTreeMap<String, SecretString>,
    /// How long to wait for what.
    pub timeouts: ProviderTimeouts,
    /// When to try again.
    pub retries: RetrySettings,
    /// The proxy through which it is reached; absent: as `network.proxy` says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<ProxyUrl>,
    /// A PEM file of authorities that are trusted for it, beside the system's and those of `tls.ca_file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// A PEM file with the certificate that it is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_cert: Option<PathBuf>,
    /// A PEM file with the key of that certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_key: Option<PathBuf>,
    /// What the four above come to, with what holds for all clients.
    #[serde(skip)]
    pub http: HttpClientOptions,
    /// Tokens that fit into its models.
    pub context_window: ContextWindow,
    /// Prices by the provider's name of the model; `*` stands for those that are not named.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub prices: BTreeMap<String, ModelPrice>,
    /// Request fields outside the API that are sent on as they are.
    pub passthrough: Vec<String>,
    /// What it makes of roles.
    pub roles: Roles,
    /// The field for `max_output_tokens`.
    pub max_tokens_field: MaxTokensField,
    /// The field of an assistant message in which it takes its reasoning back.
    pub reasoning_field: ReasoningField,
    /// Whether it leaves reasoning in the text of its answers.
    pub think_tags: ThinkTags,
    /// What it understands.
    pub supports: ProviderFeatures,
    /// Request fields of the API that it gets for its own bookkeeping.
    pub forward: Vec<ForwardedField>,
    /// Bytes of one event of its streams.
    #[serde(with = "units::size")]
    pub max_event_bytes: usize,
    /// Bytes of an answer that is no stream, and of a passed-through one that is read whole.
    #[serde(with = "units::size")]
    pub max_answer_bytes: usize,
}

impl ProviderSettings {
    /// What is known of a kind of server, for the one at `url`.
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
            proxy: None,
            ca_file: None,
            client_cert: None,
            client_key: None,
            http: HttpClientOptions::default(),
            context_window: ContextWindow::Unknown,
            prices: BTreeMap::new(),
            passthrough: preset.passthrough().iter().map(|name| (*name).to_owned()).collect(),
            roles: preset.roles(),
            max_tokens_field: preset.max_tokens_field(),
            reasoning_field: preset.reasoning_field(),
            think_tags: ThinkTags::None,
            supports: preset.supports(),
            forward: preset.forward().to_vec(),
            max_event_bytes: 16 * MIB,
            max_answer_bytes: 64 * MIB,
        }
    }
}

impl Default for ProviderSettings {
    fn default() -> Self {
        Self::new(Preset::Generic, "")
    }
}

/// How long to wait for a provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderTimeouts {
    /// For a connection, TLS included.
    #[serde(with = "units::duration")]
    pub connect: Duration,
    /// From the request to the first byte of the answer's body.
    #[serde(with = "units::duration")]
    pub first_byte: Duration,
    /// Between two pieces of an answer.
    #[serde(with = "units::duration")]
    pub idle: Duration,
    /// For one call as a whole.
    #[serde(with = "units::duration")]
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

/// When a call that failed before its first output is tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetrySettings {
    /// Tries after the first; 0: none.
    pub max: u32,
    /// Before the first retry; doubles with each, with jitter.
    #[serde(with = "units::duration")]
    pub initial_backoff: Duration,
    /// At most between two tries.
    #[serde(with = "units::duration")]
    pub max_backoff: Duration,
    /// A `Retry-After` beyond this is handed to the client instead of being waited for.
    #[serde(with = "units::duration")]
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

/// Tokens that fit into a provider's models.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ContextWindow {
    /// Nothing was said.
    #[default]
    Unknown,
    /// The same for all.
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
    /// Tokens that fit into this model, where it is known.
    pub fn for_model(&self, model: &str) -> Option<u64> {
        match self {
            Self::Unknown => None,
            Self::All(tokens) => Some(*tokens),
            Self::Models(models) => models.get(model).copied(),
        }
    }
}

/// What a provider makes of roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Roles {
    /// What `developer` becomes.
    pub developer: DeveloperRole,
    /// Where system messages stand.
    pub system: SystemPlacement,
}

/// What the role `developer` becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeveloperRole {
    /// The older name of the same.
    System,
    /// Itself.
    Developer,
    /// For models without either.
    User,
}

/// Where system messages (and what became one) stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SystemPlacement {
    /// All in one, at the head: many chat templates refuse any other.
    Merge,
    /// Where the client put them.
    Keep,
}

/// The field for `max_output_tokens`. Never both are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaxTokensField {
    /// OpenAI's name.
    MaxCompletionTokens,
    /// The older name, which most servers know.
    MaxTokens,
}

/// The field of an assistant message in which a provider takes its reasoning back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningField {
    /// DeepSeek, llama.cpp, SGLang, LiteLLM.
    ReasoningContent,
    /// vLLM, Ollama, OpenRouter.
    Reasoning,
    /// It takes none.
    None,
}

/// Whether a provider leaves a model's reasoning in the text of its answers, up to `</think>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkTags {
    /// Text is text.
    #[default]
    None,
    /// An answer may begin with `<think>`.
    Tagged,
    /// The chat template opens the tag: an answer begins inside it.
    Opened,
}

/// What a provider understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ProviderFeatures {
    /// `stream_options.include_usage`
    pub stream_options: bool,
    /// `strict` of functions and of JSON schemas.
    pub strict: bool,
    /// The field `parallel_tool_calls`.
    pub parallel_tool_calls: bool,
    /// `response_format`
    pub response_format: bool,
    /// Tools of type `custom`; otherwise each becomes a function with one string argument.
    pub custom_tools: bool,
    /// `tool_choice` that names a function; otherwise some call is demanded, and the gateway sees to which.
    pub named_tool_choice: bool,
    /// `tool_choice` of type `allowed_tools`; otherwise only the gateway sees to it.
    pub allowed_tools: bool,
    /// Content parts of type `image_url`.
    pub images: bool,
    /// Content parts of type `input_audio`.
    pub audio: bool,
    /// Content parts of type `file`.
    pub files: bool,
    /// Content parts of type `video_url`.
    pub video: bool,
}

/// A request field that concerns the provider's own bookkeeping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "each is the request field of the same name")]
pub enum ForwardedField {
    User,
    SafetyIdentifier,
    PromptCacheKey,
    PromptCacheRetention,
    ServiceTier,
    Metadata,
}
