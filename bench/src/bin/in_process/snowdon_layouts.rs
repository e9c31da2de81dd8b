//! Layouts for snowdon, which takes them as types.

use snowdon::{Epoch, Layout};

/// 4 million IDs a millisecond.
pub(crate) struct Unlimited;

/// As Twitter's: 4096 IDs a millisecond.
pub(crate) struct TwelveBits;

macro_rules! layout {
    ($name:ty, $machine_bits:literal, $sequence_bits:literal) => {
        impl Layout for $name {
            fn construct_snowflake(timestamp: u64, sequence: u64) -> u64 {
                (timestamp << ($machine_bits + $sequence_bits)) | sequence
            }

            fn timestamp(id: u64) -> u64 {
                id >> ($machine_bits + $sequence_bits)
            }

            fn exceeds_timestamp(timestamp: u64) -> bool {
                timestamp >= 1 << (63 - $machine_bits - $sequence_bits)
            }

            fn sequence_number(id: u64) -> u64 {
                id & ((1 << $sequence_bits) - 1)
            }

            fn exceeds_sequence_number(sequence: u64) -> bool {
                sequence >= 1 << $sequence_bits
            }

            fn is_valid_snowflake(_: u64) -> bool {
                true
            }
        }

        impl Epoch for $name {
            /// 2025-01-01.
            fn millis_since_unix() -> u64 {
                1_735_689_600_000
            }
        }
    };
}

layout!(Unlimited, 0, 22);
layout!(TwelveBits, 10, 12);
