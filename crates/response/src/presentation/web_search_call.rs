//! `web_search_call`: has the query and the addresses of what was found. What the model reads of the results has no place in
//! it, and is carried sealed.

use serde::Deserialize;

use super::presenter::{ArgumentEvents, CallPresenter, CallStages, ClosedCall, OpenedCall};
use antwort_protocol::event::HostedStage;
use antwort_protocol::item::hosted::{WebSearchAction, WebSearchCall, WebSource};
use antwort_protocol::item::{Item, ItemStatus};

/// Its item and events.
pub static PRESENTER: CallPresenter = CallPresenter {
    name: "web_search",
    id_prefix: "ws",
    is_buffered: true,
    arguments: ArgumentEvents::None,
    stages: CallStages {
        added: Some(HostedStage::WebSearchInProgress),
        started: Some(HostedStage::WebSearchSearching),
        completed: Some(HostedStage::WebSearchCompleted),
        failed: Some(HostedStage::WebSearchCompleted),
    },
    open,
    close: Some(close),
    abort: |item, _arguments| {
        if let Item::WebSearchCall(call) = item {
            call.status = ItemStatus::Failed;
        }
    },
    seals_result: true,
};

fn open(OpenedCall { id, call, .. }: OpenedCall<'_>) -> Item {
    let action = Some(action(&call.arguments, None));
    Item::WebSearchCall(WebSearchCall { id, status: ItemStatus::InProgress, action })
}

fn close(ClosedCall { call, result }: ClosedCall<'_>) -> Item {
    // A `web_search_call` cannot be `incomplete`.
    let done = call.status == ItemStatus::Completed;
    Item::WebSearchCall(WebSearchCall {
        id: call.id,
        status: if done { ItemStatus::Completed } else { ItemStatus::Failed },
        action: Some(action(&call.arguments, result.sources.as_deref())),
    })
}

fn action(arguments: &str, sources: Option<&[String]>) -> WebSearchAction {
    let source = |url: &String| WebSource { kind: "url".to_owned(), url: Some(url.clone()), name: None };
    let query = query(arguments);
    WebSearchAction::Search {
        queries: Some(vec![query.clone()]),
        query: Some(query),
        sources: sources.map(|sources| sources.iter().map(source).collect()),
    }
}

/// The query in the arguments, if it can be read.
fn query(arguments: &str) -> String {
    #[derive(Deserialize)]
    struct Arguments {
        query: String,
    }
    serde_json::from_str::<Arguments>(arguments).map_or_else(|_| String::new(), |said| said.query)
}
