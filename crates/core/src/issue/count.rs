//! How many IDs a claim takes.

/// How many IDs a claim takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// So many, or none.
    Exactly(u32),
    /// At least one and at most so many, so that the next claim waits for 10 ms at most. Of a tick that
    /// lasts longer, of what is leased, and of numbers in hand it leaves others some.
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
