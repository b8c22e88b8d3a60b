//! Keys that a request names, of which each is looked up once, and each response is read once.

use std::collections::HashMap;
use std::hash::Hash;

/// The requested keys, each to be looked up once.
pub struct DistinctKeys<'a, K> {
    /// Each distinct key, and how often it was requested.
    pub distinct: Vec<(&'a K, u64)>,
    /// The index among the distinct keys of each requested key.
    indices: Vec<usize>,
}

impl<'a, K: Eq + Hash> DistinctKeys<'a, K> {
    /// Finds equal keys; the distinct ones are in the order in which they come first.
    pub fn new(keys: &'a [K]) -> Self {
        let mut known: HashMap<&K, usize> = HashMap::with_capacity(keys.len());
        let mut requested =
            Self { distinct: Vec::with_capacity(keys.len()), indices: Vec::with_capacity(keys.len()) };
        for key in keys {
            let index = *known.entry(key).or_insert(requested.distinct.len());
            match requested.distinct.get_mut(index) {
                Some((_, times)) => *times += 1,
                None => requested.distinct.push((key, 1)),
            }
            requested.indices.push(index);
        }
        requested
    }

    /// The results of the distinct keys, for each requested key.
    pub fn expand<T: Clone + Default>(self, found: &[T]) -> Vec<T> {
        self.indices.into_iter().map(|index| found.get(index).cloned().unwrap_or_default()).collect()
    }
}

/// Groups pairs of a response and the place of what is looked for in it: the newest response first.
pub fn newest_first<K: Ord + Copy>(pairs: &mut [(K, usize)]) -> impl Iterator<Item = (K, &[(K, usize)])> {
    pairs.sort_unstable_by(|a, b| b.cmp(a));
    pairs.chunk_by(|a, b| a.0 == b.0).filter_map(|group| Some((group.first()?.0, group)))
}
