//! The session with one server for one tenant and set of credentials: connection, tool lists, calls in flight.
//!
//! Connecting and listing happen once for all callers that wait. After repeated failures a backoff rejects attempts at
//! once, so that requests do not wait for an unreachable server. `recovery` replaces sessions that the server has lost.

mod recover;
mod stats;
mod tasks;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use self::stats::{RunningCall, SessionStats};
use super::backoff::FailureBackoff;
use super::connection::{Connection, Connector, Endpoint, RemoteCall, RemoteResult, ServerInfo};
use super::credentials::Credentials;
use super::error::{McpError, TimeoutKind};
use super::list_budget::{ListBudget, ListHolder};
use super::list_cache::{CachedToolList, ToolListCache, ToolListing};
use super::recovery::{Recovery, Refusal};
use super::source::SessionLimits;
use super::tool_config::ServerToolConfig;
use antwort_telemetry::metrics::Metrics;
use antwort_tools::Progress;
use antwort_tools::executor_state::ExecutorStates;

/// A connection that lasted this long resets the backoff.
const STABLE_AFTER: Duration = Duration::from_mins(10);

/// A session with a server, for one tenant and set of credentials.
pub(super) struct Session {
    pub(super) endpoint: Endpoint,
    pub(super) credentials: Arc<dyn Credentials>,
    connector: Arc<dyn Connector>,
    pub(super) limits: SessionLimits,
    metrics: Arc<Metrics>,
    tasks: TaskTracker,
    current: ArcSwapOption<LiveConnection>,
    /// Held while connecting.
    connecting: tokio::sync::Mutex<()>,
    in_flight: Semaphore,
    /// Backoff of connecting, and of connections that close at once.
    connect_backoff: FailureBackoff,
    /// Backoff after closing connections because of floods. Reset by a stable connection, not by responses.
    flood_backoff: FailureBackoff,
    pub(super) recovery: Recovery,
    pub(super) lists: ToolListCache,
    pub(super) budget: Arc<ListBudget>,
    /// Breakers and semaphores of its tools, by configuration.
    states: Mutex<Vec<(Weak<ServerToolConfig>, Arc<ExecutorStates>)>>,
    pub(super) stats: SessionStats,
    last_used: Mutex<Instant>,
}

/// An open connection, counted in the metrics.
pub(super) struct LiveConnection {
    pub(super) connection: Arc<dyn Connection>,
    /// Sequence number of the connection within the session.
    number: u64,
    connected_at: Instant,
    /// Whether the server has answered any request after initialization.
    has_answered: AtomicBool,
    /// How the server refuses all requests on this connection, once detected.
    pub(super) refusal: OnceLock<Refusal>,
    metrics: Arc<Metrics>,
}

/// How fresh a list must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// From the cache within the TTL; a stale one is used while it is refreshed.
    Cached,
    /// Fetched now.
    Fresh,
}

impl LiveConnection {
    /// Changes whenever the tool list may have changed.
    fn version(&self) -> (u64, u64) {
        (self.number, self.connection.tools_version())
    }

    /// Whether the connection was lost before the server could process the request, which may then be repeated.
    pub(super) fn was_lost_before(&self, error: &McpError) -> bool {
        match error {
            McpError::SessionLost => true,
            McpError::Connect(_) => self.connection.is_closed(),
            _ => false,
        }
    }

    /// Whether the server has answered any request after initialization.
    pub(super) fn has_answered(&self) -> bool {
        self.has_answered.load(Ordering::Acquire)
    }
}

impl Drop for LiveConnection {
    fn drop(&mut self) {
        self.metrics.mcp_sessions(-1);
    }
}

impl Session {
    pub(super) fn new(
        endpoint: Endpoint,
        credentials: Arc<dyn Credentials>,
        connector: Arc<dyn Connector>,
        limits: SessionLimits,
        metrics: Arc<Metrics>,
        tasks: TaskTracker,
        budget: Arc<ListBudget>,
    ) -> Self {
        Self {
            tasks,
            endpoint,
            credentials,
            connector,
            metrics,
            current: ArcSwapOption::empty(),
            connecting: tokio::sync::Mutex::default(),
            in_flight: Semaphore::new(limits.max_in_flight.clamp(1, Semaphore::MAX_PERMITS)),
            limits,
            connect_backoff: FailureBackoff::default(),
            flood_backoff: FailureBackoff::default(),
            recovery: Recovery::default(),
            lists: ToolListCache::default(),
            budget,
            states: Mutex::default(),
            stats: SessionStats::default(),
            last_used: Mutex::new(Instant::now()),
        }
    }

