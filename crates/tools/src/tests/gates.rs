//! What is refused before a tool hears of it: policy, arguments, limits.

use super::*;

#[tokio::test]
async fn lists_and_capabilities_decide() {
    let tools = vec![
        tool("read_file").with_tag("fs"),
        tool("fetch").with_tag("net"),
        tool("db_read"),
        tool("db_write"),
        tool("calc"),
    ];
    let agents = json!({"reader": {"allowed_tools": ["*_read", "calc"]}, "mute": {"allowed_tools": []}});
    let tenants = json!({"acme": {"blocked_tools": ["db_w*"]}, "idle": {"allowed_tools": []}});
    let all = ["calc", "db_read", "db_write", "fetch", "read_file"];
    for (changes, tenant, agent, may) in [
        (json!({}), "x", None, vec!["calc", "db_read", "db_write", "fetch"]),
        (json!({"allow_file_access": true}), "x", None, all.to_vec()),
        (json!({"allow_network_access": false}), "x", None, vec!["calc", "db_read", "db_write"]),
        (json!({"allowed_tools": ["read_file"]}), "x", None, vec![]),
        (json!({"allowed_tools": []}), "x", None, vec![]),
        (json!({"allowed_tools": ["db_*"], "blocked_tools": ["*_write"]}), "x", None, vec!["db_read"]),
        (json!({"allowed_tools": ["calc"], "blocked_tools": ["calc"]}), "x", None, vec![]),
        (json!({"blocked_tools": ["{calc,fetch}"]}), "x", None, vec!["db_read", "db_write"]),
        (json!({"tenants": tenants}), "acme", None, vec!["calc", "db_read", "fetch"]),
        (json!({"tenants": tenants}), "idle", None, vec![]),
        (json!({"tenants": tenants}), "x", None, vec!["calc", "db_read", "db_write", "fetch"]),
        (json!({}), "x", Some("reader"), vec!["calc", "db_read"]),
        (json!({"blocked_tools": ["calc"]}), "x", Some("reader"), vec!["db_read"]),
        (json!({}), "x", Some("mute"), vec![]),
    ] {
        let script = Arc::new(Script::new("x", tools.clone()));
        let executors = vec![Arc::clone(&script) as Arc<dyn ToolExecutor>];
        let metrics = Metrics::new();
        let agents = with_agents(agents.clone());
        let toolbox =
            ToolRegistry::open(&settings(changes.clone()), &agents, executors, metrics).await.unwrap();
        let context = Arc::new(ToolContext { agent: agent.map(Into::into), ..of(tenant, "ann") });
        let mut admitted = Vec::new();
        for name in all {
            let catalog = toolbox.catalog();
            let subject = PolicySubject { tenant, agent };
            let admits = toolbox.check_access(subject, catalog.get(name).unwrap().definition());
            let called = call_with(&toolbox, name, "{}", &context).await;
            assert_eq!(admits.is_ok(), called.is_ok(), "{name} under {changes}");
            match called {
                Ok(_) => admitted.push(name),
                Err(error) => {
                    assert_eq!(
                        (error.code, error.stage),
                        (ToolErrorCode::AccessDenied, FailureStage::NotSent)
                    );
                }
            }
        }
        assert_eq!(admitted, may, "{changes} {tenant} {agent:?}");
        assert_eq!(script.calls(), may.len(), "what is denied is not run");
    }
}

#[tokio::test]
async fn a_servers_tool_does_not_pass_a_list_meant_for_the_gateways_own() {
    let own = tool("calculate");
    let foreign = ToolDefinition { server: Some("docs".into()), ..own.clone() };
    for (changes, passes) in [
        (json!({}), (true, true)),
        (json!({"allowed_tools": ["calculate", "docs"]}), (true, false)),
        (json!({"allowed_tools": ["docs__calculate"]}), (false, true)),
        (json!({"allowed_tools": ["docs__*"]}), (false, true)),
        (json!({"allowed_tools": ["*"], "blocked_tools": ["docs__*"]}), (true, false)),
        (json!({"blocked_tools": ["calc*"]}), (false, false)),
        (json!({"tenants": {"x": {"allowed_tools": ["calculate"]}}}), (true, false)),
    ] {
        let toolbox = open(changes.clone(), &[]).await;
        let may = |tool| toolbox.check_access(PolicySubject { tenant: "x", agent: None }, tool).is_ok();
        assert_eq!((may(&own), may(&foreign)), passes, "{changes}");
    }
}

#[tokio::test]
async fn a_pattern_that_is_none_stops_the_start() {
    for (changes, place) in [
        (json!({"allowed_tools": ["[a"]}), "tools.allowed_tools: "),
        (json!({"tenants": {"t": {"blocked_tools": ["{a"]}}}), "tools.tenants.t.blocked_tools: "),
    ] {
        let error = try_open(changes, &[]).await.err().unwrap().to_string();
        assert!(error.starts_with(place), "{error}");
    }
}

