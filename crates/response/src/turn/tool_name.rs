//! The name of a tool: a type of its own, so that tests can count comparisons, as a request may have many names.

use std::fmt;
use std::ops::Deref;

/// A tool's name; comparisons are counted for tests, with the feature `counted`.
#[derive(Clone)]
pub struct ToolName(String);

impl ToolName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn is(&self, other: &str) -> bool {
        #[cfg(feature = "counted")]
        COMPARISONS.with(|count| count.set(count.get() + 1));
        self.0 == other
    }
}

#[cfg(feature = "counted")]
thread_local! {
    static COMPARISONS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// How many names this thread has compared so far.
#[cfg(feature = "counted")]
pub fn comparisons() -> u64 {
    COMPARISONS.with(std::cell::Cell::get)
}

impl Deref for ToolName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl From<String> for ToolName {
    fn from(name: String) -> Self {
        Self(name)
    }
}

impl From<&str> for ToolName {
    fn from(name: &str) -> Self {
        Self(name.to_owned())
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl PartialEq for ToolName {
    fn eq(&self, other: &Self) -> bool {
        self.is(&other.0)
    }
}

impl Eq for ToolName {}

impl PartialEq<str> for ToolName {
    fn eq(&self, other: &str) -> bool {
        self.is(other)
    }
}

impl PartialEq<&str> for ToolName {
    fn eq(&self, other: &&str) -> bool {
        self.is(other)
    }
}

impl PartialEq<String> for ToolName {
    fn eq(&self, other: &String) -> bool {
        self.is(other)
    }
}
