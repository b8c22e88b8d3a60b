//! Settings from findings: the difference of a server to the preset of its kind, in the configuration's own keys.

use serde_json::{Map, Value, json};

use super::client::Client;
use super::excerpt::excerpt;
use super::finding::{Answer, Finding};
use super::seen::Seen;
use antwort_config::{
    DeveloperRole, MaxTokensField, Preset, ProviderSettings, ReasoningField, SystemPlacement,
};

/// The settings for a server.
#[derive(Debug, Clone)]
pub(super) struct Profile {
    pub preset: Preset,
    /// What differs from the preset.
    pub changes: Vec<Change>,
    /// Whether the server lists several models.
    pub(crate) has_models: bool,
    pub context_window: Option<u64>,
}

/// A key with its value, and the finding that it comes from.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub path: &'static [&'static str],
    pub value: Value,
    pub reason: String,
}

/// The settings that the findings come to.
pub(super) fn make(client: &Client, seen: &Seen, findings: &[Finding]) -> Profile {
    let preset = seen.preset.unwrap_or_default();
    let base = ProviderSettings::new(preset, client.base());
    let found = Findings(findings);
    let mut changes: Vec<Change> = Vec::new();
    changes.extend(found.max_tokens_field(&base));
    changes.extend(found.roles(&base));
    changes.extend(found.reasoning(&base));
    changes.extend(found.supports(&base));
    changes.extend(found.passthrough(&base));
    Profile {
        preset,
        changes,
        has_models: seen.listing.models.len() > 1,
        context_window: seen.context_window.as_ref().map(|(tokens, _)| *tokens),
    }
}

struct Findings<'a>(&'a [Finding]);

