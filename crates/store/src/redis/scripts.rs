//! The Lua scripts, each of which is one whole operation.
//!
//! Redis runs a script without interruption, so a script may read, compare and then write. Each
//! begins with `common.lua`, which reads the clock and has the comparisons of identity and epoch.
//!
//! Numbers in Lua are doubles, so marks and tokens pass through scripts as text only, and next
//! numbers are added by `HINCRBY`. Worker ids have leading zeros, so that the order of texts is
//! that of numbers. If the type of a key could make a script fail, the script touches that key
//! before it writes anything: Redis does not roll back. Tests: tests/store/redis.rs.

use std::sync::LazyLock;

use redis::Script;

macro_rules! scripts {
    ($($name:ident $file:literal)*) => {$(
        pub(super) static $name: LazyLock<Script> = LazyLock::new(|| {
            Script::new(concat!(
                include_str!("scripts/common.lua"),
                include_str!(concat!("scripts/", $file))
            ))
        });
    )*};
}

scripts! {
    CREATE_RECORD "create_record.lua"
    READ_RECORD "read_record.lua"
    SWAP_RECORD "swap_record.lua"
    CREATE_ROWS "create_rows.lua"
    SURVEY "survey.lua"
    UNRELEASED_ROWS "unreleased_rows.lua"
    FREE_ROWS "free_rows.lua"
    READ_ROW "read_row.lua"
    LIST_ROWS "list_rows.lua"
    SWAP_ROW "swap_row.lua"
    CREATE_SEGMENTS "create_segments.lua"
    WRITE_MANAGED_CODE "write_managed_code.lua"
    COUNT_SEGMENTS "count_segments.lua"
    SEGMENTS "segments.lua"
    RESERVE "reserve.lua"
    READ_SEGMENTS "read_segments.lua"
    GIVE_BACK "give_back.lua"
}
