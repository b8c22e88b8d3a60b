//! Beginning a run whose idempotency key may be taken.

use super::operation::WriteOutcome;
use super::{IdempotencyKey, IdempotencyKeys, KeyUse, Owner, StoreError};

/// Writes until the run is begun, or its key was used before, and what it has led to is returned.
pub async fn begin_keyed<F>(
    store: &impl IdempotencyKeys,
    owner: &Owner,
    key: Option<&IdempotencyKey>,
    write: impl Fn() -> F,
) -> Result<Option<KeyUse>, StoreError>
where
    F: Future<Output = Result<WriteOutcome, StoreError>>,
{
    loop {
        let outcome = write().await?;
        let (WriteOutcome::KeyTaken, Some(key)) = (outcome, key) else {
            return outcome.unless_superseded().map(|()| None);
        };
        let taken = store.key_use(owner, &key.key).await?;
        if taken.is_some() {
            return Ok(taken);
        }
        // That response was withdrawn or has expired since, and the key is free.
    }
}
