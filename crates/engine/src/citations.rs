//! Citations: where a text of the model names the addresses of what hosted tools found.

use std::collections::HashSet;

use antwort_protocol::content::Annotation;
use antwort_tools::Citation;

/// The citations in a text: each address of a source, or the Markdown link around it, in the order of the text.
pub(super) fn annotations(text: &str, sources: &[Citation]) -> Vec<Annotation> {
    let mut found: Vec<(usize, usize, &Citation)> = Vec::new();
    let mut starts = HashSet::new();
    for source in sources {
        for (at, _) in text.match_indices(source.url.as_str()) {
            let end = at + source.url.len();
            if text.get(end..).is_some_and(goes_on) {
                continue;
            }
            let (start, end) = link_around(text, at, end);
            if starts.insert(start) {
                found.push((start, end, source));
            }
        }
    }
    found.sort_by_key(|(start, ..)| *start);
    // Characters are counted from one citation to the next: a long text may hold many.
    let characters =
        |from: usize, to: usize| text.get(from..to).map_or(0, |part| part.chars().count()) as u64;
    let (mut byte, mut start_index) = (0, 0);
    let one = |(start, end, source): (usize, usize, &Citation)| {
        start_index += characters(byte, start);
        byte = start;
        let end_index = start_index + characters(start, end);
        Annotation::UrlCitation {
            url: source.url.clone(),
            title: source.title.clone(),
            start_index,
            end_index,
        }
    };
    found.into_iter().map(one).collect()
}

/// Whether what follows an address is part of it, so that the text names another, longer address. Punctuation belongs
/// to it only if more follows.
fn goes_on(rest: &str) -> bool {
    let mut rest = rest.chars();
    match rest.next() {
        Some('.' | ':' | '@') => rest.next().is_some_and(char::is_alphanumeric),
        Some(c) => c.is_alphanumeric() || "/?&=_%#~+-".contains(c),
        None => false,
    }
}

/// The Markdown link whose target this is, or the address itself.
fn link_around(text: &str, start: usize, end: usize) -> (usize, usize) {
    let before = text.get(..start).unwrap_or_default();
    let closed = text.get(end..).is_some_and(|rest| rest.starts_with(')'));
    match before.strip_suffix("](").and_then(|label| label.rfind('[')) {
        Some(open) if closed => (open, end + 1),
        _ => (start, end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_addresses_are_found_and_longer_addresses_are_not() {
        let source = |url: &str| Citation { url: url.to_owned(), title: "T".to_owned() };
        let text = "Ä [Rust](https://a.example/x) and https://b.example; not https://b.example/longer.";
        let sources = [source("https://b.example"), source("https://a.example/x")];
        let found = serde_json::to_value(annotations(text, &sources)).unwrap();
        assert_eq!(found.as_array().unwrap().len(), 2);
        assert_eq!(found[0]["url"], "https://a.example/x");
        assert_eq!((found[0]["start_index"].as_u64(), found[0]["end_index"].as_u64()), (Some(2), Some(29)));
        assert_eq!(found[1]["url"], "https://b.example");
        assert_eq!(found[1]["start_index"], 34);
    }

    #[test]
    fn an_address_on_another_host_is_not_cited() {
        let sources = [Citation { url: "https://b.example".to_owned(), title: "T".to_owned() }];
        for (text, cites) in [
            ("See https://b.example.", true),
            ("See https://b.example: it says.", true),
            ("(https://b.example)", true),
            ("See https://b.example.evil.test/x", false),
            ("See https://b.example:8080", false),
            ("See https://b.example@evil.test", false),
        ] {
            assert_eq!(annotations(text, &sources).len(), usize::from(cites), "{text}");
        }
    }

    #[test]
    fn many_addresses_in_a_long_text_are_found_in_time() {
        let text = "https://b.example ".repeat(20_000);
        let sources = [Citation { url: "https://b.example".to_owned(), title: "T".to_owned() }];
        let since = std::time::Instant::now();
        let found = annotations(&text, &sources);
        assert_eq!(found.len(), 20_000);
        assert!(since.elapsed().as_secs() < 5, "{:?}", since.elapsed());
    }
}
