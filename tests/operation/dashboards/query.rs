//! Queries: shorthand, and which metrics and labels they use.

use std::collections::BTreeSet;

use antwort_telemetry::metrics::Description;

/// What every dashboard chooses by.
const TARGET: &str = "job=~\"$job\",instance=~\"$instance\"";
/// Shorthand for choices of some dashboards.
const SHORTHAND: [(&str, &str); 4] = [
    ("%model", "gen_ai_provider_name=~\"$provider\",gen_ai_request_model=~\"$model\""),
    ("%tool", "executor=~\"$executor\",tool=~\"$tool\""),
    // Outcomes of tool calls that are no failures.
    ("%fine", "ok|cached|skipped|abandoned|cancelled|handed_over"),
    // Error codes of runs that a provider is to blame for.
    (
        "%upstream",
        "upstream_(auth|connect|disconnected|error|first|idle|malformed|proxy|status|timeout|total|un).*|rate_limit_exceeded|insufficient_quota",
    ),
];
/// Labels that Prometheus adds, and that of buckets.
const ADDED: [&str; 3] = ["job", "instance", "le"];
/// Metrics of Prometheus itself.
const OTHERS: [&str; 1] = ["up"];

fn written_out(query: &str) -> String {
    SHORTHAND.iter().fold(query.to_owned(), |query, (short, long)| query.replace(short, long))
}

/// As a dashboard asks it: with the selectors of its variables.
pub fn of_dashboard(query: &str) -> String {
    written_out(query)
        .replace("{}", &format!("{{{TARGET}}}"))
        .split('{')
        .enumerate()
        .map(|(number, part)| match (number, part.starts_with(TARGET)) {
            (0, _) => part.to_owned(),
            (_, true) => format!("{{{part}"),
            (_, false) => format!("{{{TARGET},{part}"),
        })
        .collect()
}

/// As an alert asks it: of all targets.
pub fn of_alert(query: &str) -> String {
    written_out(query).replace("{}", "")
}

/// The metrics of a query with the labels that select, and the labels of its groups.
pub struct Used {
    pub metrics: Vec<(String, Vec<String>)>,
    pub groups: BTreeSet<String>,
}

/// Reads a query in which every metric is followed by braces.
pub fn used(query: &str) -> Used {
    let query = written_out(query);
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut metrics = Vec::new();
    for (at, _) in query.match_indices('{') {
        let before = &query[..at];
        let name = before.rsplit(|c| !is_name(c)).next().unwrap_or_default();
        let selectors = query[at + 1..].split('}').next().unwrap_or_default();
        // Values hold no commas and no equals signs.
        let labels = selectors.split(',').filter(|selector| !selector.is_empty());
        let labels = labels.map(|selector| selector.split(['=', '!']).next().unwrap_or_default().to_owned());
        metrics.push((name.to_owned(), labels.collect()));
    }
    let groups = query.split("by (").chain(query.split("on (")).filter(|part| part.len() < query.len());
    let groups = groups
        .filter(|part| !query.starts_with(part))
        .flat_map(|part| part.split(')').next().unwrap_or_default().split(", ").map(str::to_owned))
        .collect();
    Used { metrics, groups }
}

/// The metric of the table that a series belongs to.
pub fn metric_of<'a>(table: &'a [Description], series: &str) -> Option<&'a Description> {
    table.iter().find(|metric| match metric.kind {
        "histogram" => {
            ["_bucket", "_sum", "_count"].iter().any(|end| series.strip_suffix(end) == Some(metric.name))
        }
        _ => metric.name == series,
    })
}

/// What a query uses that the table does not have.
pub fn unknown(table: &[Description], query: &str) -> Vec<String> {
    let used = used(query);
    let mut unknown = Vec::new();
    let mut labels: BTreeSet<&str> = ADDED.into();
    for (series, selectors) in used.metrics.iter().filter(|(series, _)| !OTHERS.contains(&&**series)) {
        let Some(metric) = metric_of(table, series) else {
            unknown.push(series.clone());
            continue;
        };
        labels.extend(metric.labels);
        let strange = |label: &&String| !ADDED.contains(&&***label) && !metric.labels.contains(&&***label);
        unknown.extend(selectors.iter().filter(strange).map(|label| format!("{series}{{{label}}}")));
    }
    unknown.extend(used.groups.into_iter().filter(|label| !labels.contains(&**label)));
    unknown
}

#[test]
fn queries_are_read_and_written_out() {
    let query = "sum by (status, le) (rate(a_total{x=\"1\"}[5m])) / on (job) b{}";
    let written = of_dashboard(query);
    assert!(written.contains("a_total{job=~\"$job\",instance=~\"$instance\",x=\"1\"}"), "{written}");
    assert!(written.ends_with("b{job=~\"$job\",instance=~\"$instance\"}"), "{written}");
    let used = used(query);
    assert_eq!(used.metrics, [("a_total".into(), vec!["x".into()]), ("b".into(), vec![])]);
    assert_eq!(used.groups, ["job", "le", "status"].map(String::from).into());
    let table = [Description { name: "a_total", help: "", kind: "counter", labels: &["y"] }];
    assert_eq!(unknown(&table, query), ["a_total{x}", "b", "status"]);
}
