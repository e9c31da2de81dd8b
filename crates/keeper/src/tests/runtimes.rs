//! Claims that no tokio runtime polls, and keepers whose runtime was shut down.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

use raindrop_core::{
    clock::{Clock, ManualClock, SystemClock},
    preset::Preset,
    segment::{SegmentSpec, SpecChange},
};
use raindrop_store::{MemoryStore, Store};
use tokio::runtime::Runtime;

use super::world::NOW;
use crate::{
    CodeManager, IssueError, Issuer, Keeper, KeeperSettings, NoObserver, SegmentIssuer,
    SegmentKeeper, SegmentSettings, UnavailableReason,
};

const HOUR_MS: i64 = 3_600_000;

/// Wakes a thread that polls a future.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls a future on a thread of its own, without tokio.
fn on_another_executor<T: Send>(future: impl Future<Output = T> + Send) -> T {
    let poll = || {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut future = pin!(future);
        loop {
            match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(ready) => return ready,
                Poll::Pending => thread::park(),
            }
        }
    };
    thread::scope(|scope| scope.spawn(poll).join().expect("it does not panic"))
}

fn keeper(clock: Arc<dyn Clock>) -> (Keeper, Issuer) {
    let layout = Preset::Raindrop.spec().build().expect("valid");
    let settings = KeeperSettings::new(layout, "a test");
    let store = Arc::new(MemoryStore::new(Arc::clone(&clock)));
    Keeper::start(settings, store, clock, Arc::new(NoObserver))
}

fn orders() -> SegmentSettings {
    let spec = SegmentSpec { min_step: 10, max_step: 10, ..SegmentSpec::default() };
    SegmentSettings::new("numbers").with_code("order", spec)
}

fn segment_keeper(store: &Arc<dyn Store>) -> (SegmentKeeper, SegmentIssuer) {
    let namespaces = vec![(orders(), Arc::new(NoObserver) as _)];
    let (keeper, mut issuers) = SegmentKeeper::start(namespaces, Arc::clone(store));
    (keeper, issuers.pop().expect("one namespace has one issuer"))
}

fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new(Arc::new(ManualClock::new(NOW))))
}

/// Returns the reason why no ID was issued.
fn reason<T: std::fmt::Debug>(issued: Result<T, IssueError>) -> UnavailableReason {
    match issued.expect_err("nothing is left") {
        IssueError::NoLease { reason, .. } => reason,
        refused => panic!("{refused}"),
    }
}

#[test]
fn claims_that_wait_may_be_polled_by_any_executor() {
    let runtime = Runtime::new().expect("a runtime");
    let (_keeper, issuer) = runtime.block_on(async { keeper(Arc::new(SystemClock::default())) });
    let mut last = None;
    // The first claim waits for the lease, and the others for ticks: each takes a whole one.
    for _ in 0..5 {
        let ids = on_another_executor(issuer.next_ids("order", 4_096)).expect("issued");
        let ids: Vec<_> = ids.collect();
        assert!(ids.len() == 4_096 && Some(ids[0]) > last, "after {last:?}");
        last = ids.last().copied();
    }
}

#[test]
fn numbers_may_be_claimed_by_any_executor() {
    let (runtime, store) = (Runtime::new().expect("a runtime"), memory());
    let (_keeper, issuer) = runtime.block_on(async { segment_keeper(&store) });
    for round in 0..5_u64 {
        let numbers = on_another_executor(issuer.next_ids("order", 50)).expect("issued");
        assert_eq!(numbers.count(), 50, "round {round}");
    }
    // A code that is new to the process needs a call of the store.
    runtime.block_on(async {
        let manager = CodeManager::new(Arc::clone(&store), orders());
        manager.put("invoice", &SpecChange::default(), true).await.expect("created");
    });
    on_another_executor(issuer.next_id("invoice")).expect("issued");
}

#[test]
fn claims_say_that_the_runtime_of_the_keeper_is_gone() {
    let runtime = Runtime::new().expect("a runtime");
    let clock = Arc::new(ManualClock::new(NOW));
    let (_keeper, issuer) = runtime.block_on(async {
        let (keeper, issuer) = keeper(clock.clone());
        issuer.next_id("order").await.expect("issued");
        (keeper, issuer)
    });
    drop(runtime);
    on_another_executor(issuer.next_id("order")).expect("the lease has range left");
    assert_eq!(issuer.status().reason, Some(UnavailableReason::KeeperEnded));
    clock.step(HOUR_MS);
    let next = Runtime::new().expect("another runtime");
    let claims =
        [on_another_executor(issuer.next_id("order")), next.block_on(issuer.next_id("order"))];
    for claim in claims {
        let reason = reason(claim);
        assert_eq!(reason, UnavailableReason::KeeperEnded);
        assert!(reason.to_string().contains("its runtime was shut down"), "{reason}");
    }
    let status = next.block_on(issuer.leased());
    assert!(!status.is_issuing(), "nobody waits for a lease for ever: {status:?}");
}

#[test]
fn keeper_whose_runtime_never_polled_it_has_ended() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let (_keeper, issuer) = runtime.block_on(async { keeper(Arc::new(ManualClock::new(NOW))) });
    drop(runtime);
    assert_eq!(issuer.status().reason, Some(UnavailableReason::KeeperEnded));
    let next = Runtime::new().expect("another runtime");
    assert!(!next.block_on(issuer.leased()).is_issuing());
}

#[test]
fn claims_of_numbers_say_that_the_runtime_of_the_keeper_is_gone() {
    let (runtime, store) = (Runtime::new().expect("a runtime"), memory());
    let (_keeper, issuer) = runtime.block_on(async {
        let (keeper, issuer) = segment_keeper(&store);
        issuer.next_id("order").await.expect("issued");
        (keeper, issuer)
    });
    drop(runtime);
    let in_hand = u32::try_from(issuer.in_hand("order")).expect("few");
    on_another_executor(issuer.next_ids("order", in_hand)).expect("they were reserved");
    let next = Runtime::new().expect("another runtime");
    for code in ["order", "unknown"] {
        let claim = on_another_executor(issuer.next_id(code));
        assert_eq!(reason(claim), UnavailableReason::KeeperEnded, "{code}");
    }
    assert_eq!(reason(next.block_on(issuer.next_id("order"))), UnavailableReason::KeeperEnded);
    let status = issuer.status();
    assert!(!status.issuing && status.reason == Some(UnavailableReason::KeeperEnded), "{status:?}");
    next.block_on(issuer.prepared());
}

#[test]
fn claims_say_that_the_keeper_was_dropped() {
    let runtime = Runtime::new().expect("a runtime");
    let clock = Arc::new(ManualClock::new(NOW));
    runtime.block_on(async {
        let (keeper, issuer) = keeper(clock.clone());
        issuer.next_id("order").await.expect("issued");
        drop(keeper);
        while issuer.status().reason.is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        clock.step(HOUR_MS);
        assert_eq!(reason(issuer.next_id("order").await), UnavailableReason::KeeperEnded);
    });
}
