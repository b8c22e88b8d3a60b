//! A server-side call: a file of its own, as the presentations of calls need it and the kinds of calls need these.

use serde::{Deserialize, Serialize};

/// A server-side call, as the model asked for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCallRequest {
    /// The tool's own name.
    pub name: String,
    /// The label of its server.
    pub namespace: Option<String>,
    /// The arguments as the model wrote them; not checked to be JSON.
    pub arguments: String,
}
