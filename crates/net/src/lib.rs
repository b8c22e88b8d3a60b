//! Networking: the SSE decoder, HTTP client options, failure causes for the log, and the egress guard for outgoing requests.

pub mod causes;
pub mod client;
pub mod egress;
pub mod retry_after;
pub mod sse;

pub use causes::FailureCause;
pub use retry_after::retry_after;
