//! The figures of a run in the access log of its request, written once when it ends.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use crate::prompt::Prompt;
use crate::run_spec::RunSpec;
use antwort_protocol::response::{Response, Usage};
use antwort_telemetry::request_log::{ModelTarget, RequestLog, RunStats};

pub(super) struct RunSummary {
    /// The log of the HTTP request, if there is one.
    pub log: Option<Arc<RequestLog>>,
    pub turns: u32,
    pub tool_calls: u32,
    /// When the provider's first event came.
    pub first_event: Option<Instant>,
}

impl RunSummary {
    /// The run ended with a response.
    pub(super) fn response(self, spec: &RunSpec, prompt: &Prompt, response: &Response) {
        let failed = response.error.as_ref().and_then(|error| error.code.clone());
        let incomplete = || response.incomplete_details.as_ref().map(|why| why.reason.clone().into());
        self.record((spec, prompt), response.usage, failed.or_else(incomplete));
    }

    /// The run ended with an error instead of a response.
    pub(super) fn refusal(
        self,
        spec: &RunSpec,
        prompt: &Prompt,
        usage: Option<Usage>,
        code: Option<Cow<'static, str>>,
    ) {
        self.record((spec, prompt), usage, code);
    }

    fn record(
        self,
        (spec, prompt): (&RunSpec, &Prompt),
        usage: Option<Usage>,
        code: Option<Cow<'static, str>>,
    ) {
        let Some(log) = self.log else { return };
        let asked = ModelTarget::new(prompt.provider.name(), &prompt.request.model);
        let figures = RunStats {
            response_id: spec.response.id.clone(),
            turns: self.turns,
            usage,
            first_delta: self.first_event.filter(|_| spec.stream),
        };
        log.update(|facts| {
            facts.model = Some(asked);
            facts.run = Some(figures);
            facts.tool_calls = Some(self.tool_calls);
            facts.code = code;
        });
    }
}
