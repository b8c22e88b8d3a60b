//! Dashboards as Grafana's classic JSON model, which all its versions import.

use serde_json::{Value, json};

use super::panel::{Dashboard, Kind, Panel, Variable};
use super::query;

const SCHEMA_VERSION: u64 = 39;
const WIDTH: u64 = 24;

pub fn render(dashboard: &Dashboard) -> String {
    let json = json!({
        "uid": format!("antwort-{}", dashboard.name),
        "title": dashboard.title,
        "description": dashboard.description,
        "tags": ["antwort"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": true,
        "graphTooltip": 1,
        "refresh": "30s",
        "timezone": "browser",
        "time": {"from": "now-1h", "to": "now"},
        "links": [link_to_others()],
        "annotations": {"list": [starts()]},
        "templating": {"list": variables(dashboard)},
        "panels": panels(dashboard),
    });
    format!("{json:#}\n")
}

fn source() -> Value {
    json!({"type": "prometheus", "uid": "${datasource}"})
}

fn link_to_others() -> Value {
    json!({
        "type": "dashboards", "title": "antwort", "tags": ["antwort"], "asDropdown": false, "icon": "dashboard",
        "includeVars": true, "keepTime": true, "targetBlank": false, "tooltip": "", "url": "",
    })
}

/// A line at each start of a process.
fn starts() -> Value {
    json!({
        "name": "Starts", "enable": true, "iconColor": "orange", "datasource": source(), "step": "30s",
        "expr": query::of_dashboard("changes(process_start_time_seconds{}[1m]) > 0"),
        "titleFormat": "started", "textFormat": "{{instance}}",
    })
}

fn variables(dashboard: &Dashboard) -> Vec<Value> {
    const TARGETS: [Variable; 2] = [
        Variable { name: "job", title: "Job", query: "label_values(antwort_build_info, job)" },
        Variable {
            name: "instance",
            title: "Gateway",
            query: "label_values(antwort_build_info{job=~\"$job\"}, instance)",
        },
    ];
    let source = json!({
        "name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "regex": "",
        "hide": 0, "refresh": 1, "includeAll": false, "multi": false, "options": [],
    });
    [source].into_iter().chain(TARGETS.iter().chain(dashboard.variables).map(variable)).collect()
}

fn variable(variable: &Variable) -> Value {
    json!({
        "name": variable.name, "label": variable.title, "type": "query", "datasource": source(),
        // A query of label values, as its editor writes it.
        "query": {"qryType": 1, "query": variable.query, "refId": "PrometheusVariableQueryEditor-VariableQuery"},
        "regex": "", "hide": 0, "refresh": 2, "sort": 1, "multi": true, "includeAll": true, "allValue": ".*",
        "options": [], "current": {"selected": true, "text": ["All"], "value": ["$__all"]},
    })
}

/// Rows from top to bottom, their panels from left to right.
fn panels(dashboard: &Dashboard) -> Vec<Value> {
    let mut all = Vec::new();
    let mut top = 0;
    for row in dashboard.rows {
        all.push(json!({
            "id": all.len() + 1, "type": "row", "title": row.title, "collapsed": false, "panels": [],
            "gridPos": {"x": 0, "y": top, "w": WIDTH, "h": 1},
        }));
        top += 1;
        let (mut left, mut height) = (0, 0);
        for panel in row.panels {
            if left + panel.width > WIDTH {
                top += height;
                (left, height) = (0, 0);
            }
            let tall = if matches!(panel.kind, Kind::Stat | Kind::Flag(..)) { 4 } else { 8 };
            let place = json!({"x": left, "y": top, "w": panel.width, "h": tall});
            all.push(render_panel(panel, all.len() + 1, place));
            left += panel.width;
            height = height.max(tall);
        }
        top += height;
    }
    all
}

fn render_panel(panel: &Panel, id: usize, place: Value) -> Value {
    let targets =
        ('A'..).zip(panel.queries).map(|(id, (query, legend))| target(panel.kind, id, query, legend));
    let mut json = json!({
        "id": id,
        "type": kind(panel.kind),
        "title": panel.title,
        "description": panel.text,
        "gridPos": place,
        "datasource": source(),
        "targets": targets.collect::<Vec<_>>(),
        "fieldConfig": {"defaults": defaults(panel), "overrides": []},
        "options": options(panel),
    });
    if panel.kind == Kind::Table {
        json["transformations"] = table_of(panel);
    }
    json
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Stat | Kind::Flag(..) => "stat",
        Kind::Lines | Kind::Stacked => "timeseries",
        Kind::Heatmap => "heatmap",
        Kind::Table => "table",
    }
}

