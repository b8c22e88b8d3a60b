//! The semaphore against its rules: whatever is asked, given back and given up, in whatever order.

use std::sync::Arc;

use futures_util::FutureExt;
use proptest::prelude::{Strategy, prop_oneof};
use proptest::{collection, proptest};

use super::semaphore::{AcquireError, AcquireOutcome, FairSemaphore, PendingPermit, Permit};
use super::shares::Shares;
use antwort_identity::Requester;

fn requester(tenant: usize, key: usize) -> Requester {
    Requester::new(&format!("t{tenant}").into(), &format!("k{key}").into())
}

/// Requesters of so many tenants with so many keys each.
fn everybody(tenants: usize, keys: usize) -> Vec<Requester> {
    (0..tenants).flat_map(|tenant| (0..keys).map(move |key| requester(tenant, key))).collect()
}

fn granted(semaphore: &FairSemaphore, requester: &Requester, weight: u64) -> Permit {
    match semaphore.acquire(requester, weight) {
        Ok(AcquireOutcome::Granted(permit)) => permit,
        other => panic!("{other:?}"),
    }
}

fn queued(semaphore: &FairSemaphore, requester: &Requester, weight: u64) -> PendingPermit {
    match semaphore.acquire(requester, weight) {
        Ok(AcquireOutcome::Queued(waiting)) => waiting,
        other => panic!("{other:?}"),
    }
}

#[derive(Debug, Clone)]
enum Step {
    Acquire {
        tenant: usize,
        key: usize,
        weight: u64,
    },
    /// Of those who hold something, by a number that is taken modulo theirs.
    Release(usize),
    Shrink(usize, u64),
    Leave(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..3_usize, 0..3_usize, 1..12_u64).prop_map(|(tenant, key, weight)| Step::Acquire { tenant, key, weight }),
        3 => (0..64_usize).prop_map(Step::Release),
        1 => (0..64_usize, 1..6_u64).prop_map(|(which, weight)| Step::Shrink(which, weight)),
        1 => (0..64_usize).prop_map(Step::Leave),
    ]
}

/// Moves those who were served from the queue to the holders.
fn collect(waiting: &mut Vec<PendingPermit>, holders: &mut Vec<Permit>) {
    let all = std::mem::take(waiting);
    for mut one in all {
        match (&mut one).now_or_never() {
            Some(Ok(permit)) => holders.push(permit),
            Some(Err(refused)) => assert_eq!(refused, AcquireError::QueueFull),
            None => waiting.push(one),
        }
    }
}

fn check(semaphore: &FairSemaphore, capacity: u64, holders: &[Permit], waiting: usize) {
    let state = semaphore.snapshot();
    let held: u64 = state.tenants.iter().map(|(_, held)| held).sum();
    assert_eq!(state.free + held, capacity, "what is held is not free");
    assert_eq!(
        held,
        holders.iter().map(Permit::weight).sum::<u64>(),
        "no permit is lost, none counted twice"
    );
    for ((limit, held), keys) in state.tenants.iter().zip(&state.keys) {
        assert!(held <= limit, "a tenant holds {held} of {limit}");
        assert_eq!(*held, keys.iter().map(|(_, held)| held).sum::<u64>());
        assert!(keys.iter().all(|(limit, held)| held <= limit), "a key holds more than its share");
    }
    assert_eq!(state.waiting, waiting, "who left waits no more");
    assert!(!state.someone_could_go, "nobody waits who could go");
}

