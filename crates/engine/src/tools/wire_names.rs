//! The names under which tools are offered to the model: unique, and none that looks like another server's.
//!
//! `label__name` tells the model which server a tool belongs to. A server's tool whose own name begins with
//! another server's label is therefore qualified by its own label.

use std::collections::{HashMap, HashSet};

use antwort_protocol::tool::BUILTIN_SERVER_LABEL;
use antwort_response::turn::ToolName;
use antwort_tools::wire_name;

/// Whose a name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    Client,
    Gateway,
    Server,
}

/// The names that are taken.
pub(crate) struct WireNames {
    holders: HashMap<String, Holder>,
    /// Labels of servers, and namespaces of the client.
    labels: HashSet<String>,
}

impl WireNames {
    pub(crate) fn new() -> Self {
        Self { holders: HashMap::new(), labels: HashSet::from([BUILTIN_SERVER_LABEL.to_owned()]) }
    }

    /// Reserves names that begin with this label for this server or namespace.
    pub(crate) fn add_label(&mut self, label: &str) {
        if !self.labels.contains(label) {
            self.labels.insert(label.to_owned());
        }
    }

    /// Takes a name for a tool of the client. False if it is taken.
    pub(crate) fn add_client(&mut self, name: &str) -> bool {
        self.holders.insert(name.to_owned(), Holder::Client).is_none()
    }

    /// Takes a name for one of the gateway's own tools; the client's tools were named before.
    pub(crate) fn add_own(&mut self, name: &str) {
        self.holders.insert(name.to_owned(), Holder::Gateway);
    }

    /// Whether a tool of the client has the name.
    pub(crate) fn is_client(&self, name: &str) -> bool {
        self.holders.get(name) == Some(&Holder::Client)
    }

    /// Whether any tool has the name.
    pub(crate) fn is_taken(&self, name: &str) -> bool {
        self.holders.contains_key(name)
    }

    /// Takes `label__name`, or the first of `label2__name` … that is free and begins with no other label.
    pub(crate) fn qualify(
        &mut self,
        label: &str,
        name: &str,
        is_free: impl Fn(&str) -> bool,
    ) -> Option<ToolName> {
        let is_own = |wanted: &str| self.label_of(wanted).is_none_or(|found| found == label);
        // Flattened, so that a number leads out of another label's names: `a__b2` would still begin with the label
        // `a`.
        let flat = flatten(label);
        let numbered = (2..).map(|n| wire_name(Some(&format!("{flat}{n}")), name));
        let mut candidates = std::iter::once(wire_name(Some(label), name)).chain(numbered);
        let found = candidates.find(|wanted| !self.is_taken(wanted) && is_own(wanted) && is_free(wanted))?;
        self.holders.insert(found.clone(), Holder::Server);
        Some(found.into())
    }

    /// The label that a name begins with; the longest, if several do.
    fn label_of<'n>(&self, name: &'n str) -> Option<&'n str> {
        let ends = name.as_bytes().windows(2).enumerate().filter(|(_, pair)| *pair == b"__");
        ends.filter_map(|(end, _)| name.get(..end)).rfind(|label| self.labels.contains(*label))
    }
}

/// A label with runs of underscores collapsed into one.
fn flatten(label: &str) -> String {
    let mut flat = String::with_capacity(label.len());
    for letter in label.chars() {
        if letter != '_' || !flat.ends_with('_') {
            flat.push(letter);
        }
    }
    flat
}

/// The names of servers' tools that need no label: unambiguous, and beginning with no other label.
pub(crate) struct PlainNames {
    bearers: HashMap<String, usize>,
}

impl PlainNames {
    /// Counts the names of servers' tools, each with its server's label.
    pub(crate) fn new<'t>(names: &WireNames, wanted: impl Iterator<Item = (&'t str, String)>) -> Self {
        let mut bearers: HashMap<String, usize> = HashMap::new();
        for (label, plain) in wanted {
            if names.label_of(&plain).is_none_or(|found| found == label) {
                *bearers.entry(plain).or_default() += 1;
            }
        }
        Self { bearers }
    }

    /// Whether a server's tool is unambiguous by this name alone.
    pub(crate) fn is_kept(&self, names: &WireNames, label: &str, plain: &str) -> bool {
        self.bearers.get(plain) == Some(&1)
            && !names.is_taken(plain)
            && names.label_of(plain).is_none_or(|found| found == label)
    }

    /// Whether any server's tool has this name.
    pub(crate) fn wants(&self, plain: &str) -> bool {
        self.bearers.contains_key(plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(labels: &[&str]) -> WireNames {
        let mut names = WireNames::new();
        labels.iter().for_each(|label| names.add_label(label));
        names
    }

    #[test]
    fn the_longest_label_says_whose_a_name_is() {
        let names = names(&["a", "a__b", "x_"]);
        assert_eq!(names.label_of("a__c"), Some("a"));
        assert_eq!(names.label_of("a__b__c"), Some("a__b"));
        assert_eq!(names.label_of("x___c"), Some("x_"));
        assert_eq!(names.label_of("antwort__calculate"), Some(BUILTIN_SERVER_LABEL));
        assert_eq!(names.label_of("b__c"), None);
        assert_eq!(names.label_of("a_c"), None);
    }

    #[test]
    fn a_qualified_name_never_begins_with_another_label() {
        let mut names = names(&["a", "a__b", "a2"]);
        let any = |_: &str| true;
        // `a__b__c` would be the tool `c` of `a__b`, and `a2__b__c` one of `a2`.
        assert_eq!(names.qualify("a", "b__c", any).as_deref(), Some("a3__b__c"));
        assert_eq!(names.qualify("a__b", "c", any).as_deref(), Some("a__b__c"));
        assert_eq!(names.qualify("a__b", "c", any).as_deref(), Some("a_b2__c"));
    }

    /// This search once never ended.
    #[test]
    fn a_name_is_found_for_every_label() {
        let long = format!("a__{}", "b".repeat(61));
        let labels = ["a", "a__b", "a_b2", "____", "__", "_", "2", "a__2", long.as_str()];
        let mut names = names(&labels);
        for label in labels {
            let mut given = HashSet::new();
            for _ in 0..20 {
                let name = names.qualify(label, "c__d", |_| true).unwrap();
                assert!(names.label_of(&name).is_none_or(|found| found == label), "{label}: {name:?}");
                assert!(given.insert(name.to_string()), "{label}: {name:?}");
            }
        }
    }
}
