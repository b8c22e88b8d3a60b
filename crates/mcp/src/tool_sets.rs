//! Callable tools of servers, and the caches of what is built from a list: the part that all sessions with an equal list
//! share, and the sets of one session.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::{Mutex, MutexGuard};

use super::error::McpError;
use super::task::TaskSupport;
use super::tool_config::ServerToolConfig;
use antwort_protocol::item::hosted::McpListedTool;
use antwort_tools::ToolDefinition;
use antwort_tools::catalog::{ModelToolCache, RegisteredTool};
use antwort_tools::plan::ToolSchemas;

/// The reservation of memory for a set; `None` if it belongs to one request.
pub(super) type MemoryGuard = Option<Box<dyn Any + Send + Sync>>;

/// Maximum number of labels under which the tools of one session are cached.
const MAX_LABELS: usize = 16;

/// Estimated bytes of a tool beside its texts: shared by all sessions, and per session.
const PREPARED_TOOL_BYTES: usize = 1024;

/// The callable tools of a server under one label.
pub struct ServerToolSet {
    /// Callable tools, in the server's order.
    pub tools: Vec<ServedTool>,
    /// Indexes by the server's tool names.
    pub(super) places: HashMap<String, usize>,
    /// Tools that cannot be called: name and reason.
    pub left_out: Vec<(String, String)>,
    /// Number of the list it was built from; 0 for the item of an earlier response.
    pub(super) number: u64,
    /// Reservation for the memory that is not shared; `None` if it belongs to one request.
    pub(super) _charge: MemoryGuard,
}

impl ServerToolSet {
    /// Number of the list it was built from, incremented with every different list. 0: the item of an earlier response.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Index of the tool with this name on the server.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }
}

/// A callable tool of a server.
pub struct ServedTool {
    /// The tool with its layers.
    pub registered: Arc<RegisteredTool>,
    /// The tool as shown in lists.
    pub listed: Arc<McpListedTool>,
    /// Whether the server annotates it as read-only.
    pub read_only: bool,
    /// Hash of what a user sees when approving a call: server, name, description, schema and annotations.
    pub fingerprint: [u8; 32],
}

/// Tools built from a list, shared by all sessions with an equal list, by label and configuration.
#[derive(Default)]
pub(super) struct PreparedSetCache(Mutex<SetsByTerms>);

/// By label and configuration.
type SetsByTerms = HashMap<SetKey, Arc<PreparedSet>>;

/// A label and the address of the configuration, which is unique while a set holds a weak reference to it.
type SetKey = (Arc<str>, usize);

fn set_key(label: &Arc<str>, tool_config: &Arc<ServerToolConfig>) -> SetKey {
    (Arc::clone(label), Arc::as_ptr(tool_config).addr())
}

/// The session-independent part of a tool set, for one label and configuration.
pub(super) struct PreparedSet {
    pub(crate) tool_config: Weak<ServerToolConfig>,
    pub tools: Vec<PreparedTool>,
    pub left_out: Vec<(String, String)>,
    pub(super) _charge: MemoryGuard,
}

/// The session-independent part of a tool.
pub(super) struct PreparedTool {
    pub definition: Arc<ToolDefinition>,
    pub schemas: Arc<ToolSchemas>,
    pub shown: Arc<ModelToolCache>,
    pub listed: Arc<McpListedTool>,
    pub read_only: bool,
    pub(crate) task_support: TaskSupport,
}

impl PreparedSetCache {
    /// Builds the set once. If two callers build it concurrently, the first one is kept.
    pub(super) fn get_or_build(
        &self,
        label: &Arc<str>,
        tool_config: &Arc<ServerToolConfig>,
        build: impl FnOnce() -> Result<PreparedSet, McpError>,
    ) -> Result<Arc<PreparedSet>, McpError> {
        let key = set_key(label, tool_config);
        if let Some(known) = self.lock_sets().get(&key) {
            return Ok(Arc::clone(known));
        }
        let set = build()?;
        let mut sets = self.lock_sets();
        sets.retain(|_, set| set.tool_config.strong_count() > 0);
        if sets.len() >= MAX_LABELS {
            sets.clear();
        }
        Ok(Arc::clone(sets.entry(key).or_insert_with(|| Arc::new(set))))
    }

    /// Drops sets of configurations of ended generations.
    pub(super) fn forget_ended_generations(&self) {
        self.lock_sets().retain(|_, set| set.tool_config.strong_count() > 0);
    }

    fn lock_sets(&self) -> MutexGuard<'_, SetsByTerms> {
        self.0.lock()
    }
}

impl PreparedSet {
    /// Estimated memory beside the list: definitions and model tools, usually of one kind.
    pub(super) fn bytes(&self) -> usize {
        let of_tool = |tool: &PreparedTool| {
            let ToolDefinition { name, description, parameters, returns, .. } = &*tool.definition;
            let shown = name.len() + description.len() + parameters.get().len();
            PREPARED_TOOL_BYTES + 2 * shown + returns.as_ref().map_or(0, |returns| returns.get().len())
        };
        self.tools.iter().map(of_tool).sum()
    }
}

/// The tool sets of one list, by label and configuration.
#[derive(Default)]
pub(super) struct ToolSetCache(Mutex<HashMap<SetKey, Arc<CachedSet>>>);

/// The set of one list, built by its first user.
struct CachedSet {
    tool_config: Weak<ServerToolConfig>,
    number: u64,
    set: OnceLock<Arc<ServerToolSet>>,
}

impl ToolSetCache {
    /// The set of the list of this number for a label and configuration, built once. Built outside the lock on all sets.
    pub(super) fn get_or_build(
        &self,
        label: &Arc<str>,
        tool_config: &Arc<ServerToolConfig>,
        number: u64,
        build: impl FnOnce() -> Result<ServerToolSet, McpError>,
    ) -> Result<Arc<ServerToolSet>, McpError> {
        let entry = self.entry(label, tool_config, number);
        if let Some(set) = entry.set.get() {
            return Ok(Arc::clone(set));
        }
        let set = build()?;
        Ok(Arc::clone(entry.set.get_or_init(|| Arc::new(set))))
    }

    /// Drops all sets.
    pub(super) fn clear(&self) {
        self.lock_sets().clear();
    }

    /// Drops sets of configurations of ended generations.
    pub(super) fn forget_ended_generations(&self) {
        self.lock_sets().retain(|_, cached| cached.tool_config.strong_count() > 0);
    }

    fn entry(&self, label: &Arc<str>, tool_config: &Arc<ServerToolConfig>, number: u64) -> Arc<CachedSet> {
        let key = set_key(label, tool_config);
        let mut sets = self.lock_sets();
        if let Some(known) = sets.get(&key).filter(|known| known.number == number) {
            return Arc::clone(known);
        }
        let entry =
            Arc::new(CachedSet { tool_config: Arc::downgrade(tool_config), number, set: OnceLock::new() });
        sets.retain(|_, cached| cached.tool_config.strong_count() > 0);
        if sets.len() >= MAX_LABELS {
            sets.clear();
        }
        sets.insert(key, Arc::clone(&entry));
        entry
    }

    /// The set of the list of this number under any label, if built.
    pub(super) fn cached(&self, number: u64) -> Option<Arc<ServerToolSet>> {
        let sets = self.lock_sets();
        sets.values().filter(|cached| cached.number == number).find_map(|cached| cached.set.get().cloned())
    }

    fn lock_sets(&self) -> MutexGuard<'_, HashMap<SetKey, Arc<CachedSet>>> {
        self.0.lock()
    }
}