proptest! {
    #[test]
    fn never_above_capacity_or_share_and_no_permit_is_lost(
        steps in collection::vec(step(), 1..120),
        tenants in 1..4_usize,
        keys in 1..4_usize,
        capacity in 1..24_u64,
    ) {
        let shares = Shares::new(capacity, &everybody(tenants, keys));
        let semaphore = FairSemaphore::with_queue(shares, 8);
        let (mut holders, mut waiting) = (Vec::new(), Vec::new());
        for step in steps {
            match step {
                Step::Acquire { tenant, key, weight } => {
                    match semaphore.acquire(&requester(tenant, key), weight) {
                        Ok(AcquireOutcome::Granted(permit)) => holders.push(permit),
                        Ok(AcquireOutcome::Queued(one)) => waiting.push(one),
                        Err(refused) => assert_eq!(refused, AcquireError::QueueFull),
                    }
                }
                Step::Release(which) if !holders.is_empty() => {
                    drop(holders.swap_remove(which % holders.len()));
                }
                Step::Shrink(which, weight) if !holders.is_empty() => {
                    let at = which % holders.len();
                    holders[at].shrink_to(weight);
                }
                Step::Leave(which) if !waiting.is_empty() => {
                    drop(waiting.swap_remove(which % waiting.len()));
                }
                _ => {}
            }
            collect(&mut waiting, &mut holders);
            assert!(waiting.len() <= 8, "the queue is bounded");
            check(&semaphore, capacity, &holders, waiting.len());
        }
        // Whoever waits is served in the end, however large its weight.
        while !waiting.is_empty() {
            assert!(!holders.is_empty(), "somebody waits for nobody");
            drop(holders.swap_remove(0));
            collect(&mut waiting, &mut holders);
        }
        drop(holders);
        assert_eq!(semaphore.snapshot().free, capacity);
    }

    #[test]
    fn tenants_with_a_backlog_are_served_in_turns(
        backlogs in collection::vec(4..12_usize, 2..5),
        capacity in 1..4_u64,
    ) {
        // As many units to each as it likes: only the turns decide.
        let shares = Shares::new(capacity, &[]);
        let semaphore = FairSemaphore::new(shares);
        let mut holders: Vec<_> = (0..capacity).map(|_| granted(&semaphore, &requester(99, 0), 1)).collect();
        let mut queues: Vec<Vec<PendingPermit>> = backlogs.iter().enumerate()
            // One tenant is there with all of its requests before the next one comes.
            .map(|(tenant, backlog)| (0..*backlog).map(|_| queued(&semaphore, &requester(tenant, 0), 1)).collect())
            .collect();
        let least = *backlogs.iter().min().unwrap();
        let mut served = vec![0_usize; backlogs.len()];
        while *served.iter().min().unwrap() < least {
            drop(holders.remove(0));
            for (tenant, queue) in queues.iter_mut().enumerate() {
                let before = holders.len();
                collect(queue, &mut holders);
                served[tenant] += holders.len() - before;
            }
            let (most, fewest) = (served.iter().max().unwrap(), served.iter().min().unwrap());
            assert!(most - fewest <= 1, "{served:?}");
        }
    }
}

#[test]
fn keys_of_a_tenant_are_served_in_turns_and_requests_of_a_key_in_their_order() {
    let semaphore = FairSemaphore::new(Shares::new(1, &[]));
    let mut holder = Some(granted(&semaphore, &requester(0, 9), 1));
    let mut waiting: Vec<(&str, PendingPermit)> = ["a1", "a2", "a3"]
        .map(|name| (name, 0))
        .into_iter()
        .chain([("b1", 1), ("b2", 1)])
        .map(|(name, key)| (name, queued(&semaphore, &requester(0, key), 1)))
        .collect();
    let mut order = Vec::new();
    while !waiting.is_empty() {
        drop(holder.take());
        let ready = waiting.iter_mut().position(|(_, one)| match one.now_or_never() {
            Some(outcome) => {
                holder = Some(outcome.unwrap());
                true
            }
            None => false,
        });
        order.push(waiting.remove(ready.expect("one is served")).0);
    }
    assert_eq!(order, ["a1", "b1", "a2", "b2", "a3"]);
}

#[test]
fn a_large_weight_is_served_though_small_ones_keep_coming() {
    let semaphore = FairSemaphore::new(Shares::new(10, &[]));
    let mut small: Vec<_> = (0..10).map(|_| granted(&semaphore, &requester(0, 0), 1)).collect();
    let mut large = queued(&semaphore, &requester(1, 0), 10);
    let mut behind = Vec::new();
    for _ in 0..10 {
        assert!((&mut large).now_or_never().is_none());
        behind.push(queued(&semaphore, &requester(0, 0), 1));
        drop(small.pop());
    }
    let large = large.now_or_never().expect("it is its turn").unwrap();
    assert!(behind.iter_mut().all(|one| one.now_or_never().is_none()));
    drop(large);
    assert!(behind.iter_mut().all(|one| one.now_or_never().is_some()));
}

#[test]
fn who_is_kept_by_a_share_lets_others_pass() {
    let semaphore = FairSemaphore::new(Shares::new(4, &everybody(3, 1)));
    let _half: Vec<_> = (0..2).map(|_| granted(&semaphore, &requester(0, 0), 1)).collect();
    let mut third = queued(&semaphore, &requester(0, 0), 1);
    let mut other = queued(&semaphore, &requester(1, 0), 1);
    assert!((&mut other).now_or_never().is_some_and(|outcome| outcome.is_ok()), "there is room for others");
    assert!((&mut third).now_or_never().is_none());
}