    /// Runs a call. If the server has lost the session, it is replaced and the call repeated, but only if the server
    /// certainly did not process it.
    pub(super) async fn call(
        &self,
        call: RemoteCall<'_>,
        progress: &Progress,
    ) -> Result<RemoteResult, McpError> {
        let permit = self.in_flight.acquire().await;
        let _permit = permit.map_err(|_| McpError::Connect("the session was closed".into()))?;
        self.touch();
        let running = RunningCall::begin(&self.stats, &self.metrics);
        let mut open = self.connect().await?;
        let mut result = open.connection.call_tool(call, progress).await;
        if let Err(error) = &result
            && let Some(next) = self.recover(&open, call.meta.context, error).await?
        {
            open = next;
            result = open.connection.call_tool(call, progress).await;
        }
        self.observe(&open, result.as_ref().err());
        // A task that the call cannot leave is waited for.
        if let Ok(RemoteResult { task: Some(task), .. }) = &result
            && call.detach.is_none()
        {
            let task = task.clone();
            result = self.await_task(&task, &call, progress).await;
        }
        running.end(result.is_err());
        self.touch();
        result
    }

    /// The tool list of a context. A list that was known before is used if the server gives no other.
    pub(super) async fn tools(
        self: &Arc<Self>,
        list: &Arc<CachedToolList>,
        freshness: Freshness,
    ) -> Result<Arc<ToolListing>, McpError> {
        self.touch();
        let (outcome, tools) = match (self.current_tools(list, freshness).await, list.known()) {
            (Ok(tools), _) => ("ok", Ok(tools)),
            (Err(error), Some(known)) if freshness == Freshness::Cached => {
                error.log(&self.endpoint.name, "refreshing the tool list of an MCP server failed");
                ("stale", Ok(known))
            }
            (Err(error), _) => ("failed", Err(error)),
        };
        self.metrics.mcp_list(self.endpoint.is_configured.then_some(&*self.endpoint.name), outcome);
        tools
    }

    async fn current_tools(
        self: &Arc<Self>,
        list: &Arc<CachedToolList>,
        freshness: Freshness,
    ) -> Result<Arc<ToolListing>, McpError> {
        let known = list.known();
        match known {
            Some(known) if freshness == Freshness::Cached && !self.has_changed(&known) => {
                if known.at.elapsed() < known.ttl {
                    return Ok(known);
                }
                // Stale: used once more while it is refreshed in the background.
                if known.at.elapsed() < known.ttl.saturating_mul(2) {
                    self.refresh_in_background(list);
                    return Ok(known);
                }
                self.list(list, Some(&known)).await
            }
            known => self.list(list, known.as_deref()).await,
        }
    }

    /// Whether the server announced a change, or a new connection was made since.
    pub(super) fn has_changed(&self, listing: &ToolListing) -> bool {
        self.current.load().as_ref().is_some_and(|open| open.version() != listing.connection)
    }

    /// Fetches a list newer than `known`, once for all callers that wait. Errors of connecting count for the backoff of
    /// connecting only.
    async fn list(
        &self,
        list: &CachedToolList,
        known: Option<&ToolListing>,
    ) -> Result<Arc<ToolListing>, McpError> {
        let revision = known.map_or(0, |known| known.revision);
        let (lists, connects) = (list.backoff.tries(), self.connect_backoff.tries());
        let _listing = list.list_lock.lock().await;
        if let Some(newer) = list.known().filter(|newer| newer.revision > revision) {
            return Ok(newer);
        }
        if let Some(failed) = list.backoff.blocking_error(lists) {
            return Err(failed);
        }
        let mut open = self.connect_since(connects).await?;
        let mut started = Instant::now();
        let mut fetched = self.fetch_list(list, &open).await;
        if let Err(error) = &fetched
            && let Some(next) = self.recover_list(&open, error).await?
        {
            open = next;
            started = Instant::now();
            fetched = self.fetch_list(list, &open).await;
        }
        let is_recorded = self.observe(&open, fetched.as_ref().err());
        match fetched {
            Ok(listing) => {
                let listing = Arc::new(listing);
                list.listing.store(Some(Arc::clone(&listing)));
                list.backoff.reset();
                Ok(listing)
            }
            Err(error) => {
                if !is_recorded {
                    list.backoff.record(&error, started.elapsed());
                }
                Err(error)
            }
        }
    }

