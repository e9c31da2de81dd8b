//! Manages the codes of a segment namespace on behalf of an operator.
//!
//! Nothing here lowers a next number, and a code's row of next numbers is created only if the code
//! has neither settings nor such a row. So no number is ever issued twice, even if operations are
//! repeated, interrupted, or done by several operators at once.
//!
//! It reserves no blocks and touches no running node: a node takes new settings over at its next
//! poll, or when its application calls
//! [`SegmentIssuer::refresh`](super::SegmentIssuer::refresh). The caller calls
//! [`CodeManager::prepare`] first, and repeats an operation if the store failed.
//! Raising a next number is in `raise.rs`. Tests: `src/tests/managed_codes.rs`.

use std::sync::Arc;

use raindrop_core::{
    code::{Member, is_valid_code, name_of_series, successor},
    lease::{History, Token},
    segment::{CodeRow, CodeSettings, SegmentSpec, SpecChange, TextForm},
    violation::{Violation, Violations},
};
use raindrop_store::{ListedSegment, ManagedCode, NewSegment, Store, StoreError};

use super::{
    code_view::{CodeKind, CodeView},
    manage_error::ManageError,
    record_of,
    settings::SegmentSettings,
};
use crate::{
    history::follower::{Access, Follower},
    support::{
        error::{KeeperError, LayoutError},
        observer::NoObserver,
        random::fresh_token,
    },
};

/// How many times a write is tried while other processes change the same code.
pub(super) const CHANGE_TRIES: u32 = 8;

/// One past the largest number: a code whose next number this is has none left.
pub(super) const END: u64 = SegmentSpec::LARGEST_NUMBER + 1;

/// Sorts after every code.
const LAST: &str = "~";

/// Manages the codes of a segment namespace.
#[derive(Debug)]
pub struct CodeManager {
    pub(super) store: Arc<dyn Store>,
    pub(super) settings: SegmentSettings,
    follower: Follower,
}

impl CodeManager {
    /// Returns the manager of a namespace.
    pub fn new(store: Arc<dyn Store>, settings: SegmentSettings) -> Self {
        let follower = Follower::of_numbers(&settings.namespace, record_of(&*store));
        Self { store, settings, follower }
    }

    /// Creates or checks the tables of the store and the namespace's record, and checks that the
    /// namespace has plain numbers.
    ///
    /// # Errors
    ///
    /// When the store fails or cannot be used, or when the namespace has a layout.
    pub async fn prepare(&self) -> Result<(), KeeperError> {
        self.store.prepare().await?;
        let recorded = self.follower.recorded(&self.access()).await?.canonical;
        LayoutError::check(self.namespace(), &record_of(&*self.store), &recorded)?;
        Ok(self.store.prepare_segments().await?)
    }

    /// Lists the codes of the namespace by name: the first `limit`, starting with `first`.
    ///
    /// # Errors
    ///
    /// When the store fails.
    pub async fn list(&self, first: &str, limit: u32) -> Result<Vec<CodeView>, StoreError> {
        let (mut views, mut first) = (Vec::new(), first.to_owned());
        loop {
            let range = first.as_str()..=LAST;
            let listed = self.store.segments_in(self.namespace(), range, limit).await?;
            let is_whole = listed.len() < limit as usize;
            if let Some(last) = listed.last() {
                first = successor(&last.code);
            }
            // Other rows in this table are no codes.
            views.extend(listed.into_iter().filter_map(|listed| self.view(listed)));
            if is_whole || views.len() >= limit as usize {
                views.truncate(limit as usize);
                return Ok(views);
            }
        }
    }

    /// Returns a code of the namespace, if the store has it.
    ///
    /// # Errors
    ///
    /// When the store fails.
    pub async fn get(&self, code: &str) -> Result<Option<CodeView>, StoreError> {
        let found = self.store.segments_in(self.namespace(), code..=code, 1).await?.pop();
        Ok(found.and_then(|listed| self.view(listed)))
    }

