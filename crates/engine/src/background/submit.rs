//! Queues a request: all that can refuse it refuses it now, as it would a run that begins at once.

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use tracing::Instrument;

use super::spec::JobSpec;
use crate::context::RunContext;
use crate::disconnect::refuse_cancel;
use crate::keyed::Keyed;
use crate::prepare::{self, Purpose};
use crate::run::{RunState, save};
use crate::{AdmittedRequest, Engine, apply_store_policy, event_log, record};
use antwort_config::StorePolicy;
use antwort_identity::{Owner, Requester};
use antwort_limits::run_on_bytes;
use antwort_protocol::error::ApiError;
use antwort_protocol::id::{Id, IdGenerator};
use antwort_protocol::request::CreateResponse;
use antwort_protocol::response::ResponseStatus;
use antwort_response::machine::{Events, ResponseMachine};
use antwort_store::{IdempotencyKey, LoggedRun, NewJob};
use antwort_telemetry::fields::RESPONSE_ID;

/// A run that was queued.
pub struct Queued {
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
    pub async fn submit(
        self: &Arc<Self>,
        mut request: Box<CreateResponse>,
        text: String,
        caller: RunContext,
        key: Option<IdempotencyKey>,
    ) -> Result<Keyed<Queued>, ApiError> {
        let background = request.background;
        if background {
            check_policy(caller.store)?;
        }
        apply_store_policy(caller.store, &mut request)?;
        refuse_cancel(&request, if background { NOT_IN_BACKGROUND } else { NOT_INLINE })?;
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
        if background {
            prepared.response.status = ResponseStatus::Queued;
        }
        let ids = IdGenerator::resume(&prepared.response.id, 0);
        let mut machine = ResponseMachine::new(prepared.response.clone(), ids, prepared.options.clone());
        let mut events = Events::new();
        match background {
            true => machine.start_queued(&mut events),
            false => machine.start(&mut events),
        }
        let record = record::running(&prepared, machine.response());
        let queued = Queued {
            id: prepared.response.id.clone(),
            body: Arc::clone(&record.body),
            ignored: std::mem::take(&mut prepared.ignored),
            omitted_tools: std::mem::take(&mut prepared.offer.omitted),
        };
        let mut state = RunState::default();
        state.trace.begin(Instant::now(), prepared.provider.name(), &prepared.model_request.model);
        let events = event_log::logged(prepared.encoding, &events);
        let (state, spec) = run_on_bytes(text.len(), || {
            let state = save(&parts.seal, &prepared, &state, &machine, None);
            (state, JobSpec::new(text, &caller).seal(&parts.seal, &caller.owner.tenant))
        });
        let spec = spec.ok_or_else(ApiError::internal)?;
        let run = LoggedRun { key: key.clone(), record, state, events };
        let taken = parts.store.enqueue(NewJob { run, spec }).await?;
        match taken.zip(key) {
            Some((found, key)) => self.known(caller.owner.clone(), key, found),
            None => {
                match background {
                    true => parts.in_flight.bus().job_queued(),
                    false => self.begin_now(caller.owner.clone(), queued.id.clone(), admitted),
                }
                Ok(Keyed::New(queued))
            }
        }
    }
}

impl Engine {
    /// Begins a run in this process whose client waits for it, whatever else is queued.
    fn begin_now(self: &Arc<Self>, owner: Owner, id: Id, admitted: AdmittedRequest) {
        let engine = Arc::clone(self);
        let task = async move {
            engine.make_now(&owner, &id).await;
            drop(admitted);
        };
        #[expect(clippy::disallowed_methods, reason = "a shutdown waits for what was admitted")]
        tokio::spawn(task.instrument(tracing::Span::current()));
    }

    /// Goes on with a run that waits no more, in this process if it has room for another request.
    pub(crate) fn go_on(self: &Arc<Self>, requester: Requester, owner: Owner, id: Id) {
        let engine = Arc::clone(self);
        let task = async move {
            match engine.admit(&requester).await {
                Ok(admitted) => {
                    engine.make_now(&owner, &id).await;
                    drop(admitted);
                }
                Err(_) => engine.parts.in_flight.bus().job_queued(),
            }
        };
        #[expect(clippy::disallowed_methods, reason = "a shutdown waits for what was admitted")]
        tokio::spawn(task);
    }

    async fn make_now(self: &Arc<Self>, owner: &Owner, id: &Id) {
        match self.parts.store.claim_job(owner, id).await {
            Ok(Some(job)) => self.work(job).await,
            // A worker was faster.
            Ok(None) => {}
            Err(error) => {
                tracing::warn!({ RESPONSE_ID } = id.as_str(), %error, "claiming a run failed; a worker will begin it");
                self.parts.in_flight.bus().job_queued();
            }
        }
    }
}

/// Why a background response cannot be cancelled by disconnecting.
const NOT_IN_BACKGROUND: &str = "A background response goes on whoever disconnects: leave 'on_disconnect': 'cancel' out, or send 'background': false. \
     POST /v1/responses/{id}/cancel cancels it.";
/// The same of one that asks its client.
const NOT_INLINE: &str = "A response that waits for client tools goes on whoever disconnects: leave 'on_disconnect': 'cancel' out, or send \
     'client_tools': 'pause'. POST /v1/responses/{id}/cancel cancels it.";

/// What nobody waits for is kept until it is read.
pub(super) fn check_policy(policy: StorePolicy) -> Result<(), ApiError> {
    match policy {
        StorePolicy::Allow => Ok(()),
        StorePolicy::Never | StorePolicy::Refuse => Err(ApiError::unsupported(
            "background",
            "A background response is kept until it is read, and nothing is stored for this API key: send 'background': \
             false.",
        )),
    }
}
