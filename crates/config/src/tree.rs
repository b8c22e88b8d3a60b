//! Settings as a tree of the `config` crate's values, each leaf with its origin. Knows no key.

use std::fmt;

use config::{Config, Map, Source, Value, ValueKind};

/// A section of keys. The crate keeps no order: iterate over [`sorted`].
pub(super) type Table = Map<String, Value>;

/// The settings of one source, or of several merged. An invalid value is `Nil`: it is not read again, but keeps its place
/// in a list.
#[derive(Clone)]
pub(super) struct Tree(Value);

/// The crate parses top-level keys as paths (`a.b`, `a[0]`) and takes those below literally: all keys are below this one.
const ROOT: &str = "settings";

impl Source for Tree {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Table, config::ConfigError> {
        Ok(Table::from_iter([(ROOT.to_owned(), self.0.clone())]))
    }
}

/// Values may be secrets.
impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tree(..)")
    }
}

impl Default for Tree {
    fn default() -> Self {
        Self(Table::new().into())
    }
}

impl Tree {
    /// Merges sources, the later ones over the earlier: sections are merged key by key, anything else is replaced.
    pub(super) fn merge(sources: impl IntoIterator<Item = Self>) -> Result<Self, config::ConfigError> {
        let builder =
            sources.into_iter().fold(Config::builder(), |builder, source| builder.add_source(source));
        let mut merged = builder.build()?.cache.into_table()?;
        Ok(merged.remove(ROOT).map_or_else(Self::default, Self))
    }

    /// A tree of parsed YAML; null means not set. On failure: the path of what cannot be a setting, and why.
    pub(super) fn from_yaml(
        value: serde_norway::Value,
        origin: &Origin,
    ) -> Result<Self, (Vec<String>, &'static str)> {
        let mut path = Vec::new();
        from_yaml(value, &origin.encoded(), &mut path).map(Self).map_err(|reason| (path, reason))
    }

    pub(super) fn root(&self) -> &Value {
        &self.0
    }

    /// The value at `path`, unless it is invalid.
    pub(super) fn get(&self, path: &[impl AsRef<str>]) -> Option<&Value> {
        let value = path.iter().try_fold(&self.0, |value, step| match &value.kind {
            ValueKind::Table(table) => table.get(step.as_ref()),
            ValueKind::Array(values) => values.get(step.as_ref().parse::<usize>().ok()?),
            _ => None,
        })?;
        (value.kind != ValueKind::Nil).then_some(value)
    }

    pub(super) fn get_mut(&mut self, path: &[impl AsRef<str>]) -> Option<&mut Value> {
        path.iter().try_fold(&mut self.0, |value, step| match &mut value.kind {
            ValueKind::Table(table) => table.get_mut(step.as_ref()),
            ValueKind::Array(values) => values.get_mut(step.as_ref().parse::<usize>().ok()?),
            _ => None,
        })
    }

    /// The text at `path`.
    pub(super) fn text(&self, path: &[impl AsRef<str>]) -> Option<&str> {
        match &self.get(path)?.kind {
            ValueKind::String(text) => Some(text),
            _ => None,
        }
    }

    /// Sets the value at a path of keys, with the sections above it.
    pub(super) fn set(&mut self, path: &[impl AsRef<str>], value: Value) {
        let mut place = &mut self.0;
        for key in path {
            if !matches!(place.kind, ValueKind::Table(_)) {
                *place = Table::new().into();
            }
            let ValueKind::Table(table) = &mut place.kind else { return };
            place = table.entry(key.as_ref().to_owned()).or_default();
        }
        *place = value;
    }

    /// Removes the key at `path`.
    pub(super) fn remove(&mut self, path: &[impl AsRef<str>]) -> Option<Value> {
        let (key, above) = path.split_last()?;
        match &mut self.get_mut(above)?.kind {
            ValueKind::Table(table) => table.remove(key.as_ref()),
            _ => None,
        }
    }

    /// Marks what is at `path` as invalid. Whether there was something.
    pub(super) fn invalidate(&mut self, path: &[impl AsRef<str>]) -> bool {
        self.get_mut(path).is_some_and(|value| std::mem::take(value).kind != ValueKind::Nil)
    }

