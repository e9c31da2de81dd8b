//! Writes the bytes of a state file to a disk, under an exclusive lock.
//!
//! A [`Disk`] promises one thing: when `write` returns `Ok`, the bytes are durable. After an error
//! any part of them may be there, and the caller must not trust the file any more. It knows neither
//! slots nor leases: `mod.rs` writes both slots in turn, and `format.rs` reads them.
//!
//! `open` locks the file with `flock` for as long as the process has it open, so that no two
//! processes resume one lease. It refuses to overwrite a file that is not a state file. Tests:
//! `state_file/tests.rs`; `memory_disk.rs` is the disk that tests make fail, hang and lose power.

use std::{fmt::Debug, io};

use async_trait::async_trait;

/// A disk for the bytes of a state file.
#[async_trait]
pub(super) trait Disk: Debug + Send + Sync {
    /// Writes bytes at an offset (in bytes), and returns once they are durable.
    ///
    /// # Errors
    ///
    /// When the bytes may not be durable. Any part of them may be there then.
    async fn write(&self, offset: u64, bytes: Vec<u8>) -> io::Result<()>;
}

#[cfg(unix)]
pub(super) use unix::open;

#[cfg(unix)]
mod unix {
    use std::{
        fs::{File, Metadata, OpenOptions},
        io::{self, Read as _},
        os::unix::fs::{FileExt as _, OpenOptionsExt as _},
        path::Path,
        sync::Arc,
    };

    use async_trait::async_trait;
    use rustix::fs::{FlockOperation, flock};
    use tokio::task::spawn_blocking;

    use super::Disk;
    use crate::state_file::{StateFileError, format};

    /// A file that stays locked until this value is dropped.
    #[derive(Debug)]
    struct LockedFile(Arc<File>);

    #[async_trait]
    impl Disk for LockedFile {
        async fn write(&self, offset: u64, bytes: Vec<u8>) -> io::Result<()> {
            let file = Arc::clone(&self.0);
            let write = move || {
                file.write_all_at(&bytes, offset)?;
                file.sync_data()
            };
            spawn_blocking(write).await.map_err(io::Error::other)?
        }
    }

    /// Opens and locks a file. Creates the file if it is missing.
    pub(in crate::state_file) fn open(
        path: &Path,
    ) -> Result<(Box<dyn Disk>, format::Found, Metadata), StateFileError> {
        let failed = |source| StateFileError::Unusable { path: path.to_owned(), source };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(path).map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(StateFileError::InUse { path: path.to_owned() });
            }
            Err(error) => return Err(failed(error.into())),
        }
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(failed(io::Error::other("it is not a regular file")));
        }
        let empty = format::empty_file();
        let mut bytes = Vec::new();
        file.by_ref().take(empty.len() as u64).read_to_end(&mut bytes).map_err(failed)?;
        let found = format::decode(&bytes);
        match found {
            format::Found::Foreign => {
                return Err(StateFileError::Foreign { path: path.to_owned() });
            }
            // Written in full, so that the disk already has room for later writes, and so that
            // nothing of another format remains.
            format::Found::Nothing | format::Found::Unreadable(_) => {
                file.write_all_at(&empty, 0).map_err(failed)?;
                file.sync_all().map_err(failed)?;
                sync_folder(path).map_err(failed)?;
            }
            format::Found::Content { .. } => {}
        }
        Ok((Box::new(LockedFile(Arc::new(file))), found, metadata))
    }

    /// Makes the name of a new file durable.
    fn sync_folder(path: &Path) -> io::Result<()> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}
