//! What becomes of each field of the API inside the objects of a request: one table, which requests are checked against
//! and `docs/compatibility.md` shows.
//!
//! A field that is refused asks for something that would not happen. Values that mean the default are accepted, as clients
//! send them along. A whole object that is refused or only carried has no fields here.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::value::RawValue;

use crate::parse;

/// A kind of object in requests.
#[derive(Debug)]
pub struct RequestObject {
    /// Where it stands; for one with a `type`, followed by its types.
    pub name: &'static str,
    /// Fields that have their effect.
    pub honoured: &'static [&'static str],
    /// Fields that are accepted and have none.
    pub no_ops: &'static [&'static str],
    /// Fields that are refused.
    pub refused: &'static [RefusedField],
    /// What becomes of the object as a whole, if its fields are not looked at.
    pub whole: Option<&'static str>,
}

/// A field that is refused.
#[derive(Debug)]
pub struct RefusedField {
    /// The field.
    pub name: &'static str,
    /// Its values that mean the same as its absence, besides null.
    pub default: DefaultValue,
    /// A value that is refused, as JSON.
    pub example: &'static str,
    /// The reason.
    pub why: &'static str,
    /// Whether its object has a meaning without it, so that it may be ignored.
    pub(crate) is_optional: bool,
}

/// Values that mean the same as an absent field.
#[derive(Debug)]
pub enum DefaultValue {
    /// None.
    Nothing,
    /// This JSON.
    Value(&'static str),
    /// A list with this text.
    ListWith(&'static str),
}

impl DefaultValue {
    /// Whether a value means the same as an absent field.
    fn admits(&self, raw: &RawValue) -> bool {
        parse::is_null(raw)
            || match self {
                Self::Nothing => false,
                Self::Value(json) => raw.get() == *json,
                Self::ListWith(text) => serde_json::from_str::<Vec<String>>(raw.get())
                    .is_ok_and(|list| list.iter().any(|one| one == text)),
            }
    }
}

/// What the table says of a field.
pub(super) enum FieldUse {
    /// It has its effect, or none that anybody would miss.
    Accepted,
    /// It is refused.
    Refused(&'static RefusedField),
    /// The API has no such field.
    Unknown,
}

impl RequestObject {
    /// What becomes of a field with this value.
    pub(super) fn use_of(&self, field: &str, raw: &RawValue) -> FieldUse {
        if let Some(refused) = self.refused.iter().find(|refused| refused.name == field) {
            return match refused.default.admits(raw) {
                true => FieldUse::Accepted,
                false => FieldUse::Refused(refused),
            };
        }
        match self.honoured.contains(&field) || self.no_ops.contains(&field) {
            true => FieldUse::Accepted,
            false => FieldUse::Unknown,
        }
    }

    /// The object of this name.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        REQUEST_OBJECTS.iter().find(|object| object.name == name)
    }

    /// A tool of this type whose fields are looked at.
    pub(super) fn tool(kind: &str) -> Option<&'static Self> {
        static BY_TYPE: LazyLock<HashMap<&'static str, &'static RequestObject>> = LazyLock::new(|| {
            let looked_at = REQUEST_OBJECTS.iter().filter(|object| object.whole.is_none());
            let tools = looked_at.filter_map(|object| Some((object.name.strip_prefix("tools[] ")?, object)));
            tools.flat_map(|(types, object)| types.split(", ").map(move |name| (name, object))).collect()
        });
        BY_TYPE.get(kind).copied()
    }
}

/// Why fields of requests are refused that the API has and [`super::FIELDS`] has not.
pub(super) fn refused_request_field(name: &str) -> Option<&'static str> {
    let refused = RequestObject::named("request")?.refused.iter().find(|field| field.name == name)?;
    Some(refused.why)
}

const NO_ASYNC: RefusedField = RefusedField {
    name: "async",
    default: DefaultValue::Value("false"),
    example: "true",
    why: "calls whose outputs may come later are not supported: every call needs its output.",
    is_optional: true,
};
const NO_DEFERRING: RefusedField = RefusedField {
    name: "defer_loading",
    default: DefaultValue::Value("false"),
    example: "true",
    why: "tool search is not supported: the model sees all tools.",
    is_optional: true,
};
const NO_PROGRAMS: RefusedField = RefusedField {
    name: "allowed_callers",
    default: DefaultValue::ListWith("direct"),
    example: r#"["programmatic"]"#,
    why: "programs that call tools are not supported: the model alone calls them ('direct').",
    is_optional: true,
};
const NO_RESULT_SCHEMAS: RefusedField = RefusedField {
    name: "output_schema",
    default: DefaultValue::Nothing,
    example: r#"{"type": "object"}"#,
    why: "the model is not told the schema of results, and outputs are not checked against it.",
    is_optional: true,
};

