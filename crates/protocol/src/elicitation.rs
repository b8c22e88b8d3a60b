//! Questions that a tool asks the user during a call (elicitation of MCP), and the answers.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::json::RawJson;
use super::parse::{FromJson, ParseError};

/// Begins the `call_id` by which a question is answered. Ids that models choose do not begin like that.
const ID_PREFIX: &str = "elicit:";

/// The `call_id` of a question of a call: by the turn and index of the call, and its number.
pub fn question_id(turn: u32, call: u32, number: u32) -> String {
    format!("{ID_PREFIX}{turn}:{call}:{number}")
}

/// Whether a `call_id` is that of a question.
pub fn is_question_id(call_id: &str) -> bool {
    call_id.starts_with(ID_PREFIX)
}

/// Ways in which a client can show a question; see `antwort.elicitation` of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ElicitationMode {
    /// A form made from a JSON Schema.
    Form,
    /// A page that the user opens in a browser.
    Url,
}

/// The ways in which the client of a request can show questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ElicitationModes {
    /// Whether it shows forms.
    pub form: bool,
    /// Whether it shows addresses to open.
    pub url: bool,
}

impl ElicitationModes {
    /// The ways that a request names.
    pub fn of(named: &[ElicitationMode]) -> Self {
        Self { form: named.contains(&ElicitationMode::Form), url: named.contains(&ElicitationMode::Url) }
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        !self.form && !self.url
    }

    /// Whether a question of this kind can be shown.
    pub fn can_show(self, question: &Elicitation) -> bool {
        match question {
            Elicitation::Form { .. } => self.form,
            Elicitation::Url { .. } => self.url,
        }
    }
}

/// A question to the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "snake_case", try_from = "ElicitationFields")]
pub enum Elicitation {
    /// The user fills in a form.
    Form {
        /// What is asked, in words.
        message: String,
        /// JSON Schema of the answer: an object of plain values.
        requested_schema: RawJson,
    },
    /// The user opens an address and does there what is needed; what is entered there does not pass the gateway.
    Url {
        /// Why, in words.
        message: String,
        /// `http` or `https`. Never to be opened without the user's consent.
        url: String,
        /// The server's name of the question.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        elicitation_id: Option<String>,
    },
}

/// The fields of all kinds, as servers name them and as clients are shown them: a tagged enum could not be read with a schema
/// as it was written.
#[derive(Deserialize)]
struct ElicitationFields {
    /// Servers of older versions have only forms.
    #[serde(default)]
    mode: Option<ElicitationMode>,
    message: String,
    #[serde(default, alias = "requestedSchema")]
    requested_schema: Option<RawJson>,
    #[serde(default)]
    url: Option<String>,
    #[serde(default, alias = "elicitationId")]
    elicitation_id: Option<String>,
}

impl TryFrom<ElicitationFields> for Elicitation {
    type Error = &'static str;

    fn try_from(fields: ElicitationFields) -> Result<Self, Self::Error> {
        let ElicitationFields { mode, message, requested_schema, url, elicitation_id } = fields;
        Ok(match mode.unwrap_or(ElicitationMode::Form) {
            ElicitationMode::Form => {
                let requested_schema = requested_schema.ok_or("a form without a schema")?;
                Self::Form { message, requested_schema }
            }
            ElicitationMode::Url => Self::Url { message, url: url.ok_or("no address")?, elicitation_id },
        })
    }
}

/// What the user has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ElicitationAction {
    /// Filled in the form, or agreed to open the address.
    Accept,
    /// Refused.
    Decline,
    /// Neither: closed the form, or did not answer in time.
    Cancel,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ElicitationAnswer {
    /// What the user has done.
    pub action: ElicitationAction,
    /// The form as it was filled in, if it was: an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<RawJson>,
}

impl ElicitationAnswer {
    /// An answer without content.
    pub fn without_content(action: ElicitationAction) -> Self {
        Self { action, content: None }
    }
}

impl FromJson for ElicitationAnswer {
    fn from_json(raw: &RawValue) -> Result<Self, ParseError> {
        RawJson::object(raw)?;
        let answer: Self =
            serde_json::from_str(raw.get()).map_err(|error| ParseError::invalid("", format!("{error}.")))?;
        match (&answer.content, answer.action) {
            (Some(content), ElicitationAction::Accept) => {
                RawJson::object(content.as_raw()).map_err(|error| error.within("content"))?;
                // A number may be one that no server could be told.
                serde_json::from_str::<serde_json::Value>(content.get())
                    .map_err(|error| ParseError::invalid("content", format!("{error}.")))?;
            }
            (Some(_), _) => {
                return Err(ParseError::invalid("content", "content comes only with the action 'accept'."));
            }
            (None, _) => {}
        }
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_read_as_it_was_written() {
        let form = r#"{"mode":"form","message":"m","requested_schema":{"b":1,"a":1.10}}"#;
        let url = r#"{"mode":"url","message":"m","url":"https://a.example/"}"#;
        for text in [form, url] {
            let question: Elicitation = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&question).unwrap(), text);
        }
        assert!(serde_json::from_str::<Elicitation>(r#"{"mode":"form","message":"m"}"#).is_err());
    }

    #[test]
    fn an_answer_has_content_only_if_the_user_accepts() {
        let read = |text: &str| {
            let raw: Box<RawValue> = serde_json::from_str(text).unwrap();
            ElicitationAnswer::from_json(&raw).map_err(|error| error.into_api_error("output").body.param)
        };
        let accepted = read(r#"{"action":"accept","content":{"size":1.10}}"#).unwrap();
        assert_eq!(accepted.content.unwrap().get(), r#"{"size":1.10}"#);
        assert!(read(r#"{"action":"accept"}"#).unwrap().content.is_none());
        assert_eq!(read(r#"{"action":"decline"}"#).unwrap().action, ElicitationAction::Decline);
        let refused = [
            (r#"{"action":"decline","content":{}}"#, "output.content"),
            (r#"{"action":"accept","content":[]}"#, "output.content"),
            (r#"{"action":"accept","content":{"size":1e400}}"#, "output.content"),
            (r#"{"action":"maybe"}"#, "output"),
            (r#"{"content":{}}"#, "output"),
            (r#"{"action":"accept","contents":{}}"#, "output"),
            (r#""accept""#, "output"),
        ];
        for (text, param) in refused {
            assert_eq!(read(text).unwrap_err().as_deref(), Some(param), "{text}");
        }
    }
}
