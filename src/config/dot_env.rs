//! Reads a `.env` file, which may have lines for other applications, too.
//!
//! The file must belong to this user, because it decides about the service. A line for Raindrop
//! that cannot be read is an error. Lines of other applications may have any form: if dotenvy
//! cannot read one, [`read`] blanks it and parses the file again. dotenvy reports no line numbers,
//! so [`Lines`] counts the lines that dotenvy has read. A value of Raindrop never has several
//! lines. If one seems to, the quote of an earlier line was not closed, and that line is the bad
//! one ([`parse`]).

use std::{
    cell::Cell,
    collections::HashMap,
    io::{self, Read},
    path::Path,
};

use super::{
    problem::ConfigProblem,
    small_file::{self, SmallFile},
    spelling::{PREFIX, without_prefix},
};

/// Reads the variables of Raindrop that a `.env` file sets, and skips lines of other applications
/// that cannot be read.
///
/// The file must belong to this user, and its values may contain no variables of other applications
/// (`$HOME`). Otherwise another user who can write to the working folder could change the service,
/// or make it reveal a secret.
///
/// # Errors
///
/// When the file or a line for Raindrop cannot be used. The error names the line and never quotes
/// it.
pub(super) fn read(path: &Path) -> Result<HashMap<String, String>, ConfigProblem> {
    let problem = |reason| ConfigProblem::File { path: path.to_owned(), reason };
    let failed = |error: io::Error| problem(error.to_string());
    let file = SmallFile::open(path).map_err(failed)?;
    if !file.metadata.is_file() {
        return Err(problem("it is no regular file".to_owned()));
    }
    if let Some(reason) = small_file::owned_by_others(&file.metadata) {
        return Err(problem(reason));
    }
    let bytes = file.read(small_file::LARGEST_TEXT).map_err(failed)?;
    // The lines of other applications may be in any encoding.
    let text = String::from_utf8_lossy(&bytes).replace("\r\n", "\n").replace('\r', "\n");
    let mut lines: Vec<&str> = text.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        if let Some(reason) = refused(line) {
            return Err(problem(format!("line {}: {reason}", at + 1)));
        }
    }
    loop {
        let bad = match parse(&lines) {
            Ok(pairs) => return Ok(pairs),
            Err(bad) => bad,
        };
        if is_ours(lines[bad]) {
            let number = bad + 1;
            let reason = "not of the form NAME=value, with its quotes closed, in UTF-8";
            return Err(problem(format!("line {number}: {reason}")));
        }
        lines[bad] = "";
    }
}

/// Returns whether a line is meant to set a variable of Raindrop.
fn is_ours(line: &str) -> bool {
    let line = line.trim_start();
    let exported = line.strip_prefix("export").filter(|rest| rest.starts_with([' ', '\t']));
    without_prefix(exported.unwrap_or(line).trim_start(), PREFIX).is_some()
}

/// Returns why a line is refused: it seems to set a variable of Raindrop and does not, or its value
/// contains a variable of another application.
fn refused(line: &str) -> Option<&'static str> {
    if is_ours(line) {
        return puts_in_foreign_variable(line).then_some(
            "of variables, only those that begin with RAINDROP_ are put in: write \\$, or use \
             single quotes",
        );
    }
    let name = line.split('=').next().unwrap_or_default();
    let is_comment = line.trim_start().starts_with('#');
    let seems_ours = !is_comment && name.to_uppercase().contains(PREFIX);
    seems_ours.then_some("it names RAINDROP_… and sets nothing: must be RAINDROP_…=value")
}

/// Returns whether the value of a line contains a variable of another application.
fn puts_in_foreign_variable(line: &str) -> bool {
    let (mut quote, mut before) = (None, ' ');
    let mut letters = line.char_indices();
    while let Some((at, letter)) = letters.next() {
        match (letter, quote) {
            ('\\', None | Some('"')) => drop(letters.next()),
            ('\'' | '"', None) => quote = Some(letter),
            (_, Some(open)) if letter == open => quote = None,
            ('#', None) if before.is_whitespace() => return false,
            ('$', None | Some('"')) => {
                let rest = line[at + 1..].trim_start_matches('{');
                let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
                let name = rest.split(|letter| !is_of_name(letter)).next().unwrap_or_default();
                if !name.starts_with(PREFIX) {
                    return true;
                }
            }
            _ => {}
        }
        before = letter;
    }
    false
}