    async fn fetch_list(
        &self,
        list: &CachedToolList,
        open: &LiveConnection,
    ) -> Result<ToolListing, McpError> {
        let (after, connection) = (self.limits.list_timeout, open.version());
        let fetched = open.connection.list_tools(self.limits.max_tools, list.context.as_deref());
        let tools = tokio::time::timeout(after, fetched).await;
        let mut tools = tools.unwrap_or(Err(McpError::Timeout { after, limit: TimeoutKind::List }))?;
        let offered = self.limits.max_tools.min(tools.tools.len());
        for excess in tools.tools.split_off(offered) {
            tools.push_unreadable(
                &excess.listed.name,
                "the server exceeds the limit of tools (mcp.requests.max_tools)".into(),
            );
        }
        let ttl = tools.ttl.unwrap_or(self.limits.tool_ttl);
        let known = list.known();
        let is_same = known.as_ref().is_some_and(|known| known.kept.tools.is_equivalent(&tools));
        let (revision, number, kept) = match known {
            Some(known) if is_same => (known.revision + 1, known.number, Arc::clone(&known.kept)),
            Some(known) => (known.revision + 1, known.number + 1, self.budget.intern(tools)?),
            None => (1, 1, self.budget.intern(tools)?),
        };
        Ok(ToolListing { kept, at: Instant::now(), ttl, connection, revision, number })
    }

    fn refresh_in_background(self: &Arc<Self>, list: &Arc<CachedToolList>) {
        let in_backoff = |trouble: &FailureBackoff| trouble.blocking_error(trouble.tries()).is_some();
        // Another caller is listing already, or a backoff is active.
        if list.list_lock.try_lock().is_err()
            || in_backoff(&list.backoff)
            || in_backoff(&self.connect_backoff)
        {
            return;
        }
        let (session, list) = (Arc::clone(self), Arc::clone(list));
        self.tasks.spawn(async move {
            if let Err(error) = session.list(&list, list.known().as_deref()).await {
                error.log(&session.endpoint.name, "refreshing the tool list of an MCP server failed");
            }
        });
    }

    /// The live connection, or a new one, made once for all callers that wait.
    pub(super) async fn connect(&self) -> Result<Arc<LiveConnection>, McpError> {
        self.connect_since(self.connect_backoff.tries()).await
    }

    /// As [`Self::connect`], for a caller that has waited since there were `tries` attempts.
    async fn connect_since(&self, tries: u64) -> Result<Arc<LiveConnection>, McpError> {
        if let Some(open) = self.live_connection() {
            return Ok(open);
        }
        let _connecting = self.connecting.lock().await;
        if let Some(open) = self.live_connection() {
            return Ok(open);
        }
        self.discard_given_up();
        let flood_error = || self.flood_backoff.blocking_error(self.flood_backoff.tries());
        if let Some(failed) = self.connect_backoff.blocking_error(tries).or_else(flood_error) {
            return Err(failed);
        }
        let started = Instant::now();
        self.make_connection()
            .await
            .inspect_err(|error| self.connect_backoff.record(error, started.elapsed()))
    }

    /// Connects and replaces the current connection.
    pub(super) async fn make_connection(&self) -> Result<Arc<LiveConnection>, McpError> {
        let after = self.endpoint.connect_timeout(self.limits.list_timeout);
        let connecting = self.connector.connect(&self.endpoint, Arc::clone(&self.credentials));
        let connecting = tokio::time::timeout(after, connecting)
            .await
            .unwrap_or(Err(McpError::Timeout { after, limit: TimeoutKind::List }));
        let connection = connecting?;
        let number = self.stats.connects.fetch_add(1, Ordering::Relaxed) + 1;
        self.metrics.mcp_sessions(1);
        let open = Arc::new(LiveConnection {
            connection,
            number,
            connected_at: Instant::now(),
            has_answered: AtomicBool::new(false),
            refusal: OnceLock::new(),
            metrics: Arc::clone(&self.metrics),
        });
        self.current.store(Some(Arc::clone(&open)));
        Ok(open)
    }

