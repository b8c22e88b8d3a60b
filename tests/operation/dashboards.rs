//! The dashboards and alerts in `deploy`: made of the definitions here, which are checked against the table of metrics.
//!
//! `ANTWORT_BLESS=1 cargo test --test operation dashboards` writes the files; `scripts/test-dashboards` asks a Prometheus their queries.

mod alert_table;
mod alerts;
mod grafana;
mod overview;
mod panel;
mod providers;
mod query;
mod tools;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use antwort_telemetry::metrics::{Description, Metrics};

use alert_table::ALERTS;
use panel::Dashboard;

const DASHBOARDS: [&Dashboard; 3] = [&overview::DASHBOARD, &providers::DASHBOARD, &tools::DASHBOARD];
/// Metrics that are on no dashboard, with the reason.
const LEFT_OUT: [(&str, &str); 2] = [
    ("antwort_blocking_tasks_total", "says how work was done; that it waits is in the queue `blocking`"),
    (
        "antwort_follow_ups_total",
        "rare: only asynchronous tools lead to it, and the trace of a response has each",
    ),
];
const PAGE: &str = include_str!("../../docs/dashboards.md");
const OPERATIONS: &str = include_str!("../../docs/operations.md");

fn table() -> Vec<Description> {
    Metrics::new().table()
}

/// Where each query is, and the query.
fn queries_of_panels() -> impl Iterator<Item = (String, &'static str)> {
    DASHBOARDS.iter().flat_map(|dashboard| {
        dashboard.rows.iter().flat_map(|row| row.panels).flat_map(|panel| {
            let place = format!("{}, {}", dashboard.title, panel.title);
            panel.queries.iter().map(move |(query, _)| (place.clone(), *query))
        })
    })
}

fn queries_of_alerts() -> impl Iterator<Item = (String, &'static str)> {
    ALERTS.iter().flat_map(|alert| alert.when.iter().map(|(query, _)| (alert.name.to_owned(), *query)))
}

#[test]
fn the_files_are_what_the_definitions_say() {
    let mut files: Vec<_> = DASHBOARDS
        .iter()
        .map(|dashboard| (format!("deploy/grafana/{}.json", dashboard.name), grafana::render(dashboard)))
        .collect();
    files.push(("deploy/prometheus/alerts.yaml".to_owned(), alerts::rules()));
    files.push(("tests/dashboards/alerts.yaml".to_owned(), alerts::rule_tests()));
    for (path, expected) in files {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        if std::env::var_os("ANTWORT_BLESS").is_some() {
            fs::write(&path, &expected).unwrap();
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        assert!(found == expected, "{}: ANTWORT_BLESS=1 writes it anew", path.display());
    }
}

#[test]
fn queries_use_metrics_and_labels_that_exist() {
    let table = table();
    for (place, query) in queries_of_panels().chain(queries_of_alerts()) {
        let unknown = query::unknown(&table, query);
        assert!(unknown.is_empty(), "{place}: {unknown:?} in {query}");
        assert!(!query::used(query).metrics.is_empty(), "{place}: no metric in {query}");
    }
    for variable in DASHBOARDS.iter().flat_map(|dashboard| dashboard.variables) {
        let asked = variable.query.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')'));
        let (series, label) = asked.and_then(|asked| asked.rsplit_once(", ")).expect("series and label");
        let series = series.split('{').next().unwrap_or_default();
        let metric = query::metric_of(&table, series).unwrap_or_else(|| panic!("{series}"));
        assert!(metric.labels.contains(&label), "{label} of {series}");
    }
}

#[test]
fn every_metric_is_on_a_dashboard_or_left_out_with_a_reason() {
    let table = table();
    let shown: BTreeSet<&str> = queries_of_panels()
        .flat_map(|(_, query)| query::used(query).metrics)
        .filter_map(|(series, _)| Some(query::metric_of(&table, &series)?.name))
        .collect();
    let all: BTreeSet<&str> = table.iter().map(|metric| metric.name).collect();
    let left_out: BTreeSet<&str> = LEFT_OUT.iter().map(|(name, _)| *name).collect();
    assert_eq!(all.difference(&shown).copied().collect::<BTreeSet<_>>(), left_out);
}

#[test]
fn every_metric_is_in_the_table_of_the_page_on_operations_with_its_labels() {
    let section = OPERATIONS.split("\n## ").find(|section| section.starts_with("Metrics\n")).unwrap();
    for metric in table() {
        let name = format!("`{}`", metric.name);
        let row = section.lines().find(|line| line.starts_with('|') && line.contains(&name));
        let row = row.unwrap_or_else(|| panic!("{name} is not in the table"));
        // The labels of a model are explained once, in the first row of its metrics.
        let labels = metric.labels.iter().filter(|label| !label.starts_with("gen_ai"));
        for label in labels {
            assert!(row.contains(&format!("`{label}`")), "{name} without its label {label}");
        }
    }
}

#[test]
fn every_alert_and_dashboard_has_a_section_in_the_page() {
    for alert in ALERTS {
        assert!(["critical", "warning"].contains(&alert.severity), "{}", alert.name);
        assert!(PAGE.contains(&format!("\n### {}\n", alert.name)), "docs/dashboards.md: ### {}", alert.name);
    }
    let sections = PAGE.lines().filter(|line| line.starts_with("### Antwort")).count();
    assert_eq!(sections, ALERTS.len(), "docs/dashboards.md has a section of an alert that does not exist");
    for panel in DASHBOARDS.iter().flat_map(|dashboard| dashboard.rows).flat_map(|row| row.panels) {
        assert!(panel.text.len() > 5 && panel.text.ends_with(['.', '?']), "{} says nothing", panel.title);
    }
    for dashboard in DASHBOARDS {
        assert!(PAGE.contains(&format!("{}.json", dashboard.name)), "{}", dashboard.name);
    }
}
