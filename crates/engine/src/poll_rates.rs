//! How often tasks of MCP servers are looked at: the looks at the tasks that one tenant has at one server take turns, so
//! that many tasks are looked at less often, not more often together.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Entries that are kept before those that are of no use are looked for.
const PRUNE_ABOVE: usize = 1024;

/// When the next look of each tenant at each server has its turn.
#[derive(Debug, Default)]
pub(super) struct PollRates {
    turns: Mutex<HashMap<(Arc<str>, String), Instant>>,
}

impl PollRates {
    /// After which time a task is looked at that is to be looked at after `asked`: later, if so many looks have been given
    /// a turn that there would be more than `per_second`.
    pub(super) fn turn(&self, tenant: &Arc<str>, server: &str, per_second: u32, asked: Duration) -> Duration {
        self.turn_at(Instant::now(), (tenant, server), per_second, asked)
    }

    fn turn_at(
        &self,
        now: Instant,
        (tenant, server): (&Arc<str>, &str),
        per_second: u32,
        asked: Duration,
    ) -> Duration {
        let apart = Duration::from_secs(1) / per_second.max(1);
        let mut turns = self.turns.lock();
        if turns.len() > PRUNE_ABOVE {
            turns.retain(|_, next| *next > now);
        }
        let next = turns.entry((Arc::clone(tenant), server.to_owned())).or_insert(now);
        let turn = (*next).max(now);
        *next = turn + apart;
        asked.saturating_add(turn - now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1,000 tasks of one tenant were 3,900 polls a second.
    #[test]
    fn looks_at_many_tasks_of_one_server_are_no_more_than_its_rate() {
        let (rates, start, tenant) = (PollRates::default(), Instant::now(), Arc::from("acme"));
        let asked = Duration::from_millis(200);
        let mut due: Vec<Duration> =
            (0..1000).map(|_| rates.turn_at(start, (&tenant, "shop"), 10, asked)).collect();
        let end = Duration::from_secs(300);
        let mut looks = vec![0_u32; 300];
        loop {
            let (task, at) = due.iter().copied().enumerate().min_by_key(|(_, at)| *at).unwrap();
            if at >= end {
                break;
            }
            looks[usize::try_from(at.as_secs()).unwrap()] += 1;
            due[task] = at + rates.turn_at(start + at, (&tenant, "shop"), 10, asked);
        }
        assert!(looks.iter().all(|looks| *looks <= 13), "{looks:?}");
        assert!(looks.iter().sum::<u32>() > 2900, "nor are they fewer: {looks:?}");
    }

    #[test]
    fn one_task_is_looked_at_when_it_asks_whatever_others_do() {
        let (rates, start) = (PollRates::default(), Instant::now());
        let (busy, other) = (Arc::from("busy"), Arc::from("other"));
        let asked = Duration::from_millis(200);
        for _ in 0..1000 {
            rates.turn_at(start, (&busy, "shop"), 10, asked);
        }
        assert_eq!(rates.turn_at(start, (&other, "shop"), 10, asked), asked);
        assert_eq!(rates.turn_at(start, (&busy, "library"), 10, asked), asked);
        let later = start + Duration::from_secs(101);
        assert_eq!(
            rates.turn_at(later, (&busy, "shop"), 10, asked),
            asked,
            "turns that were not used are over"
        );
    }
}
