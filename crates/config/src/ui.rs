//! The web page of the gateway, `/ui/`.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The web page of the gateway.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UiSettings {
    /// Whether it is served.
    pub enabled: UiSwitch,
    /// A directory whose files are served in place of those of the binary, for work on the page.
    pub dir: Option<PathBuf>,
}

/// Whether the page is served.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UiSwitch {
    /// If the gateway listens on a loopback address.
    #[default]
    Auto,
    /// Always; beyond loopback API keys are required.
    On,
    /// Never.
    Off,
}

impl UiSettings {
    /// Whether a gateway that listens there serves the page.
    pub fn is_served(&self, listen: SocketAddr) -> bool {
        match self.enabled {
            UiSwitch::Auto => listen.ip().is_loopback(),
            UiSwitch::On => true,
            UiSwitch::Off => false,
        }
    }
}
