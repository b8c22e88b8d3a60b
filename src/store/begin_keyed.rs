//! Beginning a run whose idempotency key may be taken.

use super::operation::WriteOutcome;
use super::{IdempotencyKey, IdempotencyKeys, KeyedResponse, Owner, StoreError};

/// Writes until the run is begun, or its key leads to another response, which is returned.
pub(super) async fn begin_keyed<F>(
    store: &impl IdempotencyKeys,
    owner: &Owner,
    key: Option<&IdempotencyKey>,
    write: impl Fn() -> F,
) -> Result<Option<KeyedResponse>, StoreError>
where
    F: Future<Output = Result<WriteOutcome, StoreError>>,
{
    loop {
        let outcome = write().await?;
        let (WriteOutcome::KeyTaken, Some(key)) = (outcome, key) else {
            return outcome.unless_superseded().map(|()| None);
        };
        let taken = store.keyed_response(owner, &key.key).await?;
        if taken.is_some() {
            return Ok(taken);
        }
        // That response has been deleted or withdrawn since, and the key is free.
    }
}