    /// Updates the connection's state after a response or error. Returns whether the error was recorded as a connection
    /// failure. Connecting alone does not reset the backoff: a program that exits at every call must not be restarted at
    /// every call.
    fn observe(&self, open: &Arc<LiveConnection>, error: Option<&McpError>) -> bool {
        match error {
            // Recorded once, however many calls fail with the connection.
            Some(error) if open.connection.is_closed() => {
                if open.connection.why_given_up().is_some() {
                    self.discard_given_up();
                } else if self.discard(open) {
                    self.connect_backoff.record(error, Duration::ZERO);
                }
                return true;
            }
            Some(
                McpError::Connect(_)
                | McpError::UnknownVersion(_)
                | McpError::Egress(_)
                | McpError::Broken(_)
                | McpError::SessionLost,
            ) => {}
            Some(_) => self.connect_backoff.reset(),
            None => {
                self.connect_backoff.reset();
                self.note_answer(open);
            }
        }
        false
    }

    /// Records a successful response.
    pub(super) fn note_answer(&self, open: &LiveConnection) {
        open.has_answered.store(true, Ordering::Release);
        self.recovery.reset();
    }

    /// Whether this is the current connection.
    pub(super) fn is_current(&self, open: &Arc<LiveConnection>) -> bool {
        self.current.load().as_ref().is_some_and(|current| Arc::ptr_eq(current, open))
    }

    pub(super) fn live_connection(&self) -> Option<Arc<LiveConnection>> {
        self.current.load_full().filter(|open| !open.connection.is_closed() && !open.connection.is_lost())
    }

    /// Drops a dead connection. `false` if it was no longer the current one.
    pub(super) fn discard(&self, lost: &Arc<LiveConnection>) -> bool {
        let is_lost =
            |open: &Option<Arc<LiveConnection>>| open.as_ref().is_some_and(|open| Arc::ptr_eq(open, lost));
        let current = self.current.load();
        is_lost(&current) && is_lost(&self.current.compare_and_swap(&*current, None))
    }

    /// Drops a connection that was closed because of a flood, with a backoff that grows each time.
    fn discard_given_up(&self) {
        let current = self.current.load_full();
        let Some(open) = current.filter(|open| open.connection.why_given_up().is_some()) else { return };
        let why = open.connection.why_given_up().unwrap_or_default();
        if self.discard(&open) {
            if open.connected_at.elapsed() > STABLE_AFTER {
                self.flood_backoff.reset();
            }
            self.flood_backoff.record(&McpError::Connect(why.into()), Duration::ZERO);
        }
    }

    /// Closes the connection gracefully.
    pub(super) async fn close(&self) {
        if let Some(open) = self.current.swap(None) {
            open.connection.close().await;
        }
    }

    /// Breakers and semaphores of the tools under this configuration.
    pub(super) fn states(&self, tool_config: &Arc<ServerToolConfig>) -> Arc<ExecutorStates> {
        let mut all = self.states.lock();
        all.retain(|(tool_config, _)| tool_config.strong_count() > 0);
        if let Some((_, known)) =
            all.iter().find(|(of, _)| std::ptr::eq(of.as_ptr(), Arc::as_ptr(tool_config)))
        {
            return Arc::clone(known);
        }
        let states = Arc::new(ExecutorStates::default());
        all.push((Arc::downgrade(tool_config), Arc::clone(&states)));
        states
    }

    /// Drops state of configurations of ended generations.
    pub(super) fn forget_ended_generations(&self) {
        let mut all = self.states.lock();
        all.retain(|(tool_config, _)| tool_config.strong_count() > 0);
        drop(all);
        self.lists.forget_ended_generations();
    }

    /// Time since the last use.
    pub(super) fn idle_for(&self) -> Duration {
        self.last_used.lock().elapsed()
    }

    /// Identification of the server, if connected.
    pub(super) fn server(&self) -> Option<ServerInfo> {
        self.live_connection().map(|open| open.connection.server().clone())
    }

    /// The last error, or the reason of the backoff.
    pub(super) fn last_error(&self) -> Option<String> {
        let flood_error = || self.flood_backoff.last_error().filter(|_| self.live_connection().is_none());
        self.connect_backoff
            .last_error()
            .or_else(flood_error)
            .or_else(|| self.lists.latest().backoff.last_error())
    }

    fn touch(&self) {
        *self.last_used.lock() = Instant::now();
    }
}

impl ListHolder for Session {
    fn idle_for(&self) -> Duration {
        Self::idle_for(self)
    }

    fn evict_unused_lists(&self, is_idle: bool) {
        self.lists.forget_unused(is_idle);
    }
}
