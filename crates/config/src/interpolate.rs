//! Expands `${VAR}`, `${VAR:-fallback}`, `$${` (a literal `${`), and `file:/path` for a secret in a file.
//!
//! Works on single values after the YAML was parsed: the content of a variable can never change the structure of the
//! file.

use std::cell::RefCell;
use std::fs;

/// Looks up an environment variable; an empty one counts as unset.
pub(super) type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The text with its variables expanded; `None`: it has none.
pub(super) fn variables(text: &str, lookup: Lookup<'_>) -> Result<Option<String>, String> {
    if !text.contains("${") {
        return Ok(None);
    }
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find("${") {
        let (before, behind) = (rest.get(..at).unwrap_or_default(), rest.get(at + 2..).unwrap_or_default());
        if let Some(before) = before.strip_suffix('$') {
            out.push_str(before);
            out.push_str("${");
            rest = behind;
            continue;
        }
        out.push_str(before);
        let (inside, tail) =
            behind.split_once('}').ok_or("`${` is not closed; write `$${` for a literal `${`")?;
        out.push_str(&variable(inside, lookup)?);
        rest = tail;
    }
    out.push_str(rest);
    Ok(Some(out))
}

/// The value of `${inside}`.
fn variable(inside: &str, lookup: Lookup<'_>) -> Result<String, String> {
    let (name, otherwise) = match inside.split_once(":-") {
        Some((name, otherwise)) => (name, Some(otherwise)),
        None => (inside, None),
    };
    if otherwise.is_some_and(|text| text.contains("${")) {
        return Err(format!("`${{{name}:-…}}` cannot contain another variable"));
    }
    let word = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !word || !name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
        return Err(format!(
            "`{name}` is not a valid variable name; expected `${{NAME}}` or `${{NAME:-fallback}}`"
        ));
    }
    match (lookup(name), otherwise) {
        (Some(value), _) => Ok(value),
        (None, Some(otherwise)) => Ok(otherwise.to_owned()),
        (None, None) => Err(format!("the variable {name} is not set (or is empty)")),
    }
}

/// The path of the file that `file:/path` names.
pub(super) fn file_named(text: &str) -> Option<&str> {
    let path = text.strip_prefix("file:")?;
    // Also written as a URL: `file:///path`.
    Some(path.strip_prefix("//").unwrap_or(path))
}

/// The content of the file that `file:/path` names, without its last line end; `None`: no such text.
pub(super) fn file(text: &str) -> Result<Option<String>, String> {
    let Some(path) = file_named(text) else { return Ok(None) };
    match fs::read_to_string(path) {
        Ok(content) => {
            let content = content.strip_suffix('\n').unwrap_or(&content);
            Ok(Some(content.strip_suffix('\r').unwrap_or(content).to_owned()))
        }
        Err(error) => Err(format!("cannot read the file {path}: {error}")),
    }
}

/// What would be read for a text, in words: the variables that it names, or else the file; `None`: nothing.
pub fn named_sources(text: &str) -> Option<String> {
    let names = RefCell::new(Vec::new());
    // An error comes behind what was found, and is reported when the text is loaded.
    _ = variables(text, &|name| {
        names.borrow_mut().push(name.to_owned());
        Some(String::new())
    });
    match names.into_inner().as_slice() {
        [] => file_named(text).map(|path| format!("the file {path}")),
        [name] => Some(format!("the variable {name}")),
        names => Some(format!("the variables {}", names.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::{file, named_sources, variables};

    fn filled(text: &str) -> Result<Option<String>, String> {
        variables(text, &|name| (name == "HOST").then(|| "example.com".to_owned()))
    }

    #[test]
    fn variables_are_filled_in() {
        for (text, expected) in [
            ("${HOST}", "example.com"),
            ("http://${HOST}:${PORT:-8000}/v1", "http://example.com:8000/v1"),
            ("${NONE:-}", ""),
            ("${HOST:-other}", "example.com"),
            ("$${HOST} costs $5", "${HOST} costs $5"),
            ("$$${HOST}", "$${HOST}"),
            ("${HOST}}", "example.com}"),
        ] {
            assert_eq!(filled(text), Ok(Some(expected.into())), "{text}");
        }
        assert_eq!(filled("plain $HOST"), Ok(None));
    }

    #[test]
    fn what_cannot_be_filled_in_is_refused() {
        for (text, part) in [
            ("${NONE}", "NONE is not set"),
            ("${HOST", "not closed"),
            ("${}", "not a valid variable name"),
            ("${1A}", "not a valid variable name"),
            ("${HOST-x}", "not a valid variable name"),
            ("${NONE:-${HOST}}", "another variable"),
        ] {
            let error = filled(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn what_would_be_read_is_known_without_reading_it() {
        for (text, expected) in [
            ("plain", None),
            ("$${HOST}", None),
            ("see file:/a", None),
            ("file:/a", Some("the file /a")),
            ("file:///a", Some("the file /a")),
            ("${A}", Some("the variable A")),
            ("x${A:-file:/b}${C}${", Some("the variables A, C")),
            ("file:${A}", Some("the variable A")),
        ] {
            assert_eq!(named_sources(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_value_is_filled_in_once() {
        let twice = variables("${A}", &|_| Some("${B}".into()));
        assert_eq!(twice, Ok(Some("${B}".into())));
    }

    #[test]
    fn secrets_come_from_files_without_their_line_end() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("key");
        std::fs::write(&path, "s3cret\n").expect("written");
        assert_eq!(file(&format!("file:{}", path.display())), Ok(Some("s3cret".into())));
        assert_eq!(file(&format!("file://{}", path.display())), Ok(Some("s3cret".into())));
        assert_eq!(file("sqlite:file"), Ok(None));
        let error = file("file:/no/such/file").expect_err("no such file");
        assert!(error.contains("/no/such/file"), "{error}");
    }
}
