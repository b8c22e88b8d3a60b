//! The memory limit of all sessions' tool lists and of the tools built from them (`mcp.sessions.max_list_bytes`).
//!
//! Equal lists are stored once for all sessions. If the limit is reached, lists of idle sessions are evicted, which list
//! again on their next use; if there are none, the new list is rejected.

use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use super::connection::{RemoteTool, RemoteTools};
use super::error::McpError;
use super::tool_sets::PreparedSetCache;
use antwort_protocol::item::hosted::McpListedTool;
use antwort_protocol::json::RawJson;
use antwort_tools::plan::MemoryMeter;
use antwort_util::digest::FieldHasher;

/// Estimated bytes of a listed tool beside its texts.
const TOOL_OVERHEAD_BYTES: usize = 512;

/// The budget and the lists stored under it.
pub(super) struct ListBudget {
    max_bytes: AtomicUsize,
    used: AtomicUsize,
    lists: Mutex<HashMap<[u8; 32], Weak<SharedList>>>,
    holders: Mutex<Vec<Weak<dyn ListHolder>>>,
}

/// A session, whose lists may be evicted.
pub(super) trait ListHolder: Send + Sync {
    /// Time since its last use.
    fn idle_for(&self) -> Duration;

    /// Drops unused lists to free memory, all of them if the session is idle.
    fn evict_unused_lists(&self, is_idle: bool);
}

/// A reservation of bytes, released on drop.
pub(super) struct Charge {
    budget: Arc<ListBudget>,
    bytes: usize,
}

/// A tool list shared by all sessions with an equal list, and the tools built from it.
pub(super) struct SharedList {
    pub tools: RemoteTools,
    pub prepared: PreparedSetCache,
    _charge: Charge,
}

impl ListBudget {
    /// A budget of this many bytes.
    pub(super) fn new(max_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            max_bytes: AtomicUsize::new(max_bytes),
            used: AtomicUsize::new(0),
            lists: Mutex::default(),
            holders: Mutex::default(),
        })
    }

    /// Changes the limit; existing reservations stay.
    pub(super) fn resize(&self, max_bytes: usize) {
        self.max_bytes.store(max_bytes, Ordering::Release);
    }

    fn max_bytes(&self) -> usize {
        self.max_bytes.load(Ordering::Acquire)
    }

    /// Registers a session, whose lists may be evicted while it is idle.
    pub(super) fn register(&self, session: Weak<dyn ListHolder>) {
        let mut holders = self.holders.lock();
        holders.retain(|holder| holder.strong_count() > 0);
        holders.push(session);
    }

    /// Reserved bytes.
    #[cfg(test)]
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Acquire)
    }

    /// Stores a list, or returns an equal one that is stored already.
    ///
    /// # Errors
    /// If the limit is reached.
    pub(super) fn intern(self: &Arc<Self>, tools: RemoteTools) -> Result<Arc<SharedList>, McpError> {
        let hash = fingerprint(&tools);
        if let Some(known) = self.lists.lock().get(&hash).and_then(Weak::upgrade) {
            return Ok(known);
        }
        let charge = self.charge(bytes_of(&tools))?;
        let shared = Arc::new(SharedList { tools, prepared: PreparedSetCache::default(), _charge: charge });
        let mut lists = self.lists.lock();
        lists.retain(|_, list| list.strong_count() > 0);
        lists.insert(hash, Arc::downgrade(&shared));
        Ok(shared)
    }

    /// Reserves bytes, evicting lists of idle sessions if necessary.
    ///
    /// # Errors
    /// If the limit is reached.
    pub(super) fn charge(self: &Arc<Self>, bytes: usize) -> Result<Charge, McpError> {
        if let Some(charge) = self.try_charge(bytes) {
            return Ok(charge);
        }
        let idle = |weak: &Weak<dyn ListHolder>| Some((weak.upgrade()?.idle_for(), Weak::clone(weak)));
        let mut sessions: Vec<_> = self.holders.lock().iter().filter_map(idle).collect();
        sessions.sort_by_key(|(idle, _)| std::cmp::Reverse(*idle));
        for (_, session) in sessions {
            // Upgrade one at a time: a strong reference counts as use.
            let Some(session) = session.upgrade() else { continue };
            // Two references: the pool's and this one.
            session.evict_unused_lists(Arc::strong_count(&session) <= 2);
            if let Some(charge) = self.try_charge(bytes) {
                return Ok(charge);
            }
        }
        Err(McpError::ListsFull { limit: self.max_bytes() })
    }

    fn try_charge(self: &Arc<Self>, bytes: usize) -> Option<Charge> {
        let grown = |used: usize| used.checked_add(bytes).filter(|used| *used <= self.max_bytes());
        self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, grown).ok()?;
        Some(Charge { budget: Arc::clone(self), bytes })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

