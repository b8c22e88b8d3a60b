//! Large pages of a log that is followed: those who want the same one at the same time share its bytes and their reservation.

use futures_util::future::BoxFuture;

use super::followed_page::FollowedPage;
use antwort_limits::Permit;
use antwort_protocol::error::ApiError;
use antwort_store::{LogPage, StoreError};
use antwort_util::held_bytes::holding;
use antwort_util::shared_reads::SharedReads;

/// Reserves so many bytes for a page, in the budget of whoever asks for it.
pub(crate) type ReservePage = dyn Fn(u64) -> BoxFuture<'static, Result<Permit, ApiError>> + Send + Sync;

/// The large pages of one log that are being read or sent.
#[derive(Debug, Default)]
pub(super) struct LargePages(SharedReads<LargePage, ReadPage>);

/// Which page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct LargePage {
    /// The number of its first event.
    pub next: u64,
    pub replaced_from: Option<u64>,
    pub bytes: u64,
}

type ReadPage = Result<Option<FollowedPage>, LargePageError>;

/// Why there is no page.
#[derive(Debug, Clone)]
pub(super) enum LargePageError {
    /// There was no room for it.
    Refused(Box<ApiError>),
    Store(StoreError),
}

impl LargePages {
    /// This page. One that was read before is only taken if it is final for whoever asks: the end of a run of this process may
    /// have been replaced meanwhile.
    pub(super) async fn get<F>(
        &self,
        page: LargePage,
        is_final: impl Fn(&FollowedPage) -> bool + Copy,
        reserve: &ReservePage,
        read: impl Fn() -> F,
    ) -> ReadPage
    where
        F: Future<Output = Result<Option<LogPage>, StoreError>> + Send + 'static,
    {
        let lasts = |read: &ReadPage| matches!(read, Ok(Some(page)) if is_final(page));
        let join = || self.0.join(page, lasts, || read_reserved(reserve(page.bytes), read()));
        let (mut shared, is_others) = join();
        let mut found = shared.clone().await;
        if is_others && matches!(found, Err(LargePageError::Refused(_))) {
            // Another's budget had no room, or another had waited for it longer.
            shared = join().0;
            found = shared.clone().await;
        }
        Ok(found?.map(|page| if is_final(&page) { with_held(page, shared) } else { page }))
    }
}

async fn read_reserved(
    reserved: BoxFuture<'static, Result<Permit, ApiError>>,
    read: impl Future<Output = Result<Option<LogPage>, StoreError>> + Send + 'static,
) -> ReadPage {
    let permit = reserved.await.map_err(|error| LargePageError::Refused(Box::new(error)))?;
    // In a task of its own: a follower whose client does not read is not polled, and would keep its place in the store.
    #[expect(clippy::disallowed_methods, reason = "one read of the store, which has a limit of its own")]
    let read = tokio::spawn(read).await;
    let read = read.unwrap_or_else(|error| Err(StoreError::Database(error.to_string())));
    let found = read.map_err(LargePageError::Store)?.map(FollowedPage::from);
    Ok(found.map(|page| with_held(page, permit)))
}

/// The page, whose bytes hold this.
fn with_held<T: Send + 'static>(mut page: FollowedPage, held: T) -> FollowedPage {
    page.bytes = holding(std::mem::take(&mut page.bytes), held);
    page
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt;

    use super::*;
    use antwort_identity::Requester;
    use antwort_limits::{Admission, AdmissionLimits};
    use antwort_telemetry::metrics::Metrics;

    fn log_page(is_own: bool) -> LogPage {
        let bytes = vec![b'x'; 100];
        LogPage { first: 0, bytes, next: 1, is_end: false, is_running: is_own, is_own, replaced_from: None }
    }

    /// Who came after the end of the run took the page for one that might still be replaced, and waited for ever.
    #[tokio::test]
    async fn a_page_of_a_run_that_went_on_is_read_anew_by_who_comes_later() {
        let admission = Admission::new(&AdmissionLimits::default(), &Metrics::new());
        let reserve = move |bytes| {
            let admission = Arc::clone(&admission);
            let requester = Requester::new(&"t".into(), &"k".into());
            async move { admission.response_bodies.acquire(&requester, bytes).await }.boxed()
        };
        let pages = LargePages::default();
        let page = LargePage { next: 0, replaced_from: None, bytes: 100 };
        let read = |is_own| move || async move { Ok(Some(log_page(is_own))) };
        // Of one who follows the run, and of one who comes when it has ended.
        let (follows, comes_later) = (|_: &FollowedPage| true, |page: &FollowedPage| !page.is_own_run);
        let held = pages.get(page, follows, &reserve, read(true)).await.unwrap().unwrap();
        let joined = pages.get(page, follows, &reserve, read(false)).await.unwrap().unwrap();
        assert!(held.is_own_run && joined.is_own_run, "it is not read again by another who follows");
        let later = pages.get(page, comes_later, &reserve, read(false)).await.unwrap().unwrap();
        assert!(!later.is_own_run);
        let shared = pages.get(page, comes_later, &reserve, read(true)).await.unwrap().unwrap();
        assert!(!shared.is_own_run && shared.bytes == later.bytes, "it is not read again");
    }
}
