//! Worker ids that are assigned, not leased.
//!
//! A store ensures that a worker id has one holder at a time. Without a store, uniqueness rests on
//! how the ids are assigned: each source states what must hold ([`WorkerIdSource::premise`]). With
//! a store, the keeper leases an assigned worker id, too, on exactly its row, and the full promise
//! holds. A program that has another source gives its number to [`WorkerIdSource::Fixed`].
//!
//! # Examples
//!
//! ```
//! use std::sync::Arc;
//! use raindrop_core::{
//!     clock::SystemClock,
//!     issue::{Generator, IssueSettings},
//!     preset::Preset,
//!     worker_id::WorkerIdSource,
//! };
//!
//! let layout = Preset::Raindrop.spec().build()?;
//! let source = WorkerIdSource::TrailingOrdinal("raindrop-3".into());
//! let worker = source.worker_id(&layout)?;
//! println!("unique only while {}", source.premise());
//! let generator = Generator::with_worker(
//!     layout, worker, &IssueSettings::default(), Arc::new(SystemClock::default()))?;
//! let id = generator.claim("order", 1)?.ids.next().unwrap();
//! assert_eq!(generator.layout().decompose(id).worker, 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::{
    env,
    net::{IpAddr, Ipv4Addr},
};

use crate::layout::Layout;

/// Where a process gets its worker id from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkerIdSource {
    /// A worker id that the program or its operator chose.
    Fixed(u64),
    /// The number in the environment variable of this name. Orchestrators that number their
    /// processes can set it, for example from the label `apps.kubernetes.io/pod-index`.
    EnvironmentVariable(String),
    /// The low bits of this IPv4 address, as many as the layout has for workers.
    Ipv4LowBits(Ipv4Addr),
    /// The number at the end of this name: 3 for `raindrop-3`, as Kubernetes names the pods of a
    /// `StatefulSet`. The number is the worker id itself, without an offset.
    TrailingOrdinal(String),
}

/// Why a source has no worker id. The operator must change the source or the layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerIdError {
    /// The source has no number; the text names the value that it has instead.
    #[error("{0}")]
    Missing(String),
    /// The layout has no such worker id.
    #[error("worker id {id} is outside {smallest} to {largest}, those of the layout")]
    OutOfRange {
        /// The worker id of the source.
        id: u64,
        /// The smallest worker id of the layout.
        smallest: u64,
        /// The largest worker id of the layout.
        largest: u64,
    },
}

impl WorkerIdSource {
    /// Makes a source of an address such as [`host::outward_ip`](crate::host::outward_ip), the
    /// source address of this machine's traffic.
    ///
    /// # Errors
    ///
    /// When there is no address, or when it is not an IPv4 address.
    pub fn ipv4_low_bits_of(address: Option<IpAddr>) -> Result<Self, WorkerIdError> {
        match address {
            Some(IpAddr::V4(address)) => Ok(Self::Ipv4LowBits(address)),
            _ => Err(WorkerIdError::Missing("no IPv4 address was found".into())),
        }
    }

    /// Makes a source of a name such as [`host::name`](crate::host::name), the host name of this
    /// machine.
    ///
    /// # Errors
    ///
    /// When there is no name.
    pub fn trailing_ordinal_of(name: Option<String>) -> Result<Self, WorkerIdError> {
        let name = name.ok_or_else(|| WorkerIdError::Missing("the host has no name".into()))?;
        Ok(Self::TrailingOrdinal(name))
    }

    /// Returns the worker id, from the layout's smallest to its largest.
    ///
    /// # Errors
    ///
    /// When the source has no number, or when the layout has no such worker id.
    pub fn worker_id(&self, layout: &Layout) -> Result<u64, WorkerIdError> {
        let (smallest, largest) = (layout.smallest_worker(), layout.largest_worker());
        let id = match self {
            Self::Fixed(id) => *id,
            Self::EnvironmentVariable(name) => number_in_variable(name)?,
            Self::Ipv4LowBits(address) => u64::from(u32::from(*address)) & largest,
            Self::TrailingOrdinal(name) => number_at_end(name)?,
        };
        if (smallest..=largest).contains(&id) {
            Ok(id)
        } else {
            Err(WorkerIdError::OutOfRange { id, smallest, largest })
        }
    }

