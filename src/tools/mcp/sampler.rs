//! What a server may ask of the model, in the gateway's own words.

use std::sync::Arc;

use async_trait::async_trait;

/// Lets servers use the model.
#[async_trait]
pub trait Sampler: Send + Sync {
    /// Asks the model. An error is told to the server in these words.
    async fn sample(&self, request: SampleRequest) -> Result<SampleAnswer, String>;
}

/// What a server asks.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleRequest {
    /// The server that asks.
    pub server: Arc<str>,
    /// Instructions that it wants to be followed.
    pub system: Option<String>,
    /// The conversation.
    pub messages: Vec<SampleMessage>,
    /// How long the answer may be.
    pub max_tokens: u64,
    /// How daring the answer may be.
    pub temperature: Option<f32>,
    /// Where the answer ends.
    pub stop: Vec<String>,
    /// Models that it would like, the dearest first.
    pub models: Vec<String>,
}

/// A turn of the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleMessage {
    /// Whether the model said it, not the user.
    pub by_model: bool,
    /// What was said.
    pub content: Vec<SampleContent>,
}

/// A piece of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SampleContent {
    /// Text.
    Text(String),
    /// A picture, in base64.
    Image {
        /// Such as `image/png`.
        mime_type: String,
        /// Base64.
        data: String,
    },
    /// A recording, in base64.
    Audio {
        /// Such as `audio/wav`.
        mime_type: String,
        /// Base64.
        data: String,
    },
}

/// What the model said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleAnswer {
    /// The model that was used.
    pub model: String,
    /// Its text.
    pub text: String,
    /// Why it ended: `endTurn`, `stopSequence`, `maxTokens`.
    pub stop_reason: Option<String>,
}
