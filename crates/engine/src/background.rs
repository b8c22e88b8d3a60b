//! Background runs: requests that are queued with all that it takes to make them, and made by whichever process claims
//! them, from where they are.
//!
//! `submit` checks a request as a run would be checked and queues it, `spec` is what is queued, `work` makes what was
//! claimed, `left` is what is there of it; `asker` says who may have that, `follow_up` queues the response that follows a
//! result.

mod asker;
pub(super) mod follow_up;
mod left;
pub(super) mod spec;
pub(super) mod submit;
pub(super) mod work;

pub use submit::Queued;
