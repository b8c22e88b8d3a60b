//! Results that are too large for the model, and how it reads on in them.

use super::*;

async fn large(changes: Value, text: &str) -> (Arc<ToolRegistry>, Arc<Script>) {
    let text = text.to_owned();
    let script = Script::new("x", vec![lookup("t")]).answering(move |_| {
        let structured = Some(json!(text));
        Ok(ToolOutput { structured, ..ToolOutput::text(text.clone()) })
    });
    let script = Arc::new(script);
    (open(changes, &[&script]).await, script)
}

/// The id that a note names.
fn id(text: &str) -> &str {
    let (_, rest) = text.split_once("\"id\":\"").unwrap();
    rest.split_once('"').unwrap().0
}

#[tokio::test]
async fn the_model_sees_head_and_tail_and_can_read_all_of_it() {
    let text: String = (0..2000).map(|line| format!("line {line} äöü 漢字\n")).collect();
    let (toolbox, _) = large(json!({"results": {"max_bytes": "1KiB"}}), &text).await;
    let output = call(&toolbox, "t").await.unwrap();
    assert!(output.meta.truncated && output.for_model.len() <= 1024, "{}", output.for_model.len());
    assert!(output.for_model.starts_with("line 0 äöü 漢字\nline 1 "));
    assert!(output.for_model.ends_with("\nline 1999 äöü 漢字\n"));
    let note = output.for_model.lines().find(|line| line.starts_with('[')).unwrap();
    assert!(note.contains(&format!("of {} bytes are left out", text.len())) && note.ends_with(']'), "{note}");
    assert!(output.structured.is_some());

    let (mut read, mut offset) = (String::new(), 0);
    while offset < text.len() {
        let arguments = json!({"id": id(&output.for_model), "offset": offset, "length": 5000}).to_string();
        let part = call_with(&toolbox, "read_tool_output", &arguments, &someone()).await.unwrap();
        assert!(!part.meta.truncated && !part.meta.cached);
        let (head, rest) = part.for_model.split_once('\n').unwrap();
        assert!(head.ends_with(&format!("of {}]", text.len())), "{head}");
        assert!(!rest.is_empty());
        read.push_str(rest);
        offset += rest.len();
    }
    assert_eq!(read, text);
}

#[tokio::test]
async fn only_the_same_caller_can_read_on() {
    let (toolbox, script) = large(json!({"results": {"max_bytes": "1KiB"}}), &"x".repeat(5000)).await;
    let (ann, bob) = (call(&toolbox, "t").await.unwrap(), Arc::new(of("acme", "bob")));
    let arguments = json!({"id": id(&ann.for_model)}).to_string();
    assert!(call_with(&toolbox, "read_tool_output", &arguments, &someone()).await.is_ok());
    for stranger in [of("acme", "bob"), of("other", "ann"), of("", "")] {
        let error =
            call_with(&toolbox, "read_tool_output", &arguments, &Arc::new(stranger)).await.unwrap_err();
        assert_eq!((error.code, error.stage), (ToolErrorCode::ToolExecutionFailed, FailureStage::Tool));
    }
    // A cached result of somebody else is cut anew, with an id that its new reader can use.
    let shared = call_with(&toolbox, "t", "{}", &bob).await.unwrap();
    assert!(shared.meta.cached && shared.meta.truncated && script.calls() == 1);
    let arguments = json!({"id": id(&shared.for_model)}).to_string();
    assert!(call_with(&toolbox, "read_tool_output", &arguments, &bob).await.is_ok());
}

#[tokio::test]
async fn what_is_too_large_to_be_kept_is_cut_and_said_to_be() {
    let limits = json!({"results": {"max_bytes": "1KiB", "max_stored_bytes": "2KiB"}});
    let (toolbox, _) = large(limits, &"ä".repeat(5000)).await;
    let output = call(&toolbox, "t").await.unwrap();
    assert!(output.for_model.contains("only the first 2048 bytes are kept"), "{}", output.for_model);
    assert!(output.structured.is_none());
    let read = async |arguments: Value| {
        call_with(&toolbox, "read_tool_output", &arguments.to_string(), &someone()).await
    };
    let id = id(&output.for_model);
    // In the middle of a letter: read from its beginning.
    let part = read(json!({"id": id, "offset": 2041, "length": 999})).await.unwrap();
    assert_eq!(part.for_model, format!("[bytes 2040 to 2048 of 2048]\n{}", "ä".repeat(4)));
    let error = read(json!({"id": id, "offset": 2048})).await.unwrap_err();
    assert_eq!(error.code, ToolErrorCode::InvalidArguments);
    assert!(read(json!({"id": id, "offset": -1})).await.is_err());
    assert!(read(json!({"id": "out_0"})).await.is_err());
}

#[tokio::test]
async fn where_nothing_is_kept_nothing_is_offered() {
    let limits = json!({"results": {"max_bytes": "1KiB", "store_bytes": 0}});
    let (toolbox, _) = large(limits, &"x".repeat(5000)).await;
    assert!(toolbox.catalog().get("read_tool_output").is_none());
    let output = call(&toolbox, "t").await.unwrap();
    assert!(output.for_model.contains("of 5000 bytes are left out here]\n"), "{}", output.for_model);
    assert!(output.meta.truncated);
}

#[tokio::test]
async fn who_may_not_read_on_is_not_told_to() {
    let limits = json!({"results": {"max_bytes": "1KiB"}, "allowed_tools": ["t"]});
    let (toolbox, _) = large(limits, &"x".repeat(5000)).await;
    let output = call(&toolbox, "t").await.unwrap();
    assert!(!output.for_model.contains("read_tool_output") && output.meta.truncated);
}

#[tokio::test]
async fn sizes_are_per_tool_and_what_fits_is_left_alone() {
    let text = "\u{0}\u{7}é".repeat(500);
    let own = json!({"overrides": {"t": {"max_result_bytes": "2KiB"}}, "results": {"max_bytes": 10}});
    let (toolbox, _) = large(own, &text).await;
    let output = call(&toolbox, "t").await.unwrap();
    assert_eq!((output.for_model, output.meta.truncated), (text.clone(), false));
    // Smaller than the note: only the note.
    let (toolbox, _) = large(json!({"results": {"max_bytes": 10}}), &text).await;
    let output = call(&toolbox, "t").await.unwrap();
    assert!(output.for_model.starts_with("\n[2000 of 2000 bytes"), "{}", output.for_model);
}
