//! What a dashboard is: rows of panels, each with its queries and what to do about it.
//!
//! In queries every metric is followed by braces, so that metrics and labels are told apart; `query` adds the selectors of
//! the dashboard's variables to them.

/// A dashboard, one file.
pub struct Dashboard {
    /// Of the file, and the end of its uid.
    pub name: &'static str,
    pub title: &'static str,
    pub description: &'static str,
    /// Besides the data source, the job and the instance.
    pub variables: &'static [Variable],
    pub rows: &'static [Row],
}

/// A choice above the panels: the values of a label.
pub struct Variable {
    pub name: &'static str,
    pub title: &'static str,
    pub query: &'static str,
}

pub struct Row {
    pub title: &'static str,
    pub panels: &'static [Panel],
}

#[derive(Clone, Copy)]
pub struct Panel {
    pub kind: Kind,
    pub title: &'static str,
    /// As Grafana names it.
    pub unit: &'static str,
    /// What it shows, and what to do.
    pub text: &'static str,
    /// Query and legend; of tables, the name of the column.
    pub queries: &'static [(&'static str, &'static str)],
    /// From this value on, this colour.
    pub thresholds: &'static [(f64, &'static str)],
    /// Of 24.
    pub width: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Stat,
    /// 1 is good and has the first word, 0 the second.
    Flag(&'static str, &'static str),
    Lines,
    Stacked,
    Heatmap,
    Table,
}

type Queries = &'static [(&'static str, &'static str)];

/// A panel is green below these.
pub const ALWAYS_GREEN: &[(f64, &str)] = &[];
/// For shares of what failed.
pub const SHARES: &[(f64, &str)] = &[(0.01, "yellow"), (0.05, "red")];

pub const fn panel(
    kind: Kind,
    title: &'static str,
    unit: &'static str,
    text: &'static str,
    queries: Queries,
) -> Panel {
    let width = match kind {
        Kind::Stat | Kind::Flag(..) => 4,
        Kind::Lines | Kind::Stacked | Kind::Heatmap => 8,
        Kind::Table => 24,
    };
    Panel { kind, title, unit, text, queries, thresholds: ALWAYS_GREEN, width }
}

pub const fn stat(title: &'static str, unit: &'static str, text: &'static str, queries: Queries) -> Panel {
    panel(Kind::Stat, title, unit, text, queries)
}

pub const fn lines(title: &'static str, unit: &'static str, text: &'static str, queries: Queries) -> Panel {
    panel(Kind::Lines, title, unit, text, queries)
}

pub const fn stacked(title: &'static str, unit: &'static str, text: &'static str, queries: Queries) -> Panel {
    panel(Kind::Stacked, title, unit, text, queries)
}

/// The query gives buckets by `le`.
pub const fn heatmap(title: &'static str, unit: &'static str, text: &'static str, queries: Queries) -> Panel {
    panel(Kind::Heatmap, title, unit, text, queries)
}

impl Panel {
    pub const fn thresholds(mut self, thresholds: &'static [(f64, &'static str)]) -> Self {
        self.thresholds = thresholds;
        self
    }

    pub const fn wide(mut self, width: u64) -> Self {
        self.width = width;
        self
    }
}
