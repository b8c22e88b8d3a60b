//! What the history says of an item that a client has sent beside it.

/// What the history has of an item of the input.
pub(super) enum Found {
    Equal,
    /// Another one, which differs in this field.
    Other(&'static str),
    New,
}

impl From<Option<&'static str>> for Found {
    fn from(difference: Option<&'static str>) -> Self {
        difference.map_or(Self::Equal, Self::Other)
    }
}
