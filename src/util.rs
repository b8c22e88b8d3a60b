//! Small helpers without dependencies on other modules, each of which exists once: backoff, text for display, hashes, random numbers.

pub(crate) mod backoff;
pub(crate) mod digest;
pub(crate) mod display;
pub(crate) mod random;
