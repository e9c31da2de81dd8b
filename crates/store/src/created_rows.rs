//! Which rows of a namespace were created. Nodes create them in parts, as they need them.

use std::ops::RangeInclusive;

/// The number of parts that a mask has bits for.
const MOST_PARTS: u64 = u64::BITS as u64;

/// Which rows of one reserved key were created. A row that was never created was never leased, so
/// it may begin without marks. A row that was created and is missing may have been in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CreatedRows {
    /// The rows of every worker id.
    All,
    /// The rows of some parts.
    Parts {
        /// The number of worker ids in a part; the first part begins at 0.
        size: u64,
        /// A bit for each part, from the lowest on: 1 if its rows were created.
        parts: u64,
    },
}

impl CreatedRows {
    /// Returns the value for `workers` worker ids without any row. A part has `at_once` worker ids,
    /// or more if the mask has too few bits for so small parts.
    pub fn none(workers: u64, at_once: u64) -> Self {
        Self::Parts { size: at_once.max(workers.div_ceil(MOST_PARTS)).max(1), parts: 0 }
    }

    /// Returns whether the row of this worker was created.
    pub const fn contains(self, worker: u64) -> bool {
        match self {
            Self::All => true,
            Self::Parts { size, parts } => {
                let part = worker / size;
                part < MOST_PARTS && parts >> part & 1 == 1
            }
        }
    }

    /// Returns the disjoint ranges of workers, below `workers`, whose rows were created.
    pub fn ranges(self, workers: u64) -> Vec<RangeInclusive<u64>> {
        let created: Vec<u64> = (0..workers).filter(|worker| self.contains(*worker)).collect();
        let runs = created.chunk_by(|before, worker| before + 1 == *worker);
        runs.map(|run| run[0]..=run[run.len() - 1]).collect()
    }

    /// Counts the rows of a range that were created.
    pub fn count(self, range: &RangeInclusive<u64>) -> u64 {
        range.clone().filter(|worker| self.contains(*worker)).count() as u64
    }

    /// Returns the first part that has workers of the range and was not created, and the value once
    /// it is. There are `workers` worker ids.
    pub fn next(
        self,
        range: &RangeInclusive<u64>,
        workers: u64,
    ) -> Option<(RangeInclusive<u64>, Self)> {
        let Self::Parts { size, parts } = self else { return None };
        let mut wanted = range.start() / size..=range.end() / size;
        let part = wanted.find(|part| *part < MOST_PARTS && !self.contains(part * size))?;
        let with = Self::Parts { size, parts: parts | 1 << part };
        let is_whole = with.count(&(0..=workers - 1)) == workers;
        let created = if is_whole { Self::All } else { with };
        Some((part * size..=((part + 1) * size).min(workers) - 1, created))
    }

    /// Returns the entry of a reserved key in a record: `0/0` if all rows were created,
    /// `0/0:1024:5` if the first and the third part of 1024 were.
    pub(super) fn entry(self, key: &str) -> String {
        match self {
            Self::All => key.to_owned(),
            Self::Parts { size, parts } => format!("{key}:{size}:{parts:x}"),
        }
    }

    /// Parses an entry.
    pub(super) fn read(entry: &str) -> Option<(&str, Self)> {
        let (key, created) = match entry.split_once(':') {
            None => (entry, Self::All),
            Some((key, parts)) => {
                let (size, parts) = parts.split_once(':')?;
                let size = size.parse().ok().filter(|size| *size > 0)?;
                (key, Self::Parts { size, parts: u64::from_str_radix(parts, 16).ok()? })
            }
        };
        let is_number =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let (width, value) = key.split_once('/')?;
        // Only the exact text is valid, because a change of the record compares it.
        (is_number(width) && is_number(value) && created.entry(key) == entry)
            .then_some((key, created))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_made_until_all_are() {
        let mut created = CreatedRows::none(2500, 1000);
        let (all, wide) = (0..=2499, 1..=2499);
        assert_eq!(
            (created.count(&all), created.contains(0), created.ranges(2500)),
            (0, false, vec![])
        );
        // A node with a single worker id needs one part.
        let (part, with) = created.next(&(1500..=1500), 2500).expect("a part");
        assert_eq!((part, with), (1000..=1999, CreatedRows::Parts { size: 1000, parts: 2 }));
        assert_eq!(with.next(&(1500..=1500), 2500), None);
        assert!(with.contains(1000) && with.contains(1999));
        assert!(!with.contains(999) && !with.contains(2000) && !with.contains(u64::MAX));
        assert_eq!((with.count(&all), with.count(&(1500..=2100))), (1000, 500));
        let both = with.next(&wide, 2500).expect("a part").1;
        assert_eq!((both.ranges(2500), both.count(&(999..=1000))), (vec![0..=1999], 2));
        created = with;
        let mut parts = Vec::new();
        while let Some((part, with)) = created.next(&wide, 2500) {
            parts.push(part);
            created = with;
        }
        assert_eq!((parts, created), (vec![0..=999, 2000..=2499], CreatedRows::All));
        assert_eq!((created.count(&wide), created.ranges(2500)), (2499, vec![all]));
    }

    #[test]
    fn a_mask_names_every_part() {
        for (workers, at_once, size) in [(1 << 16, 1024, 1024), (1 << 16, 1, 1024), (8, 0, 1)] {
            let mut created = CreatedRows::none(workers, at_once);
            assert_eq!(created, CreatedRows::Parts { size, parts: 0 });
            let mut count = 0;
            while let Some((part, with)) = created.next(&(0..=workers - 1), workers) {
                count += part.end() - part.start() + 1;
                created = with;
            }
            assert_eq!((count, created), (workers, CreatedRows::All));
        }
        // Parts smaller than any node creates: their mask does not reach all workers.
        let small = CreatedRows::Parts { size: 1, parts: u64::MAX };
        assert_eq!((small.next(&(0..=99), 100), small.contains(64)), (None, false));
        assert_eq!(
            CreatedRows::none(1024, 1024).next(&(5..=5), 1024),
            Some((0..=1023, CreatedRows::All))
        );
    }

    #[test]
    fn entries_are_read_as_they_were_written() {
        let some = CreatedRows::Parts { size: 1024, parts: 0x8000_0000_0000_0005 };
        for (key, created, entry) in
            [("0/0", CreatedRows::All, "0/0"), ("5/31", some, "5/31:1024:8000000000000005")]
        {
            assert_eq!(created.entry(key), entry);
            assert_eq!(CreatedRows::read(entry), Some((key, created)));
        }
        for wrong in [
            "", "0", "/", "0/", "a/0", "0/0:", "0/0:0:1", "0/0:1", "0/0:1:g", "0/0:01:1",
            "0/0:1:01",
        ] {
            assert_eq!(CreatedRows::read(wrong), None, "{wrong}");
        }
    }
}