#[tokio::test]
async fn arguments_are_an_object_by_the_schema_or_the_model_is_told_what_is_wrong() {
    let schema = json!({
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "maximum": 7}},
        "required": ["city"],
        "additionalProperties": false,
    });
    let strict = ToolDefinition::new("strict", "", &schema);
    let script = Arc::new(
        Script::new("x", vec![strict, tool("any")])
            .answering(|call| Ok(ToolOutput::value(Value::Object(call.arguments.clone())))),
    );
    let toolbox = open(json!({}), &[&script]).await;
    for (name, raw, result) in [
        ("strict", r#"{"city":"Rome","days":2}"#, Ok(r#"{"city":"Rome","days":2}"#)),
        ("any", "", Ok("{}")),
        ("any", " \n", Ok("{}")),
        ("any", " {\"a\": 1} ", Ok(r#"{"a":1}"#)),
        ("any", "[1]", Err("must be a JSON object, not an array")),
        ("any", "null", Err("not null")),
        ("any", "{\"a\":", Err("not JSON")),
        ("any", "{} {}", Err("not JSON")),
        ("strict", "", Err("\"city\" is a required property")),
        ("strict", r#"{"city":7}"#, Err("/city: 7 is not of type \"string\"")),
        ("strict", r#"{"city":"Rome","days":8}"#, Err("/days: ")),
        ("strict", r#"{"city":"Rome","wind":true}"#, Err("'wind' was unexpected")),
    ] {
        let called = call_with(&toolbox, name, raw, &someone()).await;
        match (called, result) {
            (Ok(output), Ok(expected)) => assert_eq!(output.for_model, expected, "{raw}"),
            (Err(error), Err(part)) => {
                assert_eq!(
                    (error.code, error.stage),
                    (ToolErrorCode::InvalidArguments, FailureStage::NotSent),
                    "{raw}"
                );
                assert!(error.message.contains(part), "{raw}: {}", error.message);
            }
            (called, _) => panic!("{raw}: {called:?}"),
        }
    }
    let deep = format!("{{\"a\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(call_with(&toolbox, "any", &deep, &someone()).await.is_err());
    let long = format!(r#"{{"city":["{}"]}}"#, "x".repeat(100_000));
    let error = call_with(&toolbox, "strict", &long, &someone()).await.unwrap_err();
    assert!(error.message.len() < 1000, "{}", error.message.len());
}

#[tokio::test]
async fn calls_are_counted_in_the_order_in_which_they_are_made() {
    let script =
        Arc::new(Script::new("x", vec![tool("t")]).answering(|call| Ok(ToolOutput::text(call.raw.clone()))));
    let toolbox = open(json!({}), &[&script]).await;
    let context = Arc::new(ToolContext { budget: Arc::new(CallBudget::new(2)), ..of("acme", "ann") });
    let catalog = toolbox.catalog();
    let tool = catalog.get("t").unwrap();
    let made: Vec<_> = (0..4)
        .map(|i| {
            let call = ToolCall::direct("t", format!("{{\"i\":{i}}}"));
            tool.call(call, Arc::clone(&context), Progress::none())
        })
        .collect();
    // Run the other way round.
    let mut results = Vec::new();
    for future in made.into_iter().rev() {
        results.push(future.await);
    }
    results.reverse();
    for (i, result) in results.into_iter().enumerate() {
        match result {
            Ok(output) => assert_eq!((i < 2, output.for_model), (true, format!("{{\"i\":{i}}}"))),
            Err(error) => {
                assert!(i >= 2);
                assert_eq!(error.code, ToolErrorCode::ToolCallLimit);
                assert_eq!(error.message, "skipped: the limit of tool calls is reached");
            }
        }
    }
    assert_eq!(context.budget.remaining(), 0);
}

#[tokio::test]
async fn a_tool_has_a_limit_of_its_own_in_each_run() {
    let script = Arc::new(Script::new("x", vec![tool("rare"), tool("often"), tool("never")]));
    let limits = json!({"overrides": {"rare": {"max_calls": 1}, "never": {"max_calls": 0}}});
    let toolbox = open(limits, &[&script]).await;
    let run = || Arc::new(ToolContext { budget: Arc::new(CallBudget::new(3)), ..of("acme", "ann") });
    let (one, other) = (run(), run());
    for (name, context, may) in [
        ("never", &one, false),
        ("rare", &one, true),
        ("rare", &one, false),
        ("rare", &other, true),
        ("often", &one, true),
        // Refused calls have cost the run nothing, and neither have bad arguments.
        ("often", &one, true),
        ("often", &one, false),
    ] {
        _ = call_with(&toolbox, name, "[]", context).await;
        let called = call_with(&toolbox, name, "{}", context).await;
        assert_eq!(called.is_ok(), may, "{name}");
    }
    assert_eq!((one.budget.remaining(), other.budget.remaining()), (0, 2));
}
