//! What is committed of a run beside its response and items, so that another process can end it.
//!
//! Sealed, since it holds provider state that no client sees. A binary reads its own format; one that changes it
//! has to read the one before. A state of another format, or one whose key is gone, counts as none. Behind the state come the finished turns of the
//! account, which are encoded once.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::state::RunState;
use crate::run_spec::{OutputSpec, RunSpec};
use antwort_response::machine::{MachineState, ResponseMachine, ServerCall};
use antwort_response::seal::SealKeys;

/// The format that this binary writes.
const FORMAT: u32 = 1;

/// A run as it was committed.
#[derive(Debug, Deserialize)]
pub(crate) struct SavedRun {
    format: u32,
    #[serde(rename = "spec")]
    pub output: OutputSpec,
    pub state: RunState,
    pub machine: MachineState,
}

/// [`SavedRun`], borrowed from a run.
#[derive(Serialize)]
struct Borrowed<'a, M> {
    format: u32,
    #[serde(rename = "spec")]
    output: &'a OutputSpec,
    state: &'a RunState,
    machine: M,
}

/// The sealed state of a run, to be committed with a turn whose calls are about to be made, or with its row if `calls` is
/// `None`.
pub(crate) fn save(
    keys: &SealKeys,
    spec: &RunSpec,
    state: &RunState,
    machine: &ResponseMachine,
    calls: Option<&[ServerCall]>,
) -> Option<Arc<[u8]>> {
    let output = &spec.output;
    let saved = match calls {
        Some(calls) => {
            serde_json::to_vec(&Borrowed { format: FORMAT, output, state, machine: machine.save(calls) })
        }
        None => {
            serde_json::to_vec(&Borrowed { format: FORMAT, output, state, machine: machine.save_position() })
        }
    };
    let mut plain = saved.ok()?;
    plain.extend_from_slice(state.trace.finished());
    keys.seal_run(&spec.owner.tenant, &plain).map(Into::into)
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