    /// Returns the premise under which no other process has the same worker id, as a phrase that
    /// follows "unique only while".
    pub fn premise(&self) -> String {
        match self {
            Self::Fixed(id) => format!("no other process is given worker id {id}"),
            Self::EnvironmentVariable(name) => {
                format!("no other process has the same number in {name}")
            }
            Self::Ipv4LowBits(address) => {
                format!("no other process has an IPv4 address with the same low bits as {address}")
            }
            Self::TrailingOrdinal(name) => format!(
                "no other process runs under a name that ends in the same number as {name:?}"
            ),
        }
    }
}

fn number_in_variable(name: &str) -> Result<u64, WorkerIdError> {
    let text = env::var(name)
        .map_err(|error| WorkerIdError::Missing(format!("variable {name}: {error}")))?;
    parse_digits(text.trim()).ok_or_else(|| {
        WorkerIdError::Missing(format!("variable {name} is {text:?}, not a whole number"))
    })
}

fn number_at_end(name: &str) -> Result<u64, WorkerIdError> {
    let end = name.trim_end_matches(|character: char| character.is_ascii_digit()).len();
    parse_digits(&name[end..]).ok_or_else(|| {
        WorkerIdError::Missing(format!("the name {name:?} does not end in a worker id"))
    })
}

fn parse_digits(text: &str) -> Option<u64> {
    // `parse` alone would accept "+5".
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::Preset;

    fn id(source: &WorkerIdSource) -> Result<u64, String> {
        let layout = Preset::Raindrop.spec().build().expect("valid");
        source.worker_id(&layout).map_err(|error| error.to_string())
    }

    #[test]
    fn fixed_worker_id_must_fit_the_layout() {
        assert_eq!(id(&WorkerIdSource::Fixed(0)), Ok(0));
        assert_eq!(id(&WorkerIdSource::Fixed(511)), Ok(511));
        let refused = "worker id 512 is outside 0 to 511, those of the layout";
        assert_eq!(id(&WorkerIdSource::Fixed(512)), Err(refused.into()));
    }

    #[test]
    fn ipv4_worker_id_is_the_low_bits_of_the_address() {
        assert_eq!(id(&WorkerIdSource::Ipv4LowBits([10, 0, 3, 7].into())), Ok(263));
        // westid's own test: ten bits, and five.
        let address = WorkerIdSource::Ipv4LowBits([192, 168, 1, 108].into());
        assert_eq!(address.worker_id(&Preset::Westid.layout()).ok(), Some(364));
        assert_eq!(address.worker_id(&Preset::WestidQr.layout()).ok(), Some(12));
        assert!(
            WorkerIdSource::ipv4_low_bits_of(None).is_err()
                && WorkerIdSource::ipv4_low_bits_of(Some([0; 16].into())).is_err()
        );
    }

    #[test]
    fn trailing_ordinal_is_the_number_at_the_end_of_a_name() {
        for (name, expected) in [("raindrop-12", 12), ("raindrop-0", 0), ("7", 7), ("a1b02", 2)] {
            assert_eq!(id(&WorkerIdSource::TrailingOrdinal(name.into())), Ok(expected), "{name}");
        }
        for name in ["raindrop", "", "12-a", "raindrop-512", "raindrop-99999999999999999999"] {
            assert!(id(&WorkerIdSource::TrailingOrdinal(name.into())).is_err(), "{name}");
        }
        assert!(WorkerIdSource::trailing_ordinal_of(None).is_err());
    }

    #[test]
    fn missing_environment_variable_is_named() {
        let error = id(&WorkerIdSource::EnvironmentVariable("RAINDROP_TEST_NOWHERE".into()))
            .expect_err("unset");
        assert!(error.contains("RAINDROP_TEST_NOWHERE"), "{error}");
        // A variable that every test process has, and that is no number.
        let error = id(&WorkerIdSource::EnvironmentVariable("PATH".into())).expect_err("no number");
        assert!(error.contains("not a whole number"), "{error}");
    }
}
