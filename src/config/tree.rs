//! What was said, as a tree whose leaves know where they were said.
//!
//! Layers (file, environment, flags) are merged here, before anything is read into types. Knows no key.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde_norway::Value;

/// A value, a list or a section.
#[derive(Debug, Clone)]
pub(super) enum Node {
    Leaf {
        value: Scalar,
        origin: Origin,
    },
    List(Vec<Node>),
    Map(BTreeMap<String, Node>),
    /// Was found wrong and is not looked at again; keeps its place, so that its siblings keep their numbers.
    Absent,
}

/// A value that is no list and no section.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar {
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    /// Text that YAML calls text.
    Text(String),
    /// From the environment, a flag, `${…}` or `file:`, where all is text: the key decides what it is.
    Untyped(String),
}

/// Where something was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// In the file.
    File(Arc<Path>),
    /// By an environment variable.
    Environment(Arc<str>),
    /// By a flag of the command line.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Environment(name) => f.write_str(name),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

/// A path: keys and indexes of lists.
pub(super) type KeyPath = [String];

impl Node {
    pub(super) fn empty() -> Self {
        Self::Map(BTreeMap::new())
    }

    pub(super) fn untyped(text: impl Into<String>, origin: Origin) -> Self {
        Self::Leaf { value: Scalar::Untyped(text.into()), origin }
    }

    /// Reads parsed YAML. What is null was not said. On failure: path of what no setting can be, and why.
    pub(super) fn from_yaml(
        value: Value,
        origin: &Origin,
    ) -> Result<Option<Self>, (Vec<String>, &'static str)> {
        let leaf = |value| Ok(Some(Self::Leaf { value, origin: origin.clone() }));
        match value {
            Value::Null => Ok(None),
            Value::Bool(value) => leaf(Scalar::Bool(value)),
            Value::Number(number) => leaf(match (number.as_u64(), number.as_i64()) {
                (Some(value), _) => Scalar::Unsigned(value),
                (None, Some(value)) => Scalar::Signed(value),
                (None, None) => Scalar::Float(number.as_f64().unwrap_or(f64::NAN)),
            }),
            Value::String(value) => leaf(Scalar::Text(value)),
            Value::Sequence(values) => {
                let mut nodes = Vec::with_capacity(values.len());
                for (index, value) in values.into_iter().enumerate() {
                    let node =
                        Self::from_yaml(value, origin).map_err(|error| under(&index.to_string(), error))?;
                    nodes.push(node.unwrap_or(Self::Absent));
                }
                Ok(Some(Self::List(nodes)))
            }
            Value::Mapping(values) => {
                let mut nodes = BTreeMap::new();
                for (key, value) in values {
                    let key = key_text(key)?;
                    if let Some(node) = Self::from_yaml(value, origin).map_err(|error| under(&key, error))? {
                        nodes.insert(key, node);
                    }
                }
                Ok(Some(Self::Map(nodes)))
            }
            Value::Tagged(_) => Err((Vec::new(), "YAML tags (`!…`) mean nothing here")),
        }
    }

    /// Lays another tree over this one: sections join, anything else is replaced.
    pub(super) fn merge(&mut self, over: Self) {
        match (self, over) {
            (Self::Map(below), Self::Map(above)) => {
                for (key, node) in above {
                    below.entry(key).or_insert(Self::Absent).merge(node);
                }
            }
            (below, above) => *below = above,
        }
    }

    /// A tree with this node at `path` and nothing else.
    pub(super) fn at(path: &KeyPath, node: Self) -> Self {
        path.iter().rev().fold(node, |inner, key| Self::Map(BTreeMap::from([(key.clone(), inner)])))
    }

