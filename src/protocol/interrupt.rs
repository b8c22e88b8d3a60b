//! Ends long reading of which nobody will see the outcome.
//!
//! Readers of values are called by serde and by tables of functions, through which no argument of ours passes: which
//! interrupt they heed is known by the thread that reads.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::parse::ShapeError;

thread_local! {
    static CURRENT: RefCell<Option<Interrupt>> = const { RefCell::new(None) };
}

/// A flag that ends what is done under it. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Ends the work at its next piece.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the work is to end.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Works on this thread; [`check`] heeds this interrupt meanwhile.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        /// Also after a panic: threads are used again.
        struct Forget;

        impl Drop for Forget {
            fn drop(&mut self) {
                CURRENT.set(None);
            }
        }

        CURRENT.set(Some(self.clone()));
        let _forget = Forget;
        work()
    }
}

/// To be asked between two pieces of a long work: fields, elements of a list.
///
/// # Errors
/// The work is to end.
pub fn check() -> Result<(), ShapeError> {
    let is_raised = CURRENT.with_borrow(|current| current.as_ref().is_some_and(Interrupt::is_raised));
    if is_raised { Err(ShapeError::invalid("", "the client has left.")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::request::CreateResponse;

    #[test]
    fn reading_ends_at_the_next_piece_and_the_thread_forgets_it() {
        let body = br#"{"model":"m","input":[{"role":"user","content":"a"},{"role":"user","content":"b"}]}"#;
        let interrupt = Interrupt::default();
        assert!(interrupt.during(|| CreateResponse::parse(body)).is_ok());
        interrupt.raise();
        let error = interrupt.during(|| CreateResponse::parse(body)).unwrap_err();
        assert!(error.body.message.contains("the client has left"), "{error}");
        let panicked = std::panic::catch_unwind(|| interrupt.during(|| panic!("in the midst of it")));
        assert!(panicked.is_err() && CreateResponse::parse(body).is_ok());
    }
}
