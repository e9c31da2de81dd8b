//! One refill at a time, over a memory store, under paused time.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use raindrop_core::{clock::ManualClock, segment::SegmentSpec};
use raindrop_store::{MemoryStore, NewSegment, SegmentStore};
use rand::{SeedableRng, rngs::StdRng};
use tokio::{sync::mpsc, time::sleep};

use super::*;
use crate::{
    segment::{
        code_table::CodeTable,
        namespace::{Namespace, Purpose, SharedStore},
        settings::SegmentSettings,
    },
    support::{observer::Observer, random::Random},
};

/// The outcomes of reservations, and the number of calls of the store.
#[derive(Debug, Default)]
struct Seen {
    outcomes: Mutex<Vec<RefillOutcome>>,
    questions: Mutex<usize>,
}

impl Observer for Seen {
    fn segment_refilled(&self, outcome: RefillOutcome) {
        self.outcomes.lock().expect("unpoisoned").push(outcome);
    }

    fn store_operation(&self, _: StoreOperation, _: Duration) {
        *self.questions.lock().expect("unpoisoned") += 1;
    }
}

struct Bench {
    store: Arc<MemoryStore>,
    code: Arc<Code>,
    seen: Arc<Seen>,
    _queue: mpsc::UnboundedReceiver<Arc<Code>>,
}

impl Bench {
    async fn new(settings: SegmentSettings) -> Self {
        let store = Arc::new(MemoryStore::new(Arc::new(ManualClock::new(0))));
        let seen = Arc::new(Seen::default());
        let random = Random(Box::new(StdRng::seed_from_u64(1)));
        let shared = Arc::new(SharedStore::new(store.clone(), random));
        let namespace = Namespace::new(settings, seen.clone(), shared);
        namespace.recorded().await.expect("up");
        namespace.follow(Purpose::Poll, None).await.expect("up");
        *seen.questions.lock().expect("unpoisoned") = 0;
        let (queue, queued) = mpsc::unbounded_channel();
        let codes = CodeTable::new(namespace, queue);
        let code = codes.get_or_create(None, "order").expect("configured, or created on demand");
        Self { store, code, seen, _queue: queued }
    }

    /// Creates the code in the table, with this next number.
    async fn put(&self, first: u64) {
        let code = [NewSegment { code: "order".into(), first }];
        self.store.create_segments("numbers", &code).await.expect("made");
    }

    /// Refills once, and checks that the result says truly whether the store was called.
    async fn refill(&self) {
        let before = self.questions();
        let was_asked = refill(&self.code).await.expect("up");
        assert_eq!(was_asked, self.questions() > before);
    }

    fn claim(&self, count: u64) -> Option<Vec<u64>> {
        let numbers = self.code.cursor.claim(count).ok()?;
        Some(numbers.map(|id| id.get()).collect())
    }

    fn left(&self) -> u64 {
        self.code.cursor.left()
    }

    fn questions(&self) -> usize {
        *self.seen.questions.lock().expect("unpoisoned")
    }

    fn outcomes(&self) -> Vec<RefillOutcome> {
        self.seen.outcomes.lock().expect("unpoisoned").clone()
    }

    fn is_lost(&self) -> bool {
        *self.code.reason.borrow() == Some(UnavailableReason::StoreLost)
    }

    async fn is_stored(&self) -> bool {
        !self.store.list_segments().await.expect("up").is_empty()
    }
}

fn spec() -> SegmentSpec {
    SegmentSpec { min_step: 10, max_step: 1_000, ..SegmentSpec::default() }
}

async fn configured() -> Bench {
    Bench::new(SegmentSettings::new("numbers").with_code("order", spec())).await
}

async fn made_on_demand() -> Bench {
    let settings = SegmentSettings { auto_create: Some(spec()), ..SegmentSettings::new("numbers") };
    Bench::new(settings).await
}

#[tokio::test(start_paused = true)]
async fn block_is_reserved_while_no_more_than_a_step_is_left_or_a_claim_waits() {
    let bench = configured().await;
    bench.put(1).await;
    for left in [10, 20, 20] {
        bench.refill().await;
        assert_eq!(bench.left(), left);
    }
    assert_eq!(bench.outcomes(), [RefillOutcome::Done; 2]);
    assert_eq!(bench.claim(100), None);
    // The second time no claim waits any more.
    for _ in 0..2 {
        bench.refill().await;
        assert_eq!(bench.left(), 100);
    }
    assert_eq!(bench.claim(100), Some((1..=100).collect()));
}

