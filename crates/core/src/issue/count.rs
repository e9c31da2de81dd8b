//! How many IDs a claim takes.

/// How many IDs a claim takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// So many, or none.
    Exactly(u32),
    /// At least one and at most so many: what comes due within 10 ms, so that no other claim waits longer
    /// because of it; of numbers, what does not leave others without.
    UpTo(u32),
}

impl Count {
    /// The largest number of IDs that the claim can take.
    pub const fn most(self) -> u32 {
        match self {
            Self::Exactly(count) | Self::UpTo(count) => count,
        }
    }
}

impl From<u32> for Count {
    fn from(count: u32) -> Self {
        Self::Exactly(count)
    }
}
