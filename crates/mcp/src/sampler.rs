//! Sampling: requests of MCP servers to the model, independent of the SDK.

use std::sync::Arc;

use async_trait::async_trait;

/// Serves sampling requests.
#[async_trait]
pub trait Sampler: Send + Sync {
    /// Queries the model. The error text is returned to the server.
    async fn sample(&self, request: SampleRequest) -> Result<SampleAnswer, String>;
}

/// A sampling request.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleRequest {
    /// Name of the server.
    pub server: Arc<str>,
    /// System prompt.
    pub system: Option<String>,
    /// Messages.
    pub messages: Vec<SampleMessage>,
    /// Maximum output tokens.
    pub max_tokens: u64,
    /// Sampling temperature.
    pub temperature: Option<f32>,
    /// Stop sequences.
    pub stop: Vec<String>,
    /// Model preferences, best first.
    pub models: Vec<String>,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleMessage {
    /// Whether the role is `assistant` rather than `user`.
    pub by_model: bool,
    /// Content parts.
    pub content: Vec<SampleContent>,
}

/// A content part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SampleContent {
    /// Text.
    Text(String),
    /// An image.
    Image {
        /// MIME type, such as `image/png`.
        mime_type: String,
        /// Base64.
        data: String,
    },
    /// Audio.
    Audio {
        /// MIME type, such as `audio/wav`.
        mime_type: String,
        /// Base64.
        data: String,
    },
}

/// The model's response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleAnswer {
    /// Model that was used.
    pub model: String,
    /// Generated text.
    pub text: String,
    /// `endTurn`, `stopSequence` or `maxTokens`.
    pub stop_reason: Option<String>,
}