impl Findings<'_> {
    fn get(&self, id: &str) -> Option<&Finding> {
        self.0.iter().find(|finding| finding.id == id)
    }

    fn answer(&self, id: &str) -> Answer {
        self.get(id).map_or(Answer::Unknown, |finding| finding.answer)
    }

    /// The finding, if the server does not do it.
    fn lacking(&self, id: &str) -> Option<&Finding> {
        self.get(id).filter(|finding| matches!(finding.answer, Answer::No | Answer::Ignored))
    }

    /// The finding, if the server refuses it.
    fn refused(&self, id: &str) -> Option<&Finding> {
        self.get(id).filter(|finding| finding.answer == Answer::No)
    }

    fn change(path: &'static [&'static str], value: impl Into<Value>, finding: &Finding) -> Change {
        let reason = format!("{} is {}: {}", finding.id, finding.answer.name(), finding.evidence);
        Change { path, value: value.into(), reason: excerpt(&reason) }
    }

    fn max_tokens_field(&self, base: &ProviderSettings) -> Option<Change> {
        let (own, other) = match base.max_tokens_field {
            MaxTokensField::MaxTokens => ("max_tokens", "max_completion_tokens"),
            MaxTokensField::MaxCompletionTokens => ("max_completion_tokens", "max_tokens"),
        };
        let lacking = self.lacking(own)?;
        (self.answer(other) == Answer::Yes).then(|| Self::change(&["max_tokens_field"], other, lacking))
    }

    fn roles(&self, base: &ProviderSettings) -> Vec<Change> {
        let mut changes = Vec::new();
        if base.roles.all.developer == DeveloperRole::Developer
            && let Some(finding) = self.lacking("developer_role")
        {
            changes.push(Self::change(&["roles", "developer"], "system", finding));
        }
        if base.roles.all.system == SystemPlacement::Keep
            && let Some(finding) = self.lacking("second_system")
        {
            changes.push(Self::change(&["roles", "system"], "merge", finding));
        }
        if !base.roles.all.alternate
            && let Some(finding) = self.lacking("consecutive_users")
        {
            changes.push(Self::change(&["roles", "alternate"], true, finding));
        }
        // A message that is not read would not be read behind another one, either.
        if !base.roles.all.assistant_after_tool
            && let Some(finding) = self.refused("user_after_tool")
        {
            changes.push(Self::change(&["roles", "assistant_after_tool"], true, finding));
        }
        changes
    }

    fn reasoning(&self, base: &ProviderSettings) -> Vec<Change> {
        let mut changes = Vec::new();
        let own = match base.reasoning_field {
            ReasoningField::ReasoningContent => "reasoning_content",
            ReasoningField::Reasoning => "reasoning",
            ReasoningField::None => "none",
        };
        if let Some(finding) = self.get("reasoning_in")
            && let Some(field) = finding.detail.filter(|field| *field != own)
        {
            changes.push(Self::change(&["reasoning_field"], field, finding));
        }
        if let Some(finding) = self.get("reasoning_out")
            && let Some(tags) = finding.detail
        {
            changes.push(Self::change(&["think_tags"], tags, finding));
        }
        changes
    }

    fn supports(&self, base: &ProviderSettings) -> Vec<Change> {
        let supports = base.supports;
        let rows: [(bool, &'static [&'static str], Option<&Finding>); 7] = [
            (
                supports.json,
                &["supports", "json"],
                self.lacking("completion").filter(|_| self.answer("stream") == Answer::Yes),
            ),
            (supports.stream_options, &["supports", "stream_options"], self.refused("stream_usage")),
            (supports.strict, &["supports", "strict"], self.refused("strict_functions")),
            // A field that is accepted does no harm.
            (
                supports.parallel_tool_calls,
                &["supports", "parallel_tool_calls"],
                self.refused("parallel_calls_off").filter(|_| self.answer("calls") != Answer::No),
            ),
            (supports.response_format, &["supports", "response_format"], self.refused("json_schema")),
            // The gateway then asks for any call, and checks which it is.
            (
                supports.named_tool_choice,
                &["supports", "named_tool_choice"],
                self.lacking("tool_choice_named")
                    .filter(|_| self.answer("tool_choice_required") == Answer::Yes),
            ),
            (supports.images, &["supports", "images"], self.lacking("image_data")),
        ];
        let rows = rows.into_iter().filter(|(has, ..)| *has);
        rows.filter_map(|(_, path, finding)| Some(Self::change(path, false, finding?))).collect()
    }

    /// Without the fields that do not work, so that a request with one is refused instead of answered otherwise.
    fn passthrough(&self, base: &ProviderSettings) -> Option<Change> {
        let lacking: Vec<_> = ["seed", "stop"].iter().filter_map(|id| self.lacking(id)).collect();
        let first = lacking.first()?;
        let dropped = |name: &String| lacking.iter().any(|finding| finding.id == name);
        let kept: Vec<_> = base.passthrough.iter().filter(|name| !dropped(name)).cloned().collect();
        (kept.len() < base.passthrough.len()).then(|| Self::change(&["passthrough"], kept, first))
    }
}

impl Profile {
    /// The keys of the provider. `model`: its name, if that may stand in a file.
    pub(super) fn keys(&self, url: &str, model: Option<&str>) -> Map<String, Value> {
        let mut keys = Map::new();
        keys.insert("preset".to_owned(), json!(self.preset));
        keys.insert("url".to_owned(), json!(literal(url)));
        if let Some(tokens) = self.context_window {
            let value = match model.filter(|model| self.has_models && is_plain(model)) {
                Some(model) => json!({model: tokens}),
                None => json!(tokens),
            };
            keys.insert("context_window".to_owned(), value);
        }
        for change in &self.changes {
            match change.path {
                [section, key] => {
                    let section = keys.entry(*section).or_insert_with(|| json!({}));
                    if let Some(section) = section.as_object_mut() {
                        section.insert((*key).to_owned(), change.value.clone());
                    }
                }
                [key, ..] => {
                    keys.insert((*key).to_owned(), change.value.clone());
                }
                [] => {}
            }
        }
        keys
    }
}

/// Whether the name of a model can stand in a file without being taken for something else.
fn is_plain(model: &str) -> bool {
    let is_merge = model.starts_with("<<");
    !is_merge && model.chars().all(|char| char.is_ascii_graphic() || char == ' ') && !model.contains("${")
}

/// A text in which nothing is a variable.
fn literal(text: &str) -> String {
    text.replace("${", "$${")
}
