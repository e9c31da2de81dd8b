//! The state file: saves the leases of a process outside the store, so that the next process on the
//! same file can resume them while the store is away.
//!
//! One task writes the file, for every namespace of the process. A write puts the whole content
//! into both slots, and is durable once both have it. So either slot alone is safe to use, if a
//! crash or a bad sector leaves the other unreadable.

mod disk;
pub(crate) mod format;
#[cfg(any(test, feature = "planted"))]
mod memory_disk;
mod place;

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::watch;

#[cfg(any(test, feature = "planted"))]
pub use self::memory_disk::MemoryDisk;
use self::{
    disk::Disk,
    format::{Content, Entry, Found, Place},
};

/// The unit of writes, in bytes.
const PAGE: usize = 4096;
/// A disk that takes longer than this for a write has failed.
pub(crate) const LONGEST_WRITE: Duration = Duration::from_secs(5);

/// A state file of this process, which stays locked until the last clone is dropped. Cheap to
/// clone.
///
/// It saves the leases of every namespace whose [`KeeperSettings`](crate::KeeperSettings) name it.
#[derive(Clone, Debug)]
pub struct StateFile(Arc<Inner>);

/// Why a state file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateFileError {
    /// Another process holds its lock.
    #[error("store.state_file = {path:?}: another process uses this file; each needs its own")]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The file has other content, which was not changed.
    #[error(
        "store.state_file = {path:?}: the file is not a state file of Raindrop, and was not \
         changed; name a file that is empty or does not exist"
    )]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be opened, read or written.
    #[error("store.state_file = {path:?}: {source}")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// The reason why nothing in a file is resumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) String);

#[derive(Debug)]
struct Inner {
    wanted: Arc<Mutex<Wanted>>,
    /// The number of the last change. When this sender is dropped, the writer ends.
    changes: watch::Sender<u64>,
    progress: watch::Receiver<Progress>,
    /// The entries found at the start, until the keeper of each namespace asks for its own.
    found: Mutex<Result<BTreeMap<String, Entry>, Refused>>,
}

/// The content that the file should have.
#[derive(Debug, Default)]
struct Wanted {
    content: Content,
    change: u64,
}

/// How far the writer has come.
#[derive(Clone, Debug, Default)]
struct Progress {
    durable: u64,
    failed: Option<Arc<str>>,
}

impl StateFile {
    /// Opens and locks a state file. Creates the file if it is missing. `store` names the store,
    /// without secrets: leases are resumed only with the same store.
    ///
    /// # Errors
    ///
    /// When another process uses the file, when it is not a state file, or when it cannot be read
    /// and written.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    #[cfg(unix)]
    pub fn open(path: &Path, store: &str) -> Result<Self, StateFileError> {
        let (disk, found, metadata) = disk::open(path)?;
        Ok(Self::start(disk, found, Place::here(&metadata, store)))
    }

    /// Fails on this system: state files need locks that end with their process.
    ///
    /// # Errors
    ///
    /// Always.
    #[cfg(not(unix))]
    pub fn open(path: &Path, _store: &str) -> Result<Self, StateFileError> {
        let source = std::io::ErrorKind::Unsupported.into();
        Err(StateFileError::Unusable { path: path.to_owned(), source })
    }

    /// Opens a disk of a test, which has these bytes.
    #[cfg(any(test, feature = "planted"))]
    fn on_disk(disk: Box<dyn Disk>, bytes: &[u8], boot: &str) -> Self {
        let mut place = Place::default();
        place.facts.insert(place::BOOT.to_owned(), boot.to_owned());
        // A file gets its first line when it is created, which no test interrupts.
        let bytes = [
            &format::empty_file()[..format::FIRST_SLOT],
            bytes.get(format::FIRST_SLOT..).unwrap_or_default(),
        ];
        Self::start(disk, format::decode(&bytes.concat()), place)
    }

