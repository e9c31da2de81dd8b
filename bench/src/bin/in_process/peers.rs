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
use raindrop_bench::{
    machine::version_of,
    rounds::{Sample, alone, in_pairs},
};
use snowid::{SnowID, SnowIDConfig};

use crate::snowdon_layouts::{Capped, Unthrottled};

/// How many IDs snowid reserves at a time.
const BATCH: usize = 1000;

pub(crate) type Measure = Box<dyn FnMut(u64) -> Sample>;

/// One way to use a generator, on one thread and shared by two: with a layout whose clock never
/// limits, and with 12 bits of sequence. `None` where it has no such thing.
#[derive(Default)]
pub(crate) struct Peer {
    pub(crate) name: String,
    /// What it promises to threads that share it.
    pub(crate) promise: &'static str,
    /// Whether it may be shared, keeps its promise, and hands out one ID at a time.
    pub(crate) is_rival: bool,
    pub(crate) unthrottled: Option<Measure>,
    pub(crate) unthrottled_paired: Option<Measure>,
    pub(crate) capped: Option<Measure>,
    pub(crate) capped_paired: Option<Measure>,
}

impl Peer {
    fn new(package: &str, how: &str, promise: &'static str) -> Self {
        let name = format!("{package} {}, {how}", version_of(package));
        Self { name, promise, ..Self::default() }
    }

    /// A thread-safe generator of single IDs.
    fn shared(package: &str, how: &str, promise: &'static str) -> Self {
        Self { is_rival: true, ..Self::new(package, how, promise) }
    }

    fn unthrottled<T: 'static>(
        mut self,
        next: impl Fn() -> T + Clone + Send + Sync + 'static,
    ) -> Self {
        self.unthrottled = Some(Box::new(alone(next.clone())));
        self.unthrottled_paired = Some(Box::new(in_pairs(move |_| next.clone())));
        self
    }

    fn capped<T: 'static>(mut self, next: impl Fn() -> T + Clone + Send + Sync + 'static) -> Self {
        self.capped = Some(Box::new(alone(next.clone())));
        self.capped_paired = Some(Box::new(in_pairs(move |_| next.clone())));
        self
    }
}

fn forever<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

define_snowflake_id!(
    /// 4 million IDs a millisecond.
    WideId, u64,
    reserved: 1,
    timestamp: 41,
    machine_id: 0,
    sequence: 22
);

/// Every peer, in the order of the report.
pub(crate) fn all() -> Vec<Peer> {
    let mut peers = Vec::from(ferroid());
    peers.extend(snowid());
    peers.extend([snowdon(), snowflaked()]);
    peers.extend(rs_snowflake());
    peers.extend([idgenerator(), sonyflake()]);
    peers.extend(random());
    peers
}

fn ferroid() -> [Peer; 3] {
    let clock = MonotonicClock::<1>::with_epoch(TWITTER_EPOCH);
    let atomic = forever(AtomicSnowflakeGenerator::<WideId, _>::new(0, clock.clone()));
    let atomic_capped =
        forever(AtomicSnowflakeGenerator::<SnowflakeTwitterId, _>::new(0, clock.clone()));
    let lock = forever(LockSnowflakeGenerator::<WideId, _>::new(0, clock.clone()));
    let lock_capped =
        forever(LockSnowflakeGenerator::<SnowflakeTwitterId, _>::new(0, clock.clone()));
    let basic = BasicSnowflakeGenerator::<WideId, _>::new(0, clock.clone());
    let basic_capped = BasicSnowflakeGenerator::<SnowflakeTwitterId, _>::new(0, clock);
    [
        Peer::shared("ferroid", "atomic, its own ticker", "unique")
            .unthrottled(move || atomic.next_id(|_| yield_now()))
            .capped(move || atomic_capped.next_id(|_| yield_now())),
        Peer::shared("ferroid", "lock, its own ticker", "unique")
            .unthrottled(move || lock.next_id(|_| yield_now()))
            .capped(move || lock_capped.next_id(|_| yield_now())),
        Peer {
            unthrottled: Some(Box::new(alone(move || basic.next_id(|_| yield_now())))),
            capped: Some(Box::new(alone(move || basic_capped.next_id(|_| yield_now())))),
            ..Peer::new("ferroid", "basic, its own ticker", "one thread")
        },
    ]
}

