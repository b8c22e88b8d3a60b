//! Content parts, translated from the Responses API to chat completions.
//!
//! A part that the provider does not support is refused with a 400, with two exceptions: a plain-text file is sent as text
//! to a provider without file support, and what the gateway's own calls have brought is left out.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::errors::unsupported;
use super::message::{Audio, File, ImageUrl, MessageContent, MessagePart, VideoUrl};
use crate::errors::ProviderError;
use antwort_config::ProviderFeatures;
use antwort_protocol::content::{ContentPart, ImageDetail, InputFile, InputImage};
use antwort_protocol::item::ToolOutput;
use antwort_protocol::item::hosted::ResultFile;

/// The content of a user message: a plain string if it is all text.
pub(super) fn user_content<'a>(
    parts: &'a [ContentPart],
    supports: ProviderFeatures,
) -> Result<MessageContent<'a>, ProviderError> {
    if let Some(text) = text_of(parts, "\n") {
        return Ok(MessageContent::Text(text));
    }
    parts.iter().map(|part| translate(part, supports)).collect::<Result<_, _>>().map(MessageContent::Parts)
}

/// The joined text, if all parts are text.
pub(super) fn text_of<'a>(parts: &'a [ContentPart], separator: &str) -> Option<Cow<'a, str>> {
    let texts: Option<Vec<&str>> = parts.iter().map(part_text).collect();
    Some(join(&texts?, separator))
}

/// Joins texts; a single one is borrowed.
pub(super) fn join<'a>(texts: &[&'a str], separator: &str) -> Cow<'a, str> {
    match texts {
        [] => Cow::Borrowed(""),
        [only] => Cow::Borrowed(only),
        several => Cow::Owned(several.join(separator)),
    }
}

/// The outputs of one call as one tool message: servers refuse a second message for the same call.
pub(super) fn outputs_content<'a>(
    outputs: &[&'a ToolOutput],
    supports: ProviderFeatures,
) -> Result<(Cow<'a, str>, Vec<MessagePart<'a>>), ProviderError> {
    if let [output] = outputs {
        return output_content(output, supports);
    }
    let mut texts = Vec::with_capacity(outputs.len());
    let mut others = Vec::new();
    for output in outputs {
        let (text, more) = output_content(output, supports)?;
        texts.push(text);
        others.extend(more);
    }
    Ok((Cow::Owned(texts.join("\n")), others))
}

/// A tool's output, split into the text of the tool message and the parts that must follow it in another message.
fn output_content<'a>(
    output: &'a ToolOutput,
    supports: ProviderFeatures,
) -> Result<(Cow<'a, str>, Vec<MessagePart<'a>>), ProviderError> {
    let parts = match output {
        ToolOutput::Text(text) => return Ok((Cow::Borrowed(text), Vec::new())),
        ToolOutput::Parts(parts) => parts,
    };
    let texts: Vec<&str> = parts.iter().filter_map(part_text).collect();
    let others = parts.iter().filter(|part| part_text(part).is_none());
    let others = others.map(|part| translate(part, supports)).collect::<Result<Vec<_>, _>>()?;
    let text = match (texts.is_empty(), others.is_empty()) {
        // Many servers refuse an empty tool message.
        (true, false) => Cow::Borrowed("The output follows in the next message."),
        _ => join(&texts, "\n"),
    };
    Ok((text, others))
}

/// Files of a result of the gateway's own call, and how many of them the provider does not take.
pub(super) fn result_files(
    files: &[ResultFile],
    supports: ProviderFeatures,
) -> (Vec<MessagePart<'_>>, usize) {
    let parts: Vec<_> = files.iter().filter_map(|file| translate_result_file(file, supports)).collect();
    let left_out = files.len() - parts.len();
    (parts, left_out)
}