    /// Starts the writer of a disk. Takes the found entries over only if the place is the same.
    fn start(disk: Box<dyn Disk>, found: Found, place: Place) -> Self {
        let (number, found_entries) = match found {
            Found::Nothing => (0, Ok(BTreeMap::new())),
            Found::Foreign => (0, Err(Refused("it is not a state file".to_owned()))),
            Found::Unreadable(reason) => (0, Err(Refused(reason.to_owned()))),
            Found::Content { number, content } => match place.difference(&content.place) {
                None => (number, Ok(content.entries)),
                Some(difference) => (number, Err(Refused(difference))),
            },
        };
        let entries = found_entries.as_ref().ok().cloned().unwrap_or_default();
        let content = Content { place, entries };
        let wanted = Arc::new(Mutex::new(Wanted { content, change: 0 }));
        let (changes, changed) = watch::channel(0);
        let (told, progress) = watch::channel(Progress::default());
        let writer = Writer { disk, wanted: Arc::clone(&wanted), number, told };
        tokio::spawn(writer.run(changed));
        let found = Mutex::new(found_entries);
        Self(Arc::new(Inner { wanted, changes, progress, found }))
    }

    /// Returns the entry that was found for a namespace when the file was opened; `None` the second
    /// time. A file that was refused is refused each time.
    pub(crate) fn found(&self, namespace: &str) -> Result<Option<Entry>, Refused> {
        let mut found = self.0.found.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *found {
            Ok(entries) => Ok(entries.remove(namespace)),
            Err(refused) => Err(refused.clone()),
        }
    }

    /// Sets the entry that the file should have for a namespace. Returns the number of this change.
    pub(crate) fn set(&self, namespace: &str, entry: Option<Entry>) -> u64 {
        let mut wanted = lock(&self.0.wanted);
        match entry {
            Some(entry) => drop(wanted.content.entries.insert(namespace.to_owned(), entry)),
            None => drop(wanted.content.entries.remove(namespace)),
        }
        wanted.change += 1;
        self.0.changes.send_replace(wanted.change);
        wanted.change
    }

    /// Waits until a change is durable.
    pub(crate) async fn durable(&self, change: u64) -> Result<(), Arc<str>> {
        let mut progress = self.0.progress.clone();
        let reached = |it: &Progress| it.durable >= change || it.failed.is_some();
        match progress.wait_for(reached).await.as_deref() {
            Ok(Progress { failed: None, .. }) => Ok(()),
            Ok(Progress { failed: Some(reason), .. }) => Err(Arc::clone(reason)),
            Err(_) => Err("its writer ended".into()),
        }
    }
}

/// Writes the file.
struct Writer {
    disk: Box<dyn Disk>,
    wanted: Arc<Mutex<Wanted>>,
    /// The number of the last content in both slots.
    number: u64,
    told: watch::Sender<Progress>,
}

impl Writer {
    /// Writes each change, and ends after the first failure.
    async fn run(mut self, mut changed: watch::Receiver<u64>) {
        while changed.changed().await.is_ok() {
            let (change, bytes) = {
                let wanted = lock(&self.wanted);
                (wanted.change, format::encode(self.number + 1, &wanted.content))
            };
            // After a failed write the content of the disk is unknown, so no later write is
            // trusted.
            if let Err(error) = self.write(bytes).await {
                let failed = Some(error.to_string().into());
                self.told.send_modify(|told| told.failed = failed);
                return;
            }
            self.number += 1;
            self.told.send_modify(|told| told.durable = change);
        }
    }

    /// Writes content into both slots, one after the other.
    async fn write(&self, bytes: Option<Vec<u8>>) -> std::io::Result<()> {
        let mut bytes =
            bytes.ok_or_else(|| std::io::Error::other("it keeps too many namespaces"))?;
        // Whole pages, so that no end of a longer, earlier content remains.
        bytes.resize(bytes.len().next_multiple_of(PAGE), 0);
        for slot in format::slots_for(self.number + 1) {
            self.disk.write(slot, bytes.clone()).await?;
        }
        Ok(())
    }
}

fn lock(wanted: &Mutex<Wanted>) -> MutexGuard<'_, Wanted> {
    wanted.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(test, unix))]
mod tests;
