//! Cancels long parsing whose result nobody will see.
//!
//! Parsers are called by serde and through tables of functions, which cannot pass a flag on: the thread that
//! parses knows its flag.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    static CURRENT: RefCell<Option<CancelFlag>> = const { RefCell::new(None) };
}

/// A flag that cancels the work done under it; clones are the same flag.
#[derive(Debug, Clone, Default)]
pub struct CancelFlag(Arc<AtomicBool>);

impl CancelFlag {
    /// Cancels the work at its next check.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether this flag or a clone of it was cancelled; it never becomes false again.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Runs work on this thread, whose parsers look at this flag.
    pub fn scope<T>(&self, work: impl FnOnce() -> T) -> T {
        /// Also after a panic: threads are reused.
        struct ClearOnDrop;

        impl Drop for ClearOnDrop {
            fn drop(&mut self) {
                CURRENT.set(None);
            }
        }

        CURRENT.set(Some(self.clone()));
        let _forget = ClearOnDrop;
        work()
    }
}

/// Whether the work of this thread is cancelled.
pub(super) fn is_cancelled() -> bool {
    CURRENT.with_borrow(|current| current.as_ref().is_some_and(CancelFlag::is_cancelled))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::CreateResponse;

    #[test]
    fn reading_ends_at_the_next_piece_and_the_thread_forgets_it() {
        let body = br#"{"model":"m","input":[{"role":"user","content":"a"},{"role":"user","content":"b"}]}"#;
        let interrupt = CancelFlag::default();
        assert!(interrupt.scope(|| CreateResponse::parse(body)).is_ok());
        interrupt.cancel();
        let error = interrupt.scope(|| CreateResponse::parse(body)).unwrap_err();
        assert!(error.body.message.contains("the client has disconnected"), "{error}");
        let panicked = std::panic::catch_unwind(|| interrupt.scope(|| panic!("in the midst of it")));
        assert!(panicked.is_err() && CreateResponse::parse(body).is_ok());
    }
}
