//! One byte budget over the tool lists of all sessions: what servers listed, and what was made of it.
//!
//! Equal lists are kept once, whoever listed them. What is beyond the budget makes lists of idle sessions go, which
//! list again when they are used; where there are none, the list is refused.

use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use aws_lc_rs::digest;

use super::connection::{RemoteTool, RemoteTools};
use super::error::McpError;
use super::session::Session;
use super::toolset::PreparedSetCache;
use crate::protocol::item::hosted::McpListedTool;
use crate::protocol::json::RawJson;
use crate::tools::plan::MemoryMeter;

/// Bytes of a tool beside its texts, in a list.
const TOOL_OVERHEAD_BYTES: usize = 512;

/// The budget, and the lists that are in it.
pub(super) struct ListBudget {
    max_bytes: AtomicUsize,
    used: AtomicUsize,
    lists: Mutex<HashMap<[u8; 32], Weak<SharedList>>>,
    sessions: Mutex<Vec<Weak<Session>>>,
}

/// Bytes that are counted until it is dropped.
pub(super) struct Charge {
    budget: Arc<ListBudget>,
    bytes: usize,
}

/// A list of tools that some session has, and what was made of it for all.
pub(super) struct SharedList {
    pub tools: RemoteTools,
    pub prepared: PreparedSetCache,
    _charge: Charge,
}

impl ListBudget {
    /// Up to so many bytes.
    pub(super) fn new(max_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            max_bytes: AtomicUsize::new(max_bytes),
            used: AtomicUsize::new(0),
            lists: Mutex::default(),
            sessions: Mutex::default(),
        })
    }

    /// Up to so many bytes from now on; what is counted stays.
    pub(super) fn resize(&self, max_bytes: usize) {
        self.max_bytes.store(max_bytes, Ordering::Release);
    }

    fn max_bytes(&self) -> usize {
        self.max_bytes.load(Ordering::Acquire)
    }

    /// A session whose lists may be evicted while nobody uses it.
    pub(super) fn register(&self, session: &Arc<Session>) {
        let mut sessions = lock(&self.sessions);
        sessions.retain(|session| session.strong_count() > 0);
        sessions.push(Arc::downgrade(session));
    }

    /// Bytes that are counted.
    #[cfg(test)]
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Acquire)
    }

    /// Keeps a list: the same that is kept already, if there is an equal one.
    ///
    /// # Errors
    /// If there is no room for it.
    pub(super) fn intern(self: &Arc<Self>, tools: RemoteTools) -> Result<Arc<SharedList>, McpError> {
        let hash = fingerprint(&tools);
        if let Some(known) = lock(&self.lists).get(&hash).and_then(Weak::upgrade) {
            return Ok(known);
        }
        let charge = self.charge(bytes_of(&tools))?;
        let kept = Arc::new(SharedList { tools, prepared: PreparedSetCache::default(), _charge: charge });
        let mut lists = lock(&self.lists);
        lists.retain(|_, list| list.strong_count() > 0);
        lists.insert(hash, Arc::downgrade(&kept));
        Ok(kept)
    }

    /// Counts bytes that something is about to take; lists of idle sessions make way.
    ///
    /// # Errors
    /// If there is no room for them.
    pub(super) fn charge(self: &Arc<Self>, bytes: usize) -> Result<Charge, McpError> {
        if let Some(charge) = self.try_charge(bytes) {
            return Ok(charge);
        }
        let idle = |weak: &Weak<Session>| Some((weak.upgrade()?.idle_for(), Weak::clone(weak)));
        let mut sessions: Vec<_> = lock(&self.sessions).iter().filter_map(idle).collect();
        sessions.sort_by_key(|(idle, _)| std::cmp::Reverse(*idle));
        for (_, session) in sessions {
            // One at a time: whoever is held counts as in use.
            let Some(session) = session.upgrade() else { continue };
            // The pool's and this one.
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

/// Counts schemas that are compiled; what there is no room for is compiled for one call.
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
    let RemoteTool { listed, title, output_schema, hints: _ } = tool;
    let McpListedTool { name, description, input_schema, annotations } = &**listed;
    TOOL_OVERHEAD_BYTES
        + name.len()
        + text(description)
        + input_schema.get().len()
        + json(annotations)
        + text(title)
        + json(output_schema)
}

/// Of all that a list says. Each field has its length in front, so that none can run into the next.
fn fingerprint(tools: &RemoteTools) -> [u8; 32] {
    let mut hash = digest::Context::new(&digest::SHA256);
    let mut field = |text: Option<&str>| {
        let length = text.map_or(u64::MAX, |text| text.len() as u64);
        hash.update(&length.to_le_bytes());
        hash.update(text.unwrap_or_default().as_bytes());
    };
    for RemoteTool { listed, title, output_schema, hints } in &tools.tools {
        field(Some(&listed.name));
        field(listed.description.as_deref());
        field(Some(listed.input_schema.get()));
        field(listed.annotations.as_ref().map(RawJson::get));
        field(title.as_deref());
        field(output_schema.as_ref().map(RawJson::get));
        field(Some(&format!("{hints:?}")));
    }
    field(None);
    for (name, why) in &tools.unreadable {
        field(Some(name));
        field(Some(why));
    }
    let mut fingerprint = [0; 32];
    fingerprint.copy_from_slice(hash.finish().as_ref());
    fingerprint
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::mcp::RemoteHints;

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
