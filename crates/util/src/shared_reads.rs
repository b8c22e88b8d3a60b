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
pub struct SharedReads<K, T: Clone>(Mutex<HashMap<K, WeakShared<BoxFuture<'static, T>>>>);

impl<K, T: Clone> Default for SharedReads<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, T: Clone> SharedReads<K, T> {
    /// The read with this key that is under way, or whose result is still held and `lasts`; or a new one. Also whether it is
    /// another's.
    pub fn join<F>(
        &self,
        key: K,
        lasts: impl FnOnce(&T) -> bool,
        read: impl FnOnce() -> F,
    ) -> (SharedRead<T>, bool)
    where
        F: Future<Output = T> + Send + 'static,
    {
        let mut reads = self.0.lock();
        let known = reads.get(&key).and_then(WeakShared::upgrade);
        if let Some(known) = known.filter(|known| known.peek().is_none_or(lasts)) {
            return (known, true);
        }
        reads.retain(|_, read| read.upgrade().is_some());
        let new = read().boxed().shared();
        if let Some(weak) = new.downgrade() {
            reads.insert(key, weak);
        }
        (new, false)
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
        let join = |key, text: &str| reads.join(key, |_| true, || std::future::ready(Arc::from(text)));
        let (first, is_others) = join(1, "abc");
        let (second, is_others_too) = join(1, "not read");
        assert_eq!((is_others, is_others_too), (false, true));
        let (one, two) = (first.clone().await, second.await);
        assert!(Arc::ptr_eq(&one, &two) && &*one == "abc");
        let later = join(1, "not read").0.await;
        assert!(Arc::ptr_eq(&one, &later));
        assert_eq!(&*join(2, "another").0.await, "another");
        drop(first);
        assert_eq!(&*join(1, "xyz").0.await, "xyz", "nobody holds it any more");
        assert_eq!(reads.0.lock().len(), 1, "what nobody holds is forgotten");
    }

    /// A reader that was not polled any more held an error, which those who came later were told.
    #[tokio::test]
    async fn what_does_not_last_is_read_anew_by_those_who_come_later() {
        let reads = SharedReads::<u32, Result<u32, u32>>::default();
        let join = |result| reads.join(1, Result::is_ok, || std::future::ready(result));
        let (held, _) = join(Err(1));
        assert_eq!(held.clone().await, Err(1));
        let (second, is_others) = join(Ok(2));
        assert!(!is_others);
        assert_eq!((second.clone().await, join(Ok(3)).0.await), (Ok(2), Ok(2)));
        drop(held);
    }

    #[tokio::test]
    async fn one_who_leaves_in_the_midst_of_a_read_does_not_end_it() {
        let reads = SharedReads::<u32, u32>::default();
        let (go, goes) = tokio::sync::oneshot::channel::<()>();
        let waits = || async move {
            _ = goes.await;
            7
        };
        let (mut leaving, _) = reads.join(1, |_| true, waits);
        assert!((&mut leaving).now_or_never().is_none());
        let (staying, _) = reads.join(1, |_| true, || std::future::ready(8));
        drop(leaving);
        go.send(()).unwrap();
        assert_eq!(staying.await, 7);
    }
}
