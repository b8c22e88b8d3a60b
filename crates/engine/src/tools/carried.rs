//! Tools of earlier responses of a conversation: a client that continues one sends only what is new.

use std::borrow::Cow;
use std::collections::HashSet;

use antwort_protocol::item::Item;
use antwort_protocol::request::CreateResponse;
use antwort_protocol::tool::Tool;

/// Most tools that are carried over, a namespace being one; a chain may declare any number of them.
const MAX_CARRIED: usize = 1024;

/// The request with the client's tools that earlier `additional_tools` items declared. What is declared later counts; what
/// was declared before a compaction does not.
pub(crate) fn with_carried<'a>(
    request: &'a CreateResponse,
    past: &[Item],
    input: &[Item],
) -> Cow<'a, CreateResponse> {
    if !past.iter().any(|item| matches!(item, Item::AdditionalTools(_))) {
        return Cow::Borrowed(request);
    }
    let given = request.tools.iter().chain(input.iter().flat_map(declared));
    let mut names: HashSet<&str> = given.filter_map(client_name).collect();
    let earlier = past.iter().rev().take_while(|item| !matches!(item, Item::Compaction(_)));
    let new = |tool| client_name(tool).is_some_and(|name| names.insert(name)).then_some(tool);
    let carried: Vec<&Tool> = earlier.flat_map(declared).filter_map(new).take(MAX_CARRIED).collect();
    if carried.is_empty() {
        return Cow::Borrowed(request);
    }
    let mut more = request.clone();
    more.tools.extend(carried.into_iter().cloned());
    Cow::Owned(more)
}

fn declared(item: &Item) -> impl Iterator<Item = &Tool> {
    let tools = if let Item::AdditionalTools(more) = item { &more.tools[..] } else { &[] };
    tools.iter()
}

/// The name of a tool that the client runs.
fn client_name(tool: &Tool) -> Option<&str> {
    match tool {
        Tool::Function(function) => Some(&function.name),
        Tool::Custom(custom) => Some(&custom.name),
        Tool::Namespace(namespace) => Some(&namespace.name),
        _ => None,
    }
}
