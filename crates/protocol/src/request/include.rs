//! `include`: what a client wants beyond the usual.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::parse::{self, FromJson, ParseError, truncate_for_display};

/// Names in one list: several times as many as exist.
const MAX_NAMES: usize = 64;

/// Optional parts of the response. Also the query parameter of retrievals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Include {
    /// `reasoning.encrypted_content`: the sealed state of reasoning items.
    pub reasoning_encrypted_content: bool,
    /// `message.output_text.logprobs`
    pub output_text_logprobs: bool,
    /// `message.input_image.image_url`: pictures in listed input items.
    pub(crate) input_image_url: bool,
    /// `computer_call_output.output.image_url`: screenshots in listed input items.
    pub(crate) computer_output_image_url: bool,
}

impl Include {
    /// Known names without effect: they concern hosted tools, whose items are always complete.
    pub const NO_OPS: &'static [&'static str] = &[
        "code_interpreter_call.outputs",
        "file_search_call.results",
        "web_search_call.action.sources",
        "web_search_call.results",
    ];

    /// Sets the option of this name; false if there is none.
    pub fn add(&mut self, name: &str) -> bool {
        match name {
            "reasoning.encrypted_content" => self.reasoning_encrypted_content = true,
            "message.output_text.logprobs" => self.output_text_logprobs = true,
            "message.input_image.image_url" => self.input_image_url = true,
            "computer_call_output.output.image_url" => self.computer_output_image_url = true,
            other => return Self::NO_OPS.contains(&other),
        }
        true
    }
}

impl FromJson for Include {
    fn from_json(raw: &RawValue) -> Result<Self, ParseError> {
        let mut include = Self::default();
        for (i, raw) in parse::elements_up_to(raw, MAX_NAMES)?.into_iter().enumerate() {
            let name: Cow<'_, str> = parse::read(raw).map_err(|e| e.at(i))?;
            if !include.add(&name) {
                let problem = format!("unknown value '{}'.", truncate_for_display(&name));
                return Err(ParseError::invalid("", problem).at(i));
            }
        }
        Ok(include)
    }
}
