//! The fields of an ID, and their order.

use super::Layout;

/// The fields of one ID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// Ticks since the epoch; where the time wraps, only their low bits.
    pub tick: u64,
    /// The data centre.
    pub data_center: u64,
    /// The worker id.
    pub worker: u64,
    /// The lane.
    pub lane: u64,
    /// The number inside the tick.
    pub sequence: u64,
    /// The constant low-order field.
    pub reserved: u64,
}

impl Fields {
    pub(crate) const fn get_mut(&mut self, kind: FieldKind) -> &mut u64 {
        match kind {
            FieldKind::Time => &mut self.tick,
            FieldKind::DataCenter => &mut self.data_center,
            FieldKind::Worker => &mut self.worker,
            FieldKind::Lane => &mut self.lane,
            FieldKind::Sequence => &mut self.sequence,
            FieldKind::Reserved => &mut self.reserved,
        }
    }
}

/// A field of an ID, by the name that it has in descriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// Ticks since the epoch.
    Time,
    /// The data centre.
    DataCenter,
    /// The worker id.
    Worker,
    /// The lane.
    Lane,
    /// The number inside a tick.
    Sequence,
    /// Constant bits, or bits whose meaning is unknown.
    Reserved,
}

impl FieldKind {
    pub(crate) const ALL: [Self; 6] =
        [Self::Time, Self::DataCenter, Self::Worker, Self::Lane, Self::Sequence, Self::Reserved];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::DataCenter => "data_center",
            Self::Worker => "worker",
            Self::Lane => "lane",
            Self::Sequence => "sequence",
            Self::Reserved => "reserved",
        }
    }
}

/// Where the sequence stands. The timestamp is always first and the reserved field last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldOrder {
    /// Timestamp · data centre · worker · rollback · sequence · reserved: the default.
    #[default]
    WorkerSequence,
    /// Timestamp · sequence · data centre · worker · rollback · reserved, as in sonyflake.
    SequenceWorker,
}

impl FieldOrder {
    /// Every order.
    pub const ALL: [Self; 2] = [Self::WorkerSequence, Self::SequenceWorker];

    /// Its name in configuration and layout records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::WorkerSequence => "time-worker-sequence",
            Self::SequenceWorker => "time-sequence-worker",
        }
    }

    /// Returns the order of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|order| order.name() == name)
    }
}

impl Layout {
    /// Where the sequence stands.
    pub const fn order(&self) -> FieldOrder {
        self.order
    }

    /// Returns every field and its width, from the most significant. A width may be 0.
    pub fn fields(&self) -> [(FieldKind, u32); 6] {
        let widths = self.widths;
        let mut fields = [
            (FieldKind::Time, widths.timestamp),
            (FieldKind::DataCenter, widths.data_center),
            (FieldKind::Worker, widths.worker),
            (FieldKind::Lane, widths.rollback),
            (FieldKind::Sequence, widths.sequence),
            (FieldKind::Reserved, widths.reserved),
        ];
        if self.order == FieldOrder::SequenceWorker {
            fields[1..5].rotate_right(1);
        }
        fields
    }

    /// Returns how many bits are below the sequence.
    pub(super) const fn sequence_shift(&self) -> u32 {
        let widths = self.widths;
        match self.order {
            FieldOrder::WorkerSequence => widths.reserved,
            FieldOrder::SequenceWorker => widths.below_timestamp() - widths.sequence,
        }
    }
}
