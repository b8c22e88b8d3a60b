//! Small helpers without dependencies on other modules, each of which exists once: backoff, text for display, hashes, patterns
//! of names, random numbers, what a key looks like, shared
//! reads, bytes that hold something.

pub(crate) mod backoff;
pub(crate) mod digest;
pub(crate) mod display;
pub(crate) mod held_bytes;
pub(crate) mod pattern;
pub(crate) mod random;
pub(crate) mod secrets;
pub(crate) mod shared_reads;
