//! How a namespace is doing, for health checks and people.

/// Why no ID can be issued, or why soon none can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The first lease is still being acquired, or the codes are being made.
    Starting,
    /// Every row is held, or its marks are ahead; seconds until the first comes due, if known.
    NoFreeWorker {
        /// After how many seconds it is worth asking again.
        retry_after_seconds: u64,
    },
    /// The store fails; the text says how.
    StoreUnavailable(String),
    /// The row, the code or the namespace's record vanished from the store, the code's next number
    /// went back, or the record says another layout now. The keeper looks again every 5 s.
    StoreLost,
    /// The node's clock is ahead by this many milliseconds, so no lease is acquired or renewed.
    ClockAhead(i64),
    /// The clock went back further than is held, and no other lane or worker is to be had.
    ClockWentBack,
    /// The clock is before the epoch or past the timestamp's end.
    ClockOutOfRange,
    /// The limit is used up and a renewal is under way.
    LimitReached,
    /// A segment code has no numbers left, for ever.
    NumbersUsedUp,
    /// The lease is being released.
    ShuttingDown,
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Starting => f.write_str("starting: the store has not been asked for everything yet"),
            Self::NoFreeWorker { retry_after_seconds } => {
                write!(f, "no worker id is free; the first may come free in {retry_after_seconds} s")
            }
            Self::StoreUnavailable(how) => write!(f, "the store fails: {how}"),
            Self::StoreLost => f.write_str(
                "what this process had in the store vanished, went back or says another layout now; put the store right",
            ),
            Self::ClockAhead(ahead_ms) => {
                write!(f, "the clock is {ahead_ms} ms ahead; no lease is acquired or renewed with it")
            }
            Self::ClockWentBack => {
                f.write_str("the clock went back and no other lane or worker is to be had")
            }
            Self::ClockOutOfRange => {
                f.write_str("the clock is before the layout's epoch or past its end")
            }
            Self::LimitReached => f.write_str("the lease is used up until it is renewed"),
            Self::NumbersUsedUp => f.write_str("the code has no numbers left"),
            Self::ShuttingDown => f.write_str("the service is shutting down"),
        }
    }
}

/// The lease that IDs are issued from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseView {
    /// The worker id.
    pub worker: u64,
    /// The lane.
    pub lane: u64,
    /// The instant, in Unix ms, up to which the lease reaches without the store.
    pub valid_until_ms: i64,
    /// Whether a position is left between the present instant and the limit.
    pub has_range: bool,
}

/// A snapshot of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The lease, if one is held or is being used up.
    pub lease: Option<LeaseView>,
    /// What is wrong, if anything is; with a lease that has range left, IDs are still issued.
    pub trouble: Option<Trouble>,
    /// By how many ms the node's clock is ahead of the store's (negative: behind).
    pub clock_ahead_ms: i64,
    /// Rows that are held, as last seen.
    pub workers_held: u64,
    /// Rows that are free, as last seen.
    pub workers_free: u64,
    /// How many codes have a cursor.
    pub codes: usize,
}

impl Status {
    /// Whether IDs can be issued now.
    pub fn is_issuing(&self) -> bool {
        self.lease.is_some_and(|lease| lease.has_range)
            && !matches!(
                self.trouble,
                Some(Trouble::ShuttingDown | Trouble::ClockOutOfRange | Trouble::ClockWentBack)
            )
    }
}
