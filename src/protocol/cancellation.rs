//! Ends long reading of which nobody will see the outcome.
//!
//! Readers of values are called by serde and by tables of functions, through which no argument of ours passes: which
//! interrupt they heed is known by the thread that reads.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::parse::ParseError;

thread_local! {
    static CURRENT: RefCell<Option<CancelFlag>> = const { RefCell::new(None) };
}

/// A flag that ends what is done under it. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub(crate) struct CancelFlag(Arc<AtomicBool>);

impl CancelFlag {
    /// Ends the work at its next piece.
    pub(crate) fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the work is to end.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Works on this thread; [`check`] heeds this interrupt meanwhile.
    pub(crate) fn scope<T>(&self, work: impl FnOnce() -> T) -> T {
        /// Also after a panic: threads are used again.
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

/// To be asked between two pieces of a long work: fields, elements of a list.
///
/// # Errors
/// The work is to end.
pub(crate) fn check() -> Result<(), ParseError> {
    let is_raised = CURRENT.with_borrow(|current| current.as_ref().is_some_and(CancelFlag::is_cancelled));
    if is_raised { Err(ParseError::invalid("", "the client has left.")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::request::CreateResponse;

    #[test]
    fn reading_ends_at_the_next_piece_and_the_thread_forgets_it() {
        let body = br#"{"model":"m","input":[{"role":"user","content":"a"},{"role":"user","content":"b"}]}"#;
        let interrupt = CancelFlag::default();
        assert!(interrupt.scope(|| CreateResponse::parse(body)).is_ok());
        interrupt.cancel();
        let error = interrupt.scope(|| CreateResponse::parse(body)).unwrap_err();
        assert!(error.body.message.contains("the client has left"), "{error}");
        let panicked = std::panic::catch_unwind(|| interrupt.scope(|| panic!("in the midst of it")));
        assert!(panicked.is_err() && CreateResponse::parse(body).is_ok());
    }
}
