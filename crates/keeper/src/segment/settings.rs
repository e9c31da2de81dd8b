//! Settings of a segment namespace.

use std::{collections::BTreeMap, time::Duration};

use raindrop_core::{
    code::Member,
    issue::ClaimError,
    segment::{GapRule, SegmentSpec},
};

/// The pause before a retry of a claim that was refused permanently.
pub(super) const RETRY_LATE: Duration = Duration::from_hours(1);

/// The settings of a segment namespace.
#[derive(Clone, Debug)]
pub struct SegmentSettings {
    /// The name of the namespace.
    pub namespace: String,
    /// The configured codes.
    pub codes: BTreeMap<String, SegmentSpec>,
    /// The configured series by their common beginning, such as `invoice` of `invoice:*`. A claim
    /// creates a member that does not exist.
    pub series: BTreeMap<String, SegmentSpec>,
    /// The default settings of managed codes.
    pub defaults: SegmentSpec,
    /// The specification of codes that are created on demand; `None` refuses unknown codes.
    pub auto_create: Option<SegmentSpec>,
    /// Once the store has this many codes, none is created on demand; 100 000 by default.
    pub codes_max: usize,
    /// Number of codes that a client may create in a day on this node; 10 000 by default. It
    /// applies only to claims that name their client, as those of the HTTP service do.
    pub codes_max_per_client: usize,
    /// How many numbers of one code the store may lose in a fail-over at most: as many are skipped.
    /// By default a hundred of the largest reservations, or of [`Self::largest_claim`].
    pub failover_gap: Option<u64>,
    /// How many numbers a claim on any node takes at most; 10 000 by default. Only the default of
    /// [`Self::failover_gap`] depends on it.
    pub largest_claim: u64,
    /// For how long a block should last; 60 s by default.
    pub target_duration: Duration,
    /// The longest time that a claim waits for a block; 1 s by default.
    pub max_wait: Duration,
}

impl SegmentSettings {
    /// Returns the defaults, without a code.
    pub fn new(namespace: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            codes: BTreeMap::new(),
            series: BTreeMap::new(),
            defaults: SegmentSpec::default(),
            auto_create: None,
            codes_max: 100_000,
            codes_max_per_client: 10_000,
            failover_gap: None,
            largest_claim: 10_000,
            target_duration: Duration::from_secs(60),
            max_wait: Duration::from_secs(1),
        }
    }

    /// Returns the rule for the numbers that a fail-over skips.
    pub(super) const fn gap_rule(&self) -> GapRule {
        GapRule { configured: self.failover_gap, largest_claim: self.largest_claim }
    }

    /// Returns the settings with which a claim creates a code: those of its series, or of any code
    /// on demand.
    ///
    /// # Errors
    ///
    /// When no claim may create it.
    pub fn on_demand(&self, code: &str) -> Result<SegmentSpec, ClaimError> {
        let unknown = || ClaimError::UnknownCode(code.to_owned());
        match self.series_of(code) {
            Some((member, series)) => series
                .of_member(member.rest)
                .ok_or_else(|| ClaimError::MemberTooLong(code.to_owned())),
            None => self.auto_create.ok_or_else(unknown),
        }
    }

    /// Returns the settings of a member of a configured series; `None` for any other code.
    pub fn member_spec(&self, code: &str) -> Option<SegmentSpec> {
        let (member, series) = self.series_of(code)?;
        series.of_member(member.rest)
    }

    /// Returns the series of a code. A code that the configuration lists has its own settings.
    fn series_of<'a>(&self, code: &'a str) -> Option<(Member<'a>, &SegmentSpec)> {
        if self.series.is_empty() || self.codes.contains_key(code) {
            return None;
        }
        let member = Member::of(code)?;
        Some((member, self.series.get(member.series)?))
    }

    /// Adds a code.
    #[must_use]
    pub fn with_code(mut self, name: impl Into<String>, spec: SegmentSpec) -> Self {
        self.codes.insert(name.into(), spec);
        self
    }

    /// Adds a series, by its common beginning.
    #[must_use]
    pub fn with_series(mut self, series: impl Into<String>, spec: SegmentSpec) -> Self {
        self.series.insert(series.into(), spec);
        self
    }
}