#[test]
fn a_full_queue_loses_the_newest_of_the_longest_part() {
    let semaphore = FairSemaphore::with_queue(Shares::new(1, &[]), 4);
    let _holder = granted(&semaphore, &requester(9, 9), 1);
    let mut crowd: Vec<_> = (0..4).map(|_| queued(&semaphore, &requester(0, 0), 1)).collect();
    assert_eq!(semaphore.acquire(&requester(0, 0), 1).unwrap_err(), AcquireError::QueueFull);
    let _other_tenant = queued(&semaphore, &requester(1, 0), 1);
    let _other_key = queued(&semaphore, &requester(0, 1), 1);
    let lost: Vec<bool> = crowd.iter_mut().map(|one| one.now_or_never().is_some()).collect();
    assert_eq!(lost, [false, false, true, true]);
    assert_eq!(semaphore.acquire(&requester(0, 0), 1).unwrap_err(), AcquireError::QueueFull);
}

#[test]
fn a_closed_semaphore_refuses_who_waits_and_keeps_what_it_gave() {
    let semaphore = FairSemaphore::new(Shares::new(1, &[]));
    let holder = granted(&semaphore, &requester(0, 0), 1);
    let waiting = queued(&semaphore, &requester(0, 0), 1);
    semaphore.close();
    assert_eq!(waiting.now_or_never().expect("refused").unwrap_err(), AcquireError::Closed);
    assert_eq!(semaphore.acquire(&requester(0, 0), 1).unwrap_err(), AcquireError::Closed);
    drop(holder);
    assert_eq!(semaphore.snapshot().free, 1);
}

#[test]
fn holders_and_waiters_of_many_threads_leave_nothing_behind() {
    let semaphore = FairSemaphore::new(Shares::new(8, &everybody(2, 2)));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().unwrap();
    let most = Arc::new(std::sync::atomic::AtomicU64::new(0));
    runtime.block_on(async {
        let tasks: Vec<_> = (0..32_usize)
            .map(|number| {
                let (semaphore, most) = (semaphore.clone(), Arc::clone(&most));
                runtime.spawn(async move {
                    for round in 0..100_u64 {
                        let who = requester(number % 2, number / 2 % 2);
                        let permit = match semaphore.acquire(&who, 1 + (round + number as u64) % 3) {
                            Ok(AcquireOutcome::Granted(permit)) => Some(permit),
                            // Every fifth leaves the queue again.
                            Ok(AcquireOutcome::Queued(waiting)) if round % 5 == 0 => {
                                tokio::task::yield_now().await;
                                drop(waiting);
                                None
                            }
                            Ok(AcquireOutcome::Queued(waiting)) => Some(waiting.await.unwrap()),
                            Err(refused) => panic!("{refused:?}"),
                        };
                        let held = 8 - semaphore.snapshot().free;
                        most.fetch_max(held, std::sync::atomic::Ordering::Relaxed);
                        tokio::task::yield_now().await;
                        drop(permit);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    let end = semaphore.snapshot();
    assert_eq!((end.free, end.waiting), (8, 0));
    assert!(most.load(std::sync::atomic::Ordering::Relaxed) <= 8);
}

#[test]
fn limits_that_change_count_what_was_granted_before() {
    let (a, b) = (requester(0, 0), requester(1, 0));
    let configured = [a.clone(), b.clone()];
    let semaphore = FairSemaphore::new(Shares::new(8, &configured));
    let mut held = vec![granted(&semaphore, &a, 4), granted(&semaphore, &b, 3)];
    let large = queued(&semaphore, &b, 4);
    // Fewer than are held: nothing is taken away, and nothing given until enough has gone back.
    semaphore.resize(Shares::new(4, &configured));
    let mut waiting = vec![large, queued(&semaphore, &a, 1)];
    collect(&mut waiting, &mut held);
    assert_eq!((held.len(), semaphore.snapshot().free), (2, 0));
    held.remove(0);
    collect(&mut waiting, &mut held);
    assert_eq!(held.iter().map(Permit::weight).collect::<Vec<_>>(), [3, 1], "3 are held of 4, and 1 is free");
    held.clear();
    collect(&mut waiting, &mut held);
    assert_eq!(
        held.iter().map(Permit::weight).collect::<Vec<_>>(),
        [2],
        "a waiter gets what it may have at most now"
    );
    // More again, and a key of its own limit.
    semaphore.resize(Shares::new(10, &configured).with_key_limit(&a, 1));
    held.push(granted(&semaphore, &a, 5));
    held.push(granted(&semaphore, &b, 3));
    assert_eq!(held.iter().map(Permit::weight).collect::<Vec<_>>(), [2, 1, 3]);
    assert_eq!(semaphore.snapshot().free, 4);
    held.clear();
    assert_eq!(semaphore.snapshot().free, 10);
}
