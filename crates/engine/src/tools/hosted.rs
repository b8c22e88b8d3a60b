//! The hosted tools: those that requests name by a type of their own and the gateway runs. A tool is one file here (its
//! entry, a [`HostedTool`]) and one line of [`HOSTED_TOOLS`].

mod tool;
mod web_search;

pub(crate) use self::tool::{HostedBinding, HostedTool};
use antwort_protocol::item::Item;
use antwort_protocol::tool::Tool;

static HOSTED_TOOLS: &[&HostedTool] = &[&web_search::TOOL];

/// The hosted tool that requests name by this type.
pub(crate) fn find(kind: &str) -> Option<&'static HostedTool> {
    HOSTED_TOOLS.iter().copied().find(|hosted| hosted.types.contains(&kind))
}

/// The gateway's tool that runs the hosted tool of this type.
pub fn executor(kind: &str) -> Option<&'static str> {
    find(kind).map(|hosted| hosted.executor)
}

/// The gateway's tool whose call this item is.
pub fn caller_of(item: &Item) -> Option<&'static str> {
    of_item(item).map(|hosted| hosted.executor)
}

/// Whether the item is a call of a hosted tool.
pub(crate) fn is_call(item: &Item) -> bool {
    of_item(item).is_some()
}

/// Whether clients have the item without what the model read, which is sealed or stored.
pub(crate) fn lacks_result(item: &Item) -> bool {
    of_item(item).is_some_and(|hosted| hosted.presenter.seals_result)
}

/// Whether calls of the gateway's tool of this name are shown as those of a hosted tool.
pub(crate) fn is_executor(name: &str) -> bool {
    HOSTED_TOOLS.iter().any(|hosted| hosted.executor == name)
}

/// The types that are served, for messages.
pub(crate) fn served_types() -> impl Iterator<Item = &'static str> {
    HOSTED_TOOLS.iter().filter_map(|hosted| hosted.types.first().copied())
}

/// The hosted tool that an entry of a request asks for.
pub(crate) fn requested(tool: &Tool) -> Option<&'static HostedTool> {
    find(tool.kind())
}

fn of_item(item: &Item) -> Option<&'static HostedTool> {
    HOSTED_TOOLS.iter().copied().find(|hosted| (hosted.is_item)(item))
}