    /// Returns the view of a listed row; `None` if the row is of another namespace or is no code.
    pub fn view(&self, listed: ListedSegment) -> Option<CodeView> {
        // The table also has the counts for past ticks, as `code@tick`.
        if listed.namespace != self.namespace() || !is_valid_code(&listed.code) {
            return None;
        }
        let settings = listed.settings.as_deref().and_then(|it| CodeSettings::parse(it).ok());
        let (kind, spec) = match (self.settings.codes.get(&listed.code), settings) {
            (Some(spec), _) => (CodeKind::Configured, Some(*spec)),
            (None, Some(CodeSettings { spec, is_retired: true })) => {
                (CodeKind::Retired, Some(spec))
            }
            (None, Some(CodeSettings { spec, is_retired: false })) => {
                (CodeKind::Managed, Some(spec))
            }
            (None, None) => match self.settings.on_demand(&listed.code) {
                Ok(spec) => (CodeKind::Automatic, Some(spec)),
                Err(_) => (CodeKind::Unserved, None),
            },
        };
        Some(CodeView { listed, kind, spec })
    }

    /// Returns the settings of a new code, or of one whose settings are replaced: those of its
    /// series, or the namespace's defaults, with this change. Does not call the store.
    ///
    /// # Errors
    ///
    /// When the code or the settings are invalid, or the configuration lists the code.
    pub fn new_spec(&self, code: &str, change: &SpecChange) -> Result<SegmentSpec, ManageError> {
        self.check(code)?;
        let member = self.settings.member_spec(code);
        let mut spec = member.unwrap_or(self.settings.defaults);
        change.apply(&mut spec).map_err(ManageError::Invalid)?;
        Ok(spec)
    }

    /// Creates a code, or replaces its settings, by [`Self::new_spec`] of this change. Returns
    /// whether the code was not managed before. Its numbers begin at `start`, or at its next number
    /// if that is higher.
    ///
    /// # Errors
    ///
    /// See [`ManageError`]. With `is_new`, a code that is already managed is refused.
    pub async fn put(
        &self,
        code: &str,
        change: &SpecChange,
        is_new: bool,
    ) -> Result<bool, ManageError> {
        let spec = self.new_spec(code, change)?;
        for _ in 0..CHANGE_TRIES {
            let present = self.managed(code).await?;
            match &present {
                Some(_) if is_new => return Err(ManageError::Exists(code.to_owned())),
                Some((_, settings)) => check_change(code, settings, &spec)?,
                None => {
                    let max = self.settings.codes_max;
                    if self.store.list_managed_codes(self.namespace()).await?.len() >= max {
                        return Err(ManageError::TooMany(max));
                    }
                    match self.settings.member_spec(code) {
                        // Any node may have created it, or may do so now.
                        Some(present) => check_change(code, &CodeSettings::of(present), &spec)?,
                        None => self.check_unused(code, &spec).await?,
                    }
                    let new = NewSegment { code: code.to_owned(), first: spec.first() };
                    self.store.create_segments(self.namespace(), &[new]).await?;
                }
            }
            let (expected, before) = match &present {
                Some((token, settings)) => (Some(*token), Some(settings.spec)),
                None => (None, self.spec_in_use(code).await?),
            };
            if self.write(code, expected, before, spec).await? {
                return Ok(present.is_none());
            }
        }
        Err(ManageError::Contended(code.to_owned()))
    }

    /// Returns a code of the namespace whose numbers may have the same texts as those of this code
    /// in this form.
    ///
    /// # Errors
    ///
    /// When the store fails.
    pub async fn with_equal_texts(
        &self,
        code: &str,
        form: &TextForm,
    ) -> Result<Option<(String, TextForm)>, StoreError> {
        let configured = self.settings.codes.iter();
        let configured = configured.filter_map(|(name, spec)| Some((name.clone(), spec.text?)));
        let own = Member::of(code).map(|member| member.series);
        let series = self.settings.series.iter().filter(|(series, _)| own != Some(series.as_str()));
        let series = series.filter_map(|(name, spec)| Some((name_of_series(name), spec.text?)));
        let managed = self.store.list_managed_codes(self.namespace()).await?;
        let managed = managed.into_iter().filter_map(|managed| {
            Some((managed.code, CodeSettings::parse(&managed.settings).ok()?.spec.text?))
        });
        let mut others = configured.chain(series).chain(managed).filter(|(name, _)| name != code);
        Ok(others.find(|(_, other)| other.may_equal(form)))
    }

