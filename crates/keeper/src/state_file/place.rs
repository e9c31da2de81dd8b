//! Describes the place of a state file, so that a copied, restored or shared file is recognized.

use std::{fs::Metadata, path::Path, time::UNIX_EPOCH};

use super::format::Place;

/// The kernel's random id of this boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const MACHINE_ID: &str = "/etc/machine-id";
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// The fact without which no lease is resumed: without it, a disk that was rolled back looks like
/// any other.
pub(super) const BOOT: &str = "boot";

impl Place {
    /// Describes this machine, a file on it, and the store.
    pub(super) fn here(file: &Metadata, store: &str) -> Self {
        let mut place = Self::default();
        let mut fact = |name: &str, value: String| {
            place.facts.insert(name.to_owned(), value);
        };
        fact("store", store.to_owned());
        fact("file", file_id(file));
        // An inode number may be reused at once. Not every file system has the time of creation.
        if let Ok(created) = file.created() {
            let since_1970 = created.duration_since(UNIX_EPOCH).unwrap_or_default();
            fact("created", since_1970.as_nanos().to_string());
        }
        for (name, path) in [(BOOT, BOOT_ID), ("machine", MACHINE_ID), ("host", HOST_NAME)] {
            if let Some(value) = read(Path::new(path)) {
                fact(name, value);
            }
        }
        place
    }

    /// Returns a difference between this place and the one where leases were saved.
    pub(super) fn difference(&self, kept: &Self) -> Option<String> {
        if !self.facts.contains_key(BOOT) {
            return Some("this system has no boot id".to_owned());
        }
        let names = self.facts.keys().chain(kept.facts.keys());
        let mut differing = names.filter(|name| self.facts.get(*name) != kept.facts.get(*name));
        differing.next().map(|name| {
            let shown = |place: &Self| place.facts.get(name).cloned().unwrap_or_default();
            format!("{name} was {:?} and is {:?}", shown(kept), shown(self))
        })
    }
}

fn read(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let text = text.trim().replace(char::is_control, " ");
    (!text.is_empty()).then_some(text)
}

/// Returns the device and inode of a file. A copy has others.
#[cfg(unix)]
fn file_id(file: &Metadata) -> String {
    use std::os::unix::fs::MetadataExt;

    format!("{:x}:{:x}", file.dev(), file.ino())
}

#[cfg(not(unix))]
fn file_id(_: &Metadata) -> String {
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(facts: &[(&str, &str)]) -> Place {
        let facts = facts.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Place { facts: facts.collect() }
    }

    #[test]
    fn any_fact_that_differs_is_named() {
        let here = place(&[("boot", "b"), ("file", "1:2"), ("host", "h"), ("store", "s")]);
        assert_eq!(here.difference(&here), None);
        for (name, kept) in [
            ("boot", place(&[("boot", "a"), ("file", "1:2"), ("host", "h"), ("store", "s")])),
            ("file", place(&[("boot", "b"), ("file", "1:3"), ("host", "h"), ("store", "s")])),
            ("host", place(&[("boot", "b"), ("file", "1:2"), ("store", "s")])),
            ("store", place(&[("boot", "b"), ("file", "1:2"), ("host", "h"), ("store", "t")])),
            ("machine", {
                let facts = [("boot", "b"), ("file", "1:2"), ("host", "h"), ("machine", "m")];
                place(&[&facts[..], &[("store", "s")]].concat())
            }),
        ] {
            let difference = here.difference(&kept).expect("another place");
            assert!(difference.starts_with(&format!("{name} was ")), "{difference}");
        }
    }

    #[test]
    fn without_a_boot_id_nothing_is_the_same_place() {
        let here = place(&[("file", "1:2")]);
        assert_eq!(here.difference(&here), Some("this system has no boot id".to_owned()));
    }
}
