//! Tables of other ID services, which are only read.

/// A service that keeps the largest number that it reserved of each name in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignService {
    /// Leaf's segment mode. `max_id` is one past the last number that was reserved.
    Leaf,
    /// tinyid. `max_id` is the last number that was reserved.
    TinyId,
    /// CosId's segments over JDBC. `last_max_id` is the last number that was reserved.
    CosId,
}

impl ForeignService {
    /// Every service.
    pub const ALL: [Self; 3] = [Self::Leaf, Self::TinyId, Self::CosId];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Leaf => "leaf",
            Self::TinyId => "tinyid",
            Self::CosId => "cosid",
        }
    }

    /// Returns the service of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|service| service.name() == name)
    }

    /// The name that the service gives to its table.
    pub const fn default_table(self) -> &'static str {
        match self {
            Self::Leaf => "leaf_alloc",
            Self::TinyId => "tiny_id_info",
            Self::CosId => "cosid",
        }
    }
}

/// A table to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignTable {
    /// The service that wrote it.
    pub service: ForeignService,
    /// Its name.
    pub name: String,
}

/// What another service has reserved of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignSegment {
    /// The service's name of the sequence.
    pub name: String,
    /// No reserved number is above this.
    pub max_id: u64,
    /// How many numbers a reservation takes; 0 where the table does not tell.
    pub step: u64,
    /// The difference between neighbours. If it is above 1, other databases may have other numbers
    /// of the same name.
    pub delta: u64,
}
