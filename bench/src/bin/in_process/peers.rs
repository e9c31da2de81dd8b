//! Other generators, each set up as its documentation advises for the task.

use std::{hint::spin_loop, thread::yield_now};

use ferroid::{
    define_snowflake_id,
    generator::{AtomicSnowflakeGenerator, BasicSnowflakeGenerator, LockSnowflakeGenerator},
    id::SnowflakeTwitterId,
    time::{MonotonicClock, TWITTER_EPOCH},
};
use idgenerator::{CoreIdGenerator, IdGeneratorOptions};
use parking_lot::Mutex;
use snowid::{SnowID, SnowIDConfig};

use crate::{
    contestants::{Contestant, Threads},
    snowdon_layouts::{TwelveBits, Unlimited},
};

/// How many IDs snowid reserves at a time.
const BATCH: usize = 1000;

fn forever<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// Retries until there is an ID.
fn spin<T, E>(mut next: impl FnMut() -> Result<T, E>) -> T {
    loop {
        match next() {
            Ok(id) => return id,
            Err(_) => spin_loop(),
        }
    }
}

define_snowflake_id!(
    /// 4 million IDs a millisecond.
    WideId, u64,
    reserved: 1,
    timestamp: 41,
    machine_id: 0,
    sequence: 22
);

/// Returns every peer, in the order of the report.
pub(crate) fn contestants() -> Vec<Contestant> {
    let mut peers = Vec::from(ferroid());
    peers.extend(snowid());
    peers.extend([snowdon(), snowflaked()]);
    peers.extend(rs_snowflake());
    peers.extend([idgenerator(), sonyflake()]);
    peers.extend(random());
    peers
}

fn ferroid() -> [Contestant; 3] {
    type Twelve = SnowflakeTwitterId;
    let clock = MonotonicClock::<1>::with_epoch(TWITTER_EPOCH);
    let atomic = forever(AtomicSnowflakeGenerator::<WideId, _>::new(0, clock.clone()));
    let atomic_twelve = forever(AtomicSnowflakeGenerator::<Twelve, _>::new(0, clock.clone()));
    let lock = forever(LockSnowflakeGenerator::<WideId, _>::new(0, clock.clone()));
    let lock_twelve = forever(LockSnowflakeGenerator::<Twelve, _>::new(0, clock.clone()));
    let basic = BasicSnowflakeGenerator::<WideId, _>::new(0, clock.clone());
    let basic_twelve = BasicSnowflakeGenerator::<Twelve, _>::new(0, clock);
    [
        Contestant {
            unlimited: Threads::shared(move || atomic.next_id(|_| yield_now())),
            twelve_bits: Threads::shared(move || atomic_twelve.next_id(|_| yield_now())),
            ..Contestant::rival("ferroid", "atomic, its own ticker", "unique")
        },
        Contestant {
            unlimited: Threads::shared(move || lock.next_id(|_| yield_now())),
            twelve_bits: Threads::shared(move || lock_twelve.next_id(|_| yield_now())),
            ..Contestant::rival("ferroid", "lock, its own ticker", "unique")
        },
        Contestant {
            unlimited: Threads::one(move || basic.next_id(|_| yield_now())),
            twelve_bits: Threads::one(move || basic_twelve.next_id(|_| yield_now())),
            ..Contestant::peer("ferroid", "basic, its own ticker", "one thread")
        },
    ]
}

/// Returns a snowid generator with 16 bits of sequence.
pub(crate) fn wide_snowid() -> &'static SnowID {
    let config = SnowIDConfig::builder().node_bits(6).expect("6 to 16 bits").build();
    forever(SnowID::with_config(1, config).expect("node 1 of 64"))
}

fn snowid() -> [Contestant; 2] {
    const GUARANTEE: &str = "unique; runs ahead of the clock";
    let wide = wide_snowid();
    let twelve = forever(SnowID::new(1).expect("node 1 of 1024"));
    let batch = move |_| {
        let (mut ids, mut next) = ([0; BATCH], BATCH);
        move || {
            if next == BATCH {
                wide.generate_batch(&mut ids);
                next = 0;
            }
            next += 1;
            ids[next - 1]
        }
    };
    [
        Contestant {
            unlimited: Threads::shared(move || wide.generate()),
            twelve_bits: Threads::shared(move || spin(|| twelve.try_generate())),
            ..Contestant::rival("snowid", "`generate`, 16 bits", GUARANTEE)
        },
        Contestant {
            unlimited: Threads::both(batch),
            ..Contestant::peer("snowid", "batches of 1000, 16 bits", GUARANTEE)
        },
    ]
}

fn snowdon() -> Contestant {
    let wide = forever(snowdon::Generator::<Unlimited, Unlimited>::default());
    let twelve = forever(snowdon::Generator::<TwelveBits, TwelveBits>::default());
    Contestant {
        unlimited: Threads::shared(move || wide.generate().expect("an unlimited layout")),
        twelve_bits: Threads::shared(move || spin(|| twelve.generate())),
        ..Contestant::rival("snowdon", "lock-free", "unique")
    }
}

fn snowflaked() -> Contestant {
    let generator = forever(snowflaked::sync::Generator::new(1));
    Contestant {
        twelve_bits: Threads::shared(move || generator.generate::<u64>()),
        ..Contestant::rival("snowflaked", "sync; 12 bits only", "unique")
    }
}

fn rs_snowflake() -> [Contestant; 2] {
    let mut generator = snowflake::SnowflakeIdGenerator::new(1, 1);
    let mut bucket = snowflake::SnowflakeIdBucket::new(1, 1);
    [
        Contestant {
            twelve_bits: Threads::one(move || generator.real_time_generate()),
            ..Contestant::peer("rs-snowflake", "real time; 12 bits only", "one thread")
        },
        Contestant {
            unlimited: Threads::one(move || bucket.get_id()),
            ..Contestant::peer("rs-snowflake", "bucket; reads no clock", "one thread")
        },
    ]
}

/// Yitter's algorithm.
fn idgenerator() -> Contestant {
    let with = |worker_bits, sequence_bits| {
        let mut generator = CoreIdGenerator::default();
        let options = IdGeneratorOptions::new()
            .worker_id(1)
            .worker_id_bit_len(worker_bits)
            .seq_bit_len(sequence_bits);
        generator.init(options).expect("22 bits at most");
        forever(Mutex::new(generator))
    };
    let (wide, twelve) = (with(1, 21), with(10, 12));
    Contestant {
        unlimited: Threads::shared(move || wide.lock().next_id()),
        twelve_bits: Threads::shared(move || twelve.lock().next_id()),
        ..Contestant::rival("idgenerator", "in its lock", "unique; runs ahead of the clock")
    }
}

fn sonyflake() -> Contestant {
    let generator = sonyflake::Sonyflake::builder().machine_id(&|| Ok(1)).finalize();
    let generator = forever(generator.expect("machine 1"));
    Contestant {
        twelve_bits: Threads::shared(move || generator.next_id().expect("before 2188")),
        ..Contestant::rival("sonyflake", "8 bits per 10 ms only", "unique")
    }
}

fn random() -> [Contestant; 2] {
    [
        Contestant {
            unlimited: Threads::shared(uuid::Uuid::now_v7),
            ..Contestant::peer("uuid", "v7, 128 bits, fast-rng", "random")
        },
        Contestant {
            unlimited: Threads::shared(ulid::Ulid::generate),
            ..Contestant::peer("ulid", "128 bits", "random")
        },
    ]
}
