//! Words that look like keys, and arguments of programs that hold secrets.

/// Whether a word begins as keys of well-known services do, or a JSON Web Token begins.
pub(crate) fn is_key(word: &str) -> bool {
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
pub(crate) fn is_auth_scheme(word: &str) -> bool {
    ["bearer", "basic"].iter().any(|scheme| word.eq_ignore_ascii_case(scheme))
}

/// What a program's arguments hold that looks like a secret: the value of an option or a header of such a name, and
/// what follows the name of a scheme.
pub(crate) fn in_arguments(args: &[String]) -> Vec<&str> {
    let mut secrets = Vec::new();
    let mut follows_name = false;
    for arg in args {
        let named = arg.split_once('=').or_else(|| arg.split_once(": "));
        match named {
            Some((name, value)) if names_a_secret(name) => secrets.push(value),
            _ if follows_name => secrets.push(arg.as_str()),
            _ => {}
        }
        let words = arg.split(|c: char| c.is_whitespace() || "=:".contains(c));
        let mut words = words.filter(|word| !word.is_empty());
        if words.any(is_auth_scheme) {
            secrets.extend(words.next());
        }
        follows_name = named.is_none() && arg.starts_with('-') && names_a_secret(arg);
    }
    secrets
}

fn names_a_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["token", "key", "secret", "password", "auth"].iter().any(|word| name.contains(word))
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
            in_arguments(&args).into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(found(&["--api-key=abcd", "API_TOKEN=efgh=", "--level=high"]), ["abcd", "efgh="]);
        assert_eq!(found(&["--password", "open sesame", "--verbose", "yes"]), ["open sesame"]);
        assert_eq!(found(&["-H", "X-Secret: abcd"]), ["abcd"]);
        assert_eq!(found(&["--header", "Authorization: Bearer abcd"]), ["Bearer abcd", "abcd"]);
        assert_eq!(found(&["--header", "Authorization:basic YTpi"]), ["YTpi"]);
        assert_eq!(found(&["-y", "server", "--port=80", "https://x/y: z"]), [""; 0]);
    }
}
