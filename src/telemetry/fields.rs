//! The names of fields in log lines. Access, audit and error lines call the same thing by the same name, and
//! `docs/operations.md` lists them: whoever searches for one id finds all lines about it.

macro_rules! fields {
    ($($(#[doc = $text:literal])+ $name:ident = $field:literal;)+) => {
        $($(#[doc = $text])+ pub(crate) const $name: &str = $field;)+

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
    /// Where the request came from; trusted proxies are looked through.
    CLIENT_ADDRESS = "client_address";
    /// HTTP status.
    STATUS = "status";
    /// Code of the error, or why a response is incomplete.
    CODE = "code";
    /// The refused field of the request.
    PARAM = "param";
    /// Name of the API key.
    KEY = "key";
    /// Tenant of the key.
    TENANT = "tenant";
    /// Owner of what the key makes.
    PRINCIPAL = "principal";
    /// Agent profile.
    AGENT = "agent";
    /// Key of the provider in the configuration.
    PROVIDER = "provider";
    /// The provider's name of the model.
    MODEL = "model";
    /// Inferences.
    TURNS = "turns";
    /// Calls of tools that the gateway made.
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
    /// Milliseconds to the model's first word, of streams.
    FIRST_DELTA_MS = "first_delta_ms";
    /// Where the failed call went, without user, password, query and fragment; of tools and MCP servers without the path.
    URL = "url";
    /// What kind of failure; of a provider as in `antwort_provider_failures_total`.
    KIND = "kind";
    /// Why: the causes, from the outermost to the innermost, or the time limit.
    CAUSE = "cause";
    /// The HTTP status that the provider answered with.
    UPSTREAM_STATUS = "upstream_status";
    /// Milliseconds until the call is made again.
    RETRY_IN_MS = "retry_in_ms";
    /// How it ended.
    ENDED = "ended";
    /// `decision` or `call`, of an audit line.
    RECORD = "record";
    /// The call of a tool.
    CALL_ID = "call_id";
    /// Name of the tool.
    TOOL = "tool";
    /// The MCP server: its label, of one that a request brought its host.
    SERVER = "server";
    /// Who ran the call.
    EXECUTOR = "executor";
    /// Hash of the call's arguments.
    ARGUMENTS_SHA256 = "arguments_sha256";
    /// What the policy decided.
    DECISION = "decision";
    /// Times that an executor was asked.
    ATTEMPTS = "attempts";
    /// The executor that another one stood in for.
    FALLBACK_FROM = "fallback_from";
}