    pub(super) fn child(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Map(nodes) => nodes.get(key),
            Self::List(nodes) => nodes.get(key.parse::<usize>().ok()?),
            Self::Leaf { .. } | Self::Absent => None,
        }
    }

    fn child_mut(&mut self, key: &str) -> Option<&mut Self> {
        match self {
            Self::Map(nodes) => nodes.get_mut(key),
            Self::List(nodes) => nodes.get_mut(key.parse::<usize>().ok()?),
            Self::Leaf { .. } | Self::Absent => None,
        }
    }

    /// Strikes what is at `path`. Whether there was something.
    pub(super) fn mark_absent(&mut self, path: &KeyPath) -> bool {
        let node = path.iter().try_fold(self, |node, key| node.child_mut(key));
        node.is_some_and(|node| !matches!(std::mem::replace(node, Self::Absent), Self::Absent))
    }

    /// Takes what is at `path` out, as if it had not been said.
    pub(super) fn remove(&mut self, path: &KeyPath) {
        let Some((last, above)) = path.split_last() else { return };
        if let Some(Self::Map(nodes)) = above.iter().try_fold(self, |node, key| node.child_mut(key)) {
            nodes.remove(last);
        }
    }

    /// Whether another says the same, wherever it was said.
    pub(super) fn eq_ignoring_origin(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Leaf { value: one, .. }, Self::Leaf { value: other, .. }) => match (one, other) {
                (Scalar::Text(one) | Scalar::Untyped(one), Scalar::Text(other) | Scalar::Untyped(other)) => {
                    one == other
                }
                (one, other) => one == other,
            },
            (Self::List(one), Self::List(other)) => {
                one.len() == other.len()
                    && one.iter().zip(other).all(|(one, other)| one.eq_ignoring_origin(other))
            }
            (Self::Map(one), Self::Map(other)) => {
                one.len() == other.len()
                    && one
                        .iter()
                        .all(|(key, node)| other.get(key).is_some_and(|other| node.eq_ignoring_origin(other)))
            }
            (Self::Absent, Self::Absent) => true,
            _ => false,
        }
    }

    /// Where the value at `path`, or the first one below it, was said.
    pub(super) fn origin(&self, path: &KeyPath) -> Option<&Origin> {
        path.iter().try_fold(self, |node, key| node.child(key))?.first_origin()
    }

    fn first_origin(&self) -> Option<&Origin> {
        match self {
            Self::Leaf { origin, .. } => Some(origin),
            Self::List(nodes) => nodes.iter().find_map(Self::first_origin),
            Self::Map(nodes) => nodes.values().find_map(Self::first_origin),
            Self::Absent => None,
        }
    }

    /// Calls `visit` with each leaf and its path; what it returns takes the leaf's place.
    pub(super) fn rewrite(
        &mut self,
        path: &mut Vec<String>,
        visit: &mut dyn FnMut(&[String], Scalar) -> Option<Scalar>,
    ) {
        match self {
            Self::Leaf { value, .. } => {
                let old = std::mem::replace(value, Scalar::Bool(false));
                match visit(path, old) {
                    Some(new) => *value = new,
                    None => *self = Self::Absent,
                }
            }
            Self::List(nodes) => {
                for (index, node) in nodes.iter_mut().enumerate() {
                    path.push(index.to_string());
                    node.rewrite(path, visit);
                    path.pop();
                }
            }
            Self::Map(nodes) => {
                for (key, node) in nodes {
                    path.push(key.clone());
                    node.rewrite(path, visit);
                    path.pop();
                }
            }
            Self::Absent => {}
        }
    }

    /// Every leaf's path and origin; a list counts as one.
    pub(super) fn origins(&self) -> Vec<(String, Origin)> {
        let mut found = Vec::new();
        self.collect_origins(&mut Vec::new(), &mut found);
        found
    }

    fn collect_origins(&self, path: &mut Vec<String>, found: &mut Vec<(String, Origin)>) {
        match self {
            Self::Map(nodes) => {
                for (key, node) in nodes {
                    path.push(key.clone());
                    node.collect_origins(path, found);
                    path.pop();
                }
            }
            Self::Leaf { .. } | Self::List(_) => {
                found.extend(self.first_origin().map(|origin| (format_path(path), origin.clone())));
            }
            Self::Absent => {}
        }
    }
}

/// `auth.keys.env.scopes[2]`: how a path is shown. A key that is itself dotted is quoted.
pub(super) fn format_path(path: &KeyPath) -> String {
    let mut text = String::new();
    for step in path {
        if step.bytes().all(|byte| byte.is_ascii_digit()) && !step.is_empty() {
            text.push('[');
            text.push_str(step);
            text.push(']');
            continue;
        }
        if !text.is_empty() {
            text.push('.');
        }
        if step.contains(['.', ' ']) || step.is_empty() {
            text.push_str(&format!("{step:?}"));
        } else {
            text.push_str(step);
        }
    }
    text
}

fn under(key: &str, (mut path, why): (Vec<String>, &'static str)) -> (Vec<String>, &'static str) {
    path.insert(0, key.to_owned());
    (path, why)
}

fn key_text(key: Value) -> Result<String, (Vec<String>, &'static str)> {
    match key {
        Value::String(key) => Ok(key),
        Value::Number(key) => Ok(key.to_string()),
        Value::Bool(key) => Ok(key.to_string()),
        Value::Null | Value::Sequence(_) | Value::Mapping(_) | Value::Tagged(_) => {
            Err((Vec::new(), "a key must be a word"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Node, Origin, Scalar, format_path};

    fn tree(yaml: &str) -> Node {
        let value = serde_norway::from_str(yaml).expect("YAML");
        Node::from_yaml(value, &Origin::Flag("test")).expect("a tree").expect("something")
    }

    fn path(text: &str) -> Vec<String> {
        text.split('.').map(str::to_owned).collect()
    }

    #[test]
    fn sections_join_and_lists_are_replaced() {
        let mut below = tree("a: {b: 1, c: [1, 2]}\nd: text");
        below.merge(tree("a: {c: [3]}\nd: {e: 1}"));
        assert!(matches!(
            below.child("a").and_then(|a| a.child("b")),
            Some(Node::Leaf { value: Scalar::Unsigned(1), .. })
        ));
        assert!(
            matches!(below.child("a").and_then(|a| a.child("c")), Some(Node::List(nodes)) if nodes.len() == 1)
        );
        assert!(matches!(below.child("d"), Some(Node::Map(_))));
    }

    #[test]
    fn null_was_not_said() {
        assert!(tree("a:\nb: 1").child("a").is_none());
    }

    #[test]
    fn what_is_struck_keeps_its_place() {
        let mut node = tree("a: [1, 2]");
        assert!(node.mark_absent(&path("a.0")));
        assert!(!node.mark_absent(&path("a.0")));
        assert!(!node.mark_absent(&path("x.y")));
        assert!(matches!(node.child("a").and_then(|a| a.child("1")), Some(Node::Leaf { .. })));
    }

    #[test]
    fn paths_read_like_code() {
        assert_eq!(format_path(&path("auth.keys.ci.scopes.2")), "auth.keys.ci.scopes[2]");
        assert_eq!(format_path(&["aliases".into(), "gpt-4.1".into()]), "aliases.\"gpt-4.1\"");
    }
}
