//! What was read last of the logs that are followed, so that many followers of one response cost one read.
//!
//! Those who are at the end of a log all want the same next page: one reads it, and the others take it from here. Whoever is
//! behind reads for itself.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;

use super::followed_page::FollowedPage;
use super::large_pages::LargePages;
use antwort_identity::Owner;
use antwort_protocol::id::Id;
use antwort_store::{LogPage, StoreError};

/// The pages that are kept of a log, at most.
const MAX_PAGES: usize = 16;
/// Their bytes, at most; a single page may have more.
const MAX_BYTES: usize = 512 << 10;

/// The logs that somebody follows in this process.
#[derive(Debug, Default)]
pub(super) struct LogTails(Mutex<HashMap<(Owner, Id), Weak<LogTail>>>);

/// The last pages of one log. Forgotten with its last follower.
#[derive(Debug)]
pub(super) struct LogTail {
    pages: Mutex<VecDeque<FollowedPage>>,
    /// The read of the next page, under way in a task of its own: a follower whose client does not read is not polled, and
    /// would let the others wait.
    reading: Mutex<Option<Reading>>,
    large: LargePages,
    key: (Owner, Id),
    tails: Arc<LogTails>,
}

/// A read that is shared.
#[derive(Debug, Clone)]
struct Reading {
    next: u64,
    page: SharedPage,
}

type SharedPage = Shared<BoxFuture<'static, Result<Option<FollowedPage>, StoreError>>>;

impl LogTails {
    /// The tail of a log, shared by its followers.
    pub(super) fn of(self: &Arc<Self>, owner: &Owner, id: &Id) -> Arc<LogTail> {
        let key = (owner.clone(), id.clone());
        let mut tails = self.0.lock();
        if let Some(tail) = tails.get(&key).and_then(Weak::upgrade) {
            return tail;
        }
        let tail = Arc::new(LogTail {
            pages: Mutex::default(),
            reading: Mutex::default(),
            large: LargePages::default(),
            key: key.clone(),
            tails: Arc::clone(self),
        });
        tails.insert(key, Arc::downgrade(&tail));
        tail
    }
}

impl LogTail {
    /// The page with the event `next` of a log whose events were replaced from `replaced_from` on; by `read`, unless another
    /// follower has read it. What is not final is not shared.
    pub(super) async fn page(
        &self,
        next: u64,
        replaced_from: Option<u64>,
        is_final: impl FnOnce(&FollowedPage) -> bool,
        read: impl Future<Output = Result<Option<LogPage>, StoreError>> + Send + 'static,
    ) -> Result<Option<FollowedPage>, StoreError> {
        if let Some(page) = self.find(next, replaced_from) {
            return Ok(Some(page));
        }
        if self.is_behind(next) {
            return Ok(read.await?.map(FollowedPage::from));
        }
        let reading = self.join(next, read);
        let page = reading.page.clone().await;
        // The first that has it shares it, and the next read is another one.
        let is_first = self.reading.lock().take_if(|other| other.page.ptr_eq(&reading.page)).is_some();
        let page = page?;
        if let Some(page) = page.as_ref().filter(|page| is_first && is_final(page)) {
            self.add(page);
        }
        Ok(page)
    }

    /// Its pages that are too large to be kept for whoever comes later.
    pub(super) fn large_pages(&self) -> &LargePages {
        &self.large
    }

    /// The read of the page with this event that is under way, or this one.
    fn join(
        &self,
        next: u64,
        read: impl Future<Output = Result<Option<LogPage>, StoreError>> + Send + 'static,
    ) -> Reading {
        let mut reading = self.reading.lock();
        if let Some(known) =
            reading.as_ref().filter(|known| known.next == next && known.page.peek().is_none())
        {
            return known.clone();
        }
        #[expect(clippy::disallowed_methods, reason = "one read of the store, which has a limit of its own")]
        let task = tokio::spawn(async move { Ok(read.await?.map(FollowedPage::from)) });
        let page =
            async move { task.await.unwrap_or_else(|error| Err(StoreError::Database(error.to_string()))) };
        reading.insert(Reading { next, page: page.boxed().shared() }).clone()
    }

    /// Whether events behind this one were read already.
    fn is_behind(&self, next: u64) -> bool {
        self.pages.lock().back().is_some_and(|last| next < last.next)
    }

    fn find(&self, next: u64, replaced_from: Option<u64>) -> Option<FollowedPage> {
        let pages = self.pages.lock();
        let fits = |page: &&FollowedPage| {
            page.first <= next && next < page.next && page.replaced_from == replaced_from
        };
        pages.iter().rev().find(fits).cloned()
    }

    fn add(&self, page: &FollowedPage) {
        // A large page has the memory of the one who reads it, and is not kept for others.
        if page.bytes.is_empty() || page.bytes.len() > MAX_BYTES {
            return;
        }
        let mut pages = self.pages.lock();
        if pages.back().is_some_and(|last| last.replaced_from != page.replaced_from) {
            pages.clear();
        }
        pages.push_back(FollowedPage { is_own_run: false, ..page.clone() });
        while pages.len() > MAX_PAGES || bytes(&pages) > MAX_BYTES {
            pages.pop_front();
        }
    }
}

