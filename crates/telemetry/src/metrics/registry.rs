//! Counters, gauges and histograms in families by labels, and their text form. `docs/adr/0006-own-metrics.md` says why
//! they are not a crate's.

use std::collections::HashMap;
use std::fmt::{self, Debug, Write};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use parking_lot::RwLock;

/// Buckets of durations of requests and runs, in seconds.
pub(super) const REQUEST_BUCKETS: &[f64] =
    &[0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0];

#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// Of what is counted elsewhere.
    pub(super) fn raise_to(&self, total: u64) {
        self.0.fetch_max(total, Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
pub(super) struct Gauge(AtomicI64);

impl Gauge {
    pub(super) fn set(&self, value: i64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(super) fn add(&self, more: i64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }
}

/// Counts values by bucket.
#[derive(Debug)]
pub(super) struct Histogram {
    /// Ascending upper bounds.
    bounds: &'static [f64],
    /// One for each bound, and one for values beyond the last.
    counts: Box<[AtomicU64]>,
    /// Bits of an `f64`.
    sum: AtomicU64,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Self {
        Self {
            bounds,
            counts: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(),
            sum: AtomicU64::new(0),
        }
    }

    pub(super) fn observe(&self, value: f64) {
        let place = self.bounds.partition_point(|bound| *bound < value);
        if let Some(count) = self.counts.get(place) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let add = |bits| Some((f64::from_bits(bits) + value).to_bits());
        // Never fails, since `add` always has an answer.
        _ = self.sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }
}

/// Metrics of one name, one for each set of label values.
pub(super) struct Family<M> {
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
    make: Make<M>,
    /// By the hash of the label values, so that a look-up allocates nothing.
    series: RwLock<HashMap<u64, Vec<Series<M>>>>,
    hasher: RandomState,
}

type Make<M> = Box<dyn Fn() -> M + Send + Sync>;

struct Series<M> {
    values: Box<[Box<str>]>,
    metric: Arc<M>,
}

impl Family<Counter> {
    pub(super) fn counter(name: &'static str, help: &'static str, labels: &'static [&'static str]) -> Self {
        Self::new(name, help, labels, Box::new(Counter::default))
    }
}

impl Family<Gauge> {
    pub(super) fn gauge(name: &'static str, help: &'static str, labels: &'static [&'static str]) -> Self {
        Self::new(name, help, labels, Box::new(Gauge::default))
    }
}

impl Family<Histogram> {
    pub(super) fn histogram(
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str],
        bounds: &'static [f64],
    ) -> Self {
        Self::new(name, help, labels, Box::new(move || Histogram::new(bounds)))
    }
}

impl<M> Family<M> {
    fn new(name: &'static str, help: &'static str, labels: &'static [&'static str], make: Make<M>) -> Self {
        Self { name, help, labels, make, series: RwLock::default(), hasher: RandomState::new() }
    }

    /// The metric with these label values, in the order of the labels; created at zero.
    pub(super) fn with(&self, values: &[&str]) -> Arc<M> {
        debug_assert_eq!(values.len(), self.labels.len(), "{}", self.name);
        let hash = self.hasher.hash_one(values);
        let series = self.series.read();
        if let Some(metric) = series.get(&hash).and_then(|bucket| find(bucket, values)) {
            return metric;
        }
        drop(series);
        let mut series = self.series.write();
        let bucket = series.entry(hash).or_default();
        // Another thread may have been here between the two locks.
        find(bucket, values).unwrap_or_else(|| {
            let metric = Arc::new((self.make)());
            let values = values.iter().map(|value| Box::from(*value)).collect();
            bucket.push(Series { values, metric: Arc::clone(&metric) });
            metric
        })
    }
}

fn find<M>(bucket: &[Series<M>], values: &[&str]) -> Option<Arc<M>> {
    let same = |series: &&Series<M>| series.values.iter().map(|value| &**value).eq(values.iter().copied());
    bucket.iter().find(same).map(|series| Arc::clone(&series.metric))
}

/// What is known of a family before it has a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Description {
    /// As it is exposed; a histogram's series have suffixes.
    pub name: &'static str,
    /// What is counted or measured.
    pub help: &'static str,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// Names of the labels.
    pub labels: &'static [&'static str],
}

/// A family, whatever its metrics are.
pub(super) trait Exposed {
    fn describe(&self) -> Description;

    /// Appends the family in Prometheus' text format; nothing if it has no series.
    fn render(&self, out: &mut String);
}

impl<M: Metric> Exposed for Family<M> {
    fn describe(&self) -> Description {
        Description { name: self.name, help: self.help, kind: M::TYPE, labels: self.labels }
    }

