//! Settings as a file and an environment give them.

use std::collections::BTreeMap;

use antwort::config::{LoadOptions, Settings};

use crate::upstream::Upstream;

/// The settings of an environment and a file.
pub fn settings(upstream: &Upstream, environment: &[(&str, &str)], file: &str) -> Settings {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("antwort.yaml");
    std::fs::write(&path, file).unwrap();
    let mut variables: BTreeMap<String, String> =
        environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    variables.insert("ANTWORT_UPSTREAM_URL".into(), upstream.url.clone());
    variables.insert("ANTWORT_STORE_URL".into(), "memory:".into());
    let options = LoadOptions { file: Some(path), environment: variables, ..LoadOptions::default() };
    Settings::load(&options).unwrap()
}
