//! Finds the statements in the sources of a backend: texts, and what `concat!` makes of texts and of macros.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use super::{Statement, words};

/// The statements of the files of a folder.
pub(super) fn statements(folder: &str) -> Vec<Statement> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files: Vec<(String, Vec<Token>)> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().extension().is_some_and(|extension| extension == "rs"))
        .map(|entry| (entry.file_name().into_string().unwrap(), tokens(&source(&entry.path()))))
        .collect();
    files.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut found = Vec::new();
    for (file, tokens) in &files {
        // Those of the file itself come last, and count.
        let others = files.iter().filter(|(other, _)| other != file).flat_map(|(_, tokens)| macros(tokens));
        let macros: HashMap<String, Macro> = others.chain(macros(tokens)).collect();
        let texts = texts(&without_macros(tokens), &macros);
        let statements = texts.into_iter().filter(|text| is_statement(text));
        found.extend(statements.enumerate().map(|(n, sql)| Statement { place: format!("{file} {n}"), sql }));
    }
    found
}

/// A file without its tests.
fn source(path: &Path) -> String {
    let source = fs::read_to_string(path).unwrap();
    match source.find("#[cfg(test)]\nmod ") {
        Some(tests) => source[..tests].to_owned(),
        None => source,
    }
}

fn is_statement(text: &str) -> bool {
    let text = words(text);
    let begins = ["SELECT ", "INSERT INTO ", "UPDATE ", "DELETE FROM ", "WITH "];
    // What `format!` makes of a text has names of tables and columns in it (`copy_tables.rs`, which has a test of its own).
    begins.iter().any(|begin| text.starts_with(begin)) && text.split(' ').count() > 2 && !text.contains('{')
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Text(String),
    Word(String),
    Other(char),
}

/// The tokens of a source that matter here. Comments are left out, characters and numbers are words.
fn tokens(source: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if first == '"' {
            let (text, length) = text(rest);
            tokens.push(Token::Text(text));
            length
        } else if let Some(end) = rest.strip_prefix('\'').and_then(character) {
            end + 1
        } else if first.is_alphanumeric() || first == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            tokens.push(Token::Word(rest[..end].to_owned()));
            end
        } else {
            if !first.is_whitespace() {
                tokens.push(Token::Other(first));
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    tokens
}

/// The content of a text that begins here, and its length in the source.
fn text(source: &str) -> (String, usize) {
    let mut content = String::new();
    let mut chars = source.char_indices().skip(1).peekable();
    while let Some((place, c)) = chars.next() {
        match c {
            '"' => return (content, place + 1),
            '\\' => match chars.next().unwrap().1 {
                'n' => content.push('\n'),
                '\n' => while chars.next_if(|(_, c)| c.is_whitespace()).is_some() {},
                escaped => content.push(escaped),
            },
            c => content.push(c),
        }
    }
    panic!("a text without an end: {source:.60}")
}

/// The length of a character literal behind its first quote; `None` if it is a lifetime.
fn character(rest: &str) -> Option<usize> {
    let mut chars = rest.char_indices();
    let (_, first) = chars.next()?;
    let body = if first == '\\' { rest[1..].find('\'').map(|end| end + 1)? } else { first.len_utf8() };
    rest[body..].starts_with('\'').then_some(body + 1)
}

/// A macro with one arm.
struct Macro {
    parameters: Vec<String>,
    body: Vec<Token>,
}

impl Macro {
    /// What a call with these arguments stands for.
    fn expand(&self, arguments: &[Token]) -> Vec<Token> {
        let arguments: Vec<&[Token]> = arguments.split(|token| *token == Token::Other(',')).collect();
        let mut expanded = Vec::new();
        let mut rest = self.body.as_slice();
        while let Some((first, behind)) = rest.split_first() {
            let parameter = match rest {
                [Token::Other('$'), Token::Word(name), ..] => {
                    self.parameters.iter().position(|of| of == name)
                }
                _ => None,
            };
            match parameter {
                Some(place) => expanded.extend_from_slice(arguments[place]),
                None => expanded.push(first.clone()),
            }
            rest = if parameter.is_some() { &behind[1..] } else { behind };
        }
        expanded
    }
}

/// The macros of a file that make texts, by name.
fn macros(tokens: &[Token]) -> Vec<(String, Macro)> {
    let is_macro = |at: &usize| tokens[*at] == Token::Word("macro_rules".to_owned());
    let found = (0..tokens.len()).filter(is_macro).map(|at| {
        let Token::Word(name) = &tokens[at + 2] else { panic!("a macro without a name") };
        let body = inside(&tokens[at + 3..]);
        let arm = body.iter().position(|token| *token == Token::Other('{')).unwrap();
        let parameters = inside(body).windows(2).filter_map(|pair| match pair {
            [Token::Other('$'), Token::Word(name)] => Some(name.clone()),
            _ => None,
        });
        (name.clone(), Macro { parameters: parameters.collect(), body: inside(&body[arm..]).to_vec() })
    });
    // Others make no text.
    let is_text = |body: &[Token]| matches!(body, [Token::Text(_), ..]) || call(body).is_some();
    found.filter(|(_, found)| is_text(&found.body)).collect()
}

/// What stands outside of the definitions of macros.
fn without_macros(tokens: &[Token]) -> Vec<Token> {
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at] == Token::Word("macro_rules".to_owned()) {
            at += 3 + inside(&tokens[at + 3..]).len() + 2;
        } else {
            kept.push(tokens[at].clone());
            at += 1;
        }
    }
    kept
}