    /// The origin of the value at `path`, or of the first one below it.
    pub(super) fn origin(&self, path: &[impl AsRef<str>]) -> Option<Origin> {
        first_origin(self.get(path)?)
    }

    /// All leaves with their paths.
    pub(super) fn leaves(&self) -> Vec<(Vec<String>, &Value)> {
        let mut found = Vec::new();
        collect_leaves(&self.0, true, &mut Vec::new(), &mut found);
        found
    }

    /// The path and origin of each leaf; a list counts as one.
    pub(super) fn origins(&self) -> Vec<(String, Origin)> {
        let mut found = Vec::new();
        collect_leaves(&self.0, false, &mut Vec::new(), &mut found);
        let origins = found.into_iter().map(|(path, leaf)| Some((format_path(&path), first_origin(leaf)?)));
        origins.flatten().collect()
    }
}

/// The entries of a section by key, so that errors and listings have a stable order.
pub(super) fn sorted(table: &Table) -> Vec<(&String, &Value)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_unstable_by_key(|(key, _)| *key);
    entries
}

fn first_origin(value: &Value) -> Option<Origin> {
    let mut found = Vec::new();
    collect_leaves(value, true, &mut Vec::new(), &mut found);
    found.iter().find_map(|(_, leaf)| Origin::of(leaf))
}

fn collect_leaves<'a>(
    value: &'a Value,
    into_lists: bool,
    path: &mut Vec<String>,
    found: &mut Vec<(Vec<String>, &'a Value)>,
) {
    let mut descend = |step, child| {
        path.push(step);
        collect_leaves(child, into_lists, path, found);
        path.pop();
    };
    match &value.kind {
        ValueKind::Nil => {}
        ValueKind::Table(table) => {
            sorted(table).into_iter().for_each(|(key, child)| descend(key.clone(), child));
        }
        ValueKind::Array(values) if into_lists => {
            values.iter().enumerate().for_each(|(index, child)| descend(index.to_string(), child));
        }
        _ => found.push((path.clone(), value)),
    }
}

/// On failure `path` is that of the culprit.
fn from_yaml(
    value: serde_norway::Value,
    origin: &String,
    path: &mut Vec<String>,
) -> Result<Value, &'static str> {
    use serde_norway::Value as Yaml;
    let kind = match value {
        Yaml::Null => ValueKind::Nil,
        Yaml::Bool(value) => value.into(),
        Yaml::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(value), _) => value.into(),
            (None, Some(value)) => value.into(),
            (None, None) => number.as_f64().into(),
        },
        Yaml::String(value) => value.into(),
        Yaml::Sequence(elements) => {
            let mut values = Vec::with_capacity(elements.len());
            for (index, element) in elements.into_iter().enumerate() {
                path.push(index.to_string());
                values.push(from_yaml(element, origin, path)?);
                path.pop();
            }
            values.into()
        }
        Yaml::Mapping(entries) => {
            let mut table = Table::new();
            for (key, value) in entries {
                let key = match key {
                    Yaml::String(key) => key,
                    Yaml::Number(key) => key.to_string(),
                    Yaml::Bool(key) => key.to_string(),
                    _ => return Err("expected text as a key"),
                };
                path.push(key);
                let value = from_yaml(value, origin, path)?;
                let key = path.pop().filter(|_| value.kind != ValueKind::Nil);
                table.extend(key.map(|key| (key, value)));
            }
            table.into()
        }
        Yaml::Tagged(_) => return Err("YAML tags (`!…`) are not supported"),
    };
    Ok(Value::new(Some(origin), kind))
}

/// Where a value was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    pub(super) kind: OriginKind,
    /// The file, the environment variable or the flag.
    pub(super) name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OriginKind {
    /// The file, as it is written there.
    File,
    /// The file, by way of `${…}` or `file:`.
    Expanded,
    Environment,
    Flag,
}

impl Origin {
    pub(super) fn new(kind: OriginKind, name: impl Into<String>) -> Self {
        Self { kind, name: name.into() }
    }

    /// The origin of a value after expansion.
    pub(super) fn expanded(self) -> Self {
        match self.kind {
            OriginKind::File => Self { kind: OriginKind::Expanded, ..self },
            _ => self,
        }
    }

