//! Sends statements without waiting for the answers of those before them.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use futures_util::future::maybe_done;

use antwort_store::StoreError;

/// Polls all of these once, in this order, so that they are sent in this order, and waits for their answers then. Each
/// must send what it has to send when it is first polled. Returns the answers of those in the middle, or the first
/// error.
pub(super) async fn in_order<T>(
    begin: impl Future<Output = Result<(), StoreError>>,
    middle: impl Iterator<Item = impl Future<Output = Result<T, StoreError>>>,
    end: impl Future<Output = Result<(), StoreError>>,
) -> Result<Vec<T>, StoreError> {
    let mut begin = pin!(maybe_done(begin));
    let mut middle: Vec<_> = middle.map(|one| Box::pin(maybe_done(one))).collect();
    let mut end = pin!(maybe_done(end));
    poll_fn(|context| {
        _ = begin.as_mut().poll(context);
        for one in &mut middle {
            _ = one.as_mut().poll(context);
        }
        _ = end.as_mut().poll(context);
        Poll::Ready(())
    })
    .await;
    begin.as_mut().await;
    for one in &mut middle {
        one.as_mut().await;
    }
    end.as_mut().await;
    let mut answers = Vec::with_capacity(middle.len());
    begin.as_mut().take_output().transpose()?;
    for mut one in middle {
        answers.extend(one.as_mut().take_output().transpose()?);
    }
    end.as_mut().take_output().transpose()?;
    Ok(answers)
}
