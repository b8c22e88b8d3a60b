//! Idle connections. The one that was used last is used next, so that those of a burst can expire.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::Handle;

use super::connection::Connection;

/// How often idle connections are looked at, as long as there are any.
const SWEEPS_PER_TIMEOUT: u32 = 6;

/// The idle connections of a client.
pub(super) struct Pool {
    max_idle: usize,
    idle_timeout: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The longest idle first.
    idle: VecDeque<(Instant, Connection)>,
    /// A task sweeps as long as there are idle connections.
    has_sweeper: bool,
}

impl Pool {
    pub(super) fn new(max_idle: usize, idle_timeout: Duration) -> Arc<Self> {
        Arc::new(Self { max_idle, idle_timeout, state: Mutex::default() })
    }

    /// An idle connection that the server has not closed, as far as is known.
    pub(super) fn take(&self) -> Option<Connection> {
        loop {
            // Not under the lock: it may read from the socket, or close it.
            let (since, mut connection) = self.state.lock().idle.pop_back()?;
            if since.elapsed() < self.idle_timeout && connection.is_usable() {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection, or closes it if there are enough.
    pub(super) fn put(self: &Arc<Self>, connection: Connection) {
        let Ok(runtime) = Handle::try_current() else { return };
        let mut state = self.state.lock();
        if state.idle.len() >= self.max_idle {
            return;
        }
        state.idle.push_back((Instant::now(), connection));
        if !std::mem::replace(&mut state.has_sweeper, true) {
            runtime.spawn(sweep(Arc::downgrade(self), self.idle_timeout / SWEEPS_PER_TIMEOUT));
        }
    }

    /// Closes the connections that expired or that the server has closed. False if none is left.
    fn sweep(&self) -> bool {
        let mut state = self.state.lock();
        let timeout = self.idle_timeout;
        state.idle.retain_mut(|(since, connection)| since.elapsed() < timeout && connection.is_usable());
        state.has_sweeper = !state.idle.is_empty();
        state.has_sweeper
    }
}

/// Ends with the pool's last idle connection, or with the pool.
async fn sweep(pool: Weak<Pool>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let Some(pool) = pool.upgrade() else { return };
        if !pool.sweep() {
            return;
        }
    }
}

#[cfg(test)]
impl Pool {
    pub(super) fn idle(&self) -> usize {
        self.state.lock().idle.len()
    }
}
