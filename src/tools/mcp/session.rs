//! One server for one tenant with one set of credentials: its connection, its tools, how many calls it works on.
//!
//! Connecting and listing happen once, however many wait for it. A server that cannot be reached is left alone for
//! a while, so that requests do not wait for it time and again. `recovery` replaces sessions that the server has lost.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::backoff::FailureBackoff;
use super::configured::ServerToolConfig;
use super::connection::{Connection, Connector, Endpoint, RemoteCall, RemoteResult, ServerInfo};
use super::credentials::Credentials;
use super::error::{McpError, TimeoutKind};
use super::list_budget::{ListBudget, SharedList};
use super::list_cache::{CachedToolList, ToolListCache};
use super::recovery::{Recovery, Refusal};
use crate::telemetry::metrics::Metrics;
use crate::tools::Progress;
use crate::tools::plan::BackendStates;

/// A connection that lasted so long was a good one, whatever became of it.
const STABLE_AFTER: Duration = Duration::from_mins(10);

/// What a session heeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SessionLimits {
    /// For a connection with its handshake, and for a list of tools.
    pub list_timeout: Duration,
    /// For how long a list is taken for the newest.
    pub tool_ttl: Duration,
    /// Calls at the same time.
    pub max_in_flight: usize,
    /// Tools that are taken of a list.
    pub max_tools: usize,
}

/// A server, as one tenant sees it with one set of credentials.
pub(super) struct Session {
    pub(super) endpoint: Endpoint,
    pub(super) credentials: Arc<dyn Credentials>,
    connector: Arc<dyn Connector>,
    pub(super) limits: SessionLimits,
    metrics: Arc<Metrics>,
    tasks: TaskTracker,
    current: ArcSwapOption<LiveConnection>,
    /// Held while a connection is made.
    connecting: tokio::sync::Mutex<()>,
    in_flight: Semaphore,
    /// With connecting, and with connections that do not last.
    connect_backoff: FailureBackoff,
    /// With connections that were given up since the server sent too much. Answers do not end it, calm does.
    flood_backoff: FailureBackoff,
    pub(super) recovery: Recovery,
    pub(super) lists: ToolListCache,
    pub(super) budget: Arc<ListBudget>,
    /// What is known of the health of its tools, whoever is shown them, by the terms of their use.
    states: Mutex<Vec<(Weak<ServerToolConfig>, Arc<BackendStates>)>>,
    pub(super) stats: SessionStats,
    last_used: Mutex<Instant>,
}

/// A connection, and that it is counted as open.
pub(super) struct LiveConnection {
    pub(super) connection: Arc<dyn Connection>,
    /// Which connection of the session it is.
    number: u64,
    made: Instant,
    /// Whether anything was answered over it, beside the handshake.
    has_answered: AtomicBool,
    /// How the server refuses everything over it, once it was found to do so.
    pub(super) refusal: OnceLock<Refusal>,
    metrics: Arc<Metrics>,
}

/// The tools as they were listed.
pub(super) struct ToolListing {
    pub kept: Arc<SharedList>,
    at: Instant,
    ttl: Duration,
    /// The connection that it was had over, and that one's version of its tools when it was asked.
    connection: (u64, u64),
    /// Grows with every list of the session.
    revision: u64,
    /// Grows with every list of the session that differs from the one before.
    pub number: u64,
}

/// What is known of a session, for people.
#[derive(Default)]
pub(super) struct SessionStats {
    pub calls: AtomicU64,
    pub errors: AtomicU64,
    pub micros: AtomicU64,
    pub connects: AtomicU64,
    pub running: AtomicUsize,
}

/// How new a list has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// As configured; an older one is used while a newer one is had.
    Cached,
    /// Asked for now.
    Fresh,
}

impl LiveConnection {
    /// Tells lists apart that may differ.
    fn version(&self) -> (u64, u64) {
        (self.number, self.connection.tools_version())
    }

    /// Whether it was gone before the server could work on a request, which may so be made over another.
    pub(super) fn was_lost_before(&self, error: &McpError) -> bool {
        match error {
            McpError::SessionLost => true,
            McpError::Connect(_) => self.connection.is_closed(),
            _ => false,
        }
    }

