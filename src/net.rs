//! Networking: the SSE decoder, HTTP client options, failure causes for the log, and the egress guard for outgoing requests.

pub(crate) mod causes;
pub(crate) mod client;
pub(crate) mod egress;
mod retry_after;
pub(crate) mod sse;

pub(crate) use causes::FailureCause;
pub(crate) use retry_after::retry_after;