    /// Changes some settings of a code. A code that was created on demand becomes managed.
    ///
    /// # Errors
    ///
    /// See [`ManageError`].
    pub async fn patch(&self, code: &str, change: &SpecChange) -> Result<(), ManageError> {
        for _ in 0..CHANGE_TRIES {
            let Patched { expected, before, spec } = self.patched(code, change).await?;
            if self.write(code, expected, Some(before), spec).await? {
                return Ok(());
            }
        }
        Err(ManageError::Contended(code.to_owned()))
    }

    /// Returns the settings that [`Self::patch`] would write.
    ///
    /// # Errors
    ///
    /// See [`ManageError`].
    pub async fn preview_patch(
        &self,
        code: &str,
        change: &SpecChange,
    ) -> Result<SegmentSpec, ManageError> {
        let spec = self.patched(code, change).await?.spec;
        self.check_largest(code, &spec).await?;
        Ok(spec)
    }

    /// Returns the changed settings of a code, and what their write must replace.
    async fn patched(&self, code: &str, change: &SpecChange) -> Result<Patched, ManageError> {
        self.check(code)?;
        let (expected, settings) =
            match (self.managed(code).await?, self.settings.on_demand(code).ok()) {
                (Some((token, settings)), _) => (Some(token), settings),
                // The code was created on demand.
                (None, Some(spec)) if self.next(code).await?.is_some() => {
                    (None, CodeSettings::of(spec))
                }
                (None, _) => return Err(ManageError::NotManaged(code.to_owned())),
            };
        let mut spec = settings.spec;
        change.apply(&mut spec).map_err(ManageError::Invalid)?;
        check_change(code, &settings, &spec)?;
        Ok(Patched { expected, before: settings.spec, spec })
    }

    /// Retires a code for good: no node reserves a number of it again. A node that still has
    /// reserved numbers issues none of them once it has read the settings.
    ///
    /// # Errors
    ///
    /// See [`ManageError`].
    pub async fn retire(&self, code: &str) -> Result<(), ManageError> {
        self.check(code)?;
        for _ in 0..CHANGE_TRIES {
            let present = self.managed(code).await?;
            let (expected, settings) = match present {
                Some((token, settings)) => (Some(token), settings),
                None if self.next(code).await?.is_none() => {
                    return Err(ManageError::NotManaged(code.to_owned()));
                }
                None => (None, CodeSettings::of(self.settings.on_demand(code).unwrap_or_default())),
            };
            // A retirement that was interrupted is finished.
            let is_written = settings.is_retired
                || self.swap(code, expected, CodeSettings { is_retired: true, ..settings }).await?;
            if is_written {
                self.raise_to(code, END).await?;
                return Ok(());
            }
        }
        Err(ManageError::Contended(code.to_owned()))
    }

    pub(super) fn namespace(&self) -> &str {
        &self.settings.namespace
    }

    fn check(&self, code: &str) -> Result<(), ManageError> {
        if !is_valid_code(code) {
            return Err(ManageError::InvalidCode(code.to_owned()));
        }
        if self.settings.codes.contains_key(code) {
            return Err(ManageError::Configured(code.to_owned()));
        }
        Ok(())
    }

    /// Returns the settings of a code and their token, if the code is managed.
    pub(super) async fn managed(
        &self,
        code: &str,
    ) -> Result<Option<(Token, CodeSettings)>, ManageError> {
        let managed = self.store.managed_code(self.namespace(), code).await?;
        let Some(ManagedCode { settings, token, .. }) = managed else { return Ok(None) };
        let unreadable = |reason| ManageError::Unreadable { code: code.to_owned(), reason };
        Ok(Some((token, CodeSettings::parse(&settings).map_err(unreadable)?)))
    }

    /// Returns the next number of a code, if the store has the code. Writes nothing.
    async fn next(&self, code: &str) -> Result<Option<u64>, StoreError> {
        Ok(self.row(code).await?.0.map(|row| row.next))
    }

