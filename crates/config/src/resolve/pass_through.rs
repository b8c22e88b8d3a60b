//! `server.pass_through`: paths of the provider's API, which must not be those of the gateway.

use super::checker::Checker;
use crate::settings::{PASSED_BY_DEFAULT, RESERVED_SEGMENTS, is_path_segment};

pub(super) fn check(paths: &[String], check: &mut Checker<'_>) {
    for (index, path) in paths.iter().enumerate() {
        let problem = match problem(path) {
            None if paths.iter().take(index).any(|before| before == path) => {
                Some("is listed twice".to_owned())
            }
            problem => problem,
        };
        if let Some(problem) = problem {
            check.error(&["server", "pass_through", &index.to_string()], problem);
        }
    }
}

fn problem(path: &str) -> Option<String> {
    if PASSED_BY_DEFAULT.contains(&path) {
        return None;
    }
    let expected = || {
        Some(format!(
            "expected a path without the prefix /v1, such as /rerank or /audio/*, with `*` only as its last segment, found \
             \"{path}\""
        ))
    };
    let Some(segments) = path.strip_prefix('/') else { return expected() };
    let segments: Vec<&str> = segments.split('/').collect();
    let Some((last, before)) = segments.split_last() else { return expected() };
    let is_plain = |segment: &&str| is_path_segment(segment);
    if !before.iter().all(is_plain) || !(*last == "*" || is_path_segment(last)) {
        return expected();
    }
    let first = before.first().unwrap_or(last);
    match *first {
        "*" => Some("covers the gateway's own paths: name the first segment, as in /audio/*".to_owned()),
        first if RESERVED_SEGMENTS.contains(&first) => {
            Some(format!("the paths below /{first} are the gateway's own"))
        }
        _ => None,
    }
}
