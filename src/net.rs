//! What the network needs of its own: wire codecs that know nothing of the API, and the guard of requests going out.

pub(crate) mod causes;
pub(crate) mod client;
pub(crate) mod egress;
mod retry_after;
pub(crate) mod sse;

pub(crate) use causes::FailureCause;
pub(crate) use retry_after::retry_after;