fn snowid() -> [Peer; 2] {
    let wide = SnowIDConfig::builder().node_bits(6).expect("6 to 16 bits").build();
    let wide = forever(SnowID::with_config(1, wide).expect("node 1 of 64"));
    let capped = forever(SnowID::new(1).expect("node 1 of 1024"));
    let batch = move || {
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
        Peer::shared("snowid", "`generate`, 16 bits", "unique; runs ahead of the clock")
            .unthrottled(move || wide.generate())
            .capped(move || {
                loop {
                    match capped.try_generate() {
                        Ok(id) => return id,
                        Err(_) => spin_loop(),
                    }
                }
            }),
        Peer {
            unthrottled: Some(Box::new(alone(batch()))),
            unthrottled_paired: Some(Box::new(in_pairs(move |_| batch()))),
            ..Peer::new("snowid", "batches of 1000, 16 bits", "unique; runs ahead of the clock")
        },
    ]
}

fn snowdon() -> Peer {
    let wide = forever(snowdon::Generator::<Unthrottled, Unthrottled>::default());
    let capped = forever(snowdon::Generator::<Capped, Capped>::default());
    Peer::shared("snowdon", "lock-free", "unique")
        .unthrottled(move || wide.generate().expect("an unthrottled layout"))
        .capped(move || {
            loop {
                match capped.generate() {
                    Ok(id) => return id,
                    Err(_) => spin_loop(),
                }
            }
        })
}

fn snowflaked() -> Peer {
    let generator = forever(snowflaked::sync::Generator::new(1));
    Peer::shared("snowflaked", "sync; 12 bits only", "unique")
        .capped(move || generator.generate::<u64>())
}

fn rs_snowflake() -> [Peer; 2] {
    let mut generator = snowflake::SnowflakeIdGenerator::new(1, 1);
    let mut bucket = snowflake::SnowflakeIdBucket::new(1, 1);
    [
        Peer {
            capped: Some(Box::new(alone(move || generator.real_time_generate()))),
            ..Peer::new("rs-snowflake", "real time; 12 bits only", "one thread")
        },
        Peer {
            unthrottled: Some(Box::new(alone(move || bucket.get_id()))),
            ..Peer::new("rs-snowflake", "bucket; reads no clock", "one thread")
        },
    ]
}

/// The algorithm of yitter.
fn idgenerator() -> Peer {
    let with = |worker_bits, sequence_bits| {
        let mut generator = CoreIdGenerator::default();
        let options = IdGeneratorOptions::new()
            .worker_id(1)
            .worker_id_bit_len(worker_bits)
            .seq_bit_len(sequence_bits);
        generator.init(options).expect("22 bits at most");
        forever(Mutex::new(generator))
    };
    let (wide, capped) = (with(1, 21), with(10, 12));
    Peer::shared("idgenerator", "in its lock", "unique; drifts ahead")
        .unthrottled(move || wide.lock().next_id())
        .capped(move || capped.lock().next_id())
}

fn sonyflake() -> Peer {
    let machine = || Ok(1);
    let generator = sonyflake::Sonyflake::builder().machine_id(&machine).finalize();
    let generator = forever(generator.expect("machine 1"));
    Peer::shared("sonyflake", "8 bits per 10 ms only", "unique")
        .capped(move || generator.next_id().expect("before 2188"))
}

fn random() -> [Peer; 2] {
    [
        Peer::new("uuid", "v7, 128 bits, fast-rng", "random").unthrottled(uuid::Uuid::now_v7),
        Peer::new("ulid", "128 bits", "random").unthrottled(ulid::Ulid::generate),
    ]
}
