//! Limits of what a response may say besides its payload.

/// Maximum size of the head of a response in bytes.
pub(super) const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Maximum number of headers of a response.
pub(super) const MAX_HEADERS: usize = 100;
/// Maximum number of informational responses (1xx) before the response.
pub(super) const MAX_INFORMATIONAL: usize = 16;
/// Maximum size of all chunk extensions and trailers of a body in bytes.
pub(super) const MAX_OVERHEAD_BYTES: usize = 16 * 1024;
