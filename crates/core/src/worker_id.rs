//! Worker ids that are assigned, not leased.
//!
//! A store ensures that a worker id has one holder at a time. Without a store only the one who
//! assigns the ids can: each source states what it relies on ([`WorkerIdSource::premise`]).
//! With a store an assigned id is leased too, on exactly its row, and the full promise holds.
//!
//! # Examples
//!
//! ```
//! use std::sync::Arc;
//! use raindrop_core::{
//!     clock::SystemClock,
//!     issue::{Generator, IssueSettings},
//!     preset::Preset,
//!     worker_id::{TrailingOrdinal, WorkerIdSource},
//! };
//!
//! let layout = Preset::Raindrop.spec().build()?;
//! let source = TrailingOrdinal("raindrop-3".into());
//! let worker = source.worker_id(&layout)?;
//! println!("unique only while {}", source.premise());
//! let generator = Generator::with_worker(
//!     layout, worker, &IssueSettings::default(), Arc::new(SystemClock::default()))?;
//! assert_eq!(generator.layout().decompose(generator.claim("order", 1)?.ids.next().unwrap()).worker, 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::{
    env,
    fmt::Debug,
    net::{IpAddr, Ipv4Addr},
};

use crate::layout::Layout;

/// Gives a process its worker id.
pub trait WorkerIdSource: Debug + Send + Sync {
    /// Returns the worker id of this process, from the layout's smallest to its largest.
    ///
    /// # Errors
    ///
    /// When the source has none, or it does not fit the layout.
    fn worker_id(&self, layout: &Layout) -> Result<u64, WorkerIdError>;

    /// Returns what must hold so that no other process has the same id, as a phrase that follows
    /// "unique only while".
    fn premise(&self) -> String;
}

/// Why a source gives no worker id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerIdError {
    /// The source has no worker id; the text says what it has instead.
    #[error("{0}")]
    Missing(String),
    /// The layout has no such worker id.
    #[error("worker id {id} is outside {smallest} to {largest}, those of the layout")]
    OutOfRange {
        /// The id.
        id: u64,
        /// The smallest that the layout has.
        smallest: u64,
        /// The largest that the layout has.
        largest: u64,
    },
}

fn fit(id: u64, layout: &Layout) -> Result<u64, WorkerIdError> {
    let (smallest, largest) = (layout.smallest_worker(), layout.largest_worker());
    if (smallest..=largest).contains(&id) {
        Ok(id)
    } else {
        Err(WorkerIdError::OutOfRange { id, smallest, largest })
    }
}

/// A worker id that you choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedWorkerId(pub u64);

impl WorkerIdSource for FixedWorkerId {
    fn worker_id(&self, layout: &Layout) -> Result<u64, WorkerIdError> {
        fit(self.0, layout)
    }

    fn premise(&self) -> String {
        format!("no other process is given worker id {}", self.0)
    }
}

/// The worker id in an environment variable: for orchestrators that number their processes, by a
/// label such as `apps.kubernetes.io/pod-index`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvironmentVariable(pub String);

impl WorkerIdSource for EnvironmentVariable {
    fn worker_id(&self, layout: &Layout) -> Result<u64, WorkerIdError> {
        let name = &self.0;
        let text = env::var(name)
            .map_err(|error| WorkerIdError::Missing(format!("variable {name}: {error}")))?;
        let id = digits(text.trim()).ok_or_else(|| {
            WorkerIdError::Missing(format!("variable {name} is {text:?}, not a whole number"))
        })?;
        fit(id, layout)
    }

    fn premise(&self) -> String {
        format!("no other process has the same number in {}", self.0)
    }
}

/// The low bits of an IPv4 address, as many as the layout has for workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4LowBits(pub Ipv4Addr);

impl Ipv4LowBits {
    /// Takes an address such as [`host::outward_ip`](crate::host::outward_ip), the one that
    /// this machine speaks from.
    ///
    /// # Errors
    ///
    /// When it is not an IPv4 address.
    pub fn of(address: Option<IpAddr>) -> Result<Self, WorkerIdError> {
        match address {
            Some(IpAddr::V4(address)) => Ok(Self(address)),
            _ => Err(WorkerIdError::Missing("no IPv4 address was found".into())),
        }
    }
}

