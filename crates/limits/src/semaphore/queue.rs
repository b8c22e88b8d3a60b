//! The state of a fair semaphore: what each tenant and key holds, who waits, and whose turn it is.
//!
//! `W` is how a waiter is answered. Tenants and keys are those of the configuration and are never removed: what is held under one configuration
//! counts under the next.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::shares::Shares;
use antwort_identity::Requester;

/// Why no permit is granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcquireError {
    /// The queue is full: the request gets no place, or loses it to a requester with a shorter part.
    QueueFull,
    /// The semaphore was closed, before the request or while it waited.
    Closed,
}

/// A holder: the indexes of a tenant and of a key within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    tenant: usize,
    key: usize,
}

/// The place of a waiter in the queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ticket {
    slot: Slot,
    number: u64,
}

/// A permit that is to be sent to its waiter.
#[derive(Debug)]
pub(super) struct Granted<W> {
    pub slot: Slot,
    pub weight: u64,
    pub sender: W,
}

/// Everything behind the lock.
#[derive(Debug)]
pub(super) struct SemaphoreState<W> {
    shares: Shares,
    held: u64,
    waiting: usize,
    max_waiting: usize,
    next_number: u64,
    closed: bool,
    tenants: Vec<Tenant<W>>,
    by_name: HashMap<Arc<str>, usize>,
    /// Tenants that wait, the next one first.
    turns: VecDeque<usize>,
}

#[derive(Debug)]
struct Tenant<W> {
    limit: u64,
    held: u64,
    waiting: usize,
    keys: Vec<Key<W>>,
    by_name: HashMap<Arc<str>, usize>,
    /// Keys that wait, the next one first.
    turns: VecDeque<usize>,
}

#[derive(Debug)]
struct Key<W> {
    limit: u64,
    held: u64,
    waiters: VecDeque<Waiter<W>>,
}

#[derive(Debug)]
struct Waiter<W> {
    number: u64,
    weight: u64,
    sender: W,
}

/// Whether a tenant has a waiter that can be granted.
enum Turn {
    Of(usize),
    /// All waiters are blocked by shares.
    Kept,
    /// The next one waits for capacity.
    NoRoom,
}

