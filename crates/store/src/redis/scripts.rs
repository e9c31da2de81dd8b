//! The Lua scripts, each of which is one whole operation.
//!
//! Redis runs a script without interruption, so a script may read, compare and then write. All are
//! in `scripts.lua`. Each begins with the part `common`, which reads the clock and has the
//! comparisons of identity and epoch.
//!
//! Numbers in Lua are doubles, so marks and tokens pass through scripts as text only, and next
//! numbers are added by `HINCRBY`. Worker ids have leading zeros, so that the order of texts is
//! that of numbers. If the type of a key could make a script fail, the script touches that key
//! before it writes anything: Redis does not roll back. Tests: below, and tests/store/redis.rs.

use std::sync::LazyLock;

use redis::Script;

const FILE: &str = include_str!("scripts.lua");

/// Returns the part of the file that follows the line with this name.
fn part(name: &str) -> &'static str {
    let mut parts = FILE.split("-- name: ").filter_map(|part| part.split_once('\n'));
    let part = parts.find_map(|(named, lua)| (named == name).then_some(lua));
    part.expect("the file has every script")
}

macro_rules! scripts {
    ($($script:ident $name:literal)*) => {
        $(
            pub(super) static $script: LazyLock<Script> = LazyLock::new(|| {
                Script::new(&[part("common"), part($name)].concat())
            });
        )*

        #[cfg(test)]
        const NAMES: &[&str] = &[$($name),*];
    };
}

scripts! {
    CREATE_RECORD "create_record"
    READ_RECORD "read_record"
    SWAP_RECORD "swap_record"
    CREATE_ROWS "create_rows"
    SURVEY "survey"
    UNRELEASED_ROWS "unreleased_rows"
    FREE_ROWS "free_rows"
    READ_ROW "read_row"
    LIST_ROWS "list_rows"
    SWAP_ROW "swap_row"
    CREATE_SEGMENTS "create_segments"
    WRITE_MANAGED_CODE "write_managed_code"
    COUNT_SEGMENTS "count_segments"
    SEGMENTS "segments"
    RESERVE "reserve"
    READ_SEGMENTS "read_segments"
    GIVE_BACK "give_back"
    UNDO "undo"
    CLAIM_KEYS "claim_keys"
    FINISH_KEYS "finish_keys"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_has_the_scripts_that_are_used_and_no_others() {
        let named = FILE.lines().filter_map(|line| line.strip_prefix("-- name: "));
        assert_eq!(named.collect::<Vec<_>>(), [&["common"], NAMES].concat());
        for name in NAMES {
            assert!(part(name).starts_with("-- KEYS: "), "{name}");
        }
    }
}
