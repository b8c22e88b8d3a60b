//! Paths that are passed through to the provider of a request's model.

/// Those that are passed through unless the configuration says otherwise. Each has a scope of its own.
pub const PASSED_BY_DEFAULT: [&str; 2] = ["/chat/completions", "/embeddings"];

/// First segments of the gateway's own paths and of their prefixes. A test compares the table of routes with them.
pub const RESERVED_SEGMENTS: &[&str] = &[
    "admin",
    "agents",
    "api",
    "conversations",
    "healthz",
    "mcp",
    "metrics",
    "models",
    "openai",
    "openapi.json",
    "openapi.yaml",
    "readyz",
    "responses",
    "tool_cache",
    "tool_callbacks",
    "tools",
    "ui",
    "v1",
];

/// Whether it is a segment of a path as it is sent, without escapes.
pub fn is_path_segment(segment: &str) -> bool {
    !matches!(segment, "" | "." | "..")
        && segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
}
