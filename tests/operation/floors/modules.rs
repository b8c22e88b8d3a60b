//! The modules of a crate with what each defines and imports, and the file that defines what a path names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::tokens::{Token, tokens};

#[derive(Default)]
pub struct Module {
    pub file: String,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    defined: BTreeSet<String>,
    pub imports: Vec<Import>,
    /// Paths in the code, such as `errors::unsupported`.
    pub paths: Vec<Vec<String>>,
}

pub struct Import {
    /// The name by which the module knows it; `*` for everything.
    name: String,
    pub path: Vec<String>,
    pub public: bool,
}

impl Import {
    pub fn is_everything(&self) -> bool {
        self.name == "*"
    }
}

pub enum Named {
    /// Defined in this module's file.
    Item(usize),
    Module(usize),
}

type Source<'a> = &'a dyn Fn(&str) -> String;

/// All modules; the crate's root is the first.
pub struct Modules(pub Vec<Module>);

impl Modules {
    /// Reads them from `lib.rs` on; `source` has the text of a file by its path in the crate's `src/`.
    pub fn read(source: Source) -> Self {
        let mut modules = Self(Vec::new());
        modules.read_file(source, "lib.rs", Path::new(""), None);
        modules
    }

    fn read_file(&mut self, source: Source, file: &str, folder: &Path, parent: Option<usize>) -> usize {
        self.read_module(source, file, folder, parent, &tokens(&source(file)))
    }

    fn read_module(
        &mut self,
        source: Source,
        file: &str,
        folder: &Path,
        parent: Option<usize>,
        code: &[Token],
    ) -> usize {
        let id = self.0.len();
        self.0.push(Module { file: file.to_owned(), parent, ..Module::default() });
        let (mut depth, mut index, mut public) = (0usize, 0, false);
        while index < code.len() {
            let word = code[index].word();
            let next = code.get(index + 1);
            let next_word = next.and_then(Token::word);
            index += match (word, next_word) {
                (Some("pub"), _) => {
                    public = true;
                    let restricted = next.is_some_and(|token| token.is('('));
                    if restricted {
                        code[index..].iter().position(|token| token.is(')')).unwrap() + 1
                    } else {
                        1
                    }
                }
                (Some("use"), _) if !next.is_some_and(|token| token.is('<')) => {
                    let end = code[index..].iter().position(|token| token.is(';')).unwrap();
                    read_imports(
                        &code[index + 1..index + end],
                        &mut Vec::new(),
                        public,
                        &mut self.0[id].imports,
                    );
                    public = false;
                    end + 1
                }
                (Some("mod"), Some(name)) if depth == 0 => {
                    public = false;
                    self.read_child(source, id, &folder.join(name), &code[index + 2..]) + 2
                }
                (Some(kind), Some(name)) if depth == 0 && defines(kind) && !is_keyword(name) => {
                    self.0[id].defined.insert(name.to_owned());
                    public = false;
                    2
                }
                (Some("macro_rules"), None) if depth == 0 => {
                    self.0[id].defined.extend(code[index + 2].word().map(str::to_owned));
                    3
                }
                (Some(_), _) => {
                    let path = path_at(&code[index..]);
                    let length = 2 * path.len() - 1;
                    let continues = index > 0 && code[index - 1] == Token::Separator;
                    if path.len() > 1 && !continues {
                        self.0[id].paths.push(path);
                    }
                    length
                }
                (None, _) => {
                    match code[index] {
                        Token::Sign('{' | '(' | '[') => depth += 1,
                        Token::Sign('}' | ')' | ']') => depth -= 1,
                        _ => {}
                    }
                    1
                }
            };
        }
        id
    }

    /// Reads a module that is declared in another one, from behind its name. Returns how many tokens that took.
    fn read_child(&mut self, source: Source, parent: usize, folder: &Path, code: &[Token]) -> usize {
        let (child, length) = if code[0].is(';') {
            let path = folder.with_extension("rs");
            (self.read_file(source, path.to_str().unwrap(), folder, Some(parent)), 1)
        } else {
            let (file, body) = (self.0[parent].file.clone(), block(code));
            (self.read_module(source, &file, folder, Some(parent), body), body.len() + 2)
        };
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        self.0[parent].children.insert(name, child);
        length
    }

    /// What a path in a module names, in this crate.
    pub fn resolve(&self, module: usize, path: &[String]) -> Option<Named> {
        self.first(module, path, 0)
    }

