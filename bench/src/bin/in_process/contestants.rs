//! The contestants: ways to get single IDs, and the limits of the machine for all of them.

use raindrop_bench::{
    machine::version_of,
    rounds::{Sample, one_thread, two_threads},
};

/// The kind of a contestant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    Raindrop,
    Peer,
    Machine,
}

pub(crate) type Measure = Box<dyn FnMut(u64) -> Sample>;

/// An operation on one thread, and on two if it can be measured there.
#[derive(Default)]
pub(crate) struct Threads {
    pub(crate) one: Option<Measure>,
    pub(crate) two: Option<Measure>,
}

impl Threads {
    pub(crate) fn one<T: 'static>(operation: impl FnMut() -> T + 'static) -> Self {
        Self { one: Some(Box::new(one_thread(operation))), two: None }
    }

    /// `make` returns the operation of the first (0) and of the second thread (1).
    pub(crate) fn two<T: 'static, O: FnMut() -> T + 'static>(
        make: impl Fn(usize) -> O + Sync + 'static,
    ) -> Self {
        Self { one: None, two: Some(Box::new(two_threads(make))) }
    }

    pub(crate) fn both<T: 'static, O: FnMut() -> T + 'static>(
        make: impl Fn(usize) -> O + Sync + 'static,
    ) -> Self {
        Self { one: Self::one(make(0)).one, ..Self::two(make) }
    }

    /// The same operation on both, which share all that it refers to.
    pub(crate) fn shared<T: 'static>(operation: impl Fn() -> T + Clone + Sync + 'static) -> Self {
        Self::both(move |_| operation.clone())
    }
}

/// One way to get an ID, or a limit of the machine.
pub(crate) struct Contestant {
    pub(crate) group: Group,
    pub(crate) name: String,
    /// What its documentation guarantees to the threads that share it.
    pub(crate) guarantee: &'static str,
    /// Whether it is a peer that threads can share, and that hands out unique IDs one at a time.
    pub(crate) is_rival: bool,
    /// With a layout whose clock never limits it.
    pub(crate) unlimited: Threads,
    /// With 12 bits of sequence.
    pub(crate) twelve_bits: Threads,
}

impl Contestant {
    pub(crate) fn new(group: Group, name: impl Into<String>, unlimited: Threads) -> Self {
        let (name, twelve_bits) = (name.into(), Threads::default());
        Self { group, name, guarantee: "unique", is_rival: false, unlimited, twelve_bits }
    }

    /// Another generator: a package, and how it is used.
    pub(crate) fn peer(package: &str, how: &str, guarantee: &'static str) -> Self {
        let name = format!("{package} {}, {how}", version_of(package));
        Self { guarantee, ..Self::new(Group::Peer, name, Threads::default()) }
    }

    /// A peer that competes with Raindrop's handle.
    pub(crate) fn rival(package: &str, how: &str, guarantee: &'static str) -> Self {
        Self { is_rival: true, ..Self::peer(package, how, guarantee) }
    }
}
