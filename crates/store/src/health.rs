//! Whether the database can be written to, as far as is known: set by the writer thread, read by all.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::StoreError;

/// Why responses cannot be written now, if that is known.
#[derive(Debug, Default)]
pub struct StoreHealth {
    /// Whether there is a reason; checked for every response.
    is_impaired: AtomicBool,
    reason: Mutex<Option<StoreError>>,
}

impl StoreHealth {
    /// Whether writing has failed, or would fail. Takes no lock.
    pub fn is_impaired(&self) -> bool {
        self.is_impaired.load(Ordering::Relaxed)
    }

    /// Why writing fails; `None` while it works, as far as is known.
    pub fn reason(&self) -> Option<StoreError> {
        self.reason.lock().clone()
    }

    /// Writing has failed, or would fail.
    pub fn impair(&self, error: &StoreError) {
        let was = self.reason.lock().replace(error.clone());
        self.is_impaired.store(true, Ordering::Relaxed);
        if was.is_none_or(|was| std::mem::discriminant(&was) != std::mem::discriminant(error)) {
            tracing::error!(%error, "store: responses cannot be stored; requests that ask for it are refused");
        }
    }

    /// Writing works.
    pub fn recover(&self) {
        if self.reason.lock().take().is_some() {
            tracing::info!("store: responses can be stored again");
        }
        self.is_impaired.store(false, Ordering::Relaxed);
    }
}
