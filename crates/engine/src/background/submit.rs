//! Queues a request: all that can refuse it refuses it now, as it would a run that begins at once.

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use tracing::Instrument;

use super::asker;
use super::spec::JobSpec;
use crate::background::work;
use crate::context::{EngineParts, RunContext};
use crate::disconnect::refuse_cancel;
use crate::keyed::{self, Keyed};
use crate::prepare::{self, Prepared, Purpose};
use crate::run::{RunState, save};
use crate::start;
use crate::{AdmittedRequest, event_log, record};
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

/// [`Engine::submit`](crate::Engine::submit).
pub(crate) async fn submit(
    parts: &Arc<EngineParts>,
    mut request: Box<CreateResponse>,
    text: String,
    caller: RunContext,
    key: Option<IdempotencyKey>,
) -> Result<Keyed<Queued>, ApiError> {
    let background = request.background;
    if background {
        asker::check_policy(caller.store)?;
    }
    start::apply_store_policy(caller.store, &mut request)?;
    refuse_cancel(&request, if background { NOT_IN_BACKGROUND } else { NOT_INLINE })?;
    if let Some(key) = &key
        && let Some(found) = keyed::find_keyed(parts, &caller.owner, key).await?
    {
        return keyed::known(parts, caller.owner, key.clone(), found);
    }
    start::check_storage(parts, true).await?;
    let admitted = start::admit(parts, &caller.requester()).await?;
    let prepare = pin!(prepare::prepare(parts, request, &caller, Purpose::Check));
    let mut prepared = admitted.run_until_aborted(prepare).await??;
    if background {
        prepared.spec.response.status = ResponseStatus::Queued;
    }
    let Prepared { spec: run, options, prompt, tools, ignored, .. } = prepared;
    let ids = IdGenerator::resume(&run.response.id, 0);
    let mut machine = ResponseMachine::new(run.response.clone(), ids, options);
    let mut events = Events::new();
    match background {
        true => machine.start_queued(&mut events),
        false => machine.start(&mut events),
    }
    let record = record::running(&run, machine.response());
    let queued = Queued {
        id: run.response.id.clone(),
        body: Arc::clone(&record.body),
        ignored,
        omitted_tools: tools.offer.omitted,
    };
    let mut state = RunState::default();
    state.trace.begin(Instant::now(), prompt.provider.name(), &prompt.request.model);
    let events = event_log::logged(run.output.encoder(), &events);
    let (state, spec) = run_on_bytes(text.len(), || {
        let state = save(&parts.seal, &run, &state, &machine, None);
        (state, JobSpec::new(text, &caller).seal(&parts.seal, &caller.owner.tenant))
    });
    let spec = spec.ok_or_else(ApiError::internal)?;
    let run = LoggedRun { key: key.clone(), record, state, events };
    let taken = parts.store.enqueue(NewJob { run, spec }).await?;
    match taken.zip(key) {
        Some((found, key)) => keyed::known(parts, caller.owner.clone(), key, found),
        None => {
            match background {
                true => parts.in_flight.bus().job_queued(),
                false => begin_now(parts, caller.owner.clone(), queued.id.clone(), admitted),
            }
            Ok(Keyed::New(queued))
        }
    }
}

/// Begins a run in this process whose client waits for it, whatever else is queued.
fn begin_now(parts: &Arc<EngineParts>, owner: Owner, id: Id, admitted: AdmittedRequest) {
    let parts = Arc::clone(parts);
    let task = async move {
        make_now(&parts, &owner, &id).await;
        drop(admitted);
    };
    #[expect(clippy::disallowed_methods, reason = "a shutdown waits for what was admitted")]
    tokio::spawn(task.instrument(tracing::Span::current()));
}

/// Goes on with a run that waits no more, in this process if it has room for another request.
pub(crate) fn go_on(parts: &Arc<EngineParts>, requester: Requester, owner: Owner, id: Id) {
    let parts = Arc::clone(parts);
    let task = async move {
        match start::admit(&parts, &requester).await {
            Ok(admitted) => {
                make_now(&parts, &owner, &id).await;
                drop(admitted);
            }
            Err(_) => parts.in_flight.bus().job_queued(),
        }
    };
    #[expect(clippy::disallowed_methods, reason = "a shutdown waits for what was admitted")]
    tokio::spawn(task);
}

async fn make_now(parts: &Arc<EngineParts>, owner: &Owner, id: &Id) {
    match parts.store.claim_job(owner, id).await {
        Ok(Some(job)) => work::work(parts, job).await,
        // A worker was faster.
        Ok(None) => {}
        Err(error) => {
            tracing::warn!({ RESPONSE_ID } = id.as_str(), %error, "claiming a run failed; a worker will begin it");
            parts.in_flight.bus().job_queued();
        }
    }
}

/// Why a background response cannot be cancelled by disconnecting.
const NOT_IN_BACKGROUND: &str = "A background response goes on whoever disconnects: leave 'on_disconnect': 'cancel' out, or send 'background': false. \
     POST /v1/responses/{id}/cancel cancels it.";
/// The same of one that asks its client.
const NOT_INLINE: &str = "A response that waits for client tools goes on whoever disconnects: leave 'on_disconnect': 'cancel' out, or send \
     'client_tools': 'pause'. POST /v1/responses/{id}/cancel cancels it.";