/// What stands between the bracket that these tokens begin with and its end.
fn inside(tokens: &[Token]) -> &[Token] {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Other('(' | '{' | '[') => depth += 1,
            Token::Other(')' | '}' | ']') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &tokens[1..at];
        }
    }
    panic!("a bracket without an end")
}

/// The texts among the tokens, each put together.
fn texts(tokens: &[Token], macros: &HashMap<String, Macro>) -> Vec<String> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        match call(&tokens[at..]) {
            Some((name, arguments)) if name == "concat" || macros.contains_key(name) => {
                let length = 3 + arguments.len();
                found.push(joined(&tokens[at..=at + length], macros));
                at += length;
            }
            _ => {
                if let Token::Text(text) = &tokens[at] {
                    found.push(text.clone());
                }
            }
        }
        at += 1;
    }
    found
}

/// The name and the arguments of the macro whose call begins here.
fn call(tokens: &[Token]) -> Option<(&str, &[Token])> {
    match tokens {
        [Token::Word(name), Token::Other('!'), rest @ ..] if rest.first() == Some(&Token::Other('(')) => {
            Some((name, inside(rest)))
        }
        _ => None,
    }
}

/// The texts of these tokens, joined. Macros are replaced by what they stand for.
fn joined(tokens: &[Token], macros: &HashMap<String, Macro>) -> String {
    let mut all = String::new();
    let mut at = 0;
    while at < tokens.len() {
        match call(&tokens[at..]) {
            Some((name, arguments)) => {
                let length = 3 + arguments.len();
                match (name, macros.get(name)) {
                    ("concat", _) => all.push_str(&joined(arguments, macros)),
                    (_, Some(found)) => all.push_str(&joined(&found.expand(arguments), macros)),
                    (_, None) => panic!("no macro {name}!"),
                }
                at += length;
            }
            None => {
                if let Token::Text(text) = &tokens[at] {
                    all.push_str(text);
                }
            }
        }
        at += 1;
    }
    all
}

#[test]
fn statements_are_put_together_from_texts_and_macros() {
    let source = r#"
        macro_rules! part { () => { concat!("b = ", other!(), " AND c = '\"'") }; }
        macro_rules! other { () => { "?1" } }
        macro_rules! of { ($is:ident, $table:literal) => { concat!("DELETE FROM ", $table, " WHERE a = ", $is!()) }; }
        const THREE: &str = of!(other, "u");
        // "SELECT comment FROM a"
        const ONE: &str = concat!("SELECT a FROM t WHERE ", part!());
        fn two<'a>(c: char) -> &'a str { if c == '"' { "DELETE FROM t
            WHERE a = \
            1" } else { "no statement" } }
    "#;
    let tokens = tokens(source);
    let macros = macros(&tokens).into_iter().collect();
    let found: Vec<_> =
        texts(&without_macros(&tokens), &macros).into_iter().filter(|text| is_statement(text)).collect();
    let found: Vec<_> = found.iter().map(|sql| words(sql)).collect();
    let expected = [
        "DELETE FROM u WHERE a = ?1",
        "SELECT a FROM t WHERE b = ?1 AND c = '\"'",
        "DELETE FROM t WHERE a = 1",
    ];
    assert_eq!(found, expected);
}