const fn refused(name: &'static str, example: &'static str, why: &'static str) -> RefusedField {
    RefusedField { name, default: DefaultValue::Nothing, example, why, is_optional: true }
}

/// A field that is what its object is about.
const fn refused_always(name: &'static str, example: &'static str, why: &'static str) -> RefusedField {
    RefusedField { is_optional: false, ..refused(name, example, why) }
}

const fn honoured(name: &'static str, honoured: &'static [&'static str]) -> RequestObject {
    RequestObject { name, honoured, no_ops: &[], refused: &[], whole: None }
}

const fn whole(name: &'static str, what: &'static str) -> RequestObject {
    RequestObject { name, honoured: &[], no_ops: &[], refused: &[], whole: Some(what) }
}

const UNSERVED: &str = "refused or left out, as `compat.unserved_tools` says";
const CARRIED: &str = "accepted as history";

/// All of them.
pub const REQUEST_OBJECTS: &[RequestObject] = &[
    RequestObject {
        name: "request",
        honoured: &[],
        no_ops: &[],
        refused: &[
            refused("access_programs", r#"{"cyber": true}"#, "access programs are OpenAI's own."),
            refused(
                "background_options",
                r#"{"completion_window": "24h"}"#,
                "background runs have no options.",
            ),
            refused("image", r#"{"context_compression": "auto"}"#, "pictures are sent as they are."),
        ],
        whole: Some("see [request fields](#request-fields)"),
    },
    honoured("reasoning", &["effort", "summary", "generate_summary", "mode", "context"]),
    honoured("text", &["format", "verbosity"]),
    honoured("text.format text", &["type"]),
    honoured("text.format json_object", &["type"]),
    honoured("text.format json_schema", &["type", "name", "schema", "description", "strict"]),
    honoured("stream_options", &["include_obfuscation"]),
    honoured("conversation", &["id"]),
    honoured("context_management[]", &["type", "compact_threshold"]),
    RequestObject {
        name: "prompt",
        honoured: &["id", "variables"],
        no_ops: &[],
        refused: &[refused("version", r#""1""#, "agent profiles have no versions.")],
        whole: None,
    },
    RequestObject {
        name: "prompt_cache_options",
        honoured: &[],
        no_ops: &["mode", "ttl", "comparison_response_id"],
        refused: &[RefusedField {
            name: "prewarm",
            default: DefaultValue::Value("false"),
            example: "true",
            why: "a request that only fills a cache is not supported: the answer would be generated.",
            is_optional: true,
        }],
        whole: None,
    },
    whole("access_programs", "refused"),
    whole("background_options", "refused"),
    whole("image", "refused"),
    whole("moderation", "refused"),
    honoured("tool_choice allowed_tools", &["type", "mode", "tools"]),
    honoured("tool_choice function, custom", &["type", "name"]),
    honoured("tool_choice mcp", &["type", "server_label", "name"]),
    honoured(
        "tool_choice file_search, web_search_preview, computer, computer_use_preview, computer_use, \
         web_search_preview_2025_03_11, image_generation, code_interpreter, programmatic_tool_calling, apply_patch, shell",
        &["type"],
    ),
    RequestObject {
        name: "tools[] function",
        // `function`: the fields of the chat API's form.
        honoured: &["type", "name", "description", "parameters", "strict", "function"],
        no_ops: &[],
        refused: &[NO_ASYNC, NO_DEFERRING, NO_PROGRAMS, NO_RESULT_SCHEMAS],
        whole: None,
    },
    RequestObject {
        name: "tools[] custom",
        honoured: &["type", "name", "description", "format"],
        no_ops: &[],
        refused: &[NO_ASYNC, NO_DEFERRING, NO_PROGRAMS],
        whole: None,
    },
    honoured("tools[] namespace", &["type", "name", "description", "tools"]),
    RequestObject {
        name: "tools[] mcp",
        honoured: &[
            "type",
            "server_label",
            "server_url",
            "authorization",
            "headers",
            "server_description",
            "allowed_tools",
            "require_approval",
        ],
        no_ops: &[],
        refused: &[
            NO_DEFERRING,
            NO_PROGRAMS,
            refused_always("connector_id", r#""connector_dropbox""#, "connectors are OpenAI's own."),
            refused_always("tunnel_id", r#""tunnel_1""#, "tunnels are OpenAI's own."),
        ],
        whole: None,
    },
    honoured(
        "tools[] web_search, web_search_2025_08_26",
        &[
            "type",
            "external_web_access",
            "filters",
            "search_context_size",
            "user_location",
            "search_content_types",
        ],
    ),
    honoured(
        "tools[] web_search_preview, web_search_preview_2025_03_11",
        &["type", "search_content_types", "search_context_size", "user_location"],
    ),
    whole(
        "tools[] file_search, computer, computer_use_preview, code_interpreter, programmatic_tool_calling, \
         image_generation, local_shell, shell, tool_search, apply_patch",
        UNSERVED,
    ),
    honoured("input[] message", &["type", "id", "status", "role", "content", "phase"]),
    RequestObject {
        name: "input[] function_call, custom_tool_call",
        honoured: &["type", "id", "status", "call_id", "name", "namespace", "arguments", "input"],
        no_ops: &["async", "caller"],
        refused: &[],
        whole: None,
    },
    RequestObject {
        name: "input[] function_call_output, custom_tool_call_output",
        honoured: &["type", "id", "status", "call_id", "output", "name", "namespace"],
        no_ops: &["caller"],
        refused: &[],
        whole: None,
    },
    RequestObject {
        name: "input[] reasoning",
        honoured: &["type", "id", "summary", "content", "encrypted_content"],
        no_ops: &["status"],
        refused: &[],
        whole: None,
    },
    honoured("input[] item_reference", &["type", "id"]),
    honoured("input[] compaction", &["type", "id", "encrypted_content"]),
    honoured("input[] compaction_trigger", &["type", "id"]),
    honoured("input[] additional_tools", &["type", "id", "role", "tools"]),
    honoured("input[] web_search_call", &["type", "id", "status", "action"]),
    honoured("input[] mcp_list_tools", &["type", "id", "server_label", "tools", "error"]),
    honoured("input[] mcp_approval_request", &["type", "id", "server_label", "name", "arguments"]),
    honoured("input[] mcp_approval_response", &["type", "id", "approval_request_id", "approve", "reason"]),
    honoured(
        "input[] mcp_call",
        &[
            "type",
            "id",
            "status",
            "server_label",
            "name",
            "arguments",
            "output",
            "error",
            "approval_request_id",
        ],
    ),
    whole(
        "input[] file_search_call, computer_call, computer_call_output, code_interpreter_call, image_generation_call, \
         local_shell_call, local_shell_call_output, shell_call, shell_call_output, apply_patch_call, \
         apply_patch_call_output, tool_search_call, tool_search_output, program, program_output",
        CARRIED,
    ),
    whole(
        "input[] configuration_update, agent_message, multi_agent_call, multi_agent_call_output",
        "refused",
    ),
    RequestObject {
        name: "content[] input_text",
        honoured: &["type", "text"],
        no_ops: &["prompt_cache_breakpoint"],
        refused: &[],
        whole: None,
    },
    RequestObject {
        name: "content[] input_image",
        honoured: &["type", "image_url", "detail"],
        no_ops: &["prompt_cache_breakpoint"],
        refused: &[refused("file_id", r#""file-1""#, "uploaded files are not supported.")],
        whole: None,
    },
    RequestObject {
        name: "content[] input_file",
        honoured: &["type", "file_data", "filename"],
        no_ops: &["detail", "prompt_cache_breakpoint"],
        refused: &[
            refused("file_id", r#""file-1""#, "uploaded files are not supported."),
            refused("file_url", r#""https://example.com/a.pdf""#, "chat completions take no URLs of files."),
        ],
        whole: None,
    },
    honoured("content[] output_text", &["type", "text", "annotations", "logprobs"]),
    honoured("content[] refusal", &["type", "refusal"]),
];
