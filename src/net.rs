//! What the network needs of its own: wire codecs that know nothing of the API, and the guard of requests going out.

pub mod egress;
pub(crate) mod retry_after;
pub mod sse;