impl<W> SemaphoreState<W> {
    pub(super) fn new(shares: Shares, max_waiting: usize) -> Self {
        Self {
            shares,
            held: 0,
            waiting: 0,
            max_waiting,
            next_number: 0,
            closed: false,
            tenants: Vec::new(),
            by_name: HashMap::new(),
            turns: VecDeque::new(),
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Replaces the limits, also for what is held: a holder above its new limit keeps that, and is granted nothing
    /// until enough was released. Weights of waiters are clamped to the new limits.
    pub(super) fn resize(&mut self, shares: Shares) -> Vec<Granted<W>> {
        for (name, at) in &self.by_name {
            let Some(tenant) = self.tenants.get_mut(*at) else { continue };
            tenant.limit = shares.of_tenant();
            for (key_name, at) in &tenant.by_name {
                let Some(key) = tenant.keys.get_mut(*at) else { continue };
                key.limit = shares.of_key(&Requester::new(name, key_name));
                key.waiters.iter_mut().for_each(|waiter| waiter.weight = waiter.weight.min(key.limit));
            }
        }
        self.shares = shares;
        self.dispatch()
    }

    /// The unused capacity.
    fn free(&self) -> u64 {
        self.shares.capacity().saturating_sub(self.held)
    }

    /// The holder for a requester, created if it is new.
    pub(super) fn slot(&mut self, requester: &Requester) -> Slot {
        let tenant = match self.by_name.get(&requester.tenant) {
            Some(tenant) => *tenant,
            None => {
                self.tenants.push(Tenant::new(self.shares.of_tenant()));
                self.by_name.insert(Arc::clone(&requester.tenant), self.tenants.len() - 1);
                self.tenants.len() - 1
            }
        };
        let limit = || self.shares.of_key(requester);
        let key = self.tenants.get_mut(tenant).map_or(0, |tenant| tenant.key(&requester.key, limit));
        Slot { tenant, key }
    }

    /// The weight, clamped to what the holder may ever be granted.
    pub(super) fn clamp(&self, slot: Slot, weight: u64) -> u64 {
        weight.clamp(1, self.key(slot).map_or(1, |key| key.limit))
    }

    /// Takes `weight` units if nobody waits and all limits allow it.
    pub(super) fn take_at_once(&mut self, slot: Slot, weight: u64) -> bool {
        let fits = self.waiting == 0 && weight <= self.free() && self.shares_allow(slot, weight);
        if fits {
            self.hold(slot, weight);
        }
        fits
    }

    /// Makes room for one more waiter: a full queue drops the newest waiter of its longest part, if that is longer
    /// than the newcomer's would become.
    pub(super) fn make_room(&mut self, slot: Slot) -> Result<Option<W>, AcquireError> {
        if self.waiting < self.max_waiting {
            return Ok(None);
        }
        let of = |tenant: usize| self.tenants.get(tenant).map_or(0, |tenant| tenant.waiting);
        let longest = self.turns.iter().copied().max_by_key(|tenant| of(*tenant)).unwrap_or(slot.tenant);
        let tenant = if of(longest) > of(slot.tenant) + 1 { longest } else { slot.tenant };
        let keys = self.tenants.get(tenant).map(|tenant| (tenant, &tenant.turns));
        let longest =
            keys.and_then(|(tenant, turns)| turns.iter().copied().max_by_key(|key| tenant.queue(*key)));
        let key = longest.ok_or(AcquireError::QueueFull)?;
        let own = self.key(slot).map_or(0, |key| key.waiters.len());
        let victim = Slot { tenant, key };
        let length = self.key(victim).map_or(0, |key| key.waiters.len());
        if tenant == slot.tenant && length <= own + 1 {
            return Err(AcquireError::QueueFull);
        }
        let newest = self.key_mut(victim).and_then(|key| key.waiters.pop_back());
        self.after_removal(victim);
        Ok(newest.map(|waiter| waiter.sender))
    }

    pub(super) fn enqueue(&mut self, slot: Slot, weight: u64, sender: W) -> Ticket {
        let number = self.next_number;
        self.next_number += 1;
        if let Some(tenant) = self.tenants.get_mut(slot.tenant) {
            if tenant.waiting == 0 {
                self.turns.push_back(slot.tenant);
            }
            tenant.enqueue(slot.key, Waiter { number, weight, sender });
            self.waiting += 1;
        }
        Ticket { slot, number }
    }

    /// Removes a waiter, and grants what it was in front of.
    pub(super) fn leave(&mut self, ticket: Ticket) -> Vec<Granted<W>> {
        let Some(key) = self.key_mut(ticket.slot) else { return Vec::new() };
        // Numbers are ascending, so that many leaving waiters are found fast.
        let Ok(at) = key.waiters.binary_search_by_key(&ticket.number, |waiter| waiter.number) else {
            return Vec::new();
        };
        key.waiters.remove(at);
        self.after_removal(ticket.slot);
        self.dispatch()
    }

    pub(super) fn release(&mut self, slot: Slot, weight: u64) -> Vec<Granted<W>> {
        self.held = self.held.saturating_sub(weight);
        if let Some(tenant) = self.tenants.get_mut(slot.tenant) {
            tenant.held = tenant.held.saturating_sub(weight);
        }
        if let Some(key) = self.key_mut(slot) {
            key.held = key.held.saturating_sub(weight);
        }
        if self.waiting == 0 { Vec::new() } else { self.dispatch() }
    }

    /// Grants what can be granted, in turns.
    pub(super) fn dispatch(&mut self) -> Vec<Granted<W>> {
        let mut granted = Vec::new();
        while let Some(slot) = self.next_turn() {
            let Some(waiter) = self.key_mut(slot).and_then(|key| key.waiters.pop_front()) else { break };
            self.hold(slot, waiter.weight);
            self.after_removal(slot);
            self.rotate(slot);
            granted.push(Granted { slot, weight: waiter.weight, sender: waiter.sender });
        }
        granted
    }

    /// Empties the queue and rejects further waiters.
    pub(super) fn close(&mut self) -> Vec<W> {
        self.closed = true;
        self.waiting = 0;
        self.turns.clear();
        let mut senders = Vec::new();
        for tenant in &mut self.tenants {
            tenant.waiting = 0;
            tenant.turns.clear();
            let waiters = tenant.keys.iter_mut().flat_map(|key| key.waiters.drain(..));
            senders.extend(waiters.map(|waiter| waiter.sender));
        }
        senders
    }

    fn next_turn(&self) -> Option<Slot> {
        for tenant in &self.turns {
            match self.tenants.get(*tenant)?.next_turn(self.free()) {
                Turn::Of(key) => return Some(Slot { tenant: *tenant, key }),
                Turn::Kept => {}
                Turn::NoRoom => return None,
            }
        }
        None
    }

    fn shares_allow(&self, slot: Slot, weight: u64) -> bool {
        let tenant = self.tenants.get(slot.tenant);
        tenant.is_some_and(|tenant| tenant.allows(weight))
            && self.key(slot).is_some_and(|key| key.allows(weight))
    }

    fn hold(&mut self, slot: Slot, weight: u64) {
        self.held += weight;
        if let Some(tenant) = self.tenants.get_mut(slot.tenant) {
            tenant.held += weight;
        }
        if let Some(key) = self.key_mut(slot) {
            key.held += weight;
        }
    }

    /// Counts one waiter of this holder less, and removes it from the turns if it was the last.
    fn after_removal(&mut self, slot: Slot) {
        self.waiting = self.waiting.saturating_sub(1);
        let Some(tenant) = self.tenants.get_mut(slot.tenant) else { return };
        tenant.waiting = tenant.waiting.saturating_sub(1);
        if tenant.queue(slot.key) == 0 {
            tenant.turns.retain(|key| *key != slot.key);
        }
        if tenant.waiting == 0 {
            self.turns.retain(|other| *other != slot.tenant);
        }
    }

    /// Moves the holder that was served to the end of the turns.
    fn rotate(&mut self, slot: Slot) {
        to_the_end(&mut self.turns, slot.tenant);
        if let Some(tenant) = self.tenants.get_mut(slot.tenant) {
            to_the_end(&mut tenant.turns, slot.key);
        }
    }

    fn key(&self, slot: Slot) -> Option<&Key<W>> {
        self.tenants.get(slot.tenant)?.keys.get(slot.key)
    }

    fn key_mut(&mut self, slot: Slot) -> Option<&mut Key<W>> {
        self.tenants.get_mut(slot.tenant)?.keys.get_mut(slot.key)
    }
}

impl<W> Tenant<W> {
    fn new(limit: u64) -> Self {
        Self { limit, held: 0, waiting: 0, keys: Vec::new(), by_name: HashMap::new(), turns: VecDeque::new() }
    }

    fn key(&mut self, name: &Arc<str>, limit: impl FnOnce() -> u64) -> usize {
        if let Some(key) = self.by_name.get(name) {
            return *key;
        }
        self.keys.push(Key { limit: limit(), held: 0, waiters: VecDeque::new() });
        self.by_name.insert(Arc::clone(name), self.keys.len() - 1);
        self.keys.len() - 1
    }

    fn enqueue(&mut self, key: usize, waiter: Waiter<W>) {
        if self.queue(key) == 0 {
            self.turns.push_back(key);
        }
        if let Some(key) = self.keys.get_mut(key) {
            key.waiters.push_back(waiter);
            self.waiting += 1;
        }
    }

    /// The key whose turn it is. A waiter that waits for its tenant's share blocks the tenant's other keys, as one
    /// that waits for capacity blocks everybody.
    fn next_turn(&self, free: u64) -> Turn {
        for key in &self.turns {
            let Some(found) = self.keys.get(*key) else { continue };
            let Some(weight) = found.waiters.front().map(|waiter| waiter.weight) else { continue };
            if !found.allows(weight) {
                continue;
            }
            return match (self.allows(weight), weight <= free) {
                (false, _) => Turn::Kept,
                (true, false) => Turn::NoRoom,
                (true, true) => Turn::Of(*key),
            };
        }
        Turn::Kept
    }

    fn allows(&self, weight: u64) -> bool {
        self.held + weight <= self.limit
    }

    fn queue(&self, key: usize) -> usize {
        self.keys.get(key).map_or(0, |key| key.waiters.len())
    }
}

impl<W> Key<W> {
    fn allows(&self, weight: u64) -> bool {
        self.held + weight <= self.limit
    }
}

fn to_the_end(turns: &mut VecDeque<usize>, which: usize) {
    if let Some(at) = turns.iter().position(|other| *other == which) {
        turns.remove(at);
        turns.push_back(which);
    }
}

/// The limit of a tenant or key, and what it holds.
#[cfg(test)]
pub(crate) type Holding = (u64, u64);

/// State that tests compare with the rules.
#[cfg(test)]
pub(crate) struct Snapshot {
    pub free: u64,
    pub waiting: usize,
    pub tenants: Vec<Holding>,
    /// The keys of each tenant.
    pub keys: Vec<Vec<Holding>>,
    pub(crate) someone_could_go: bool,
}

#[cfg(test)]
impl<W> SemaphoreState<W> {
    pub(crate) fn snapshot(&self) -> Snapshot {
        let keys = |tenant: &Tenant<W>| tenant.keys.iter().map(|key| (key.limit, key.held)).collect();
        Snapshot {
            free: self.free(),
            waiting: self.tenants.iter().flat_map(|tenant| &tenant.keys).map(|key| key.waiters.len()).sum(),
            tenants: self.tenants.iter().map(|tenant| (tenant.limit, tenant.held)).collect(),
            keys: self.tenants.iter().map(keys).collect(),
            someone_could_go: self.next_turn().is_some(),
        }
    }
}