impl WorkerIdSource for Ipv4LowBits {
    fn worker_id(&self, layout: &Layout) -> Result<u64, WorkerIdError> {
        fit(u64::from(u32::from(self.0)) & layout.largest_worker(), layout)
    }

    fn premise(&self) -> String {
        format!("no other process has an IPv4 address with the same low bits as {}", self.0)
    }
}

/// The number that a name ends in: 3 for `raindrop-3`, as Kubernetes names the pods of a
/// `StatefulSet`. The number is the worker id itself, from 0 on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrailingOrdinal(pub String);

impl TrailingOrdinal {
    /// Takes a name such as [`host::name`](crate::host::name), that of this machine.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn of(name: Option<String>) -> Result<Self, WorkerIdError> {
        name.map(Self).ok_or_else(|| WorkerIdError::Missing("the host has no name".into()))
    }
}

impl WorkerIdSource for TrailingOrdinal {
    fn worker_id(&self, layout: &Layout) -> Result<u64, WorkerIdError> {
        let name = &self.0;
        let ordinal = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let id = digits(&name[ordinal..]).ok_or_else(|| {
            WorkerIdError::Missing(format!("the name {name:?} does not end in a worker id"))
        })?;
        fit(id, layout)
    }

    fn premise(&self) -> String {
        format!("no other process runs under a name that ends in the same number as {:?}", self.0)
    }
}

fn digits(text: &str) -> Option<u64> {
    // `parse` alone would take "+5".
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::Preset;

    fn id(source: &dyn WorkerIdSource) -> Result<u64, String> {
        let layout = Preset::Raindrop.spec().build().expect("valid");
        source.worker_id(&layout).map_err(|error| error.to_string())
    }

    #[test]
    fn fixed_worker_id_must_fit_the_layout() {
        assert_eq!(id(&FixedWorkerId(0)), Ok(0));
        assert_eq!(id(&FixedWorkerId(511)), Ok(511));
        let refused = "worker id 512 is outside 0 to 511, those of the layout";
        assert_eq!(id(&FixedWorkerId(512)), Err(refused.into()));
    }

    #[test]
    fn ipv4_worker_id_is_the_low_bits_of_the_address() {
        assert_eq!(id(&Ipv4LowBits([10, 0, 3, 7].into())), Ok(263));
        // westid's own test: ten bits, and five.
        let address = Ipv4LowBits([192, 168, 1, 108].into());
        assert_eq!(address.worker_id(&Preset::Westid.layout()).ok(), Some(364));
        assert_eq!(address.worker_id(&Preset::WestidQr.layout()).ok(), Some(12));
        assert!(Ipv4LowBits::of(None).is_err() && Ipv4LowBits::of(Some([0; 16].into())).is_err());
    }

    #[test]
    fn trailing_ordinal_is_the_number_at_the_end_of_a_name() {
        for (name, expected) in [("raindrop-12", 12), ("raindrop-0", 0), ("7", 7), ("a1b02", 2)] {
            assert_eq!(id(&TrailingOrdinal(name.into())), Ok(expected), "{name}");
        }
        for name in ["raindrop", "", "12-a", "raindrop-512", "raindrop-99999999999999999999"] {
            assert!(id(&TrailingOrdinal(name.into())).is_err(), "{name}");
        }
        assert!(TrailingOrdinal::of(None).is_err());
    }

    #[test]
    fn missing_environment_variable_is_named() {
        let error = id(&EnvironmentVariable("RAINDROP_TEST_NOWHERE".into())).expect_err("unset");
        assert!(error.contains("RAINDROP_TEST_NOWHERE"), "{error}");
        // A variable that every test process has, and that is no number.
        let error = id(&EnvironmentVariable("PATH".into())).expect_err("no number");
        assert!(error.contains("not a whole number"), "{error}");
    }
}
