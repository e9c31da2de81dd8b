//! Reads small files that people write: settings, passwords, tokens and certificates.

use std::{
    fs::{File, Metadata},
    io::{self, ErrorKind, Read},
    path::Path,
};

/// The largest text in bytes: a token file with tens of thousands of tokens.
pub(crate) const LARGEST_TEXT: u64 = 16 << 20;
/// The byte-order mark of UTF-8, which editors put in front.
const MARK: &[u8] = b"\xef\xbb\xbf";
/// Those of UTF-16 and UTF-32.
const OTHER_MARKS: [&[u8]; 3] = [b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff"];

/// Reads a file of at most `largest` bytes, without its byte-order mark.
pub(crate) fn read(path: &Path, largest: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    File::open(path)?.take(largest + 1).read_to_end(&mut content)?;
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

/// Reads a text.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path, LARGEST_TEXT)?).map_err(|error| {
        let at = error.utf8_error().valid_up_to() + 1;
        invalid(format!("byte {at} is not UTF-8"))
    })
}

fn invalid(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, reason)
}

/// The mode of a file that everybody on this machine may read, if it is one.
#[cfg(unix)]
pub(super) fn readable_by_all(path: &Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt as _;

    let mode = path.metadata().ok()?.mode() & 0o777;
    (mode & 0o004 != 0).then_some(mode)
}

#[cfg(not(unix))]
pub(super) const fn readable_by_all(_: &Path) -> Option<u32> {
    None
}

/// Why other users can write a file, if they can. A file of the own group counts as the user's, whose
/// name many systems give to a group of his own.
#[cfg(unix)]
pub(crate) fn writable_by_others(metadata: &Metadata) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;

    let is_own_group = metadata.gid() == rustix::process::getegid().as_raw();
    let others = if is_own_group { 0o002 } else { 0o022 };
    let mode = metadata.mode() & 0o777;
    (mode & others != 0).then(|| format!("other users may write it: its mode is {mode:03o}"))
}

/// Why another user could have written a file, if one could.
#[cfg(unix)]
pub(crate) fn owned_by_others(metadata: &Metadata) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;

    let owner = metadata.uid();
    let is_trusted = owner == 0 || owner == rustix::process::geteuid().as_raw();
    let foreign = (!is_trusted).then(|| format!("it belongs to another user, {owner}"));
    foreign.or_else(|| writable_by_others(metadata))
}

#[cfg(not(unix))]
pub(crate) const fn writable_by_others(_: &Metadata) -> Option<String> {
    None
}

#[cfg(not(unix))]
pub(crate) const fn owned_by_others(_: &Metadata) -> Option<String> {
    None
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
    fn file_that_others_may_write_is_told() {
        use std::os::unix::fs::PermissionsExt as _;

        let file = tempfile::NamedTempFile::new().expect("a file");
        for (mode, told) in [(0o600, None), (0o664, None), (0o644, None), (0o666, Some("666"))] {
            fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).expect("own");
            let found = owned_by_others(&file.path().metadata().expect("there"));
            assert_eq!(found.is_some(), told.is_some(), "{mode:o}");
            assert!(found.is_none_or(|found| found.ends_with(told.unwrap_or_default())));
        }
    }
}
