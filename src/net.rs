//! Networking: the SSE decoder, HTTP client options, failure causes for the log, and the egress guard for outgoing requests.

pub(crate) mod causes;
pub(crate) mod client;
pub(crate) mod egress;
pub(crate) mod http1;
mod retry_after;
pub(crate) mod sse;

pub(crate) use causes::FailureCause;
pub(crate) use retry_after::retry_after;