/// Accounts for compiled schemas; without room a schema is compiled for one call only.
pub(super) struct SchemaMeter(pub Arc<ListBudget>);

impl MemoryMeter for SchemaMeter {
    fn try_reserve(&self, bytes: usize) -> Option<Box<dyn Any + Send + Sync>> {
        Some(Box::new(self.0.try_charge(bytes)?))
    }
}

fn bytes_of(tools: &RemoteTools) -> usize {
    let left_out = |(name, why): &(String, String)| name.len() + why.len() + 2 * size_of::<String>();
    tools.tools.iter().map(bytes_of_tool).chain(tools.unreadable.iter().map(left_out)).sum()
}

fn bytes_of_tool(tool: &RemoteTool) -> usize {
    let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let json = |json: &Option<RawJson>| json.as_ref().map_or(0, |json| json.get().len());
    let RemoteTool { listed, title, output_schema, hints: _, task_support: _ } = tool;
    let McpListedTool { name, description, input_schema, annotations } = &**listed;
    TOOL_OVERHEAD_BYTES
        + name.len()
        + text(description)
        + input_schema.get().len()
        + json(annotations)
        + text(title)
        + json(output_schema)
}

/// Hash of the whole content of a list.
fn fingerprint(tools: &RemoteTools) -> [u8; 32] {
    let hasher = FieldHasher::new().field(tools.tools.len().to_le_bytes());
    let hasher = tools.tools.iter().fold(hasher, |hasher, tool| {
        let RemoteTool { listed, title, output_schema, hints, task_support } = tool;
        hasher
            .field(&listed.name)
            .option(listed.description.as_deref())
            .field(listed.input_schema.get())
            .option(listed.annotations.as_ref().map(RawJson::get))
            .option(title.as_deref())
            .option(output_schema.as_ref().map(RawJson::get))
            .field(format!("{hints:?}{task_support:?}"))
    });
    tools.unreadable.iter().fold(hasher, |hasher, (name, why)| hasher.field(name).field(why)).finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RemoteHints;
    use crate::task::TaskSupport;

    fn list(name: &str, bytes: usize) -> RemoteTools {
        let listed = McpListedTool {
            name: name.into(),
            description: Some("x".repeat(bytes)),
            input_schema: (&serde_json::json!({"type": "object"})).into(),
            annotations: None,
        };
        let tool = RemoteTool {
            listed: Arc::new(listed),
            title: None,
            output_schema: None,
            hints: RemoteHints::default(),
            task_support: TaskSupport::default(),
        };
        RemoteTools { tools: vec![tool], ..RemoteTools::default() }
    }

    #[test]
    fn equal_lists_are_one_and_others_count_until_they_are_gone() {
        let budget = ListBudget::new(100_000);
        let (one, again) =
            (budget.intern(list("a", 40_000)).unwrap(), budget.intern(list("a", 40_000)).unwrap());
        assert!(Arc::ptr_eq(&one, &again));
        let used = budget.used();
        assert!((40_000..42_000).contains(&used), "{used}");
        let other = budget.intern(list("b", 40_000)).unwrap();
        assert!(!Arc::ptr_eq(&one, &other));
        assert_eq!(budget.used(), 2 * used);
        let error = budget.intern(list("c", 40_000)).err().unwrap().to_string();
        assert!(error.contains("mcp.sessions.max_list_bytes"), "{error}");
        assert_eq!(budget.used(), 2 * used);
        drop((one, other));
        assert_eq!(budget.used(), used, "the other half is still had");
        drop(again);
        assert_eq!(budget.used(), 0);
        budget.intern(list("c", 40_000)).unwrap();
    }
}
