//! Reads small files that people write: settings, passwords, tokens and certificates.
//!
//! A file is opened once, and its type, owner, mode and content are all read from the open file.
//! Its path may lead to another file a moment later, so checking the path and then opening it would
//! be a race.

use std::{
    fs::{File, Metadata},
    io::{self, ErrorKind, Read},
    path::Path,
    time::Duration,
};

/// The largest text in bytes: a token file with tens of thousands of tokens.
pub(crate) const LARGEST_TEXT: u64 = 16 << 20;
/// How long a reader waits for the next bytes of a pipe or FIFO. Shorter than the time-out for
/// reads in the running service, so that its thread ends in time.
const PATIENCE: Duration = Duration::from_secs(4);
/// The byte-order mark of UTF-8, which some editors write.
const MARK: &[u8] = b"\xef\xbb\xbf";
/// The byte-order marks of UTF-16 and UTF-32.
const OTHER_MARKS: [&[u8]; 3] = [b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff"];

/// Reads a file of at most `largest` bytes, without its byte-order mark.
pub(crate) fn read(path: &Path, largest: u64) -> io::Result<Vec<u8>> {
    SmallFile::open(path)?.read(largest)
}

/// Reads a file of at most [`LARGEST_TEXT`] bytes as UTF-8.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    text(read(path, LARGEST_TEXT)?)
}

/// Reads a file that grants access. Refuses a file that belongs to another user, or that another
/// user can write.
pub(crate) fn read_trusted(path: &Path, largest: u64) -> io::Result<Vec<u8>> {
    let file = SmallFile::open(path)?;
    match owned_by_others(&file.metadata) {
        Some(reason) => Err(invalid(reason)),
        None => file.read(largest),
    }
}

/// Reads a text as [`read_trusted`] does.
pub(crate) fn read_trusted_text(path: &Path) -> io::Result<String> {
    text(read_trusted(path, LARGEST_TEXT)?)
}

/// A file that is open for reading.
#[derive(Debug)]
pub(super) struct SmallFile {
    file: File,
    pub(super) metadata: Metadata,
}

impl SmallFile {
    /// Opens a file. A FIFO is opened without waiting for its writer.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut options = File::options();
        options.read(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt as _;

            options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
        }
        let file = options.open(path)?;
        let metadata = file.metadata()?;
        Ok(Self { file, metadata })
    }

    /// Reads the whole file, at most `largest` bytes, without its byte-order mark.
    pub(super) fn read(self, largest: u64) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        self.take(largest + 1).read_to_end(&mut content)?;
        if content.len() as u64 > largest {
            return Err(invalid(format!("larger than {largest} bytes")));
        }
        if OTHER_MARKS.iter().any(|mark| content.starts_with(mark)) || content.contains(&0) {
            return Err(invalid("UTF-16, UTF-32 or no text: must be UTF-8"));
        }
        if content.starts_with(MARK) {
            content.drain(..MARK.len());
        }
        Ok(content)
    }
}

/// Waits for the writer of a pipe for at most [`PATIENCE`]: a FIFO may never get a writer.
impl Read for SmallFile {
    #[cfg(unix)]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};

        let patience = Timespec::try_from(PATIENCE).map_err(io::Error::other)?;
        loop {
            if poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&patience))? == 0 {
                let reason = format!("nothing came from it within {PATIENCE:?}");
                return Err(io::Error::new(ErrorKind::TimedOut, reason));
            }
            match self.file.read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }

    #[cfg(not(unix))]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read(buffer)
    }
}

fn text(content: Vec<u8>) -> io::Result<String> {
    String::from_utf8(content).map_err(|error| {
        let at = error.utf8_error().valid_up_to() + 1;
        invalid(format!("byte {at} is not UTF-8"))
    })
}

fn invalid(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, reason)
}

/// Returns a warning if every user of this machine may read the secret in the file that a key
/// names.
#[cfg(unix)]
pub(crate) fn readable_by_all(key: &str, path: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;

    let mode = path.metadata().ok()?.mode() & 0o777;
    let path = path.display();
    (mode & 0o004 != 0).then(|| {
        format!(
            "{key} = {path}: its mode, {mode:03o}, lets everybody read this secret; 640 or 600 \
             keeps it"
        )
    })
}

#[cfg(not(unix))]
pub(crate) const fn readable_by_all(_: &str, _: &Path) -> Option<String> {
    None
}

