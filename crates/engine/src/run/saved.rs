//! What is committed of a run beside its response and items, so that another process can end it.
//!
//! Sealed, since it holds provider state that no client sees. A binary reads its own format; one that changes it
//! has to read the one before. A state of another format, or one whose key is gone, counts as none. Behind the state come the finished turns of the
//! account, which are encoded once.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::state::RunState;
use crate::prepare::PreparedRun;
use antwort_protocol::dialect::Dialect;
use antwort_response::machine::{
    MachineOptions, MachineState, ReasoningDisplay, ResponseMachine, ServerCall, ShowSealed,
};
use antwort_response::seal::SealKeys;

/// The format that this binary writes.
const FORMAT: u32 = 1;

/// A run as it was committed.
#[derive(Debug, Deserialize)]
pub(crate) struct SavedRun {
    format: u32,
    pub spec: RunSpec,
    pub state: RunState,
    pub machine: MachineState,
}

/// [`SavedRun`], borrowed from a run.
#[derive(Serialize)]
struct Borrowed<'a, M> {
    format: u32,
    spec: RunSpec,
    state: &'a RunState,
    machine: M,
}

/// What a run was begun with, as far as its response does not show it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RunSpec {
    pub dialect: Dialect,
    /// Whether deltas are padded.
    pub obfuscate: bool,
    /// The provider that was chosen, whose state is sealed for it alone.
    pub provider: String,
    reasoning: ReasoningDisplay,
    logprobs: bool,
    show_sealed: ShowSealed,
    server_steps: bool,
}

impl RunSpec {
    fn new(prepared: &PreparedRun) -> Self {
        let options = &prepared.options;
        Self {
            dialect: prepared.encoding.dialect,
            obfuscate: prepared.encoding.obfuscate,
            provider: prepared.provider.name().to_owned(),
            reasoning: options.reasoning,
            logprobs: options.logprobs,
            show_sealed: options.show_sealed,
            server_steps: options.server_steps,
        }
    }

    /// The options of its machine.
    pub(crate) fn machine_options(&self, tenant: &str, keys: &Arc<SealKeys>) -> MachineOptions {
        MachineOptions {
            reasoning: self.reasoning,
            logprobs: self.logprobs,
            seal: Some(keys.bound_to(tenant, &self.provider)),
            show_sealed: self.show_sealed,
            server_steps: self.server_steps,
            summary: None,
        }
    }
}

/// The sealed state of a run, to be committed with a turn whose calls are about to be made, or with its row if `calls` is
/// `None`.
pub(crate) fn save(
    keys: &SealKeys,
    prepared: &PreparedRun,
    state: &RunState,
    machine: &ResponseMachine,
    calls: Option<&[ServerCall]>,
) -> Option<Arc<[u8]>> {
    let spec = RunSpec::new(prepared);
    let saved = match calls {
        Some(calls) => {
            serde_json::to_vec(&Borrowed { format: FORMAT, spec, state, machine: machine.save(calls) })
        }
        None => {
            serde_json::to_vec(&Borrowed { format: FORMAT, spec, state, machine: machine.save_position() })
        }
    };
    let mut plain = saved.ok()?;
    plain.extend_from_slice(state.trace.finished());
    keys.seal_run(&prepared.owner.tenant, &plain).map(Into::into)
}

impl SavedRun {
    /// `None` if it cannot be opened, or has another format.
    pub(crate) fn open(keys: &SealKeys, tenant: &str, sealed: &[u8]) -> Option<Self> {
        let plain = keys.open_run(tenant, sealed)?;
        let mut read = serde_json::Deserializer::from_slice(&plain).into_iter::<Self>();
        let mut saved = read.next()?.ok().filter(|saved| saved.format == FORMAT)?;
        saved.state.trace.restore(plain.get(read.byte_offset()..)?)?;
        Some(saved)
    }
}
