//! The types of the items that are only carried.

use super::shape::Shape::{Any, List, Map, Number, Object, Text, Tools, Whole};
use super::shape::{Field, Shape};

/// A type of item.
pub(in crate::item) struct OpaqueKind {
    /// The type, in the plain spelling.
    pub name: &'static str,
    /// The prefix of an id that the gateway gives it.
    pub id_prefix: &'static str,
    /// Whether OpenAI's API has a status for such items.
    pub has_status: bool,
    /// The fields that are checked, besides the type, the id and the status.
    pub fields: &'static [Field],
}

/// The kind of this type.
pub(in crate::item) fn find(name: &str) -> Option<&'static OpaqueKind> {
    KINDS.iter().find(|kind| kind.name == name)
}

/// All of them. `program` alone has no status.
pub(super) static KINDS: [OpaqueKind; 15] = [
    kind(
        "file_search_call",
        "fs",
        &[optional("queries", TEXTS), optional("results", List(&FILE_SEARCH_RESULT))],
    ),
    kind(
        "computer_call",
        "cu",
        &[
            required("call_id", Text),
            optional("action", COMPUTER_ACTION),
            optional("actions", List(&COMPUTER_ACTION)),
            optional("pending_safety_checks", List(&SAFETY_CHECK)),
        ],
    ),
    kind(
        "computer_call_output",
        "cuo",
        &[
            required("call_id", Text),
            required("output", Object(&[optional("image_url", Text), optional("file_id", Text)])),
            optional("acknowledged_safety_checks", List(&SAFETY_CHECK)),
        ],
    ),
    kind(
        "code_interpreter_call",
        "ci",
        &[required("container_id", Text), optional("code", Text), optional("outputs", List(&CODE_OUTPUT))],
    ),
    kind("image_generation_call", "ig", &[optional("result", Text)]),
    kind("local_shell_call", "lsh", &[required("call_id", Text), required("action", LOCAL_SHELL_ACTION)]),
    kind("local_shell_call_output", "lsho", &[required("output", Text)]),
    kind(
        "shell_call",
        "sh",
        &[
            required("call_id", Text),
            required("action", SHELL_ACTION),
            optional("caller", CALLER),
            optional("environment", SHELL_ENVIRONMENT),
        ],
    ),
    kind(
        "shell_call_output",
        "sho",
        &[
            required("call_id", Text),
            required("output", List(&SHELL_OUTPUT)),
            optional("caller", CALLER),
            optional("max_output_length", Whole),
        ],
    ),
    kind(
        "apply_patch_call",
        "apc",
        &[required("call_id", Text), required("operation", PATCH_OPERATION), optional("caller", CALLER)],
    ),
    kind(
        "apply_patch_call_output",
        "apco",
        &[required("call_id", Text), optional("output", Text), optional("caller", CALLER)],
    ),
    kind(
        "tool_search_call",
        "tsc",
        &[required("arguments", Any), optional("call_id", Text), optional("execution", Text)],
    ),
    kind(
        "tool_search_output",
        "tso",
        &[required("tools", Tools), optional("call_id", Text), optional("execution", Text)],
    ),
    OpaqueKind {
        has_status: false,
        ..kind(
            "program",
            "prog",
            &[required("call_id", Text), required("code", Text), required("fingerprint", Text)],
        )
    },
    kind("program_output", "prgo", &[required("call_id", Text), required("result", Text)]),
];

const TEXTS: Shape = List(&Text);

const FILE_SEARCH_RESULT: Shape = Object(&[
    optional("file_id", Text),
    optional("text", Text),
    optional("filename", Text),
    optional("score", Number),
]);

/// Which of the fields an action has depends on its type.
const COMPUTER_ACTION: Shape = Object(&[
    required("type", Text),
    optional("button", Text),
    optional("x", Whole),
    optional("y", Whole),
    optional("scroll_x", Whole),
    optional("scroll_y", Whole),
    optional("keys", TEXTS),
    optional("text", Text),
    optional("path", List(&Object(&[required("x", Whole), required("y", Whole)]))),
]);

const SAFETY_CHECK: Shape =
    Object(&[required("id", Text), optional("code", Text), optional("message", Text)]);

const CODE_OUTPUT: Shape = Object(&[required("type", Text), optional("logs", Text), optional("url", Text)]);

const LOCAL_SHELL_ACTION: Shape = Object(&[
    required("command", TEXTS),
    optional("timeout_ms", Whole),
    optional("working_directory", Text),
    optional("env", Map(&Text)),
    optional("user", Text),
]);

const SHELL_ACTION: Shape = Object(&[
    required("commands", TEXTS),
    optional("timeout_ms", Whole),
    optional("max_output_length", Whole),
]);

/// The model itself, or a program it wrote.
const CALLER: Shape = Object(&[required("type", Text), optional("caller_id", Text)]);

const SHELL_ENVIRONMENT: Shape =
    Object(&[required("type", Text), optional("container_id", Text), optional("skills", List(&SKILL))]);

const SKILL: Shape = Object(&[required("name", Text), required("description", Text), required("path", Text)]);

const SHELL_OUTPUT: Shape = Object(&[
    required("stdout", Text),
    required("stderr", Text),
    required("outcome", Object(&[required("type", Text), optional("exit_code", Whole)])),
]);

const PATCH_OPERATION: Shape =
    Object(&[required("type", Text), required("path", Text), optional("diff", Text)]);

const fn kind(name: &'static str, id_prefix: &'static str, fields: &'static [Field]) -> OpaqueKind {
    OpaqueKind { name, id_prefix, has_status: true, fields }
}

const fn required(name: &'static str, shape: Shape) -> Field {
    Field { name, shape, required: true }
}

const fn optional(name: &'static str, shape: Shape) -> Field {
    Field { name, shape, required: false }
}
