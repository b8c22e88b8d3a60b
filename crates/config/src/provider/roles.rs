//! How the roles of messages are translated, and which orders of messages a provider accepts: for all of its models, and
//! by model, as it is the model's chat template that decides.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::variants::{DeveloperRole, SystemPlacement};
use antwort_util::pattern;

/// How roles are translated for one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Roles {
    /// What the role `developer` becomes.
    pub developer: DeveloperRole,
    /// Where system messages are placed.
    pub system: SystemPlacement,
    /// Whether neighbouring messages of one role become one, and the user's come first: for chat templates that raise an error
    /// unless user and assistant alternate.
    pub alternate: bool,
    /// Whether an assistant message is put between a tool's output and a message of the user.
    pub assistant_after_tool: bool,
}

/// The roles of a provider's models.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RoleSettings {
    /// Of models that no pattern matches.
    #[serde(flatten)]
    pub all: Roles,
    /// What differs, by patterns of the provider's names of models: `*` matches any characters.
    #[serde(flatten)]
    pub models: BTreeMap<String, RoleChanges>,
}

/// Keys of [`Roles`] that are set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(missing_docs, reason = "each is the field of the same name of `Roles`")]
pub struct RoleChanges {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub developer: Option<DeveloperRole>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<SystemPlacement>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alternate: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assistant_after_tool: Option<bool>,
}

impl RoleSettings {
    /// The roles of a model. Where several patterns match it, the longer one counts.
    pub fn for_model(&self, model: &str) -> Roles {
        let mut matching: Vec<_> =
            self.models.iter().filter(|(pattern, _)| pattern::matches(pattern, model)).collect();
        matching.sort_by_key(|(pattern, _)| pattern.len());
        matching.into_iter().fold(self.all, |roles, (_, changes)| changes.apply(roles))
    }
}

impl From<Roles> for RoleSettings {
    fn from(all: Roles) -> Self {
        Self { all, models: BTreeMap::new() }
    }
}

impl RoleChanges {
    /// The roles with these changes.
    pub fn apply(&self, base: Roles) -> Roles {
        Roles {
            developer: self.developer.unwrap_or(base.developer),
            system: self.system.unwrap_or(base.system),
            alternate: self.alternate.unwrap_or(base.alternate),
            assistant_after_tool: self.assistant_after_tool.unwrap_or(base.assistant_after_tool),
        }
    }
}

/// The section as written: the keys of all models, and a section for each pattern.
#[derive(Debug, Default)]
pub(crate) struct RawRoles {
    pub all: RoleChanges,
    pub models: BTreeMap<String, RoleChanges>,
}

impl<'de> Deserialize<'de> for RawRoles {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Section;

        impl<'de> Visitor<'de> for Section {
            type Value = RawRoles;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a section of keys")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawRoles, A::Error> {
                let RawRoles { mut all, mut models } = RawRoles::default();
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "developer" => all.developer = map.next_value()?,
                        "system" => all.system = map.next_value()?,
                        "alternate" => all.alternate = map.next_value()?,
                        "assistant_after_tool" => all.assistant_after_tool = map.next_value()?,
                        _ => {
                            let OfPattern(changes) = map.next_value()?;
                            models.insert(key, changes);
                        }
                    }
                }
                Ok(RawRoles { all, models })
            }
        }

        from.deserialize_map(Section)
    }
}

/// The section of a pattern. What is no section is an unknown key.
struct OfPattern(RoleChanges);

impl<'de> Deserialize<'de> for OfPattern {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Section;

        impl<'de> Visitor<'de> for Section {
            type Value = OfPattern;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "developer, system, alternate, assistant_after_tool, or a pattern of models with a section of these",
                )
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<OfPattern, A::Error> {
                RoleChanges::deserialize(MapAccessDeserializer::new(map)).map(OfPattern)
            }
        }

        from.deserialize_map(Section)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(models: &[(&str, RoleChanges)]) -> RoleSettings {
        let models = models.iter().map(|(pattern, changes)| ((*pattern).to_owned(), changes.clone()));
        let all = Roles {
            developer: DeveloperRole::System,
            system: SystemPlacement::Merge,
            alternate: false,
            assistant_after_tool: false,
        };
        RoleSettings { all, models: models.collect() }
    }

    #[test]
    fn the_longest_pattern_counts_and_what_it_leaves_open_is_that_of_the_others() {
        let alternate = |alternate| RoleChanges { alternate: Some(alternate), ..RoleChanges::default() };
        let keep = RoleChanges { system: Some(SystemPlacement::Keep), ..RoleChanges::default() };
        let settings =
            settings(&[("*", keep), ("mistral*", alternate(true)), ("mistral-large*", alternate(false))]);
        for (model, expected) in [("mistral-7b", true), ("mistral-large-3", false), ("qwen", false)] {
            let roles = settings.for_model(model);
            assert_eq!((roles.alternate, roles.system), (expected, SystemPlacement::Keep), "{model}");
        }
    }

    #[test]
    fn a_section_is_a_pattern_and_anything_else_an_unknown_key() {
        let read = |text: &str| serde_json::from_str::<RawRoles>(text);
        let raw = read(r#"{"alternate": true, "mistral*": {"assistant_after_tool": true}}"#).unwrap();
        assert_eq!(raw.all.alternate, Some(true));
        assert_eq!(raw.models["mistral*"].assistant_after_tool, Some(true));
        for (text, problem) in [
            (r#"{"alternat": true}"#, "or a pattern of models"),
            (r#"{"mistral*": {"alternat": true}}"#, "alternat"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }
}
