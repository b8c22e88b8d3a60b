//! Results of direct tool calls, in the shape that the caller selects: over HTTP or on the command line.

use axum::Json;
use serde::Serialize;
use serde_json::{Value, json};

use antwort_tools::{ToolError, ToolErrorCode, ToolOutput};

/// The shape of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ResultView {
    /// antwort's own shape: all fields.
    #[default]
    Antwort,
    /// `{call_id, output, is_error, meta}`
    Call,
    /// `{id, success, data, error, meta}`
    Envelope,
    /// `{for_llm, for_user, silent, is_error, async, meta}`
    Audience,
    /// `{toolCallId, toolName, success, result, error, metadata}`
    Provider,
}

impl ResultView {
    pub(super) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "antwort" => Self::Antwort,
            "call" => Self::Call,
            "envelope" => Self::Envelope,
            "audience" => Self::Audience,
            "provider" => Self::Provider,
            _ => return None,
        })
    }
}

/// The result as JSON. A failed tool call is a successful request (200).
pub(crate) fn render(
    view: ResultView,
    call_id: &str,
    name: &str,
    outcome: Result<ToolOutput, ToolError>,
) -> Json<Value> {
    let (output, code) = match outcome {
        Ok(output) => {
            let code = output.is_error.then_some(ToolErrorCode::ToolExecutionFailed);
            (output, code)
        }
        Err(error) => {
            tracing::info!(tool = name, code = error.code.as_str(), "a tool call outside a response failed");
            let meta = error.meta.map(|meta| *meta).unwrap_or_default();
            (ToolOutput { meta, ..ToolOutput::error(error.message) }, Some(error.code))
        }
    };
    let success = code.is_none();
    let data = || output.structured.clone().unwrap_or_else(|| output.for_model.clone().into());
    let (result, error) =
        if success { (data(), Value::Null) } else { (Value::Null, output.for_model.clone().into()) };
    let shown = output.for_user.as_ref().filter(|_| !output.silent);
    Json(match view {
        ResultView::Antwort => json!(Whole {
            object: "tool.result",
            name,
            output: &output.for_model,
            is_error: !success,
            code: code.map(ToolErrorCode::as_str),
            structured: output.structured.as_ref(),
            for_user: shown.map(String::as_str),
            citations: &output.citations,
            meta: &output.meta,
        }),
        ResultView::Call => {
            json!({ "call_id": call_id, "output": output.for_model, "is_error": !success, "meta": output.meta })
        }
        ResultView::Envelope => {
            json!({ "id": call_id, "success": success, "data": result, "error": error, "meta": output.meta })
        }
        ResultView::Audience => json!({
            "for_llm": output.for_model, "for_user": output.for_user, "silent": output.silent,
            "is_error": !success, "async": output.is_async, "meta": output.meta
        }),
        ResultView::Provider => json!({
            "toolCallId": call_id, "toolName": name, "success": success, "result": result, "error": error,
            "metadata": {
                "executionTime": output.meta.duration_ms, "cached": output.meta.cached,
                "provider": output.meta.executor, "attempts": output.meta.attempts,
                "fallbackFrom": output.meta.fallback_from
            }
        }),
    })
}

#[derive(Serialize)]
struct Whole<'a> {
    object: &'static str,
    name: &'a str,
    output: &'a str,
    is_error: bool,
    code: Option<&'static str>,
    structured: Option<&'a Value>,
    for_user: Option<&'a str>,
    citations: &'a [antwort_tools::Citation],
    meta: &'a antwort_tools::OutputMeta,
}
