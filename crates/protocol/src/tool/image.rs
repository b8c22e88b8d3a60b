//! The tool that makes images.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::json::RawJson;
use crate::parse::{self, FromJson, ParseError};

/// Makes and edits images. What is absent is left to the executor, and so are values: a later version of the API has more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageGenerationTool {
    /// The model that makes the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The quality.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<String>,
    /// `auto`, or width and height in pixels such as `1024x1024`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// The file format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_format: Option<String>,
    /// 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) output_compression: Option<u8>,
    /// How strictly it is moderated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moderation: Option<String>,
    /// The background.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<String>,
    /// How closely an edit keeps to what it edits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) input_fidelity: Option<String>,
    /// Which part an edit may change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) input_image_mask: Option<ImageMask>,
    /// How many previews are streamed, 0 to 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) partial_images: Option<u8>,
    /// Whether to make or to edit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// How detailed it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complexity: Option<String>,
    /// Frames of one that moves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_count: Option<u64>,
    /// How long each is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_duration_ms: Option<u64>,
    /// Options of vector graphics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub svg: Option<RawJson>,
}

/// A picture that marks which part an edit may change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ImageMask {
    /// `data:` URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_url: Option<String>,
    /// Id of an uploaded file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_id: Option<String>,
}

impl FromJson for ImageGenerationTool {
    fn from_json(raw: &RawValue) -> Result<Self, ParseError> {
        let tool: Self = parse::read(raw)?;
        let limits = [
            ("output_compression", tool.output_compression, 100),
            ("partial_images", tool.partial_images, 3),
        ];
        for (field, value, most) in limits {
            if value.is_some_and(|value| value > most) {
                let problem = format!("expected at most {most}.");
                return Err(ParseError::invalid(field, problem).with_code("integer_above_max_value"));
            }
        }
        Ok(tool)
    }
}
