//! What outlives a request: stored responses, conversations, background runs, stores, replicas.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    reason = "clippy.toml allows panics in functions marked #[test] only; helpers take json!(..) as it is"
)]
#![allow(unreachable_pub, reason = "nothing here is reached from outside")]

mod background;
mod bus;
mod cancel;
mod compaction;
mod conversations;
mod crash;
mod deletion;
mod erasure;
mod failed_requests;
mod follow;
mod idempotency;
mod interruption;
mod one_sided;
mod pooler;
mod recovery;
mod replicas;
mod store;
mod stored;
mod webhooks;
