//! Alerts as Prometheus reads them, and their tests as promtool does.

use serde_json::{Value, json};

use super::alert_table::{ALERTS, WELL};
use super::query;

pub struct Alert {
    pub name: &'static str,
    /// `critical`: clients notice now. `warning`: look at it today.
    pub severity: &'static str,
    /// For how long it must hold.
    pub lasting: &'static str,
    /// What is measured and when that is bad; all of them must hold.
    pub when: &'static [(&'static str, &'static str)],
    /// The labels that must be the same in all of them, unless it is all labels.
    pub on: &'static str,
    pub summary: &'static str,
    pub description: &'static str,
    /// Series and their values, a minute apart, with which it fires.
    pub fires_with: &'static [(&'static str, &'static str)],
}

impl Alert {
    /// The heading of its section, as an anchor.
    pub fn anchor(&self) -> String {
        self.name.to_ascii_lowercase()
    }

    fn expression(&self) -> String {
        let joint =
            if self.on.is_empty() { "\nand\n".to_owned() } else { format!("\nand on ({})\n", self.on) };
        let whole = |(value, is_bad): &(&str, &str)| {
            let value = query::of_alert(value);
            // A quotient in brackets, so that it can be read, and cut off.
            if value.contains('\n') { format!("(\n{value}\n) {is_bad}") } else { format!("{value} {is_bad}") }
        };
        self.when.iter().map(whole).collect::<Vec<_>>().join(&joint)
    }

    fn rule(&self) -> Value {
        json!({
            "alert": self.name,
            "expr": self.expression(),
            "for": self.lasting,
            "labels": {"severity": self.severity},
            "annotations": {
                "summary": self.summary,
                "description": self.description,
                "runbook_url": format!("docs/dashboards.md#{}", self.anchor()),
            },
        })
    }
}

/// The rules, as Prometheus reads them.
pub fn rules() -> String {
    let rules: Vec<_> = ALERTS.iter().map(Alert::rule).collect();
    yaml("Alerts for Prometheus.", &json!({"groups": [{"name": "antwort", "rules": rules}]}))
}

/// Tests of the rules, as promtool reads them: each fires with its series, and none with those of a gateway that is well.
pub fn rule_tests() -> String {
    let series = |all: &[(&str, &str)]| -> Vec<_> {
        all.iter().map(|(series, values)| json!({"series": series, "values": values})).collect()
    };
    let test = |name: &str, input: Vec<Value>, at: &str, expression: String, expected: Value| {
        json!({
            "name": name, "interval": "1m", "input_series": input,
            "promql_expr_test": [{"expr": expression, "eval_time": at, "exp_samples": expected}],
        })
    };
    let fires = ALERTS.iter().map(|alert| {
        let firing = format!("count(ALERTS{{alertname=\"{}\",alertstate=\"firing\"}}) > bool 0", alert.name);
        let at = if alert.lasting == "1h" { "90m" } else { "40m" };
        test(alert.name, series(alert.fires_with), at, firing, json!([{"labels": "{}", "value": 1}]))
    });
    let well = test("none", series(WELL), "90m", "ALERTS".to_owned(), json!([]));
    let tests: Vec<_> = fires.chain([well]).collect();
    let all = json!({
        "rule_files": ["../../deploy/prometheus/alerts.yaml"], "evaluation_interval": "1m", "tests": tests,
    });
    yaml("Tests of the alerts: promtool test rules tests/dashboards/alerts.yaml", &all)
}

fn yaml(title: &str, value: &Value) -> String {
    let body = serde_norway::to_string(value).expect("YAML");
    format!(
        "# {title}\n# Made by tests/operation/dashboards; ANTWORT_BLESS=1 cargo test --test operation dashboards writes it anew.\n{body}"
    )
}
