//! Reads that are shared: who wants what somebody else reads, or still holds, takes it from there.

use std::collections::HashMap;
use std::hash::Hash;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use parking_lot::Mutex;

/// A read, and what it has led to. Hold it, without waiting for it again, as long as others may have that.
pub(crate) type SharedRead<T> = Shared<BoxFuture<'static, T>>;

/// The reads that somebody holds.
#[derive(Debug)]
pub(crate) struct SharedReads<K, T: Clone>(Mutex<HashMap<K, WeakShared<BoxFuture<'static, T>>>>);

impl<K, T: Clone> Default for SharedReads<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, T: Clone> SharedReads<K, T> {
    /// The read with this key that is under way, or whose result is still held; or a new one.
    pub(crate) fn join<F>(&self, key: K, read: impl FnOnce() -> F) -> SharedRead<T>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let mut reads = self.0.lock();
        if let Some(known) = reads.get(&key).and_then(WeakShared::upgrade) {
            return known;
        }
        reads.retain(|_, read| read.upgrade().is_some());
        let new = read().boxed().shared();
        if let Some(weak) = new.downgrade() {
            reads.insert(key, weak);
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Thirty readers of one text of 14 MiB took thirty times its memory.
    #[tokio::test]
    async fn readers_of_one_thing_share_it_as_long_as_one_of_them_holds_it() {
        let reads = SharedReads::<u32, Arc<str>>::default();
        let text = |text: &str| std::future::ready(Arc::from(text));
        let first = reads.join(1, || text("abc"));
        let (one, two) = (first.clone().await, reads.join(1, || text("not read")).await);
        assert!(Arc::ptr_eq(&one, &two) && &*one == "abc");
        let later = reads.join(1, || text("not read")).await;
        assert!(Arc::ptr_eq(&one, &later));
        assert_eq!(&*reads.join(2, || text("another")).await, "another");
        drop(first);
        assert_eq!(&*reads.join(1, || text("xyz")).await, "xyz", "nobody holds it any more");
        assert_eq!(reads.0.lock().len(), 1, "what nobody holds is forgotten");
    }

    #[tokio::test]
    async fn one_who_leaves_in_the_midst_of_a_read_does_not_end_it() {
        let reads = SharedReads::<u32, u32>::default();
        let (go, goes) = tokio::sync::oneshot::channel::<()>();
        let mut leaving = reads.join(1, || async move {
            _ = goes.await;
            7
        });
        assert!((&mut leaving).now_or_never().is_none());
        let staying = reads.join(1, || std::future::ready(8));
        drop(leaving);
        go.send(()).unwrap();
        assert_eq!(staying.await, 7);
    }
}
