//! Who loses what when something that tenants share is full.

/// How much each of those loses who hold so much, for so much to be freed in all: those who hold most come down to one level,
/// and who is at or below it loses nothing.
///
/// The level is the share of those above it: what may stay, less what the others hold, divided evenly. It is never below an
/// even share of what may stay, so whoever is within that keeps all.
pub fn losses(held: &[u64], excess: u64) -> Vec<u64> {
    let mut sorted = held.to_vec();
    sorted.sort_unstable_by(|one, other| other.cmp(one));
    let (mut above, mut level) = (0_u64, 0);
    let nexts = sorted.iter().skip(1).copied().chain([0]);
    for (count, (held, next)) in (1_u64..).zip(sorted.iter().zip(nexts)) {
        above = above.saturating_add(*held);
        if above.saturating_sub(next.saturating_mul(count)) >= excess {
            level = above.saturating_sub(excess) / count;
            break;
        }
    }
    held.iter().map(|held| held.saturating_sub(level)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn those_above_their_share_come_down_to_it_and_others_keep_all() {
        for (held, excess, expected) in [
            (vec![], 5, vec![]),
            (vec![10, 20], 0, vec![0, 0]),
            // 60 of one and a little of another, and 50 is all that may stay.
            (vec![60, 2], 12, vec![12, 0]),
            (vec![60, 50, 2], 12, vec![11, 1, 0]),
            (vec![30, 30, 1], 20, vec![10, 10, 0]),
            (vec![30, 30, 1], 61, vec![30, 30, 1]),
            (vec![3, 4], 100, vec![3, 4]),
        ] {
            assert_eq!(losses(&held, excess), expected, "{held:?} less {excess}");
        }
    }

    proptest! {
        #[test]
        fn enough_is_freed_by_those_who_hold_most(
            held in proptest::collection::vec(0..1000_u64, 0..8), excess in 0..5000_u64,
        ) {
            let lost = losses(&held, excess);
            let (total, freed) = (held.iter().sum::<u64>(), lost.iter().sum::<u64>());
            prop_assert!(freed >= excess.min(total) && freed < excess.max(1) + held.len() as u64);
            let share = total.saturating_sub(excess) / (held.len().max(1) as u64);
            for (held, lost) in held.iter().zip(&lost) {
                prop_assert!(lost <= held && (*held > share || *lost == 0), "within its share it keeps all");
            }
            let left = || held.iter().zip(&lost).map(|(held, lost)| (held - lost, *lost > 0));
            for (kept, _) in left().filter(|(_, loses)| *loses) {
                prop_assert!(left().all(|(other, _)| other <= kept), "nobody has more than one who loses");
            }
        }
    }
}