fn target(kind: Kind, id: char, query: &str, legend: &str) -> Value {
    let format = match kind {
        Kind::Heatmap => "heatmap",
        Kind::Table => "table",
        _ => "time_series",
    };
    let is_table = kind == Kind::Table;
    json!({
        "refId": id, "datasource": source(), "editorMode": "code", "format": format, "instant": is_table,
        "range": !is_table, "legendFormat": if is_table { "__auto" } else { legend }, "expr": query::of_dashboard(query),
    })
}

fn defaults(panel: &Panel) -> Value {
    let (mut steps, mut mappings) = (vec![json!({"color": "green", "value": null})], vec![]);
    if let Kind::Flag(good, bad) = panel.kind {
        steps = vec![json!({"color": "red", "value": null}), json!({"color": "green", "value": 1})];
        mappings.push(json!({"type": "value", "options": {
            "0": {"text": bad, "color": "red", "index": 0}, "1": {"text": good, "color": "green", "index": 1},
        }}));
    }
    steps.extend(panel.thresholds.iter().map(|(from, color)| json!({"color": color, "value": from})));
    let color = if kind(panel.kind) == "timeseries" { "palette-classic" } else { "thresholds" };
    let mut defaults = json!({
        "unit": panel.unit, "min": 0, "mappings": mappings, "color": {"mode": color},
        "thresholds": {"mode": "absolute", "steps": steps},
    });
    let is_stacked = panel.kind == Kind::Stacked;
    let marks_thresholds = !panel.thresholds.is_empty();
    if kind(panel.kind) == "timeseries" {
        defaults["custom"] = json!({
            "drawStyle": "line", "lineWidth": 1, "lineInterpolation": "linear", "showPoints": "never", "spanNulls": false,
            "fillOpacity": if is_stacked { 40 } else { 8 },
            "stacking": {"mode": if is_stacked { "normal" } else { "none" }, "group": "A"},
            "thresholdsStyle": {"mode": if marks_thresholds { "dashed" } else { "off" }},
        });
    }
    defaults
}

fn options(panel: &Panel) -> Value {
    match panel.kind {
        Kind::Stat | Kind::Flag(..) => json!({
            "colorMode": "value", "graphMode": if panel.kind == Kind::Stat { "area" } else { "none" },
            "justifyMode": "auto", "orientation": "auto", "textMode": "value", "wideLayout": true,
            "showPercentChange": false, "percentChangeColorMode": "standard",
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": false},
        }),
        Kind::Lines | Kind::Stacked => json!({
            "legend": {"displayMode": "table", "placement": "bottom", "showLegend": true, "calcs": ["lastNotNull", "max"]},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }),
        Kind::Heatmap => json!({
            "calculate": false, "cellGap": 1, "cellValues": {}, "yAxis": {"axisPlacement": "left", "unit": panel.unit},
            "color": {"mode": "scheme", "scheme": "Oranges", "steps": 64, "exponent": 0.5, "fill": "dark-orange", "reverse": false},
            "exemplars": {"color": "rgba(255,0,255,0.7)"}, "filterValues": {"le": 1e-9}, "legend": {"show": true},
            "rowsFrame": {"layout": "auto"}, "showValue": "never", "tooltip": {"mode": "single", "yHistogram": false},
        }),
        Kind::Table => json!({
            "cellHeight": "sm", "showHeader": true, "frameIndex": 0,
            "sortBy": [{"displayName": panel.queries[0].1, "desc": true}],
        }),
    }
}

/// One row for each set of labels, one column for each query.
fn table_of(panel: &Panel) -> Value {
    let names: serde_json::Map<_, _> =
        ('A'..).zip(panel.queries).map(|(id, (_, column))| (format!("Value #{id}"), json!(column))).collect();
    json!([
        {"id": "merge", "options": {}},
        {"id": "organize", "options": {"excludeByName": {"Time": true}, "indexByName": {}, "renameByName": names}},
    ])
}