    /// A leaf of this origin.
    pub(super) fn leaf(&self, value: impl Into<ValueKind>) -> Value {
        Value::new(Some(&self.encoded()), value)
    }

    pub(super) fn of(value: &Value) -> Option<Self> {
        let (tag, name) = value.origin()?.split_once(':')?;
        let kind = OriginKind::ALL.into_iter().find(|kind| kind.tag() == tag)?;
        Some(Self::new(kind, name))
    }

    /// As the crate's values hold it.
    fn encoded(&self) -> String {
        format!("{}:{}", self.kind.tag(), self.name)
    }
}

impl OriginKind {
    const ALL: [Self; 4] = [Self::File, Self::Expanded, Self::Environment, Self::Flag];

    fn tag(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Expanded => "expanded",
            Self::Environment => "environment",
            Self::Flag => "flag",
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// `auth.keys.env.scopes[2]`. A key that holds a dot or a space is quoted.
pub(super) fn format_path(path: &[impl AsRef<str>]) -> String {
    let mut text = String::new();
    for step in path.iter().map(AsRef::as_ref) {
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

#[cfg(test)]
mod tests {
    use config::ValueKind;

    use super::{Origin, OriginKind, Tree, format_path};

    fn tree(yaml: &str) -> Tree {
        let value = serde_norway::from_str(yaml).expect("YAML");
        Tree::from_yaml(value, &Origin::new(OriginKind::File, "test")).expect("a tree")
    }

    fn path(text: &str) -> Vec<String> {
        text.split('.').map(str::to_owned).collect()
    }

    #[test]
    fn sections_join_and_lists_are_replaced() {
        let merged = Tree::merge([tree("a: {b: 1, c: [1, 2]}\nd: text"), tree("a: {c: [3]}\nd: {e: 1}")])
            .expect("merged");
        assert_eq!(merged.get(&["a", "b"]).expect("a.b").kind, ValueKind::U64(1));
        assert!(
            matches!(&merged.get(&["a", "c"]).expect("a.c").kind, ValueKind::Array(values) if values.len() == 1)
        );
        assert!(matches!(merged.get(&["d"]).expect("d").kind, ValueKind::Table(_)));
    }

    #[test]
    fn keys_that_look_like_paths_are_merged_as_they_are() {
        let merged =
            Tree::merge([tree("a: {b: 1}"), tree("a.b: 2\n'': 3\nx[0]: 4\na: {c.d: 5}")]).expect("merged");
        let origins: Vec<_> = merged.origins().into_iter().map(|(path, _)| path).collect();
        assert_eq!(origins, ["\"\"", "a.b", "a.\"c.d\"", "\"a.b\"", "x[0]"]);
    }

    #[test]
    fn each_leaf_keeps_the_origin_of_its_source() {
        let mut flags = Tree::default();
        flags.set(&["a", "b"], Origin::new(OriginKind::Flag, "--b").leaf("2"));
        let merged = Tree::merge([tree("a: {b: 1, c: [1, 2]}"), flags]).expect("merged");
        let origins: Vec<_> = merged.origins().into_iter().map(|(_, origin)| origin.name).collect();
        assert_eq!(origins, ["--b", "test"]);
        assert_eq!(merged.origin(&["a", "c", "1"]), Some(Origin::new(OriginKind::File, "test")));
    }

    #[test]
    fn null_was_not_said() {
        assert!(tree("a:\nb: 1").get(&["a"]).is_none());
    }

    #[test]
    fn what_is_struck_keeps_its_place() {
        let mut tree = tree("a: [1, 2]");
        assert!(tree.invalidate(&path("a.0")));
        assert!(!tree.invalidate(&path("a.0")));
        assert!(!tree.invalidate(&path("x.y")));
        assert_eq!(tree.get(&path("a.1")).expect("a[1]").kind, ValueKind::U64(2));
    }

    #[test]
    fn paths_read_like_code() {
        assert_eq!(format_path(&path("auth.keys.ci.scopes.2")), "auth.keys.ci.scopes[2]");
        assert_eq!(format_path(&["aliases", "gpt-4.1"]), "aliases.\"gpt-4.1\"");
    }
}
