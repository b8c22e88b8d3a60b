//! The report: JSON, a table for people, and the configuration.

use std::fmt::Write;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::client::Client;
use super::excerpt::excerpt;
use super::finding::Finding;
use super::profile::Profile;
use super::verdict::Verdict;
use antwort_config::Preset;
use antwort_util::display::one_line;

/// How a file begins that the doctor has written.
pub const MARK: &str = "# Written by `antwort doctor`";

/// Tokens of all requests and answers.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct Tokens {
    pub input: u64,
    pub output: u64,
}

impl Tokens {
    pub(super) fn add(&mut self, (input, output): (u64, u64)) {
        self.input = self.input.saturating_add(input);
        self.output = self.output.saturating_add(output);
    }

    pub(super) fn total(self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

/// A report on a server.
#[derive(Debug)]
pub struct Report {
    url: String,
    model: String,
    at: Timestamp,
    /// Whether the server works, and what of it does not.
    pub verdict: Verdict,
    preset: Option<Preset>,
    tokens: Tokens,
    findings: Vec<Finding>,
    /// Ids of questions that are not in this report, as they are costly.
    deep_only: Vec<&'static str>,
    /// The configuration as YAML, if the server works.
    pub config: Option<String>,
}

impl Report {
    pub(super) fn new(
        client: &Client,
        model: String,
        verdict: Verdict,
        profile: Option<Profile>,
        tokens: Tokens,
        (findings, deep_only): (Vec<Finding>, Vec<&'static str>),
    ) -> Self {
        // A server may call its model as the key that it has received: that name is in no file.
        let shown = client.mask(&model);
        let named = (shown == model).then_some(model);
        let mut report = Self {
            url: client.base().to_owned(),
            model: shown,
            at: Timestamp::now(),
            verdict,
            preset: profile.as_ref().map(|profile| profile.preset),
            tokens,
            findings,
            deep_only,
            config: None,
        };
        let has_key = client.settings().api_key.is_some();
        report.verdict.sentence = client.mask(&one_line(&report.verdict.sentence));
        report.config = profile.and_then(|profile| report.configuration(&profile, named.as_deref(), has_key));
        report
    }

    /// The configuration: the difference to the preset, with the date and the reasons as comments.
    fn configuration(&self, profile: &Profile, model: Option<&str>, has_key: bool) -> Option<String> {
        let host = url::Url::parse(&self.url).ok()?;
        let host =
            format!("{}{}", host.host_str()?, host.port().map(|port| format!(":{port}")).unwrap_or_default());
        let preset = name(profile.preset);
        let day = self.at.strftime("%Y-%m-%d");
        let mut yaml = format!("{MARK} on {day}: {host}, model {}.\n", excerpt(&self.model));
        _ = match (profile.changes.is_empty(), self.verdict.is_complete()) {
            (true, true) => writeln!(yaml, "# The preset `{preset}` fits as it is."),
            (true, false) => writeln!(yaml, "# Nothing that was asked differs from the preset `{preset}`."),
            (false, _) => writeln!(yaml, "# What differs from the preset `{preset}`, and why:"),
        };
        for change in &profile.changes {
            _ = writeln!(yaml, "#   {}: {}", change.path.join("."), change.reason);
        }
        for (id, gap) in &self.verdict.gaps {
            _ = writeln!(yaml, "# Gap ({id}): {gap}.");
        }
        if has_key {
            yaml.push_str("# The key is not in this file: ANTWORT_UPSTREAM_API_KEY sets it.\n");
        }
        let keys = profile.keys(&self.url, model);
        yaml.push_str(&serde_norway::to_string(&json!({"providers": {"default": keys}})).ok()?);
        Some(yaml)
    }

    /// The report as JSON.
    pub fn to_json(&self) -> Value {
        let gaps: Vec<_> =
            self.verdict.gaps.iter().map(|(id, gap)| json!({"id": id, "message": gap})).collect();
        json!({
            "object": "doctor.report",
            "url": self.url,
            "model": (!self.model.is_empty()).then_some(&self.model),
            "at": self.at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            "verdict": self.verdict.outcome,
            "message": self.verdict.sentence,
            "gaps": gaps,
            "preset": self.preset,
            "tokens": self.tokens,
            "findings": self.findings,
            "asked_with_deep_only": self.deep_only,
            "config": self.config,
        })
    }

    /// The report as text.
    pub fn to_text(&self) -> String {
        let Tokens { input, output } = self.tokens;
        let mut text = format!("{} {}", self.url, self.at.strftime("on %Y-%m-%d at %H:%M UTC"));
        if !self.model.is_empty() {
            _ = write!(text, ", model {}; {input} tokens in, {output} out", excerpt(&self.model));
        }
        text.push_str("\n\n");
        let width =
            self.findings.iter().map(|finding| finding.question.chars().count()).max().unwrap_or_default();
        for finding in &self.findings {
            let Finding { question, answer, evidence, .. } = finding;
            _ = writeln!(text, "{:<9} {question:<width$}  {evidence}", answer.name());
        }
        if !self.findings.is_empty() {
            text.push('\n');
        }
        if !self.findings.is_empty() && !self.deep_only.is_empty() {
            _ = writeln!(text, "Asked with --deep only: {}.\n", self.deep_only.join(", "));
        }
        _ = writeln!(text, "{}", self.verdict.sentence);
        for (id, gap) in &self.verdict.gaps {
            _ = writeln!(text, "- {id}: {gap}");
        }
        if let Some(config) = &self.config {
            _ = write!(text, "\n{config}");
        }
        text
    }
}

fn name(preset: Preset) -> String {
    json!(preset).as_str().unwrap_or_default().to_owned()
}
