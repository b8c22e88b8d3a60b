//! What the network needs of its own: wire codecs that know nothing of the API, and the guard of requests going out.

pub(crate) mod causes;
pub mod client;
pub mod egress;
mod retry_after;
pub mod sse;

pub use causes::FailureCause;
pub(crate) use retry_after::retry_after;