    fn render(&self, out: &mut String) {
        let series = self.series.read();
        let mut lines: Vec<_> =
            series.values().flatten().map(|series| (&series.values, &series.metric)).collect();
        if lines.is_empty() {
            return;
        }
        lines.sort_unstable_by_key(|(values, _)| *values);
        _ = writeln!(out, "# HELP {} {}\n# TYPE {} {}", self.name, self.help, self.name, M::TYPE);
        for (values, metric) in lines {
            let labels = Labels { names: self.labels, values };
            metric.render(out, self.name, &labels);
        }
    }
}

impl<M> Debug for Family<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Family").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A metric in Prometheus' text format. Writing to a string cannot fail, so results are dropped.
pub(super) trait Metric {
    /// As in a `# TYPE` line.
    const TYPE: &'static str;

    fn render(&self, out: &mut String, name: &str, labels: &Labels<'_>);
}

impl Metric for Counter {
    const TYPE: &'static str = "counter";

    fn render(&self, out: &mut String, name: &str, labels: &Labels<'_>) {
        _ = writeln!(out, "{name}{labels} {}", self.0.load(Ordering::Relaxed));
    }
}

impl Metric for Gauge {
    const TYPE: &'static str = "gauge";

    fn render(&self, out: &mut String, name: &str, labels: &Labels<'_>) {
        _ = writeln!(out, "{name}{labels} {}", self.0.load(Ordering::Relaxed));
    }
}

impl Metric for Histogram {
    const TYPE: &'static str = "histogram";

    fn render(&self, out: &mut String, name: &str, labels: &Labels<'_>) {
        let mut total = 0;
        let bounds = self.bounds.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(&self.counts) {
            total += count.load(Ordering::Relaxed);
            _ = writeln!(out, "{name}_bucket{} {total}", labels.and("le", &bound));
        }
        let sum = f64::from_bits(self.sum.load(Ordering::Relaxed));
        _ = writeln!(out, "{name}_sum{labels} {sum}\n{name}_count{labels} {total}");
    }
}

/// `{name="value",…}`, or nothing. An empty value is the same as an absent label and is left out.
pub(super) struct Labels<'a> {
    names: &'a [&'a str],
    values: &'a [Box<str>],
}

impl Labels<'_> {
    /// With one more label, whose value needs no escape.
    fn and(&self, name: &str, value: &str) -> String {
        let own = self.to_string();
        match own.strip_suffix('}') {
            Some(own) => format!("{own},{name}=\"{value}\"}}"),
            None => format!("{{{name}=\"{value}\"}}"),
        }
    }
}

impl fmt::Display for Labels<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = '{';
        for (name, value) in self.names.iter().zip(self.values).filter(|(_, value)| !value.is_empty()) {
            write!(f, "{separator}{name}=\"")?;
            for c in value.chars() {
                match c {
                    '\\' => f.write_str("\\\\")?,
                    '"' => f.write_str("\\\"")?,
                    '\n' => f.write_str("\\n")?,
                    c => f.write_char(c)?,
                }
            }
            f.write_char('"')?;
            separator = ',';
        }
        if separator == ',' { f.write_char('}') } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Counter, Exposed, Family, Histogram};

    #[test]
    fn histograms_are_cumulative_and_bounds_belong_to_their_bucket() {
        let family = Family::<Histogram>::histogram("h", "Help.", &["l"], &[1.0, 2.5]);
        for value in [0.5, 1.0, 2.0, 9.0] {
            family.with(&["x"]).observe(value);
        }
        let mut out = String::new();
        family.render(&mut out);
        assert_eq!(
            out,
            "# HELP h Help.\n# TYPE h histogram\nh_bucket{l=\"x\",le=\"1\"} 2\nh_bucket{l=\"x\",le=\"2.5\"} 3\n\
             h_bucket{l=\"x\",le=\"+Inf\"} 4\nh_sum{l=\"x\"} 12.5\nh_count{l=\"x\"} 4\n"
        );
    }

    #[test]
    fn values_are_escaped_and_empty_ones_left_out() {
        let family = Family::<Counter>::counter("c", "Help.", &["a", "b"]);
        family.with(&["say \"\\\"\n", ""]).add(2);
        family.with(&["", ""]).add(1);
        let mut out = String::new();
        family.render(&mut out);
        assert!(out.ends_with("\nc 1\nc{a=\"say \\\"\\\\\\\"\\n\"} 2\n"), "{out}");
    }

    #[test]
    fn nothing_is_lost_between_threads() {
        let family = Family::<Histogram>::histogram("h", "Help.", &[], &[1.0]);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|_| family.with(&[]).observe(0.5)));
            }
        });
        let mut out = String::new();
        family.render(&mut out);
        assert!(out.contains("h_sum 20000\nh_count 40000\n"), "{out}");
    }
}
