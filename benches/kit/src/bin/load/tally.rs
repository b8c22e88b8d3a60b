//! What is counted and timed.

use hdrhistogram::Histogram;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What the workers saw, all in one: a set of histograms for each of thousands of workers would fill the memory.
pub(crate) struct Tally {
    pub(crate) ok: u64,
    pub(crate) failed: BTreeMap<String, u64>,
    pub(crate) events: u64,
    pub(crate) deltas: u64,
    pub(crate) bytes: u64,
    pub(crate) connects: u64,
    pub(crate) latency: Histogram<u64>,
    pub(crate) first_event: Histogram<u64>,
    pub(crate) first_delta: Histogram<u64>,
    pub(crate) gap: Histogram<u64>,
}

impl Tally {
    pub(crate) fn new() -> Self {
        let h = || Histogram::new_with_bounds(1, 600_000_000, 3).unwrap();
        Tally {
            ok: 0,
            failed: BTreeMap::new(),
            events: 0,
            deltas: 0,
            bytes: 0,
            connects: 0,
            latency: h(),
            first_event: h(),
            first_delta: h(),
            gap: h(),
        }
    }

    /// Counts a request that has ended.
    pub(crate) fn ended(&mut self, result: Result<(), String>, micros: u64) {
        match result {
            Ok(()) => {
                self.ok += 1;
                self.latency.saturating_record(micros);
            }
            Err(why) => *self.failed.entry(why).or_default() += 1,
        }
    }
}

pub(crate) fn round(x: f64) -> f64 {
    (x * 1000.0).round() / 1000.0
}

pub(crate) fn percentiles(h: &Histogram<u64>) -> Value {
    if h.is_empty() {
        return Value::Null;
    }
    json!({"p50": h.value_at_quantile(0.5), "p90": h.value_at_quantile(0.9), "p99": h.value_at_quantile(0.99),
           "p999": h.value_at_quantile(0.999), "max": h.max(), "mean": round(h.mean())})
}
