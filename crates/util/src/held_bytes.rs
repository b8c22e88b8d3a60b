//! Bytes that hold something as long as any of them is in use, such as their reservation: what sends them still has them when
//! whoever has produced them is gone.

use bytes::Bytes;

struct Held<T> {
    bytes: Bytes,
    _held: T,
}

impl<T> AsRef<[u8]> for Held<T> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// These bytes, which hold this until the last clone is dropped.
pub fn holding<T: Send + 'static>(bytes: Bytes, held: T) -> Bytes {
    Bytes::from_owner(Held { bytes, _held: held })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn what_is_held_is_dropped_with_the_last_bytes() {
        let held = Arc::new(());
        let bytes = holding(Bytes::from_static(b"abc"), Arc::clone(&held));
        let rest = bytes.slice(1..);
        drop(bytes);
        assert_eq!((&rest[..], Arc::strong_count(&held)), (&b"bc"[..], 2));
        drop(rest);
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
