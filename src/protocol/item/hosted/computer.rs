//! Items of the computer tool: actions on a screen and the pictures they lead to.

use serde::{Deserialize, Serialize};

use crate::protocol::content::null_is_default;
use crate::protocol::id::Id;
use crate::protocol::item::ItemStatus;
use crate::protocol::item::optional_id::{id_or_unset, unset};
use crate::protocol::tagged::tagged;

/// The model wants something done on a screen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComputerCall {
    /// `cu_…`
    #[serde(default = "unset", deserialize_with = "id_or_unset")]
    pub id: Id,
    /// Shared by the call and its output.
    pub call_id: String,
    /// What to do, of the preview tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<ComputerAction>,
    /// What to do, in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actions: Option<Vec<ComputerAction>>,
    /// What a person should confirm first.
    #[serde(default, deserialize_with = "null_is_default")]
    pub pending_safety_checks: Vec<SafetyCheck>,
    /// The status.
    #[serde(default, deserialize_with = "null_is_default")]
    pub status: ItemStatus,
}

/// What the screen shows afterwards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComputerCallOutput {
    /// `cuo_…`
    #[serde(default = "unset", deserialize_with = "id_or_unset")]
    pub id: Id,
    /// The `call_id` of the call.
    pub call_id: String,
    /// What a person confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged_safety_checks: Option<Vec<SafetyCheck>>,
    /// The picture.
    pub output: ComputerScreenshot,
    /// The status.
    #[serde(default, deserialize_with = "null_is_default")]
    pub status: ItemStatus,
}

/// A picture of a screen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "computer_screenshot")]
pub struct ComputerScreenshot {
    /// `https:` or `data:` URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_url: Option<String>,
    /// Id of an uploaded file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_id: Option<String>,
}

/// A reason to ask a person before going on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SafetyCheck {
    /// Names the check when it is acknowledged.
    pub id: String,
    /// The kind of check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The reason in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

tagged! {
    /// One action on a screen. Coordinates are pixels.
    #[derive(Debug, Clone, PartialEq, Eq)]
    #[allow(missing_docs, reason = "the names are the API's own")]
    pub enum ComputerAction {
        Click {
            button: MouseButton,
            x: i64,
            y: i64,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            keys: Option<Vec<String>>,
        },
        DoubleClick {
            x: i64,
            y: i64,
            /// The only one of these that the API requires, as null if need be.
            #[serde(default)]
            keys: Option<Vec<String>>,
        },
        Drag {
            path: Vec<Point>,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            keys: Option<Vec<String>>,
        },
        Keypress {
            keys: Vec<String>,
        },
        Move {
            x: i64,
            y: i64,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            keys: Option<Vec<String>>,
        },
        Screenshot,
        Scroll {
            x: i64,
            y: i64,
            scroll_x: i64,
            scroll_y: i64,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            keys: Option<Vec<String>>,
        },
        Type {
            text: String,
        },
        Wait,
    }
}

/// Which button a click presses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the API's own")]
pub enum MouseButton {
    Left,
    Right,
    Wheel,
    Back,
    Forward,
}

/// A place on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Point {
    pub x: i64,
    pub y: i64,
}
