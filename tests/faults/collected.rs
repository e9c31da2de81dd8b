//! Collects every ID that any client got.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The IDs of one code.
#[derive(Debug, Default)]
pub(crate) struct Collected(Mutex<Ids>);

#[derive(Debug, Default)]
struct Ids {
    count: usize,
    duplicates: usize,
    /// The IDs that were compared with each other; ascending, each once.
    compared: Vec<u64>,
    recent: Vec<u64>,
}

impl Collected {
    /// Adds the IDs of one answer.
    pub(crate) fn add(&self, ids: &[u64]) {
        assert!(ids.is_sorted_by(|a, b| a < b), "a batch ascends");
        let mut all = self.lock();
        all.count += ids.len();
        all.recent.extend(ids);
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().count
    }

    /// Returns how many IDs came more than once.
    pub(crate) fn duplicates(&self) -> usize {
        let Ids { duplicates, compared, recent, .. } = &mut *self.lock();
        let given = compared.len() + recent.len();
        compared.append(recent);
        // The sort finds what is in order already, so that only the recent IDs cost.
        compared.sort();
        compared.dedup();
        *duplicates += given - compared.len();
        *duplicates
    }

    /// Returns how many IDs since the last comparison match.
    pub(crate) fn count_recent(&self, is_like: impl Fn(u64) -> bool) -> usize {
        self.lock().recent.iter().filter(|id| is_like(**id)).count()
    }

    fn lock(&self) -> MutexGuard<'_, Ids> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[test]
fn an_id_that_comes_again_is_counted_whenever_it_comes() {
    let collected = Collected::default();
    collected.add(&[1, 2, 9]);
    collected.add(&[2, 3]);
    assert_eq!((collected.count(), collected.duplicates()), (5, 1));
    collected.add(&[3, 4]);
    collected.add(&[9]);
    assert_eq!(collected.count_recent(|id| id > 3), 2);
    assert_eq!((collected.count(), collected.duplicates()), (8, 3));
}
