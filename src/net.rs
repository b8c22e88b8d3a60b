//! Wire codecs that know nothing of the API.

pub mod sse;
