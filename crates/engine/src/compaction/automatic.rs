//! Compaction that takes place while a run goes on: when, by which model, and what the conversation is then.

use std::sync::Arc;

use super::{retained, summary_prompt, to_history_item};
use crate::context::EngineParts;
use crate::{limits, truncate};
use antwort_config::ModelPrice;
use antwort_protocol::error::ApiError;
use antwort_protocol::item::Compaction;
use antwort_protocol::request::{ContextManagement, CreateResponse};
use antwort_provider::routing::ModelRoute;
use antwort_response::seal::SummarySeal;
use antwort_response::turn::{HistoryItem, ModelRequest};

/// Tokens at which a conversation is compacted if neither the request nor a context window says it.
const DEFAULT_THRESHOLD: u64 = 100_000;

/// When and how the conversation of a run is compacted.
#[derive(Clone)]
pub(crate) struct AutoCompaction {
    /// Estimated tokens.
    pub threshold: u64,
    pub seal: Arc<SummarySeal>,
    /// The model that writes the summary.
    pub route: ModelRoute,
    /// Its context window.
    pub window: Option<u64>,
    /// What its tokens cost, if it is configured.
    pub price: Option<ModelPrice>,
    pub max_output_tokens: Option<u64>,
    /// The operator's, added to the question.
    pub instructions: Option<String>,
}

impl AutoCompaction {
    /// If the request asks for it. A compaction itself is not compacted.
    pub(crate) fn requested(
        parts: &EngineParts,
        request: &CreateResponse,
        compacts: bool,
        run: &ModelRoute,
        seal: &Arc<SummarySeal>,
    ) -> Result<Option<Self>, ApiError> {
        let asked = request.context_management.filter(|_| !compacts);
        asked.map(|asked| Self::new(parts, asked, run, Arc::clone(seal))).transpose()
    }

    /// With the model of the run, unless the configuration names another one.
    fn new(
        parts: &EngineParts,
        asked: ContextManagement,
        run: &ModelRoute,
        seal: Arc<SummarySeal>,
    ) -> Result<Self, ApiError> {
        let settings = &parts.options.engine.compaction;
        let window_of = |route: &ModelRoute| route.provider.info().context_window.for_model(&route.model);
        let by_window = window_of(run).map_or(DEFAULT_THRESHOLD, |window| window / 4 * 3);
        let route = match &settings.model {
            Some(model) => parts.router.resolve(model)?,
            None => run.clone(),
        };
        Ok(Self {
            threshold: asked.compact_threshold.unwrap_or(by_window),
            seal,
            window: window_of(&route),
            price: limits::price(&route.provider.info().prices, &route.model),
            route,
            max_output_tokens: settings.max_output_tokens,
            instructions: settings.instructions.clone(),
        })
    }

    /// The estimated tokens of a request.
    pub(crate) fn tokens(&self, request: &ModelRequest) -> u64 {
        let fixed = truncate::fixed_tokens(request.instructions.as_deref(), &request.tools);
        (truncate::estimate(&request.conversation) + fixed) as u64
    }

    /// The message that asks the model for the summary.
    pub(crate) fn prompt(&self) -> HistoryItem {
        summary_prompt(self.instructions.as_deref())
    }
}

/// The conversation after a compaction: the messages that are kept, and the summary. `window`: what
/// the model takes.
pub(crate) fn replace(
    conversation: &[HistoryItem],
    summary: &Compaction,
    (plan, window): (&AutoCompaction, u64),
) -> Result<Vec<HistoryItem>, ApiError> {
    let kept = retained(conversation.iter().map(|item| &item.item), Some(window));
    let summary = to_history_item(summary, &plan.seal)?;
    Ok(kept.into_iter().map(HistoryItem::from).chain([summary]).collect())
}
