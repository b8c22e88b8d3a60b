//! What is wrong with an expression.

/// What is wrong with an expression, for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ExpressionError(String);

impl ExpressionError {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(super) fn too_large() -> Self {
        Self::new("a number is too large (more than 28 digits)")
    }
}