    fn first(&self, module: usize, path: &[String], hops: usize) -> Option<Named> {
        let (name, rest) = path.split_first()?;
        match name.as_str() {
            "crate" => self.below(0, rest, hops),
            "self" => self.below(module, rest, hops),
            "super" => {
                let parent = self.0[module].parent?;
                match rest.first().map(String::as_str) {
                    Some("super") => self.first(parent, rest, hops),
                    _ => self.below(parent, rest, hops),
                }
            }
            _ => self.below(module, path, hops),
        }
    }

    fn below(&self, module: usize, path: &[String], hops: usize) -> Option<Named> {
        if hops > 20 {
            return None;
        }
        let Some((name, rest)) = path.split_first() else { return Some(Named::Module(module)) };
        let here = &self.0[module];
        if let Some(child) = here.children.get(name)
            && (!rest.is_empty() || !here.defined.contains(name))
        {
            return self.below(*child, rest, hops);
        }
        if here.defined.contains(name) {
            return Some(Named::Item(module));
        }
        let named = here.imports.iter().find(|import| import.name == *name && import.path != path);
        if let Some(import) = named {
            let full: Vec<String> = import.path.iter().chain(rest).cloned().collect();
            return self.first(module, &full, hops + 1);
        }
        let everything = here.imports.iter().filter(|import| import.is_everything());
        everything.filter_map(|import| self.first(module, &import.path, hops + 1)).find_map(|found| {
            match found {
                Named::Module(other) if other != module => self.below(other, path, hops + 1),
                _ => None,
            }
        })
    }

    /// Whether a module is another one or lies in it.
    pub fn is_within(&self, module: usize, outer: usize) -> bool {
        module == outer || self.0[module].parent.is_some_and(|parent| self.is_within(parent, outer))
    }
}

/// The leaves of a `use` tree.
fn read_imports(tree: &[Token], prefix: &mut Vec<String>, public: bool, into: &mut Vec<Import>) {
    let depth = prefix.len();
    let mut alias = None;
    let mut index = 0;
    while index < tree.len() {
        match &tree[index] {
            Token::Word(word) if word == "as" => {
                alias = tree[index + 1].word().map(str::to_owned);
                index += 1;
            }
            Token::Word(word) => prefix.push(word.clone()),
            Token::Sign('{') => {
                let inner = block(&tree[index..]);
                let (mut level, mut start) = (0usize, 0);
                for (at, token) in inner.iter().enumerate() {
                    match token {
                        Token::Sign('{') => level += 1,
                        Token::Sign('}') => level -= 1,
                        Token::Sign(',') if level == 0 => {
                            read_imports(&inner[start..at], prefix, public, into);
                            start = at + 1;
                        }
                        _ => {}
                    }
                }
                read_imports(&inner[start..], prefix, public, into);
                prefix.truncate(depth);
                return;
            }
            Token::Sign('*') => {
                into.push(Import { name: "*".to_owned(), path: prefix.clone(), public });
                prefix.truncate(depth);
                return;
            }
            _ => {}
        }
        index += 1;
    }
    if prefix.len() > depth {
        let mut path = prefix.clone();
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let name = alias.unwrap_or_else(|| path.last().unwrap().clone());
        into.push(Import { name, path, public });
    }
    prefix.truncate(depth);
}

/// The words of the path that begins here.
fn path_at(code: &[Token]) -> Vec<String> {
    let mut path: Vec<String> = code[0].word().map(str::to_owned).into_iter().collect();
    let mut index = 1;
    while let (Some(Token::Separator), Some(Token::Word(word))) = (code.get(index), code.get(index + 1)) {
        path.push(word.clone());
        index += 2;
    }
    path
}

/// What is between the brace here and the one that closes it.
fn block(code: &[Token]) -> &[Token] {
    let mut depth = 0usize;
    for (index, token) in code.iter().enumerate() {
        match token {
            Token::Sign('{') => depth += 1,
            Token::Sign('}') => {
                depth -= 1;
                if depth == 0 {
                    return &code[1..index];
                }
            }
            _ => {}
        }
    }
    panic!("a brace is not closed")
}

fn defines(word: &str) -> bool {
    matches!(word, "struct" | "enum" | "trait" | "fn" | "const" | "static" | "type" | "union")
}

fn is_keyword(word: &str) -> bool {
    matches!(word, "fn" | "unsafe" | "extern" | "async" | "mut" | "_")
}
