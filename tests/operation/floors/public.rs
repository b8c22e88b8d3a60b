//! `pub` means "for another crate": what no other crate names is `pub(crate)` or less.
//!
//! By name, not by meaning: a word of the same text in another crate counts. A type counts as named, too, if it stands in what is
//! `pub` in its crate, such as the result of a function. What `src/lib.rs` gives to programs that embed the gateway is public for
//! these: a module, or a type with all that its file has.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::modules::Modules;
use super::tokens::{Token, tokens};

/// Crates of which `src/lib.rs` names items and modules.
const EMBEDDED: &[&str] = &["config", "protocol", "store", "tools"];

#[test]
fn what_is_public_is_named_by_another_crate() {
    let words: BTreeMap<&str, BTreeSet<String>> =
        super::crates::sources().iter().map(|(name, src)| (*name, words_below(src))).collect();
    let tests: BTreeSet<String> = ["tests", "benches", "examples"]
        .iter()
        .flat_map(|folder| words_below(&super::root().join(folder)))
        .collect();
    let face = std::fs::read_to_string(super::root().join("src/lib.rs")).unwrap();
    let (mut unused, mut count) = (Vec::new(), 0);
    for (name, src) in super::crates::sources() {
        if name == "antwort" {
            continue;
        }
        let (mut items, signatures) = public_items(&src);
        count += items.len();
        if EMBEDDED.contains(&name) {
            let files = files_of(&names_given(&face, name), &items);
            items.retain(|item| !files.contains(&item.file));
        }
        let is_used = |item: &Item| {
            let elsewhere = words.iter().any(|(other, words)| *other != name && words.contains(&item.name));
            elsewhere || tests.contains(&item.name) || (item.is_type && signatures.contains(&item.name))
        };
        unused.extend(
            items
                .iter()
                .filter(|item| !is_used(item))
                .map(|item| format!("{name}/{}: {}", item.file, item.text)),
        );
    }
    assert!(count > 1500, "only {count} items were found");
    assert!(unused.is_empty(), "public, but named by no other crate:\n{}", unused.join("\n"));
}

struct Item {
    name: String,
    is_type: bool,
    file: String,
    text: String,
}

/// The names that `src/lib.rs` gives of a crate.
fn names_given(face: &str, name: &str) -> BTreeSet<String> {
    let (_, rest) = face.split_once(&format!("pub use antwort_{name}::{{")).unwrap();
    words_of(rest.split_once("};").unwrap().0)
}

/// Files of the modules and types that programs may name.
fn files_of(face: &BTreeSet<String>, items: &[Item]) -> BTreeSet<String> {
    let is_module = |file: &str| file.trim_end_matches(".rs").split('/').any(|part| face.contains(part));
    let items =
        items.iter().filter(|item| is_module(&item.file) || (item.is_type && face.contains(&item.name)));
    items.map(|item| item.file.clone()).collect()
}

/// What is plainly `pub` in a crate's program, fields included, and all words in signatures and bodies of such items.
fn public_items(src: &Path) -> (Vec<Item>, BTreeSet<String>) {
    let read = |file: &str| std::fs::read_to_string(src.join(file)).unwrap();
    let files: BTreeSet<String> = Modules::read(&read).0.into_iter().map(|module| module.file).collect();
    let (mut items, mut signatures) = (Vec::new(), BTreeSet::new());
    for file in files {
        let code = tokens(&read(&file));
        let is_public = |at: &usize| {
            code[*at].word() == Some("pub") && !code.get(at + 1).is_some_and(|next| next.is('('))
        };
        for at in (0..code.len()).filter(is_public) {
            let Some((item, head)) = item(&code[at + 1..], &file) else { continue };
            signatures.extend(
                head.iter().filter_map(Token::word).filter(|word| *word != item.name).map(str::to_owned),
            );
            items.push(item);
        }
        signatures.extend(associated_types(&code));
    }
    (items, signatures)
}

/// The item behind a `pub`, and what of it is seen from outside; none for a `use`, whose names are items themselves.
fn item<'a>(code: &'a [Token], file: &str) -> Option<(Item, &'a [Token])> {
    let is_modifier = |token: &Token| matches!(token.word(), Some("async" | "unsafe" | "extern"));
    let mut start = code.iter().position(|token| !is_modifier(token))?;
    if code[start].word() == Some("const") && code[start + 1].word() == Some("fn") {
        start += 1;
    }
    let kind = code[start].word()?;
    let (name, is_type, ends): (_, _, &[char]) = match kind {
        "use" => return None,
        "fn" | "mod" => (1, false, &['{', ';']),
        "const" | "static" => (1, false, &['=']),
        "struct" | "enum" | "trait" | "type" => (1, true, &['}', ';']),
        // A field, whose type is part of the item that it is in.
        _ if code[start + 1].is(':') => (0, false, &[',', '}']),
        _ => return None,
    };
    let name = code[start + name].word()?.to_owned();
    let length = length(&code[start..], ends);
    let text = format!("{kind} {name}");
    Some((Item { name, is_type, file: file.to_owned(), text }, &code[start..start + length]))
}

/// Tokens before the first of these signs that stands in no bracket, or closes the first one.
fn length(code: &[Token], ends: &[char]) -> usize {
    let mut depth = 0;
    for (at, token) in code.iter().enumerate() {
        let Token::Sign(sign) = token else { continue };
        if matches!(sign, ')' | ']' | '}') {
            depth -= 1;
        }
        if depth <= 0 && ends.contains(sign) {
            return at;
        }
        if matches!(sign, '(' | '[' | '{') {
            depth += 1;
        }
    }
    code.len()
}

/// Types that impls of traits name for others: `type Error = ApiError`.
fn associated_types(code: &[Token]) -> impl Iterator<Item = String> {
    let named = code.windows(4).filter(|four| four[0].word() == Some("type") && four[2].is('='));
    named.filter_map(|four| four[3].word().map(str::to_owned))
}

/// All words of the Rust files below a folder, without comments.
fn words_below(folder: &Path) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    super::walk(folder, &mut |_, text| words.extend(words_of(text)));
    words
}

/// All words of a Rust file, without comments.
fn words_of(text: &str) -> BTreeSet<String> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    code.flat_map(|line| line.split(move |c| !is_word(c)))
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn public_items_are_found_with_what_they_show() {
    let folder = tempfile::tempdir().unwrap();
    let source = "pub struct A { pub b: B, c: C } pub(crate) struct D; pub use x::E;
        impl A { pub const fn f(&self) -> G { H } } #[cfg(test)] mod tests { pub struct T; }";
    std::fs::write(folder.path().join("lib.rs"), source).unwrap();
    let (items, signatures) = public_items(folder.path());
    let names: Vec<&str> = items.iter().map(|item| item.name.as_str()).collect();
    assert_eq!(names, ["A", "b", "f"]);
    assert!(["B", "G"].iter().all(|name| signatures.contains(*name)), "{signatures:?}");
    assert!(["D", "H", "T"].iter().all(|name| !signatures.contains(*name)), "{signatures:?}");
}
