//! Large pages of a log that is followed: those who want the same one at the same time share its bytes and their reservation.

use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::followed_page::FollowedPage;
use crate::admission::Permit;
use crate::protocol::error::ApiError;
use crate::store::{LogPage, StoreError};
use crate::util::shared_reads::{SharedRead, SharedReads};

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

/// Bytes with what is held for them.
struct Held<T> {
    bytes: Bytes,
    _held: T,
}

impl<T> AsRef<[u8]> for Held<T> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl LargePages {
    /// This page. What is not final is not shared with those who ask later.
    pub(super) async fn get(
        &self,
        page: LargePage,
        is_final: impl FnOnce(&FollowedPage) -> bool,
        reserve: &ReservePage,
        read: impl Future<Output = Result<Option<LogPage>, StoreError>> + Send + 'static,
    ) -> ReadPage {
        let shared = self.0.join(page, || {
            let reserved = reserve(page.bytes);
            async move {
                let permit = reserved.await.map_err(|error| LargePageError::Refused(Box::new(error)))?;
                // In a task of its own: a follower whose client does not read is not polled, and would keep its place in the
                // store.
                #[expect(
                    clippy::disallowed_methods,
                    reason = "one read of the store, which has a limit of its own"
                )]
                let read = tokio::spawn(read).await;
                let read = read.unwrap_or_else(|error| Err(StoreError::Database(error.to_string())));
                let found = read.map_err(LargePageError::Store)?.map(FollowedPage::from);
                Ok(found.map(|page| holding(page, permit)))
            }
        });
        let found = shared.clone().await?;
        Ok(found.map(|page| if is_final(&page) { holding::<SharedRead<_>>(page, shared) } else { page }))
    }
}

/// The page, whose bytes hold this until the last of them is dropped.
fn holding<T: Send + 'static>(mut page: FollowedPage, held: T) -> FollowedPage {
    page.bytes = Bytes::from_owner(Held { bytes: std::mem::take(&mut page.bytes), _held: held });
    page
}
