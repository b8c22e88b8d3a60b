//! The time axis of a picture: a column for each time. Long waits are left out, and said to be.

use crate::cli::words::between;

/// A wait is left out if it takes more of the axis than this share.
const LONGEST_SHARE: u64 = 4;

/// Maps times to columns.
pub(super) struct Axis {
    start: i64,
    /// What is left out: from, to.
    gaps: Vec<(i64, i64)>,
    /// Time on the axis, gaps aside.
    shown: u64,
    columns: usize,
}

impl Axis {
    /// From start to end; `waits` are the times at which nothing was done.
    pub(super) fn new(start: i64, end: i64, waits: &[(i64, i64)], columns: usize) -> Self {
        let whole = between(start, end).max(1);
        let mut gaps: Vec<(i64, i64)> = Vec::new();
        let mut sorted = waits.to_vec();
        sorted.sort_unstable();
        for (from, to) in sorted {
            let (from, to) = (from.max(start).max(gaps.last().map_or(start, |gap| gap.1)), to.min(end));
            if between(from, to) > whole / LONGEST_SHARE {
                gaps.push((from, to));
            }
        }
        let left_out: u64 = gaps.iter().map(|(from, to)| between(*from, *to)).sum();
        Self { start, gaps, shown: whole.saturating_sub(left_out).max(1), columns: columns.max(1) }
    }

    /// The column of a time.
    pub(super) fn column(&self, at: i64) -> usize {
        let before: u64 = self.gaps.iter().map(|(from, to)| between(*from, at.min(*to))).sum();
        let time = between(self.start, at).saturating_sub(before).min(self.shown);
        let column = u128::from(time) * self.columns as u128 / u128::from(self.shown);
        usize::try_from(column).unwrap_or_default().min(self.columns - 1)
    }

    /// The time at a column.
    pub(super) fn time(&self, column: usize) -> u64 {
        let time = u128::from(self.shown) * column as u128 / self.columns as u128;
        u64::try_from(time).unwrap_or_default()
    }

    /// The columns at which something is left out.
    pub(super) fn gaps(&self) -> impl Iterator<Item = usize> {
        self.gaps.iter().map(|(from, _)| self.column(*from))
    }

    /// How much is left out.
    pub(super) fn left_out(&self) -> u64 {
        self.gaps.iter().map(|(from, to)| between(*from, *to)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::Axis;

    #[test]
    fn times_are_in_proportion_and_never_off_the_axis() {
        let axis = Axis::new(1000, 2000, &[], 50);
        assert_eq!([0, 1000, 1500, 1999, 2000, 9000].map(|at| axis.column(at)), [0, 0, 25, 49, 49, 49]);
        assert_eq!((axis.time(25), axis.left_out()), (500, 0));
    }

    #[test]
    fn a_long_wait_is_left_out_and_a_short_one_is_not() {
        let axis = Axis::new(0, 10_000, &[(1000, 9000), (9100, 9200)], 20);
        assert_eq!(axis.left_out(), 8000);
        assert_eq!(axis.gaps().collect::<Vec<_>>(), [10]);
        assert_eq!([500, 1000, 5000, 9000, 9500].map(|at| axis.column(at)), [5, 10, 10, 10, 15]);
        let empty = Axis::new(5, 5, &[(5, 5)], 10);
        assert_eq!((empty.column(5), empty.left_out()), (0, 0));
    }
}