fn bytes(pages: &VecDeque<FollowedPage>) -> usize {
    pages.iter().map(|page| page.bytes.len()).sum()
}

impl Drop for LogTail {
    fn drop(&mut self) {
        let mut tails = self.tails.0.lock();
        // Another one may have come in between.
        if tails.get(&self.key).is_some_and(|tail| tail.strong_count() == 0) {
            tails.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn log_page(first: u64, next: u64) -> LogPage {
        let bytes = vec![b'x'; 10];
        LogPage { first, bytes, next, is_end: false, is_running: true, is_own: true, replaced_from: None }
    }

    fn tail() -> (Arc<LogTails>, Arc<LogTail>) {
        let tails = Arc::new(LogTails::default());
        let owner = Owner { tenant: "t".into(), principal: "p".into() };
        let tail = tails.of(&owner, &"resp_1".into());
        assert!(Arc::ptr_eq(&tail, &tails.of(&owner, &"resp_1".into())));
        (tails, tail)
    }

    /// A thousand followers of one response once were a thousand reads for each of its events.
    #[tokio::test]
    async fn many_followers_at_the_end_of_a_log_cost_one_read() {
        let (_tails, tail) = tail();
        let reads = Arc::new(AtomicUsize::new(0));
        let read = || {
            let reads = Arc::clone(&reads);
            async move {
                tokio::task::yield_now().await;
                reads.fetch_add(1, Ordering::Relaxed);
                Ok(Some(log_page(0, 5)))
            }
        };
        let pages =
            futures_util::future::join_all((0..100).map(|_| tail.page(0, None, |_| true, read()))).await;
        assert!(pages.iter().all(|page| page.as_ref().unwrap().as_ref().unwrap().next == 5));
        assert_eq!(reads.load(Ordering::Relaxed), 1);
        // What another has read may be old.
        let shared = tail.page(3, None, |_| true, async { panic!("is not read") }).await.unwrap().unwrap();
        assert!((shared.first, shared.next, shared.is_own_run) == (0, 5, false));
    }

    /// A follower whose client did not read, in the middle of the shared read, let all others wait.
    #[tokio::test(start_paused = true)]
    async fn a_follower_that_is_not_polled_holds_nobody_up() {
        let (_tails, tail) = tail();
        let (go, goes) = tokio::sync::oneshot::channel::<()>();
        let read = async move {
            _ = goes.await;
            Ok(Some(log_page(0, 5)))
        };
        let mut stalled = Box::pin(tail.page(0, None, |_| true, read));
        assert!((&mut stalled).now_or_never().is_none());
        go.send(()).unwrap();
        let other = tail.page(0, None, |_| true, async { panic!("is not read twice") });
        let page = tokio::time::timeout(std::time::Duration::from_secs(60), other).await.unwrap();
        assert_eq!(page.unwrap().unwrap().next, 5);
        assert_eq!(stalled.await.unwrap().unwrap().next, 5);
        let shared = tail.page(4, None, |_| true, async { panic!("is not read") }).await.unwrap().unwrap();
        assert_eq!(shared.next, 5);
    }

    #[tokio::test]
    async fn events_that_were_replaced_are_read_again() {
        let (_tails, tail) = tail();
        tail.page(0, None, |_| true, async { Ok(Some(log_page(0, 5))) }).await.unwrap();
        let replaced = || LogPage { replaced_from: Some(2), ..log_page(2, 9) };
        let page =
            tail.page(2, Some(2), |_| true, async move { Ok(Some(replaced())) }).await.unwrap().unwrap();
        assert_eq!((page.next, page.replaced_from), (9, Some(2)));
    }

    #[tokio::test]
    async fn events_that_may_still_be_replaced_are_not_shared() {
        let (_tails, tail) = tail();
        for next in [5, 6] {
            let read = async move { Ok(Some(log_page(0, next))) };
            let page = tail.page(0, None, |page| !page.is_own_run, read).await.unwrap().unwrap();
            assert_eq!(page.next, next);
        }
    }

    #[tokio::test]
    async fn what_is_kept_is_bounded_and_goes_with_the_last_follower() {
        let (tails, tail) = tail();
        for first in 0..100 {
            let page = LogPage { bytes: vec![0; MAX_BYTES / 4], ..log_page(first, first + 1) };
            tail.page(first, None, |_| true, async move { Ok(Some(page)) }).await.unwrap();
        }
        assert_eq!(tail.pages.lock().len(), 4);
        let large = LogPage { bytes: vec![0; MAX_BYTES + 1], ..log_page(100, 101) };
        tail.page(100, None, |_| true, async move { Ok(Some(large)) }).await.unwrap();
        assert_eq!(bytes(&tail.pages.lock()), MAX_BYTES, "a large page is its reader's alone");
        assert!(tail.page(101, None, |_| true, async { Ok(None) }).await.unwrap().is_none());
        drop(tail);
        assert!(tails.0.lock().is_empty());
    }
}
