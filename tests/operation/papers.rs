//! What users and packagers read: of the product alone, without dead links, and of this version.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files below a folder with one of these ends.
fn files(folder: &Path, ends: &[&str], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, ends, found);
        } else if path.extension().is_some_and(|end| ends.iter().any(|one| end == *one)) {
            found.push(path);
        }
    }
}

/// The pages that people read, those for developers with them.
fn pages() -> Vec<PathBuf> {
    let mut found: Vec<_> =
        ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"].map(|name| root().join(name)).into();
    files(&root().join("docs"), &["md"], &mut found);
    found
}

/// What users read: all but the pages of `docs/dev` and `docs/adr`.
fn pages_of_users() -> Vec<PathBuf> {
    let mut found = pages();
    found.retain(|path| !["docs/dev", "docs/adr"].iter().any(|folder| path.starts_with(root().join(folder))));
    files(&root().join("config"), &["yaml"], &mut found);
    found.push(root().join("openapi.yaml"));
    found
}

#[test]
fn pages_of_users_have_no_numbers_of_requirements_decisions_issues_or_seeds() {
    for page in pages_of_users() {
        let text = fs::read_to_string(&page).unwrap();
        for (number, line) in text.lines().enumerate() {
            let found = internal_number(line);
            assert_eq!(found, None, "{}:{}: {line}", page.display(), number + 1);
        }
    }
}

#[test]
fn numbers_that_mean_something_only_inside_are_recognised() {
    for line in
        ["as 002-17 asks", "see ADR 7", "decision D12", "D3 says", "issue 4", "with seed 17", "(#31)", "R07"]
    {
        assert!(internal_number(line).is_some(), "{line}");
    }
    for line in
        ["UTF-8", "RFC 7523", "HTTP/2", "sha256:9f86d08", "`seed`, `stop`", "a row of 4 MiB", "2026-11-22"]
    {
        assert_eq!(internal_number(line), None, "{line}");
    }
}

/// A word, or two, that number something of the project: a requirement (000-01), a decision (D12, ADR 7), a finding.
fn internal_number(line: &str) -> Option<String> {
    let words: Vec<&str> = line
        .split(|c: char| !(c.is_ascii_alphanumeric() || "-#_./".contains(c)))
        .filter(|word| !word.is_empty())
        .collect();
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let row = |word: &str| {
        word.split_once('-').is_some_and(|(document, row)| {
            document.len() == 3
                && document.starts_with("00")
                && digits(document)
                && row.len() == 2
                && digits(row)
        })
    };
    let letter = |word: &str| {
        let number = word.strip_prefix(['D', 'R']);
        number.is_some_and(|number| digits(number) && number.len() < 3)
            || word.strip_prefix('#').is_some_and(digits)
    };
    let single =
        words.iter().map(|word| word.trim_end_matches(['.', '-'])).find(|word| row(word) || letter(word));
    let pair = words.windows(2).find(|pair| {
        let name = pair[0].to_ascii_lowercase();
        ["adr", "decision", "issue", "finding", "seed"].contains(&name.as_str())
            && digits(pair[1].trim_end_matches('.'))
    });
    single.map(str::to_owned).or_else(|| pair.map(|pair| pair.join(" ")))
}

#[test]
fn links_of_the_pages_lead_somewhere() {
    let mut anchors: BTreeMap<PathBuf, BTreeSet<String>> = BTreeMap::new();
    let mut checked = 0;
    let mut dead = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for link in links(&text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            checked += 1;
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { page.clone() } else { page.parent().unwrap().join(path) };
            let known = anchors.entry(target.clone()).or_insert_with(|| headings(&target));
            if !target.exists() || (!anchor.is_empty() && !known.contains(anchor)) {
                dead.push(format!("{}: {link}", page.strip_prefix(root()).unwrap().display()));
            }
        }
    }
    assert!(dead.is_empty(), "links that lead nowhere:\n{}", dead.join("\n"));
    assert!(checked > 80, "{checked} links");
}

/// Where the links of a page lead, those in its code aside.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let prose = text.split("```").step_by(2);
    prose.flat_map(|prose| prose.split("](").skip(1)).filter_map(|rest| rest.split([')', ' ']).next())
}

/// The anchors that a page's headings have: lower case, blanks as hyphens, without other marks.
fn headings(page: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(page).unwrap_or_default();
    let prose: String = text.split("```").step_by(2).collect();
    let titles =
        prose.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let anchor = |title: &str| {
        let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    titles.map(anchor).collect()
}

/// Readers of the repository begin at the README, those of the site at its navigation.
#[test]
fn an_index_of_the_documents_names_every_page() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let site = fs::read_to_string(root().join("docs/zensical.toml")).unwrap();
    let linked: BTreeSet<&str> = links(&readme).collect();
    let of_the_site: BTreeSet<&str> = site.split('"').skip(1).step_by(2).collect();
    for page in pages_of_users().iter().filter(|page| page.extension().is_some_and(|end| end == "md")) {
        let name = page.strip_prefix(root()).unwrap().to_str().unwrap();
        let named = match name.strip_prefix("docs/") {
            Some(page) => of_the_site.contains(page),
            None => name == "README.md" || linked.contains(name),
        };
        assert!(named, "neither README.md nor docs/zensical.toml names {name}");
    }
}

#[test]
fn the_change_log_has_the_version_of_the_manifest_and_no_empty_section() {
    let log = fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
    let sections: Vec<_> =
        log.split("\n## ").skip(1).map(|section| section.split_once('\n').unwrap()).collect();
    let version = env!("CARGO_PKG_VERSION");
    assert!(sections.iter().any(|(title, _)| title.split(' ').next() == Some(version)), "{version}");
    for (title, text) in sections {
        assert!(text.contains("\n- "), "CHANGELOG.md has nothing under {title}");
    }
}

#[test]
fn the_licence_is_the_whole_text_of_the_one_of_the_manifest_and_the_notice_names_the_holder() {
    let licence = fs::read(root().join("LICENSE")).unwrap();
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    assert!(manifest.contains("\nlicense = \"Apache-2.0\"\n"));
    let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &licence);
    let hash: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    // Of https://www.apache.org/licenses/LICENSE-2.0.txt, from which licence scanners know it.
    assert_eq!(hash, "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30");
    let notice = fs::read_to_string(root().join("NOTICE")).unwrap();
    assert!(notice.lines().any(|line| line.starts_with("Copyright 2")));
}
