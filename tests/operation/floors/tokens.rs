//! Rust source as words and signs, without comments, literals and what is compiled for tests only.

#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    Word(String),
    /// `::`
    Separator,
    Sign(char),
}

impl Token {
    pub fn is(&self, sign: char) -> bool {
        *self == Token::Sign(sign)
    }

    pub fn word(&self) -> Option<&str> {
        match self {
            Token::Word(word) => Some(word),
            _ => None,
        }
    }
}

pub fn tokens(source: &str) -> Vec<Token> {
    without_tests(&scan(source))
}

fn scan(source: &str) -> Vec<Token> {
    let chars: Vec<char> = source.chars().collect();
    let at = |index: usize| chars.get(index).copied().unwrap_or('\0');
    let mut found = Vec::new();
    let mut index = 0;
    while index < chars.len() {
        match at(index) {
            '/' if at(index + 1) == '/' => {
                index = end_of(&chars, index, |at| chars[at] == '\n');
            }
            '/' if at(index + 1) == '*' => {
                index = end_of(&chars, index + 3, |at| chars[at] == '/' && chars[at - 1] == '*') + 1;
            }
            '"' => index = after_string(&chars, index),
            '\'' => index = after_quote(&chars, index),
            ':' if at(index + 1) == ':' => {
                found.push(Token::Separator);
                index += 2;
            }
            c if c.is_alphanumeric() || c == '_' => {
                let end = end_of(&chars, index, |at| !(chars[at].is_alphanumeric() || chars[at] == '_'));
                let word: String = chars[index..end].iter().collect();
                let raw = matches!(word.as_str(), "r" | "br" | "cr");
                if raw && (at(end) == '"' || (at(end) == '#' && matches!(at(end + 1), '"' | '#'))) {
                    index = after_raw_string(&chars, end);
                } else if raw && at(end) == '#' {
                    index = end + 1;
                } else {
                    found.push(Token::Word(word));
                    index = end;
                }
            }
            c => {
                if !c.is_whitespace() {
                    found.push(Token::Sign(c));
                }
                index += 1;
            }
        }
    }
    found
}

/// The first place from `start` on of which `ends` is true.
fn end_of(chars: &[char], start: usize, ends: impl Fn(usize) -> bool) -> usize {
    (start..chars.len()).find(|&at| ends(at)).unwrap_or(chars.len())
}

fn after_string(chars: &[char], quote: usize) -> usize {
    let mut index = quote + 1;
    while index < chars.len() && chars[index] != '"' {
        index += if chars[index] == '\\' { 2 } else { 1 };
    }
    index + 1
}

fn after_raw_string(chars: &[char], start: usize) -> usize {
    let hashes = chars[start..].iter().take_while(|c| **c == '#').count();
    let closing: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    end_of(chars, start + hashes + 1, |at| chars[at..].starts_with(&closing)) + closing.len()
}

/// Behind a character literal, or behind the quote of a lifetime (whose name is then read as a word, which does no harm).
fn after_quote(chars: &[char], quote: usize) -> usize {
    match chars.get(quote + 1) {
        Some('\\') => end_of(chars, quote + 3, |at| chars[at] == '\'') + 1,
        _ if chars.get(quote + 2) == Some(&'\'') => quote + 3,
        _ => quote + 1,
    }
}

/// Leaves out every item, field and statement with `#[cfg(test)]`.
fn without_tests(all: &[Token]) -> Vec<Token> {
    let mut kept = Vec::new();
    let mut index = 0;
    while index < all.len() {
        if is_test_attribute(&all[index..]) {
            index = after_item(all, index);
        } else {
            kept.push(all[index].clone());
            index += 1;
        }
    }
    kept
}

fn is_test_attribute(rest: &[Token]) -> bool {
    let is = |index: usize, word: &str| rest.get(index).and_then(Token::word) == Some(word);
    rest[0].is('#') && is(2, "cfg") && is(4, "test") && rest.get(5).is_some_and(|token| token.is(')'))
}

/// Behind the item that begins with the attribute at `start`: its `;`, its block, or for a field or a variant its comma.
fn after_item(all: &[Token], start: usize) -> usize {
    let mut index = start;
    while all.get(index).is_some_and(|token| token.is('#')) {
        index = after_brackets(all, index + 1);
    }
    let first = all.get(index).and_then(Token::word);
    let keyword = matches!(
        first,
        Some(
            "pub" | "fn" | "mod" | "use" | "impl" | "struct" | "enum" | "const" | "static" | "type" | "async"
        )
    );
    while index < all.len() {
        match &all[index] {
            Token::Sign(';') => return index + 1,
            Token::Sign(',') if !keyword => return index + 1,
            Token::Sign('}') => return index,
            Token::Sign('{') => return after_brackets(all, index),
            Token::Sign('(' | '[') => index = after_brackets(all, index),
            _ => index += 1,
        }
    }
    index
}

fn after_brackets(all: &[Token], open: usize) -> usize {
    let mut depth = 0usize;
    for (index, token) in all.iter().enumerate().skip(open) {
        match token {
            Token::Sign('(' | '[' | '{') => depth += 1,
            Token::Sign(')' | ']' | '}') => {
                depth -= 1;
                if depth == 0 {
                    return index + 1;
                }
            }
            _ => {}
        }
    }
    all.len()
}
