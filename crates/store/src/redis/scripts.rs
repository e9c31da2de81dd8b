//! The scripts. Each is one whole operation.
//!
//! Marks and tokens pass through them as text only. Worker ids have leading zeros, so that their
//! order as text is their order as numbers.

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
