//! Queues a request: all that can refuse it refuses it now, as it would a run that begins at once.

use std::pin::pin;
use std::sync::Arc;

use super::spec::JobSpec;
use crate::config::StorePolicy;
use crate::engine::context::RunContext;
use crate::engine::disconnect::refuse_cancel;
use crate::engine::keyed::Keyed;
use crate::engine::prepare::{self, Purpose};
use crate::engine::run::{RunState, save};
use crate::engine::{Engine, event_log, record};
use crate::protocol::error::ApiError;
use crate::protocol::id::{Id, IdGenerator};
use crate::protocol::request::CreateResponse;
use crate::protocol::response::ResponseStatus;
use crate::response::machine::{Events, ResponseMachine};
use crate::store::{IdempotencyKey, LoggedRun, NewJob};

/// A run that was queued.
pub(crate) struct Queued {
    /// The response's id.
    pub id: Id,
    /// The response object.
    pub body: Arc<str>,
    /// Request fields that were ignored, where the configuration says so.
    pub ignored: Vec<String>,
    /// Types of tools that are not supported and were left out.
    pub omitted_tools: Vec<&'static str>,
}

impl Engine {
    /// Queues a run of this request, whose body is `text`.
    pub(crate) async fn submit(
        &self,
        request: CreateResponse,
        text: String,
        caller: RunContext,
        key: Option<IdempotencyKey>,
    ) -> Result<Keyed<Queued>, ApiError> {
        check_policy(caller.store)?;
        refuse_cancel(
            &request,
            "A background response goes on whoever disconnects: leave 'on_disconnect': 'cancel' out, or send 'background': false. \
             POST /v1/responses/{id}/cancel cancels it.",
        )?;
        if let Some(key) = &key
            && let Some(found) = self.find_keyed(&caller.owner, key).await?
        {
            return self.known(caller.owner, key.clone(), found);
        }
        self.check_storage(true).await?;
        let parts = &self.parts;
        let admitted = self.admit(&caller.requester()).await?;
        let prepare = pin!(prepare::prepare(parts, request, &caller, Purpose::Check));
        let mut prepared = admitted.run_until_aborted(prepare).await??;
        prepared.response.status = ResponseStatus::Queued;
        let ids = IdGenerator::resume(&prepared.response.id, 0);
        let mut machine = ResponseMachine::new(prepared.response.clone(), ids, prepared.options.clone());
        let mut events = Events::new();
        machine.start_queued(&mut events);
        let record = record::running(&prepared, machine.response());
        let queued = Queued {
            id: prepared.response.id.clone(),
            body: Arc::clone(&record.body),
            ignored: std::mem::take(&mut prepared.ignored),
            omitted_tools: std::mem::take(&mut prepared.offer.omitted),
        };
        let state = save(&parts.seal, &prepared, &RunState::default(), &machine, None);
        let events = event_log::logged(prepared.encoding, &events);
        let spec = JobSpec::new(text, &caller).seal(&parts.seal, &caller.owner.tenant);
        let spec = spec.ok_or_else(ApiError::internal)?;
        let run = LoggedRun { key: key.clone(), record, state, events };
        let taken = parts.store.enqueue(NewJob { run, spec }).await?;
        match taken.zip(key) {
            Some((found, key)) => self.known(caller.owner.clone(), key, found),
            None => {
                parts.in_flight.bus().job_queued();
                Ok(Keyed::New(queued))
            }
        }
    }
}

/// What nobody waits for is kept until it is read.
fn check_policy(policy: StorePolicy) -> Result<(), ApiError> {
    match policy {
        StorePolicy::Allow => Ok(()),
        StorePolicy::Never | StorePolicy::Refuse => Err(ApiError::unsupported(
            "background",
            "A background response is kept until it is read, and nothing is stored for this API key: send 'background': \
             false.",
        )),
    }
}
