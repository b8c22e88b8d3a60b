//! The parts of a round of maintenance: one that fails does not keep the others from being made.

use super::StoreError;

/// What the parts of a round have come to.
#[derive(Debug, Default)]
pub struct RoundParts {
    first: Option<StoreError>,
}

impl RoundParts {
    /// Notes a part that was made. Its error is logged, unless it is that of a part before: the database is away.
    pub fn add(&mut self, part: &'static str, made: Result<(), StoreError>) {
        let Err(error) = made else { return };
        if self.first.as_ref().is_none_or(|first| first.to_string() != error.to_string()) {
            tracing::warn!(part, %error, "store: a part of maintenance failed");
        }
        self.first.get_or_insert(error);
    }

    /// The first error.
    pub fn end(self) -> Result<(), StoreError> {
        self.first.map_or(Ok(()), Err)
    }
}
