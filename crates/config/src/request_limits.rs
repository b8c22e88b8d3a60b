//! `server.request_limits`: limits of the lists and texts of one request.

use serde::{Deserialize, Serialize};

use super::units;
use antwort_protocol::request::RequestSizeLimits;

/// The keys and units of the limits; their meaning is documented at their type.
#[derive(Serialize, Deserialize)]
#[serde(remote = "RequestSizeLimits", default, deny_unknown_fields, bound = "")]
pub(super) struct RequestSizeLimitsDef {
    max_tools: usize,
    max_allowed_tools: usize,
    max_input_items: usize,
    max_content_parts: usize,
    max_item_references: usize,
    max_schema_patterns: usize,
    #[serde(with = "units::ByteSize")]
    max_schema_bytes: usize,
    #[serde(with = "units::ByteSize")]
    max_instructions_bytes: usize,
}

/// The limits with their keys.
pub(super) fn each(limits: &RequestSizeLimits) -> [(&'static str, usize); 8] {
    [
        ("max_tools", limits.max_tools),
        ("max_allowed_tools", limits.max_allowed_tools),
        ("max_input_items", limits.max_input_items),
        ("max_content_parts", limits.max_content_parts),
        ("max_item_references", limits.max_item_references),
        ("max_schema_patterns", limits.max_schema_patterns),
        ("max_schema_bytes", limits.max_schema_bytes),
        ("max_instructions_bytes", limits.max_instructions_bytes),
    ]
}
