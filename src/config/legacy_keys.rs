//! Older spellings of keys: each is put where its own key is, so that nothing behind this knows of them.
//!
//! `tools.api_keys`, `tools.security_policy` and a `tools.timeout` in nanoseconds come from the agent files
//! that `antwort config import` reads; people carry them over by hand too.

use std::collections::BTreeMap;
use std::time::Duration;

use super::error::Diagnostics;
use super::tree::{Node, Scalar};
use super::{de, units};

/// Names under `tools.api_keys`, and the keys that they stand for. What the key itself says counts.
const API_KEYS: [(&str, [&str; 4]); 2] = [
    ("weather", ["tools", "builtin", "get_weather", "api_key"]),
    ("search", ["tools", "builtin", "web_search", "api_key"]),
];

/// Names under `tools.security_policy`, and the keys that they stand for.
const SECURITY_POLICY: [(&str, &[&str]); 4] = [
    ("allow_file_access", &["tools", "allow_file_access"]),
    ("allow_network_access", &["tools", "allow_network_access"]),
    ("allowed_paths", &["tools", "builtin", "file_read", "allowed_paths"]),
    ("allowed_domains", &["egress", "allowed_domains"]),
];

/// Numbers below this are not meant as nanoseconds: nobody waits less than a millisecond for a tool.
const MIN_NANOSECONDS: u64 = 1_000_000;

/// Respells one layer. Each layer is respelled for itself, so that the later ones still count.
pub(super) fn migrate_legacy_keys(layer: &mut Node, findings: &mut Diagnostics, warnings: &mut Vec<String>) {
    convert_nanosecond_timeout(layer, warnings);
    for (word, said) in section(layer, "api_keys", &API_KEYS.map(|(word, _)| word), findings) {
        if let Some((_, path)) = API_KEYS.iter().find(|(known, _)| *known == word)
            && layer.origin(&owned(path)).is_none()
        {
            layer.merge(Node::at(&owned(path), said));
        }
    }
    for (word, said) in section(layer, "security_policy", &SECURITY_POLICY.map(|(word, _)| word), findings) {
        let Some((_, path)) = SECURITY_POLICY.iter().find(|(known, _)| *known == word) else { continue };
        match find(layer, path) {
            Some(other) if text(other) != text(&said) => {
                let message = format!("and tools.security_policy.{word} say different things: remove one");
                findings.add(layer, &owned(path), message);
            }
            Some(_) => {}
            None => layer.merge(Node::at(&owned(path), said)),
        }
    }
}

/// Takes a section of older spellings out of `tools`; words that it does not know stay, to be refused.
fn section(
    layer: &mut Node,
    name: &str,
    known: &[&str],
    findings: &mut Diagnostics,
) -> BTreeMap<String, Node> {
    let Some(Node::Map(mut words)) = take(layer, name) else { return BTreeMap::new() };
    let strange: Vec<String> = words.keys().filter(|word| !known.contains(&word.as_str())).cloned().collect();
    for word in strange {
        let Some(node) = words.remove(&word) else { continue };
        let path = owned(&["tools", name, &word]);
        let place = Node::at(&path, node);
        findings.add(&place, &path, format!("unknown key{}", de::suggestion(&word, known)));
    }
    words.retain(|_, node| !matches!(node, Node::Absent));
    words
}

/// Takes a section out of `tools`; anything else of that name stays, to be refused.
fn take(layer: &mut Node, name: &str) -> Option<Node> {
    let Node::Map(sections) = layer else { return None };
    let Some(Node::Map(tools)) = sections.get_mut("tools") else { return None };
    matches!(tools.get(name), Some(Node::Map(_))).then(|| tools.remove(name)).flatten()
}

/// `tools.timeout: 30000000000` is `30s`.
fn convert_nanosecond_timeout(layer: &mut Node, warnings: &mut Vec<String>) {
    let Some(Node::Leaf { value: Scalar::Unsigned(number), origin }) = find(layer, &["tools", "timeout"])
    else {
        return;
    };
    if *number < MIN_NANOSECONDS {
        return;
    }
    let text = units::format_duration(Duration::from_nanos(*number));
    warnings.push(format!("tools.timeout ({origin}) is taken as nanoseconds: write {text}"));
    let node = Node::Leaf { value: Scalar::Text(text), origin: origin.clone() };
    layer.merge(Node::at(&owned(&["tools", "timeout"]), node));
}

fn find<'a>(layer: &'a Node, path: &[&str]) -> Option<&'a Node> {
    let node = path.iter().try_fold(layer, |node, step| node.child(step))?;
    (!matches!(node, Node::Absent)).then_some(node)
}

/// What was said, however its kind was written.
fn text(node: &Node) -> String {
    match node {
        Node::Leaf { value, .. } => match value {
            Scalar::Bool(value) => value.to_string(),
            Scalar::Unsigned(value) => value.to_string(),
            Scalar::Signed(value) => value.to_string(),
            Scalar::Float(value) => value.to_string(),
            Scalar::Text(value) | Scalar::Untyped(value) => value.clone(),
        },
        Node::List(nodes) => nodes.iter().map(text).collect::<Vec<_>>().join(","),
        Node::Map(_) | Node::Absent => String::new(),
    }
}

fn owned(path: &[&str]) -> Vec<String> {
    path.iter().map(|step| (*step).to_owned()).collect()
}