    /// Whether anything was answered over it, beside the handshake.
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

    /// Runs a call. A session that the server has lost is replaced, and the call made again if the server did not
    /// work on it. No call is made twice that it may have worked on.
    pub(super) async fn call(
        &self,
        call: RemoteCall<'_>,
        progress: &Progress,
    ) -> Result<RemoteResult, McpError> {
        let permit = self.in_flight.acquire().await;
        let _permit = permit.map_err(|_| McpError::Connect("the session was closed".into()))?;
        self.touch();
        let running = Running::begin(self);
        let mut open = self.connect().await?;
        let mut result = open.connection.call_tool(call, progress).await;
        if let Err(error) = &result
            && let Some(next) = self.recover(&open, call.meta.context, error).await?
        {
            open = next;
            result = open.connection.call_tool(call, progress).await;
        }
        running.end(result.is_err());
        self.observe(&open, result.as_ref().err());
        self.touch();
        result
    }

    /// The tools that it has for the context of a list.
    pub(super) async fn tools(
        self: &Arc<Self>,
        list: &Arc<CachedToolList>,
        freshness: Freshness,
    ) -> Result<Arc<ToolListing>, McpError> {
        self.touch();
        let known = list.known();
        match known {
            Some(known) if freshness == Freshness::Cached && !self.has_changed(&known) => {
                if known.at.elapsed() < known.ttl {
                    return Ok(known);
                }
                // Old, but not known to be wrong: used while a newer one is had.
                if known.at.elapsed() < known.ttl.saturating_mul(2) {
                    self.refresh_in_background(list);
                    return Ok(known);
                }
                self.list(list, Some(&known)).await
            }
            known => self.list(list, known.as_deref()).await,
        }
        .or_else(|error| match list.known() {
            Some(known) if freshness == Freshness::Cached => {
                error.log(&self.endpoint.name, "the tools could not be listed again");
                Ok(known)
            }
            _ => Err(error),
        })
    }

    /// Whether the server has said that its tools are others now, or may be another server since it was connected to
    /// anew.
    pub(super) fn has_changed(&self, listing: &ToolListing) -> bool {
        self.current.load().as_ref().is_some_and(|open| open.version() != listing.connection)
    }