/// Returns the variables, or the index of the first line that cannot be used.
fn parse(lines: &[&str]) -> Result<HashMap<String, String>, usize> {
    if let Some(bad) = lines.iter().position(|line| is_ours(line) && line.contains('\u{fffd}')) {
        return Err(bad);
    }
    let read = Cell::new(0);
    let mut entries = dotenvy::from_read_iter(Lines { lines, read: &read, rest: Vec::new() });
    let mut pairs = HashMap::new();
    loop {
        let begin = read.get();
        let Some(entry) = entries.next() else { return Ok(pairs) };
        let entry_lines = || begin..read.get();
        match entry {
            Ok((name, value)) => {
                let ours: Vec<usize> = entry_lines().filter(|at| is_ours(lines[*at])).collect();
                let is_filled = |at: &usize| !lines[*at].trim().is_empty();
                match ours.first() {
                    // A value with several lines: the quote of its first line is not closed.
                    Some(first) if is_ours(&name) && value.contains('\n') => return Err(*first),
                    // An open quote of another application's line swallowed a line of Raindrop.
                    Some(_) if !is_ours(&name) => {
                        return Err(entry_lines().find(is_filled).unwrap_or(begin));
                    }
                    _ => {}
                }
                if is_ours(&name) {
                    pairs.insert(name, value);
                }
            }
            Err(dotenvy::Error::LineParse(text, _)) => {
                return Err(read.get().saturating_sub(text.lines().count().max(1)));
            }
            Err(_) => return Err(read.get().saturating_sub(1)),
        }
    }
}

/// Gives dotenvy one line at a time and counts them, so that the lines of each entry are known.
struct Lines<'a> {
    lines: &'a [&'a str],
    read: &'a Cell<usize>,
    /// The unread rest of the last line, in reverse order.
    rest: Vec<u8>,
}