fn translate_result_file(file: &ResultFile, supports: ProviderFeatures) -> Option<MessagePart<'_>> {
    let kind = file.media_type();
    if kind.starts_with("image/") {
        let part = MessagePart::ImageUrl { image_url: ImageUrl { url: &file.url, detail: None } };
        return supports.images.then_some(part);
    }
    if kind.starts_with("audio/") {
        let format = if kind == "audio/wav" { "wav" } else { "mp3" };
        let part = MessagePart::InputAudio { input_audio: Audio { data: file.base64(), format } };
        return supports.audio.then_some(part);
    }
    let filename = file.name.as_deref();
    if supports.files {
        return Some(MessagePart::File { file: File { filename, file_data: &file.url } });
    }
    let text = plain_text(&file.url)?;
    Some(MessagePart::Text { text: format!("{}:\n\n{text}", filename.unwrap_or("File")).into() })
}

/// The text of a part, if it is text; a refusal counts as text.
fn part_text(part: &ContentPart) -> Option<&str> {
    match part {
        ContentPart::Refusal(part) => Some(&part.refusal),
        part => part.text(),
    }
}

fn translate<'a>(
    part: &'a ContentPart,
    supports: ProviderFeatures,
) -> Result<MessagePart<'a>, ProviderError> {
    match part {
        ContentPart::InputImage(image) => translate_image(image, supports),
        ContentPart::InputFile(file) => translate_file(file, supports),
        ContentPart::InputVideo(_) if !supports.video => {
            Err(unsupported("input", "The model's provider does not support video input."))
        }
        ContentPart::InputVideo(video) => {
            Ok(MessagePart::VideoUrl { video_url: VideoUrl { url: &video.video_url } })
        }
        ContentPart::InputAudio(_) if !supports.audio => {
            Err(unsupported("input", "The model's provider does not support audio input."))
        }
        ContentPart::InputAudio(audio) => {
            let audio = &audio.input_audio;
            Ok(MessagePart::InputAudio { input_audio: Audio { data: &audio.data, format: &audio.format } })
        }
        ContentPart::InputText(_) | ContentPart::OutputText(_) | ContentPart::Refusal(_) => {
            Ok(MessagePart::Text { text: part_text(part).unwrap_or_default().into() })
        }
    }
}

fn translate_image<'a>(
    image: &'a InputImage,
    supports: ProviderFeatures,
) -> Result<MessagePart<'a>, ProviderError> {
    if !supports.images {
        return Err(unsupported("input", "The model's provider does not support image input."));
    }
    let Some(url) = &image.image_url else {
        return Err(unsupported(
            "input",
            "Images must be sent as 'image_url': a URL, or data in a data: URL.",
        ));
    };
    let detail = match image.detail {
        ImageDetail::Auto => None,
        ImageDetail::Low => Some("low"),
        // The highest level of chat completions.
        ImageDetail::High | ImageDetail::Original => Some("high"),
    };
    Ok(MessagePart::ImageUrl { image_url: ImageUrl { url, detail } })
}

fn translate_file<'a>(
    file: &'a InputFile,
    supports: ProviderFeatures,
) -> Result<MessagePart<'a>, ProviderError> {
    let Some(data) = &file.file_data else {
        return Err(unsupported(
            "input",
            "Files must be sent as 'file_data': chat completions do not support file URLs.",
        ));
    };
    let filename = file.filename.as_deref();
    if supports.files {
        return Ok(MessagePart::File { file: File { filename, file_data: data } });
    }
    match plain_text(data) {
        Some(text) => {
            Ok(MessagePart::Text { text: format!("{}:\n\n{text}", filename.unwrap_or("File")).into() })
        }
        None => {
            Err(unsupported("input", "The model's provider does not support files other than plain text."))
        }
    }
}

/// The text of a `data:` URL with a text media type.
fn plain_text(data: &str) -> Option<String> {
    let (kind, data) = data.strip_prefix("data:")?.split_once(";base64,")?;
    let kind = kind.split(';').next().unwrap_or_default();
    let is_text = kind.starts_with("text/")
        || ["application/json", "application/xml", "application/yaml"].contains(&kind);
    let bytes = is_text.then(|| STANDARD.decode(data).ok())??;
    String::from_utf8(bytes).ok()
}
