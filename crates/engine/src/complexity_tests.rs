//! Work grows with what a request lists, and not with its square: what n entries cost is held against what 2n cost.
//!
//! Three things are counted, and no time. Comparisons of tools' names, wherever they are made. Looks at an item for the
//! id of its call, which is how items find each other. Allocations with their bytes, on this thread. A loop over pairs
//! that does none of the three would not be seen.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::context::OnUnservedTool;
use super::tools::offered::{self, ServerTools};
use super::truncate::{self, ContextBudget};
use super::{call_items, history, states};
use antwort_config::ToolsSettings;
use antwort_mcp::CallerCatalog;
use antwort_protocol::item::{InputItem, Item};
use antwort_protocol::request::{CreateResponse, RequestSizeLimits};
use antwort_protocol::tool_choice::{AllowedMode, ToolChoice, ToolRef};
use antwort_response::turn::tool_name::comparisons;
use antwort_response::turn::{HistoryItem, ProviderState, StatePosition, ToolName};
use antwort_telemetry::metrics::Metrics;
use antwort_tools::{PolicySubject, ToolRegistry};

thread_local! {
    static LOOKS: Cell<u64> = const { Cell::new(0) };
}

/// Says that an item was looked at for the id of its call.
pub(super) fn look() {
    LOOKS.with(|looks| looks.set(looks.get() + 1));
}

/// What something cost.
#[derive(Debug)]
struct Work {
    comparisons: u64,
    looks: u64,
    allocations: u64,
    bytes: u64,
}

fn work(run: impl FnOnce()) -> Work {
    let before = (comparisons(), LOOKS.with(Cell::get));
    let allocated = allocation_counter::measure(run);
    Work {
        comparisons: comparisons() - before.0,
        looks: LOOKS.with(Cell::get) - before.1,
        allocations: allocated.count_total,
        bytes: allocated.bytes_total,
    }
}

/// Holds what 2n entries cost against what n cost.
fn grows(what: &str, n: usize, run: impl Fn(usize) -> Work) -> Result<(), TestCaseError> {
    let (once, twice) = (run(n), run(2 * n));
    for (counted, once_, twice_) in [
        ("comparisons", once.comparisons, twice.comparisons),
        ("looks", once.looks, twice.looks),
        ("allocations", once.allocations, twice.allocations),
        ("bytes", once.bytes, twice.bytes),
    ] {
        prop_assert!(twice_ * 2 <= once_ * 5, "{what}, {n}: {counted} of {once:?} and {twice:?}");
    }
    Ok(())
}

fn unlimited() -> RequestSizeLimits {
    RequestSizeLimits {
        max_tools: usize::MAX,
        max_allowed_tools: usize::MAX,
        max_input_items: usize::MAX,
        max_content_parts: usize::MAX,
        max_item_references: usize::MAX,
        max_schema_patterns: usize::MAX,
        ..RequestSizeLimits::default()
    }
}

fn parsed(body: &str) -> Box<CreateResponse> {
    CreateResponse::parse_with_limits(body.as_bytes(), unlimited()).unwrap_or_else(|error| panic!("{error}"))
}

fn list(n: usize, entry: impl Fn(usize) -> Value) -> Value {
    (0..n).map(entry).collect()
}

fn function(n: usize) -> Value {
    json!({"type": "function", "name": format!("f{n}"), "parameters": {}})
}

fn space(name: &str, tools: &Value) -> Value {
    json!({"type": "namespace", "name": name, "description": "", "tools": tools})
}

/// Each list of a request, as a body with so many entries in it.
fn body(which: usize, n: usize) -> (&'static str, Value) {
    let text = |n: usize| json!({"type": "input_text", "text": format!("{n}")});
    let with = |field: &str, value: Value| {
        let mut body = json!({"model": "m", "input": "x"});
        body[field] = value;
        body
    };
    let names = || list(n, |n| json!(format!("f{n}")));
    match which {
        0 => ("items", with("input", list(n, |_| json!({"role": "user", "content": "x"})))),
        1 => ("parts", with("input", json!([{"role": "user", "content": list(n, text)}]))),
        2 => (
            "parts of outputs",
            with("input", json!([{"type": "function_call_output", "call_id": "c", "output": list(n, text)}])),
        ),
        3 => ("references", with("input", list(n, |n| json!({"id": format!("msg_{n}")})))),
        4 => ("tools", with("tools", list(n, function))),
        5 => ("tools of a namespace", with("tools", json!([space("n", &list(n, function))]))),
        6 => (
            "namespaces",
            with("tools", list(n, |n| space(&format!("n{n}"), &json!([{"type": "function", "name": "f"}])))),
        ),
        7 => (
            "tools of an item",
            with("input", json!([{"type": "additional_tools", "tools": list(n, function)}])),
        ),
        8 => ("names of allowed tools", with("allowed_tools", names())),
        9 => (
            "names of a server's tools",
            with("tools", json!([{"type": "mcp", "server_label": "s", "allowed_tools": names()}])),
        ),
        10 => (
            "patterns",
            with(
                "tools",
                json!([{"type": "function", "name": "f", "parameters": {"patternProperties":
                (0..n).map(|n| (format!("a{n}"), json!({}))).collect::<serde_json::Map<_, _>>()}}]),
            ),
        ),
        _ => (
            "calls",
            with(
                "input",
                list(n, |n| {
                    json!({"type": "function_call", "call_id": format!("c{n}"), "name": "f",
                "arguments": "{}"})
                }),
            ),
        ),
    }
}

