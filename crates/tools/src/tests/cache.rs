//! Which results are used again, by whom and for how long.

use std::time::Duration;

use super::*;

fn counting(tools: Vec<ToolDefinition>) -> Arc<Script> {
    let count = AtomicUsize::new(0);
    Arc::new(
        Script::new("x", tools).answering(move |_| {
            Ok(ToolOutput::text(format!("call {}", count.fetch_add(1, Ordering::Relaxed))))
        }),
    )
}

#[tokio::test]
async fn only_what_changes_nothing_is_used_again_unless_the_operator_says_so() {
    let outside = || tool("get_weather").with_annotations(Annotations::READ_ONLY_OPEN_WORLD);
    let writes = Annotations { destructive: false, read_only: false, ..Annotations::READ_ONLY_OPEN_WORLD };
    let named = |name: &str, ttl: &str| json!({"cache": {"ttl": {name: ttl, "default": "1m"}}});
    let said = |name: &str, own: Value| json!({"overrides": {name: own}});
    let mut personal = lookup("mail");
    personal.requires_auth = true;
    for (definition, changes, cached) in [
        (lookup("t"), json!({}), true),
        (lookup("t"), json!({"cache": {"enabled": false}}), false),
        (lookup("t"), json!({"cache": {"ttl": {}}}), false),
        (lookup("t"), named("t", "0s"), false),
        (lookup("t"), said("t", json!({"cacheable": false})), false),
        (lookup("datetime"), json!({}), false),
        (lookup("datetime"), said("datetime", json!({"cacheable": true})), false),
        (outside(), json!({}), true),
        (outside(), named("other", "1m"), false),
        (
            outside(),
            json!({"cache": {"ttl": {"default": "1m"}}, "overrides": {"get_weather": {"cacheable": true}}}),
            true,
        ),
        (tool("t"), json!({}), false),
        (tool("t"), named("t", "1m"), false),
        (tool("t"), said("t", json!({"cacheable": true})), true),
        (tool("t").with_annotations(writes), named("t", "1m"), false),
        (personal, json!({}), true),
    ] {
        let name = definition.name.clone();
        let script = counting(vec![definition]);
        let toolbox = open(changes.clone(), &[&script]).await;
        let first = call(&toolbox, &name).await.unwrap();
        let second = call(&toolbox, &name).await.unwrap();
        assert_eq!((first.meta.cached, first.meta.attempts), (false, 1));
        assert_eq!(second.meta.cached, cached, "{name} {changes}");
        assert_eq!(second.meta.attempts, u32::from(!cached));
        assert_eq!(first.for_model == second.for_model, cached);
        assert_eq!(script.calls(), if cached { 1 } else { 2 });
    }
}

#[tokio::test]
async fn the_key_is_the_tenant_the_tool_and_what_the_arguments_mean() {
    let mut versioned = lookup("v").with_version("1");
    versioned.requires_auth = true;
    let script = counting(vec![lookup("t"), versioned]);
    let toolbox = open(json!({}), &[&script]).await;
    let mut seen = Vec::new();
    for (tool, arguments, tenant, principal, calls) in [
        ("t", r#"{"a":1,"b":[1,2]}"#, "acme", "ann", 1),
        ("t", "{ \"b\": [1, 2], \"a\": 1 }", "acme", "ann", 1),
        ("t", r#"{"a":1,"b":[1,2]}"#, "acme", "bob", 1),
        ("t", r#"{"a":1,"b":[2,1]}"#, "acme", "ann", 2),
        ("t", r#"{"a":"1","b":[1,2]}"#, "acme", "ann", 3),
        ("t", r#"{"a":1,"b":[1,2]}"#, "other", "ann", 4),
        ("v", r#"{"a":1,"b":[1,2]}"#, "acme", "ann", 5),
        ("v", r#"{"a":1,"b":[1,2]}"#, "acme", "bob", 6),
        ("v", r#"{"a":1,"b":[1,2]}"#, "acme", "ann", 6),
        ("t", "", "acme", "ann", 7),
        ("t", "{}", "acme", "ann", 7),
    ] {
        let output = call_with(&toolbox, tool, arguments, &Arc::new(of(tenant, principal))).await.unwrap();
        assert_eq!(script.calls(), calls, "{tool} {arguments} {tenant} {principal}: {seen:?}");
        seen.push(output.for_model);
    }
}

#[tokio::test]
async fn fields_do_not_run_into_each_other() {
    let script = counting(vec![lookup("t"), lookup("tt").with_version("x"), lookup("ttx")]);
    let toolbox = open(json!({"cache": {"ttl": {"default": "1m"}}}), &[&script]).await;
    for (tool, tenant) in [("t", "xt"), ("tt", "x"), ("ttx", "x"), ("t", "x"), ("t", "xx")] {
        let output = call_with(&toolbox, tool, "{}", &Arc::new(of(tenant, ""))).await.unwrap();
        assert!(!output.meta.cached, "{tool} {tenant}");
    }
}

#[tokio::test(start_paused = true)]
async fn results_are_forgotten_after_their_time_or_on_demand() {
    let script = counting(vec![lookup("t"), lookup("search")]);
    let toolbox = open(json!({}), &[&script]).await;
    let cached = async |name: &str| call(&toolbox, name).await.unwrap().meta.cached;
    assert!(!cached("t").await && !cached("search").await);
    tokio::time::advance(Duration::from_secs(59)).await;
    assert!(cached("t").await && cached("search").await);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(!cached("t").await && cached("search").await);
    tokio::time::advance(Duration::from_secs(240)).await;
    assert!(!cached("search").await && cached("search").await);
    toolbox.purge_cache(|_| true);
    assert!(!cached("search").await);
}

#[tokio::test]
async fn a_tenant_removes_its_own_results_alone() {
    let script = counting(vec![lookup("t")]);
    let toolbox = open(json!({}), &[&script]).await;
    let cached = async |tenant: &str| {
        let context = Arc::new(of(tenant, "ann"));
        call_with(&toolbox, "t", "{}", &context).await.unwrap().meta.cached
    };
    assert!(!cached("acme").await && !cached("other").await);
    toolbox.purge_cache(|tenant| tenant == "acme");
    assert!(!cached("acme").await && cached("other").await);
}

#[tokio::test]
async fn whoever_passes_the_cache_by_neither_reads_nor_writes() {
    let script = counting(vec![lookup("t")]);
    let toolbox = open(json!({}), &[&script]).await;
    let bypass = Arc::new(ToolContext { cache: CacheMode::Bypass, ..of("acme", "ann") });
    call_with(&toolbox, "t", "{}", &bypass).await.unwrap();
    assert!(!call(&toolbox, "t").await.unwrap().meta.cached);
    assert_eq!(call_with(&toolbox, "t", "{}", &bypass).await.unwrap().for_model, "call 2");
    assert_eq!(call(&toolbox, "t").await.unwrap().for_model, "call 1");
}

#[tokio::test]
async fn failures_are_not_used_again() {
    for answer in [|| Err(ToolError::failed("no")), || Ok(ToolOutput::error("no"))] {
        let script = Arc::new(Script::new("x", vec![lookup("t")]).answering(move |_| answer()));
        let toolbox = open(json!({"retry": {"max": 0}}), &[&script]).await;
        _ = (call(&toolbox, "t").await, call(&toolbox, "t").await);
        assert_eq!(script.calls(), 2);
    }
}