    /// A list that is newer than the one that is known, asked for once for all who wait. What went wrong with
    /// connecting is noted there, and not once more as trouble with lists.
    async fn list(
        &self,
        list: &CachedToolList,
        known: Option<&ToolListing>,
    ) -> Result<Arc<ToolListing>, McpError> {
        let turn = known.map_or(0, |known| known.revision);
        let (lists, connects) = (list.backoff.tries(), self.connect_backoff.tries());
        let _asking = list.list_lock.lock().await;
        if let Some(newer) = list.known().filter(|newer| newer.revision > turn) {
            return Ok(newer);
        }
        if let Some(failed) = list.backoff.blocking_error(lists) {
            return Err(failed);
        }
        let mut open = self.connect_since(connects).await?;
        let mut began = Instant::now();
        let mut asked = self.fetch_list(list, &open).await;
        if let Err(error) = &asked
            && let Some(next) = self.recover_list(&open, error).await?
        {
            open = next;
            began = Instant::now();
            asked = self.fetch_list(list, &open).await;
        }
        let is_noted = self.observe(&open, asked.as_ref().err());
        match asked {
            Ok(listing) => {
                let listing = Arc::new(listing);
                list.listing.store(Some(Arc::clone(&listing)));
                list.backoff.reset();
                Ok(listing)
            }
            Err(error) => {
                if !is_noted {
                    list.backoff.record(&error, began.elapsed());
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
        let asked = open.connection.list_tools(self.limits.max_tools, list.context.as_deref());
        let tools = tokio::time::timeout(after, asked).await;
        let mut tools = tools.unwrap_or(Err(McpError::Timeout { after, limit: TimeoutKind::List }))?;
        let offered = self.limits.max_tools.min(tools.tools.len());
        for surplus in tools.tools.split_off(offered) {
            tools.push_unreadable(&surplus.listed.name, "the server has too many tools".into());
        }
        let holds = tools.ttl.unwrap_or(self.limits.tool_ttl);
        let known = list.known();
        let is_same = known.as_ref().is_some_and(|known| known.kept.tools.is_equivalent(&tools));
        let (turn, number, kept) = match known {
            Some(known) if is_same => (known.revision + 1, known.number, Arc::clone(&known.kept)),
            Some(known) => (known.revision + 1, known.number + 1, self.budget.intern(tools)?),
            None => (1, 1, self.budget.intern(tools)?),
        };
        Ok(ToolListing { kept, at: Instant::now(), ttl: holds, connection, revision: turn, number })
    }

    fn refresh_in_background(self: &Arc<Self>, list: &Arc<CachedToolList>) {
        let is_left_alone = |trouble: &FailureBackoff| trouble.blocking_error(trouble.tries()).is_some();
        // Somebody is at it already, or is about to be, or nobody may.
        if list.list_lock.try_lock().is_err()
            || is_left_alone(&list.backoff)
            || is_left_alone(&self.connect_backoff)
        {
            return;
        }
        let (session, list) = (Arc::clone(self), Arc::clone(list));
        self.tasks.spawn(async move {
            if let Err(error) = session.list(&list, list.known().as_deref()).await {
                error.log(&session.endpoint.name, "the tools could not be listed again");
            }
        });
    }

    /// The open connection, or a new one; made once for all who wait.
    pub(super) async fn connect(&self) -> Result<Arc<LiveConnection>, McpError> {
        self.connect_since(self.connect_backoff.tries()).await
    }

    /// The same for somebody who has waited since there were so many `tries`.
    async fn connect_since(&self, tries: u64) -> Result<Arc<LiveConnection>, McpError> {
        if let Some(open) = self.live_connection() {
            return Ok(open);
        }
        let _connecting = self.connecting.lock().await;
        if let Some(open) = self.live_connection() {
            return Ok(open);
        }
        self.discard_given_up();
        let left_alone = || self.flood_backoff.blocking_error(self.flood_backoff.tries());
        if let Some(failed) = self.connect_backoff.blocking_error(tries).or_else(left_alone) {
            return Err(failed);
        }
        let began = Instant::now();
        self.make_connection().await.inspect_err(|error| self.connect_backoff.record(error, began.elapsed()))
    }

    /// A new connection in the place of whichever there is.
    pub(super) async fn make_connection(&self) -> Result<Arc<LiveConnection>, McpError> {
        let after = self.limits.list_timeout;
        let made = self.connector.connect(&self.endpoint, Arc::clone(&self.credentials));
        let made = tokio::time::timeout(after, made)
            .await
            .unwrap_or(Err(McpError::Timeout { after, limit: TimeoutKind::List }));
        let connection = made?;
        let number = self.stats.connects.fetch_add(1, Ordering::Relaxed) + 1;
        self.metrics.mcp_sessions(1);
        let open = Arc::new(LiveConnection {
            connection,
            number,
            made: Instant::now(),
            has_answered: AtomicBool::new(false),
            refusal: OnceLock::new(),
            metrics: Arc::clone(&self.metrics),
        });
        self.current.store(Some(Arc::clone(&open)));
        Ok(open)
    }

    /// What an answer, or an error in its place, says of the connection. Whether it was noted as trouble with it.
    /// A connection that has yet to answer ends no trouble: a program that ends at every call is not to be started at
    /// every call.
    fn observe(&self, open: &Arc<LiveConnection>, error: Option<&McpError>) -> bool {
        match error {
            // However many calls it takes with it, it ended once.
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

    /// Something was answered over it.
    pub(super) fn note_answer(&self, open: &LiveConnection) {
        open.has_answered.store(true, Ordering::Release);
        self.recovery.reset();
    }

    /// Whether requests are made over it now.
    pub(super) fn is_current(&self, open: &Arc<LiveConnection>) -> bool {
        self.current.load().as_ref().is_some_and(|current| Arc::ptr_eq(current, open))
    }

    pub(super) fn live_connection(&self) -> Option<Arc<LiveConnection>> {
        self.current.load_full().filter(|open| !open.connection.is_closed() && !open.connection.is_lost())
    }

    /// Drops a connection that is of no use any more. `false`: somebody else has, or it is another one by now.
    pub(super) fn discard(&self, lost: &Arc<LiveConnection>) -> bool {
        let is_lost =
            |open: &Option<Arc<LiveConnection>>| open.as_ref().is_some_and(|open| Arc::ptr_eq(open, lost));
        let current = self.current.load();
        is_lost(&current) && is_lost(&self.current.compare_and_swap(&*current, None))
    }

    /// Drops a connection that was given up, and leaves the server alone for the longer, the more there were of them.
    fn discard_given_up(&self) {
        let current = self.current.load_full();
        let Some(open) = current.filter(|open| open.connection.why_given_up().is_some()) else { return };
        let why = open.connection.why_given_up().unwrap_or_default();
        if self.discard(&open) {
            if open.made.elapsed() > STABLE_AFTER {
                self.flood_backoff.reset();
            }
            self.flood_backoff.record(&McpError::Connect(why.into()), Duration::ZERO);
        }
    }

    /// Ends the connection in order.
    pub(super) async fn close(&self) {
        if let Some(open) = self.current.swap(None) {
            open.connection.close().await;
        }
    }

    /// Makes room: forgets the lists that nobody uses, all of them if the session is idle.
    pub(super) fn evict_unused_lists(&self, is_idle: bool) {
        self.lists.forget_unused(is_idle);
    }

    /// What is known of the health of its tools, as they are used by these terms.
    pub(super) fn states(&self, terms: &Arc<ServerToolConfig>) -> Arc<BackendStates> {
        let mut all = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(terms, _)| terms.strong_count() > 0);
        if let Some((_, known)) = all.iter().find(|(of, _)| std::ptr::eq(of.as_ptr(), Arc::as_ptr(terms))) {
            return Arc::clone(known);
        }
        let states = Arc::new(BackendStates::default());
        all.push((Arc::downgrade(terms), Arc::clone(&states)));
        states
    }

    /// Forgets what was made by terms that nobody has any more.
    pub(super) fn forget_ended_generations(&self) {
        let mut all = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(terms, _)| terms.strong_count() > 0);
        drop(all);
        self.lists.forget_ended_generations();
    }

    /// For how long nobody has used it.
    pub(super) fn idle_for(&self) -> Duration {
        self.last_used.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// Who answers, if there is a connection.
    pub(super) fn server(&self) -> Option<ServerInfo> {
        self.live_connection().map(|open| open.connection.server().clone())
    }

    /// Why it is left alone, or what went wrong last.
    pub(super) fn last_error(&self) -> Option<String> {
        let of_floods = || self.flood_backoff.last_error().filter(|_| self.live_connection().is_none());
        self.connect_backoff
            .last_error()
            .or_else(of_floods)
            .or_else(|| self.lists.latest().backoff.last_error())
    }

    fn touch(&self) {
        *self.last_used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}

/// A call that is counted until it has ended, in whatever way.
struct Running<'a> {
    session: &'a Session,
    began: Instant,
    failed: bool,
}

impl<'a> Running<'a> {
    fn begin(session: &'a Session) -> Self {
        session.stats.running.fetch_add(1, Ordering::Relaxed);
        session.metrics.mcp_calls_in_flight(1);
        Self { session, began: Instant::now(), failed: true }
    }

    fn end(mut self, failed: bool) {
        self.failed = failed;
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let stats = &self.session.stats;
        stats.running.fetch_sub(1, Ordering::Relaxed);
        self.session.metrics.mcp_calls_in_flight(-1);
        stats.calls.fetch_add(1, Ordering::Relaxed);
        stats.errors.fetch_add(u64::from(self.failed), Ordering::Relaxed);
        let micros = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        stats.micros.fetch_add(micros, Ordering::Relaxed);
    }
}
