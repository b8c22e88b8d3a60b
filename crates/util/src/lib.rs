//! Small helpers without dependencies on other modules, each of which exists once: backoff, text for display, hashes, patterns
//! of names, random numbers, what a key looks like, shared
//! reads, bytes that hold something.

pub mod backoff;
pub mod digest;
pub mod display;
pub mod held_bytes;
pub mod pattern;
pub mod random;
pub mod secrets;
pub mod shared_reads;
