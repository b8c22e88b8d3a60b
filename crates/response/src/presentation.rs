//! How server-side calls are shown to clients. Each presentation is a file with a table of its item and events, a
//! [`CallPresenter`]: some for any tool, and one for each hosted tool.

mod hidden_call;
pub(crate) mod mcp_call;
pub(crate) mod presenter;
mod server_tool_call;
pub mod web_search_call;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

pub use presenter::{ArgumentEvents, CallPresenter, ClosedCall, OpenedCall};

/// The presentations of hosted tools.
static HOSTED: &[&CallPresenter] = &[&web_search_call::PRESENTER];

/// How a server-side call is shown to clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presentation {
    /// `mcp_call`: every SDK shows it and none tries to run it.
    Mcp,
    /// `antwort:tool_call`, for the dialect without `mcp_call`.
    Extension,
    /// The item of a hosted tool.
    Hosted(&'static CallPresenter),
    /// `function_call`, without a result.
    Hidden,
    /// `mcp_approval_request`: the call needs approval.
    Approval,
}

impl Presentation {
    /// The item and the events of such a call; `None`: it has none before it is approved.
    pub fn presenter(self) -> Option<&'static CallPresenter> {
        match self {
            Self::Mcp => Some(&mcp_call::PRESENTER),
            Self::Extension => Some(&server_tool_call::PRESENTER),
            Self::Hosted(presenter) => Some(presenter),
            Self::Hidden => Some(&hidden_call::PRESENTER),
            Self::Approval => None,
        }
    }

    /// Whether the item is written only when the arguments are complete.
    pub(crate) fn is_buffered(self) -> bool {
        self.presenter().is_none_or(|presenter| presenter.is_buffered)
    }

    /// The presenter whose items have ids with this prefix.
    pub(crate) fn by_prefix(prefix: &str) -> Option<&'static CallPresenter> {
        let general = [&mcp_call::PRESENTER, &server_tool_call::PRESENTER];
        let mut all = general.into_iter().chain(HOSTED.iter().copied());
        all.find(|presenter| presenter.id_prefix == prefix)
    }

    fn from_name(name: &str) -> Option<Self> {
        let all = [Self::Mcp, Self::Extension, Self::Hidden, Self::Approval];
        let hosted = HOSTED.iter().copied().map(Self::Hosted);
        all.into_iter().chain(hosted).find(|presentation| presentation.name() == name)
    }

    fn name(self) -> &'static str {
        self.presenter().map_or("approval", |presenter| presenter.name)
    }
}

impl Serialize for Presentation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Presentation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::from_name(&name).ok_or_else(|| de::Error::custom(format!("unknown presentation {name:?}")))
    }
}

impl Serialize for CallPresenter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

impl<'de> Deserialize<'de> for &'static CallPresenter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let presentation = Presentation::deserialize(deserializer)?;
        presentation.presenter().ok_or_else(|| de::Error::custom("a call that needs approval has no item"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saved_presentation_is_read_back_as_itself() {
        let hosted = HOSTED.iter().copied().map(Presentation::Hosted);
        let general =
            [Presentation::Mcp, Presentation::Extension, Presentation::Hidden, Presentation::Approval];
        for presentation in general.into_iter().chain(hosted) {
            let saved = serde_json::to_string(&presentation).unwrap();
            assert_eq!(serde_json::from_str::<Presentation>(&saved).unwrap(), presentation, "{saved}");
            let presenter = serde_json::from_str::<&'static CallPresenter>(&saved).ok();
            assert_eq!(presenter, presentation.presenter(), "{saved}");
        }
        assert_eq!(
            serde_json::to_string(&Presentation::Hosted(&web_search_call::PRESENTER)).unwrap(),
            r#""web_search""#
        );
        assert!(serde_json::from_str::<Presentation>(r#""another""#).is_err());
    }
}
