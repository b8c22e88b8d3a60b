//! What a run tells the log of its request, once, when it ends.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use super::prepare::Prepared;
use crate::protocol::response::{Response, Usage};
use crate::telemetry::request_log::{Asked, RequestLog, RunFigures};

/// What the run has counted.
pub(super) struct Noted {
    /// Of a request over HTTP.
    pub log: Option<Arc<RequestLog>>,
    pub turns: u32,
    pub tool_calls: u32,
    /// When the model's first word came.
    pub first_event: Option<Instant>,
}

impl Noted {
    /// It came to a response.
    pub fn response(self, prepared: &Prepared, response: &Response) {
        let failed = response.error.as_ref().and_then(|error| error.code.clone());
        let incomplete = || response.incomplete_details.as_ref().map(|why| why.reason.clone().into());
        self.tell(prepared, response.usage, failed.or_else(incomplete));
    }

    /// It came to nothing but an error.
    pub fn refusal(self, prepared: &Prepared, code: Option<Cow<'static, str>>) {
        self.tell(prepared, None, code);
    }

    fn tell(self, prepared: &Prepared, usage: Option<Usage>, code: Option<Cow<'static, str>>) {
        let Some(log) = self.log else { return };
        let asked = Asked::new(prepared.provider.name(), &prepared.ask.model);
        let figures = RunFigures {
            response_id: prepared.response.id.clone(),
            turns: self.turns,
            usage,
            first_delta: self.first_event.filter(|_| prepared.ask.stream),
        };
        log.note(|facts| {
            facts.model = Some(asked);
            facts.run = Some(figures);
            facts.tool_calls = Some(self.tool_calls);
            facts.code = code;
        });
    }
}