impl Read for Lines<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.rest.is_empty()
            && let Some(line) = self.lines.get(self.read.get())
        {
            self.read.set(self.read.get() + 1);
            self.rest = line.bytes().chain([b'\n']).rev().collect();
        }
        let length = buffer.len().min(self.rest.len());
        for byte in &mut buffer[..length] {
            *byte = self.rest.pop().unwrap_or_default();
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Reads a file of this content; errors begin with the number of the line.
    fn read_text(content: impl AsRef<[u8]>) -> Result<HashMap<String, String>, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(".env");
        fs::write(&path, content).expect("written");
        read(&path).map_err(|error| error.to_string().rsplit_once(": line ").expect("it").1.into())
    }

    const OURS: &str = "RAINDROP__STORE__URL";

    #[test]
    fn file_that_sets_nothing_of_what_it_names_is_an_error() {
        for line in [
            "declare -x RAINDROP__STORE__URL=memory:",
            "set RAINDROP__STORE__URL=memory:",
            "setx RAINDROP__STORE__URL memory:",
            "$env:RAINDROP__STORE__URL = 'memory:'",
            "\u{200b}RAINDROP__STORE__URL=memory:",
            "\u{feff}RAINDROP__STORE__URL=memory:",
        ] {
            let error = read_text(format!("FOO=1\n{line}\n")).expect_err(line);
            let told = "2: it names RAINDROP_… and sets nothing: must be RAINDROP_…=value";
            assert_eq!(error, told, "{line}");
        }
        let others = format!("# RAINDROP_X\nNAME=RAINDROP_X\nA=b # RAINDROP_\n{OURS}=memory:");
        assert_eq!(read_text(others).expect("readable")[OURS], "memory:");
    }

    #[test]
    fn line_ends_of_every_system_are_read() {
        for end in ["\n", "\r\n", "\r"] {
            let text = [OURS, "=memory:", end, "RAINDROP__MODE=segment", end].concat();
            let read = read_text(text).expect("readable");
            assert_eq!((&*read[OURS], &*read["RAINDROP__MODE"]), ("memory:", "segment"), "{end:?}");
        }
    }

    #[test]
    fn nothing_of_other_applications_is_put_in() {
        for value in
            ["mysql://$USER@db", "\"a${AWS_SECRET_ACCESS_KEY}\"", "a'b'$HOME", "pa$word", "pass$"]
        {
            let error = read_text(format!("{OURS}={value}")).expect_err(value);
            assert!(error.contains("are put in: write"), "{value}: {error}");
        }
        for (value, read) in [
            ("'a$HOME'", "a$HOME"),
            ("\"a\\$HOME\"", "a$HOME"),
            ("a # for $5", "a"),
            ("'a$'", "a$"),
        ] {
            let found = read_text(format!("{OURS}={value}"));
            assert_eq!(found.unwrap_or_else(|error| panic!("{value}: {error}"))[OURS], read);
        }
    }

    #[cfg(unix)]
    #[test]
    fn file_that_is_no_file_or_others_may_write_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(".env");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).expect("a FIFO");
        let error = read(&path).expect_err("it would block").to_string();
        assert!(error.ends_with("it is no regular file"), "{error}");
        fs::remove_file(&path).expect("removed");
        fs::write(&path, "RAINDROP__MODE=segment").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("own");
        let error = read(&path).expect_err("others may write it").to_string();
        assert!(error.ends_with("other users may write it: its mode is 666"), "{error}");
    }

    #[test]
    fn lines_of_other_applications_are_skipped() {
        for other in [
            "export FOO=bar",
            "export FOO",
            "no equals sign",
            "FOO = bar",
            "FOO=two words",
            "FOO='unclosed",
            "FOO=\"unclosed",
            "MOTD=It's late",
            "FOO=a\\",
            "=x",
            "1=2",
            "# It's a comment",
            "[section]",
            "FOO=\"two\nlines\"",
            "PS1=$'\\e[1m'",
            "export",
        ] {
            for text in [
                format!("{other}\n{OURS}=memory:\n"),
                format!("{OURS}=memory:\n{other}"),
                format!("{other}\n{OURS}='memory:'\nBAR=It's\n{other}\n"),
                format!("\u{feff}export {OURS} = memory: # why\n{other}\r\n"),
            ] {
                let read = read_text(&text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
                assert_eq!(read.get(OURS).map(String::as_str), Some("memory:"), "{text:?}");
            }
        }
        let latin_1 = [b"FOO=\xe9\n", OURS.as_bytes(), b"=memory:"].concat();
        assert_eq!(read_text(latin_1).expect("readable")[OURS], "memory:");
    }

    #[test]
    fn an_earlier_variable_can_be_used() {
        let text = format!(
            "it's odd\nRAINDROP_TEST_HOST=db\n{OURS}=mysql://u@${{RAINDROP_TEST_HOST}}/ids\n"
        );
        assert_eq!(read_text(text).expect("readable")[OURS], "mysql://u@db/ids");
    }

    #[test]
    fn a_line_of_ours_that_cannot_be_read_is_an_error_with_its_place() {
        let url = format!("{OURS}=mysql://u:hunter2@db/ids");
        for (text, line) in [
            (format!("{OURS} mysql://u:hunter2@db"), 1),
            (format!("# comment\n\nexport\t{OURS}\n"), 3),
            (format!("FOO=It's\nBAR=b\n{OURS}='mysql:\n"), 3),
            (format!("it's\n{OURS}='mysql:\nBAR=It's\n{url}\nBAZ=c\n"), 2),
            (format!("{OURS}=\"mysql:\n\n\n"), 1),
            (format!("{url}\nraindrop__http__listen=a b\n"), 2),
            (format!("FOO=1\n{OURS}=\"a\nRAINDROP__LOG__LEVEL=\"\n"), 2),
        ] {
            let error = read_text(&text).expect_err(&text);
            assert!(error.starts_with(&format!("{line}: not of the form")), "{text:?}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        let latin_1 = [b"\n", OURS.as_bytes(), b"=mysql://\xe9@db/ids"].concat();
        assert!(read_text(latin_1).expect_err("not UTF-8").starts_with("2: "));
    }
}