    /// Returns the row of a code, if the store has it, and the history in which it was read.
    pub(super) async fn row(&self, code: &str) -> Result<(Option<CodeRow>, History), StoreError> {
        self.follower.row(&self.access(), code).await
    }

    fn access(&self) -> Access<'_> {
        Access { store: &*self.store, observer: &NoObserver, fresh: &fresh_token }
    }

    /// Returns the settings by which nodes may have reserved numbers of a code that is not managed;
    /// `None` if no node can have. Nodes that create codes on demand may have reserved some even if
    /// no row shows it: a fail-over may have lost the row.
    async fn spec_in_use(&self, code: &str) -> Result<Option<SegmentSpec>, StoreError> {
        if let Ok(spec) = self.settings.on_demand(code) {
            return Ok(Some(spec));
        }
        let (row, _) = self.row(code).await?;
        let is_in_use = row.is_some_and(|row| row.step > 0);
        Ok(is_in_use.then_some(self.settings.defaults))
    }

    /// Writes settings that fit the next number. Raises the next number to `start` if it is lower.
    async fn write(
        &self,
        code: &str,
        expected: Option<Token>,
        before: Option<SegmentSpec>,
        spec: SegmentSpec,
    ) -> Result<bool, ManageError> {
        self.check_largest(code, &spec).await?;
        self.raise_for_change(code, before.as_ref(), &spec).await?;
        self.swap(code, expected, CodeSettings::of(spec)).await
    }

    /// Refuses to write numbers in a form, or to issue them strictly, if a node has reserved plain
    /// ones: it may still issue those. The row alone may be of an earlier try to create the code.
    async fn check_unused(&self, code: &str, spec: &SegmentSpec) -> Result<(), ManageError> {
        if spec.text.is_none() && !spec.strict {
            return Ok(());
        }
        let is_used = self.row(code).await?.0.is_some_and(|row| row.step > 0);
        let code = code.to_owned();
        match (is_used, spec.strict) {
            (false, _) => Ok(()),
            (true, true) => Err(ManageError::FixedOrder { code, is_strict: false }),
            (true, false) => Err(ManageError::FixedText { code, form: None }),
        }
    }

    /// Refuses a largest number that is below a reserved one.
    async fn check_largest(&self, code: &str, spec: &SegmentSpec) -> Result<(), ManageError> {
        let next = self.next(code).await?;
        let next = next.ok_or_else(|| ManageError::Vanished(code.to_owned()))?;
        if next <= spec.max + 1 {
            return Ok(());
        }
        let least = next - 1;
        let allowed = format!("at least {least}, since the next number is {next}");
        let violation = Violation::new("max", spec.max, allowed);
        Err(ManageError::Invalid(Violations(vec![violation])))
    }

    async fn swap(
        &self,
        code: &str,
        expected: Option<Token>,
        settings: CodeSettings,
    ) -> Result<bool, ManageError> {
        let (code, settings) = (code.to_owned(), settings.to_string());
        let written = ManagedCode { code, settings, token: fresh_token() };
        Ok(self.store.write_managed_code(self.namespace(), expected, &written).await?)
    }
}

/// Changed settings of a code.
struct Patched {
    /// The token of the present settings; `None` if the code is not managed yet.
    expected: Option<Token>,
    /// The present settings.
    before: SegmentSpec,
    /// The changed ones.
    spec: SegmentSpec,
}

fn check_change(code: &str, present: &CodeSettings, spec: &SegmentSpec) -> Result<(), ManageError> {
    if present.is_retired {
        return Err(ManageError::Retired(code.to_owned()));
    }
    let SegmentSpec { increment, remainder, .. } = present.spec;
    if present.spec.progression() != spec.progression() {
        let code = code.to_owned();
        return Err(ManageError::FixedProgression { code, increment, remainder });
    }
    if present.spec.strict != spec.strict {
        let is_strict = present.spec.strict;
        return Err(ManageError::FixedOrder { code: code.to_owned(), is_strict });
    }
    let form = present.spec.text;
    let is_kept = match (&spec.text, &form) {
        (Some(changed), Some(form)) => changed.may_replace(form),
        (changed, form) => changed == form,
    };
    if is_kept { Ok(()) } else { Err(ManageError::FixedText { code: code.to_owned(), form }) }
}
