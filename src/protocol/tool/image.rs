//! The tool that makes images.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::protocol::parse::{self, FromJson, ParseError};

/// Makes and edits images. What is absent is left to the executor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageGenerationTool {
    /// The model that makes the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The quality.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<ImageQuality>,
    /// `auto`, or width and height in pixels such as `1024x1024`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// The file format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_format: Option<ImageFormat>,
    /// 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_compression: Option<u8>,
    /// How strictly it is moderated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moderation: Option<ImageModeration>,
    /// The background.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<ImageBackground>,
    /// How closely an edit keeps to what it edits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_fidelity: Option<ImageFidelity>,
    /// Which part an edit may change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_image_mask: Option<ImageMask>,
    /// How many previews are streamed, 0 to 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial_images: Option<u8>,
    /// Whether to make or to edit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<ImageAction>,
}

/// The quality of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the API's own")]
pub enum ImageQuality {
    Low,
    Medium,
    High,
    Auto,
}

/// The file format of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the API's own")]
pub enum ImageFormat {
    Png,
    Webp,
    Jpeg,
}

/// How strictly an image is moderated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the API's own")]
pub enum ImageModeration {
    Auto,
    Low,
}

/// The background of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the API's own")]
pub enum ImageBackground {
    Transparent,
    Opaque,
    Auto,
}

/// How closely an edit keeps to what it edits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the API's own")]
pub enum ImageFidelity {
    High,
    Low,
}

/// Whether to make an image or to edit one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the API's own")]
pub enum ImageAction {
    Generate,
    Edit,
    Auto,
}

/// A picture that marks which part an edit may change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageMask {
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
