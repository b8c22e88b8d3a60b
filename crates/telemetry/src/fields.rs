//! Names of fields in log lines. Access, audit and error lines use the same name for the same thing, so that a search for one
//! id finds all lines about it; `docs/operations.md` lists them.

/// The target of access lines, for filters.
pub(crate) const ACCESS_TARGET: &str = "antwort::access";
/// The target of audit lines.
pub const AUDIT_TARGET: &str = "antwort::audit";

macro_rules! fields {
    ($($(#[doc = $text:literal])+ $name:ident = $field:literal;)+) => {
        $($(#[doc = $text])+ pub const $name: &str = $field;)+

        /// All of them.
        pub const ALL: &[&str] = &[$($field),+];
    };
}

fields! {
    /// The request, as in `x-request-id`.
    REQUEST_ID = "request_id";
    /// The response that was made of it.
    RESPONSE_ID = "response_id";
    /// HTTP method.
    METHOD = "method";
    /// Pattern of the path.
    ROUTE = "route";
    /// The client's address, by trusted proxies.
    CLIENT_ADDRESS = "client_address";
    /// HTTP status.
    STATUS = "status";
    /// Code of the error, or why a response is incomplete.
    CODE = "code";
    /// The refused field of the request.
    PARAM = "param";
    /// What the idempotency key of the request has led to.
    IDEMPOTENCY = "idempotency";
    /// Name of the API key.
    KEY = "key";
    /// Tenant of the key.
    TENANT = "tenant";
    /// Owner of the responses that the key creates.
    PRINCIPAL = "principal";
    /// Agent profile.
    AGENT = "agent";
    /// Key of the provider in the configuration.
    PROVIDER = "provider";
    /// The provider's name of the model.
    MODEL = "model";
    /// Inferences.
    TURNS = "turns";
    /// Tool calls that the gateway made.
    TOOL_CALLS = "tool_calls";
    /// Tokens that the model read.
    INPUT_TOKENS = "input_tokens";
    /// Of those, from the provider's cache.
    CACHED_TOKENS = "cached_tokens";
    /// Tokens that the model wrote.
    OUTPUT_TOKENS = "output_tokens";
    /// Bytes of the body that were sent.
    BYTES = "bytes";
    /// Milliseconds in all.
    MS = "ms";
    /// Milliseconds to the first byte of the body.
    FIRST_BYTE_MS = "first_byte_ms";
    /// Milliseconds to the first delta of a stream.
    FIRST_DELTA_MS = "first_delta_ms";
    /// URL of the failed call, without user, password, query and fragment; for tools and MCP servers without the path.
    URL = "url";
    /// Kind of the failure; for providers as in `antwort_provider_failures_total`.
    KIND = "kind";
    /// The chain of causes, from the outermost to the innermost, or the timeout that ended it.
    CAUSE = "cause";
    /// HTTP status of the provider's response.
    UPSTREAM_STATUS = "upstream_status";
    /// Milliseconds until the retry.
    RETRY_IN_MS = "retry_in_ms";
    /// Outcome of the request.
    ENDED = "ended";
    /// `decision` or `call`, of an audit line.
    RECORD = "record";
    /// Id of the tool call.
    CALL_ID = "call_id";
    /// Name of the tool.
    TOOL = "tool";
    /// The MCP server: its label, or for a server of a request its host.
    SERVER = "server";
    /// The executor that ran the call.
    EXECUTOR = "executor";
    /// Hash of the call's arguments.
    ARGUMENTS_SHA256 = "arguments_sha256";
    /// Decision of the tool policy.
    DECISION = "decision";
    /// Attempts, retries included.
    ATTEMPTS = "attempts";
    /// The executor that failed and was replaced by a fallback.
    FALLBACK_FROM = "fallback_from";
}
