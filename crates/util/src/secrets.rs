//! Words that look like keys, and arguments of programs that hold secrets.

use percent_encoding::percent_decode_str;
use url::Url;

/// Whether a word begins as keys of well-known services do, or a JSON Web Token begins.
pub fn is_key(word: &str) -> bool {
    const PREFIXES: [&str; 15] = [
        "sk-",
        "sk_",
        "gsk_",
        "hf_",
        "xai-",
        "AIza",
        "eyJ",
        "key-",
        "ghp_",
        "gho_",
        "github_pat_",
        "xoxb-",
        "xoxp-",
        "AKIA",
        "glpat-",
    ];
    word.len() > 8 && PREFIXES.iter().any(|prefix| word.starts_with(prefix))
}

/// Whether a word says that a credential follows, as in the header `Authorization`.
pub fn is_auth_scheme(word: &str) -> bool {
    ["bearer", "basic"].iter().any(|scheme| word.eq_ignore_ascii_case(scheme))
}

/// What a program's arguments hold that looks like a secret: the value of an option or a header of such a name, what
/// follows the name of a scheme, and the password of a URL.
pub fn in_arguments(args: &[String]) -> Vec<String> {
    let mut secrets = Vec::new();
    let mut follows_name = false;
    for arg in args {
        let value = value_of_secret(arg);
        if follows_name && !arg.starts_with('-') {
            secrets.push(arg.clone());
        }
        secrets.extend(value.map(str::to_owned));
        secrets.extend(after_scheme(arg).map(str::to_owned));
        secrets.extend(passwords(arg));
        follows_name = value.is_none() && arg.starts_with('-') && names_a_secret(arg);
    }
    secrets
}

/// The value behind the name of a secret, also if the name is itself a value: `--header=X-Api-Key: x`.
fn value_of_secret(arg: &str) -> Option<&str> {
    let mut rest = arg;
    while let Some((name, value)) = rest.split_once(['=', ':']) {
        if names_a_secret(name) {
            return Some(value.trim_start());
        }
        rest = value;
    }
    None
}

/// The word behind the name of a scheme.
fn after_scheme(arg: &str) -> Option<&str> {
    let mut words =
        arg.split(|c: char| c.is_whitespace() || "=:".contains(c)).filter(|word| !word.is_empty());
    words.find(|word| is_auth_scheme(word))?;
    words.next()
}

/// The password of a URL, as it is written and as it is meant.
fn passwords(arg: &str) -> Vec<String> {
    let Ok(url) = Url::parse(arg) else { return Vec::new() };
    let Some(written) = url.password() else { return Vec::new() };
    let meant = percent_decode_str(written).decode_utf8_lossy().into_owned();
    vec![written.to_owned(), meant]
}

/// Whether a part of a name is that of a secret. `--no-auth` names none.
fn names_a_secret(name: &str) -> bool {
    const WORDS: [&str; 9] =
        ["token", "key", "apikey", "secret", "password", "passwd", "auth", "authorization", "credentials"];
    let name = name.trim_start_matches('-').to_ascii_lowercase();
    let parts = || name.split(|c: char| !c.is_ascii_alphanumeric());
    parts().next() != Some("no") && parts().any(|part| WORDS.contains(&part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_known_by_how_they_begin() {
        for key in
            ["ghp_16C7e42F", "gho_16C7e42F", "github_pat_11AB", "xoxb-1234", "xoxp-1234", "AKIAIOSFODNN7"]
        {
            assert!(is_key(key), "{key}");
        }
        assert!(is_key("glpat-1234") && is_key("AIzaSyDaG") && is_key("sk-abcdef"));
        for word in ["ghp_", "github", "keyboards", "password"] {
            assert!(!is_key(word), "{word}");
        }
    }

    #[test]
    fn secrets_among_arguments_are_known_by_their_names() {
        let found = |args: &[&str]| {
            let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
            in_arguments(&args)
        };
        assert_eq!(found(&["--api-key=abcd", "API_TOKEN=efgh=", "--level=high"]), ["abcd", "efgh="]);
        assert_eq!(found(&["--password", "open sesame", "--verbose", "yes"]), ["open sesame"]);
        assert_eq!(found(&["-H", "X-Secret: abcd"]), ["abcd"]);
        assert_eq!(found(&["--header", "Authorization: Bearer abcd"]), ["Bearer abcd", "abcd"]);
        assert_eq!(found(&["--header", "Authorization:basic YTpi"]), ["basic YTpi", "YTpi"]);
        assert_eq!(found(&["--env=API_TOKEN=abcd", "--header=X-Api-Key: efgh"]), ["abcd", "efgh"]);
        assert_eq!(found(&["postgresql://bob:a%20b@db/x"]), ["a%20b", "a b"]);
        assert_eq!(found(&["-y", "server", "--port=80", "https://x/y: z"]), [""; 0]);
        assert_eq!(found(&["--author", "bob", "--no-auth", "server.py", "--token", "--verbose"]), [""; 0]);
    }
}
