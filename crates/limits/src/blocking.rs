//! Runs work in proportion to a request's size off the threads that serve requests.
//!
//! A few threads, shared fairly like every resource. Work that waits or runs here holds the bytes that were
//! reserved for its request, which bounds the memory of the pool. When a client disconnects, its work stops at the
//! next check.

use std::sync::Arc;

use tokio::runtime::{Handle, RuntimeFlavor};

use super::resource::Resource;
use antwort_identity::Requester;
use antwort_protocol::cancellation::CancelFlag;
use antwort_protocol::error::ApiError;
use antwort_telemetry::metrics::Metrics;

/// A pool of threads for long work.
#[derive(Debug)]
pub struct BlockingPool {
    threads: Resource,
    metrics: Arc<Metrics>,
}

/// Cancels the work when its caller is dropped.
struct CancelOnDrop(CancelFlag);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl BlockingPool {
    pub(super) fn new(threads: Resource, metrics: &Arc<Metrics>) -> Self {
        Self { threads, metrics: Arc::clone(metrics) }
    }

    pub(super) fn threads(&self) -> &Resource {
        &self.threads
    }

    /// Runs `work` when a thread is free. Dropping the future ends the wait, or cancels the work at its next check.
    ///
    /// # Errors
    /// 503 if no thread becomes free in time; 500 if the work panics.
    pub async fn run<T: Send + 'static>(
        &self,
        requester: &Requester,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let permit = self.threads.acquire(requester, 1).await?;
        let interrupt = CancelFlag::default();
        let _leaving = CancelOnDrop(interrupt.clone());
        let metrics = Arc::clone(&self.metrics);
        let task = tokio::task::spawn_blocking(move || {
            let outcome = interrupt.scope(work);
            metrics.blocking_task(if interrupt.is_cancelled() { "abandoned" } else { "finished" });
            drop(permit);
            outcome
        });
        task.await.map_err(|error| {
            tracing::error!(%error, "blocking work of a request panicked");
            ApiError::internal()
        })
    }
}

/// Bytes up to which work is not worth a move of other tasks.
const MAX_INLINE_BYTES: usize = 256 << 10;

/// Runs work on this many bytes: as [`run_in_place`] if they are many.
pub fn run_on_bytes<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes <= MAX_INLINE_BYTES { work() } else { run_in_place(work) }
}

/// Runs long work on this thread, after the runtime has moved the other tasks of this worker to another thread. A
/// runtime without worker threads just runs it.
pub fn run_in_place<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use tokio_util::task::TaskTracker;

    use super::*;
    use crate::{Admission, AdmissionLimits};

    fn requester() -> Requester {
        Requester::new(&"default".into(), &"anonymous".into())
    }

    /// One worker: the other task ends only if that is taken over by another thread.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn other_tasks_go_on_while_work_runs_in_place() {
        let (done, is_done) = mpsc::channel();
        let tasks = TaskTracker::new();
        let others = tasks.clone();
        let work = tasks.spawn(async move {
            others.spawn(async move { done.send(()).unwrap() });
            run_in_place(move || is_done.recv_timeout(Duration::from_secs(30)).is_ok())
        });
        assert!(work.await.unwrap());
    }

    #[tokio::test]
    async fn who_leaves_ends_the_work_and_what_is_done_is_handed_back() {
        let metrics = Metrics::new();
        let admission = Admission::new(&AdmissionLimits::default(), &metrics);
        assert_eq!(admission.blocking.run(&requester(), || 42).await.expect("done"), 42);
        let (begun, has_begun) = mpsc::channel();
        let (ended, has_ended) = mpsc::channel();
        let requester = requester();
        let endless = admission.blocking.run(&requester, move || {
            begun.send(()).unwrap();
            // As parsers do between two pieces.
            while antwort_protocol::parse::check_cancelled().is_ok() {
                std::thread::yield_now();
            }
            ended.send(()).unwrap();
        });
        assert!(tokio::time::timeout(Duration::from_millis(50), endless).await.is_err());
        has_begun.recv().expect("it began");
        has_ended.recv_timeout(Duration::from_secs(30)).expect("it ends when nobody waits");
        let panicked = admission.blocking.run(&requester, || panic!("in the midst of it")).await;
        assert_eq!(panicked.map(|()| 0).unwrap_err().kind.status(), 500);
    }
}