#[tokio::test(start_paused = true)]
async fn code_is_made_by_its_first_reservation_where_that_is_allowed() {
    let bench = made_on_demand().await;
    bench.refill().await;
    assert_eq!(bench.claim(3), Some(vec![1, 2, 3]));

    let bench = configured().await;
    bench.refill().await;
    assert!(bench.is_lost() && !bench.is_stored().await);
    assert_eq!(bench.outcomes(), [RefillOutcome::Refused]);
}

#[tokio::test(start_paused = true)]
async fn code_that_vanished_is_not_made_again() {
    let bench = made_on_demand().await;
    bench.refill().await;
    assert_eq!(bench.claim(10), Some((1..=10).collect()));
    bench.store.lose_segments();
    bench.refill().await;
    assert!(bench.is_lost() && !bench.is_stored().await);
    assert_eq!(bench.claim(1), None);
}

#[tokio::test(start_paused = true)]
async fn code_that_vanished_is_looked_for_after_a_pause() {
    let bench = configured().await;
    bench.refill().await;
    assert!(bench.is_lost());
    let questions = bench.questions();
    bench.put(1).await;
    bench.refill().await;
    sleep(LONGEST_PAUSE - Duration::from_millis(1)).await;
    bench.refill().await;
    assert_eq!(bench.questions(), questions, "it is too early");
    sleep(Duration::from_secs(60)).await;
    bench.refill().await;
    assert!(!bench.is_lost());
    assert_eq!(bench.claim(1), Some(vec![1]));
}

/// Another process may have issued its numbers meanwhile.
#[tokio::test(start_paused = true)]
async fn code_that_went_back_begins_an_epoch_and_skips_a_gap() {
    let bench = configured().await;
    bench.refill().await;
    bench.put(1).await;
    sleep(Duration::from_secs(60)).await;
    bench.refill().await;
    assert_eq!(bench.claim(5), Some((1..=5).collect()));
    let before = bench.code.namespace.epoch().await;
    bench.store.lose_segments();
    bench.put(1).await;
    bench.refill().await;
    assert!(!bench.is_lost());
    assert_ne!(bench.code.namespace.epoch().await, before);
    // The code gives up its numbers of the old epoch.
    let next = bench.claim(1).expect("a number")[0];
    let row = bench.code.namespace.settings.gap_rule().skipped(
        &bench.code.spec(),
        &CodeRow { next: 1, step: 0, epoch: Token::UNUSED },
        &bench.code.namespace.follow(Purpose::Poll, None).await.expect("up"),
    );
    assert!(next > row, "{next} is not beyond a gap of {row}");
}

#[tokio::test(start_paused = true)]
async fn last_block_is_what_is_left() {
    let short = SegmentSpec { max: 25, ..spec() };
    let bench = Bench::new(SegmentSettings::new("numbers").with_code("order", short)).await;
    bench.put(21).await;
    bench.refill().await;
    assert_eq!(bench.left(), 5);
    // The row has no epoch yet.
    assert_eq!(bench.questions(), 2, "ten, and then five");
    assert_eq!(bench.claim(5), Some((21..=25).collect()));
    // The second time the code is known to be used up.
    for _ in 0..2 {
        bench.refill().await;
        assert!(bench.code.is_used_up());
    }
}

/// The plan drops such a block before, so only a fault in this process can bring one.
#[tokio::test(start_paused = true)]
async fn block_that_the_cursor_refuses_ends_the_refills_until_the_next_epoch() {
    let bench = configured().await;
    bench.put(1).await;
    bench.refill().await;
    assert_eq!(bench.claim(3), Some(vec![1, 2, 3]));
    let (step, epoch) = (10, bench.code.demand().epoch.expect("a block"));
    let block = Block { first: 5, end: 15, token: Token::from_bits(7) };
    add_block(&bench.code, &ReservedBlock { block, step, epoch });
    assert!(bench.is_lost());
    assert_eq!(bench.left(), 7, "nothing of it was added");
    let questions = bench.questions();
    for _ in 0..2 {
        bench.refill().await;
        sleep(2 * LONGEST_PAUSE).await;
    }
    assert_eq!(bench.questions(), questions, "it is not tried again");
    let namespace = &bench.code.namespace;
    namespace.begin_epoch_after_loss(Purpose::Poll, epoch).await.expect("up");
    bench.refill().await;
    assert!(!bench.is_lost());
    let next = bench.claim(1).expect("a number")[0];
    assert!(next >= 11, "{next}");
}