fn toolbox() -> &'static Arc<ToolRegistry> {
    static TOOLBOX: OnceLock<Arc<ToolRegistry>> = OnceLock::new();
    TOOLBOX.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (settings, agents, metrics) = (ToolsSettings::default(), BTreeMap::new(), Metrics::new());
        let open = ToolRegistry::open(&settings, &agents, Vec::new(), metrics);
        runtime.block_on(open).unwrap_or_else(|error| panic!("{error}"))
    })
}

/// What it costs to offer the tools of a request, and to check what it says of them.
fn offering(request: &CreateResponse, input: &[Item]) -> Work {
    let own = CallerCatalog::without_servers(toolbox().catalog());
    let server = ServerTools {
        toolbox: toolbox(),
        catalog: &own,
        subject: PolicySubject { tenant: "default", agent: None },
        presentation: None,
        unserved: OnUnservedTool::Refuse,
    };
    work(|| {
        let offer = offered::collect_tools(request, input, &[], &server, &[], false);
        assert!(offer.is_ok(), "{:?}", offer.err().map(|error| error.body.message));
    })
}

fn items(body: &Value) -> Vec<Item> {
    let items = parsed(&body.to_string()).input.into_iter();
    items.filter_map(|item| if let InputItem::Item(item) = item { Some(item) } else { None }).collect()
}

/// So many calls, and then their outputs.
fn calls(n: usize) -> Vec<Item> {
    let call = |n: usize| json!({"type": "function_call", "call_id": format!("c{n}"), "name": "f", "arguments": "{}"});
    let output =
        |n: usize| json!({"type": "function_call_output", "call_id": format!("c{n}"), "output": "x"});
    let list: Value = (0..n).map(call).chain((0..n).map(output)).collect();
    items(&json!({"model": "m", "input": list}))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn reading_a_list_costs_what_it_is_long(which in 0_usize..12, n in 128_usize..600) {
        let (what, _) = body(which, 1);
        grows(what, n, |n| {
            let body = body(which, n).1.to_string();
            work(|| drop(parsed(&body)))
        })?;
    }

    #[test]
    fn offering_tools_costs_what_they_are_many(n in 128_usize..600) {
        for which in [4, 5, 6] {
            grows(body(which, 1).0, n, |n| offering(&parsed(&body(which, n).1.to_string()), &[]))?;
        }
        grows("tools of an item", n, |n| {
            let body = body(7, n).1;
            offering(&parsed(&body.to_string()), &items(&body))
        })?;
    }

    #[test]
    fn choosing_among_tools_costs_what_they_and_the_names_are_many(n in 128_usize..600) {
        grows("names of allowed tools", n, |n| {
            let mut request = parsed(&body(4, n).1.to_string());
            request.allowed_tools = (0..n).map(|n| format!("f{n}")).collect();
            offering(&request, &[])
        })?;
        grows("names of tools in a choice", n, |n| {
            let mut request = parsed(&body(4, n).1.to_string());
            let tools = (0..n).map(|n| ToolRef::Function { name: format!("f{n}") }).collect();
            request.tool_choice = ToolChoice::Allowed { mode: AllowedMode::Auto, tools };
            offering(&request, &[])
        })?;
        // All of one name, and asked for as often.
        grows("one name in many namespaces", n, |n| {
            let mut request = parsed(&body(6, n).1.to_string());
            request.allowed_tools = (0..n).map(|_| "f".to_owned()).collect();
            offering(&request, &[])
        })?;
    }

    #[test]
    fn finding_what_belongs_to_calls_costs_what_they_are_many(n in 128_usize..600) {
        grows("pairs", n, |n| {
            let calls = calls(n);
            work(|| history::check_pairs((&[], ""), &calls).unwrap_or_else(|error| panic!("{error}")))
        })?;
        grows("calls that make way", n, |n| {
            let mut conversation: Vec<HistoryItem> = calls(n).into_iter().map(HistoryItem::from).collect();
            let budget = ContextBudget { window: 16, answer: 0, fixed: 0 };
            work(|| assert!(truncate::drop_oldest(&mut conversation, &budget, (1, 1)) > n))
        })?;
        grows("state that came behind an answer", n, |n| {
            let thought = |_| json!({"type": "reasoning", "summary": []});
            let thoughts = items(&json!({"model": "m", "input": list(n, thought)}));
            let mut conversation: Vec<HistoryItem> = thoughts.into_iter().map(HistoryItem::from).collect();
            for context in &mut conversation {
                context.state = Some(ProviderState { place: StatePosition::After, ..ProviderState::default() });
            }
            work(|| states::attach_states(&mut conversation))
        })?;
    }
}

/// As tools were named, and as the partners of items were looked for, before there was an index of either.
#[test]
fn what_goes_by_pairs_is_seen() {
    let named = |n: usize| {
        let names: Vec<ToolName> = (0..n).map(|n| format!("f{n}").into()).collect();
        work(|| {
            let mut given: Vec<&ToolName> = Vec::with_capacity(n);
            for name in &names {
                assert!(!given.iter().any(|other| **other == *name));
                given.push(name);
            }
        })
    };
    assert!(grows("names", 128, named).is_err());
    let paired = |n: usize| {
        let calls = calls(n);
        work(|| {
            for call in &calls {
                let id = call_items::call_id(call);
                let partners = calls.iter().filter(|other| call_items::call_id(other) == id);
                assert!(partners.count() > 0);
            }
        })
    };
    assert!(grows("partners", 128, paired).is_err());
}