/// Returns why another user could have written a file; `None` if only this user and root can. The
/// user's primary group may write the file, because on many systems no other user is in it.
#[cfg(unix)]
pub(super) fn owned_by_others(metadata: &Metadata) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;

    use rustix::process::{getegid, geteuid};

    let is_own_group = metadata.gid() == getegid().as_raw();
    foreign_writer(metadata.uid(), geteuid().as_raw(), is_own_group, metadata.mode() & 0o777)
}

#[cfg(not(unix))]
pub(super) const fn owned_by_others(_: &Metadata) -> Option<String> {
    None
}

/// Returns who else than this user and root could have written a file with this owner and mode.
#[cfg(unix)]
fn foreign_writer(owner: u32, user: u32, is_own_group: bool, mode: u32) -> Option<String> {
    if owner != 0 && owner != user {
        return Some(format!("it belongs to another user, {owner}: must be this user's or root's"));
    }
    let others = if is_own_group { 0o002 } else { 0o022 };
    (mode & others != 0).then(|| format!("other users may write it: its mode is {mode:03o}"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn text_of(content: impl AsRef<[u8]>) -> Result<String, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        fs::write(&path, content).expect("written");
        read_text(&path).map_err(|error| error.to_string())
    }

    #[test]
    fn mark_is_left_out_and_other_encodings_are_refused() {
        assert_eq!(text_of("\u{feff}secret"), Ok("secret".into()));
        assert_eq!(text_of("a\u{feff}b"), Ok("a\u{feff}b".into()));
        let utf_16: Vec<u8> = "\u{feff}a=1".encode_utf16().flat_map(u16::to_le_bytes).collect();
        for other in [&utf_16[..], &utf_16[2..], b"a\0", b"\xfe\xff\0a", b"\0\0\xfe\xff"] {
            let error = text_of(other).expect_err("not UTF-8");
            assert_eq!(error, "UTF-16, UTF-32 or no text: must be UTF-8");
        }
        assert_eq!(text_of(b"ab\xe9"), Err("byte 3 is not UTF-8".into()));
    }

    #[cfg(unix)]
    #[test]
    fn file_without_an_end_is_refused() {
        let error = read(Path::new("/dev/zero"), 100).expect_err("too large");
        assert_eq!(error.to_string(), "larger than 100 bytes");
        assert!(read_text(Path::new("/dev/zero")).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn pipe_is_read_to_its_end_and_a_fifo_without_a_writer_is_given_up() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).expect("a FIFO");
        let error = read_text(&path).expect_err("nobody writes");
        assert_eq!(error.to_string(), "nothing came from it within 4s");
        let writer = std::thread::spawn({
            let path = path.clone();
            move || fs::write(path, "a".repeat(100_000))
        });
        assert_eq!(read_text(&path).expect("written").len(), 100_000);
        writer.join().expect("no panic").expect("written");
    }

    #[cfg(unix)]
    #[test]
    fn file_that_others_may_write_is_told() {
        use std::os::unix::fs::PermissionsExt as _;

        let file = tempfile::NamedTempFile::new().expect("a file");
        for (mode, told) in [(0o600, None), (0o664, None), (0o644, None), (0o666, Some("666"))] {
            fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).expect("own");
            let found = owned_by_others(&file.path().metadata().expect("there"));
            assert_eq!(found.is_some(), told.is_some(), "{mode:o}");
            assert!(found.is_none_or(|found| found.ends_with(told.unwrap_or_default())));
            assert_eq!(read_trusted(file.path(), 1).is_err(), told.is_some(), "{mode:o}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn file_of_another_user_or_group_is_not_trusted() {
        const FOREIGN: &str = "it belongs to another user, 1000: must be this user's or root's";
        const WRITABLE: &str = "other users may write it: its mode is 664";
        for (owner, user, is_own_group, mode, told) in [
            (1000, 1000, true, 0o664, None),
            (0, 1000, false, 0o644, None),
            (0, 0, true, 0o600, None),
            (0, 1000, false, 0o664, Some(WRITABLE)),
            (1000, 1000, false, 0o664, Some(WRITABLE)),
            (1000, 1001, true, 0o600, Some(FOREIGN)),
            (1000, 0, true, 0o600, Some(FOREIGN)),
        ] {
            let found = foreign_writer(owner, user, is_own_group, mode);
            assert_eq!(found.as_deref(), told, "{owner} {user} {is_own_group} {mode:o}");
        }
    }
}
