//! Pieces of results, as servers send them.

use serde_json::{Value, json};

/// A picture of one pixel.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// Text.
pub fn text(text: impl Into<String>) -> Value {
    json!({"type": "text", "text": text.into()})
}

/// Text for these alone: `user`, `assistant`.
pub fn text_for(audience: &[&str], text: &str) -> Value {
    json!({"type": "text", "text": text, "annotations": {"audience": audience}})
}

/// A picture.
pub fn image() -> Value {
    json!({"type": "image", "data": PNG, "mimeType": "image/png"})
}

/// A recording.
pub fn audio() -> Value {
    json!({"type": "audio", "data": "UklGRgAAAABXQVZF", "mimeType": "audio/wav"})
}

/// A text file that comes along.
pub fn resource(text: &str) -> Value {
    let resource = json!({"uri": "file:///notes.txt", "mimeType": "text/plain", "text": text});
    json!({"type": "resource", "resource": resource})
}

/// Another file that comes along.
pub fn blob() -> Value {
    let resource = json!({"uri": "file:///data.bin", "mimeType": "application/octet-stream", "blob": "AAEC"});
    json!({"type": "resource", "resource": resource})
}

/// A file that does not come along.
pub fn resource_link() -> Value {
    json!({"type": "resource_link", "uri": "file:///large.csv", "name": "large.csv", "description": "All rows",
        "mimeType": "text/csv"})
}

/// A kind of content that no version of the protocol knows.
pub fn unknown() -> Value {
    json!({"type": "hologram", "data": "AAAA"})
}
