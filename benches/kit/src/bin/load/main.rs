//! A closed-loop load generator for POST /v1/responses (or, with --direct, /v1/chat/completions).
//! Checks that each answer is whole and prints one JSON line.

mod check;
mod drive;
mod tally;

use crate::drive::{Plan, drive};
use crate::tally::{percentiles, round};
use bench_kit::{Args, die, loopback_url, runtime};
use bytes::Bytes;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};

const USAGE: &str =
    "usage: load --url http://127.0.0.1:PORT --model NAME [--concurrency N] [--requests N] [--seconds S]
  [--stream] [--direct] [--store true|false] [--body-file FILE] [--header 'Name: value']... [--warmup N]
  [--timeout S] [--threads N] [--label TEXT] [--path /v1/responses]
  At least one of --requests and --seconds bounds the run; without either it sends 100 requests.";

fn main() {
    let args = Args::parse(
        &["stream", "direct"],
        &[
            "url",
            "model",
            "concurrency",
            "requests",
            "seconds",
            "store",
            "body-file",
            "header",
            "warmup",
            "timeout",
            "threads",
            "label",
            "path",
        ],
        USAGE,
    );
    let (addr, authority, prefix) = loopback_url(args.get("url").unwrap_or_else(|| die(USAGE)));
    let (stream, direct) = (args.has("stream"), args.has("direct"));
    let model = args.get("model").unwrap_or("text-20");
    let plan = Arc::new(Plan {
        addr,
        authority,
        path: match args.get("path") {
            Some(path) => format!("{prefix}{path}"),
            None => format!("{prefix}/v1/{}", if direct { "chat/completions" } else { "responses" }),
        },
        body: request_body(&args, model, stream, direct),
        headers: args
            .all("header")
            .iter()
            .map(|h| h.split_once(':').unwrap_or_else(|| die("--header needs 'Name: value'")))
            .map(|(k, v)| (k.trim().to_lowercase(), v.trim().to_string()))
            .collect(),
        stream,
        direct,
        timeout: Duration::from_secs_f64(args.num("timeout", 60.0)),
    });
    let concurrency: usize = args.num("concurrency", 1);
    let seconds: f64 = args.num("seconds", if args.get("requests").is_some() { 3600.0 } else { 0.0 });
    let requests = args.num("requests", if seconds > 0.0 { u64::MAX } else { 100 });
    let seconds = if seconds > 0.0 { seconds } else { 3600.0 };

    let (tally, wall) = runtime(args.num("threads", 1)).block_on(async {
        let warmup = args.num("warmup", 0);
        if warmup > 0 {
            drive(&plan, concurrency.min(8), warmup, 60.0).await;
        }
        let start = Instant::now();
        let tally = drive(&plan, concurrency, requests, seconds).await;
        (tally, start.elapsed().as_secs_f64())
    });

    let failures: u64 = tally.failed.values().sum();
    let per = |n: u64| round(n as f64 / (tally.ok + failures).max(1) as f64);
    let mut out = json!({
        "label": args.get("label").unwrap_or(""), "model": model, "stream": stream, "direct": direct,
        "concurrency": concurrency, "wall_s": round(wall), "ok": tally.ok, "failures": failures,
        "failure_kinds": tally.failed, "rps": round(tally.ok as f64 / wall), "connects": tally.connects,
        "bytes_per_response": per(tally.bytes), "latency_us": percentiles(&tally.latency),
    });
    if stream {
        out["events_per_response"] = json!(per(tally.events));
        out["deltas_per_response"] = json!(per(tally.deltas));
        out["events_per_s"] = json!(round(tally.events as f64 / wall));
        out["first_event_us"] = percentiles(&tally.first_event);
        out["first_delta_us"] = percentiles(&tally.first_delta);
        out["gap_us"] = percentiles(&tally.gap);
    }
    println!("{out}");
}

fn request_body(args: &Args, model: &str, stream: bool, direct: bool) -> Bytes {
    let mut body = match args.get("body-file") {
        Some(file) => {
            let text = std::fs::read_to_string(file).unwrap_or_else(|e| die(&format!("{file}: {e}")));
            serde_json::from_str(&text).unwrap_or_else(|e| die(&format!("{file}: {e}")))
        }
        None if direct => {
            json!({"messages": [{"role": "user", "content": "Tell me about the weather in Paris."}]})
        }
        None => json!({"input": "Tell me about the weather in Paris."}),
    };
    body["model"] = json!(model);
    body["stream"] = json!(stream);
    if direct && stream {
        body["stream_options"] = json!({"include_usage": true});
    }
    if let Some(store) = args.get("store") {
        body["store"] = json!(store == "true");
    }
    Bytes::from(body.to_string())
}
