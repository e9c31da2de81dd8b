//! Stores in which no holder has renewed for long. A process that starts cannot tell whether every
//! holder crashed or a backup was restored.

use std::{
    cmp::Reverse,
    future::pending,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use async_trait::async_trait;
use raindrop_core::layout::{LayoutSpec, TimeUnit};
use raindrop_store::{Call, Intercept, MemoryStore, Reply, Snapshot, StoreError, UnreleasedRow};

use super::{
    faulty_store::{Fault, FaultyStore},
    world::{Node, World, second, world},
};
use crate::{
    IssueError, KeeperSettings, LeaseOperation, LeaseOutcome, UnavailableReason,
    state_file::MemoryDisk,
};

/// Half a minute longer than a new lease waits.
const LONG: Duration = Duration::from_secs(75);

/// Returns how long a node takes to issue, in whole seconds.
async fn seconds_to_first_id(world: &World, node: &Node) -> u64 {
    for seconds in 0..400 {
        if let Ok(ids) = node.issuer.next_ids("order", 3).await {
            world.check("order", ids.collect());
            return seconds;
        }
        world.pass(second(1)).await;
    }
    panic!("{:?}", node.status().reason)
}

#[tokio::test(start_paused = true)]
async fn first_lease_after_a_crash_of_every_node_waits_and_says_so() {
    let world = world();
    let node = world.node().await;
    let crashed = node.worker();
    drop(node);
    world.pass(LONG).await;
    let node = world.start(world.settings());
    world.pass(second(1)).await;
    let reason = node.status().reason;
    let Some(UnavailableReason::StaleStore { worker, reserved_key, renewed_ms, due_ms }) = reason
    else {
        panic!("{reason:?}")
    };
    assert_eq!((worker, &*reserved_key), (Ok(crashed), "0/0"));
    let now_ms = world.now_ms();
    assert!((75_000..80_000).contains(&(now_ms - renewed_ms)), "{}", now_ms - renewed_ms);
    assert!((43_900..44_100).contains(&(due_ms - now_ms)), "{}", due_ms - now_ms);
    let error = node.issuer.next_id("order").await.expect_err("it waits");
    let IssueError::NoLease { retry_after, .. } = error else { panic!("{error}") };
    assert!((second(43)..second(45)).contains(&retry_after), "{retry_after:?}");
    let waited = seconds_to_first_id(&world, &node).await;
    assert!((43..=50).contains(&waited), "{waited}");
    assert_eq!((node.status().reason, node.events.epochs()), (None, 0));
}

/// The start that waited takes the row, and releases it later.
#[tokio::test(start_paused = true)]
async fn crash_makes_one_start_wait() {
    let world = world();
    let crashed = world.node().await;
    let worker = crashed.worker();
    drop(crashed);
    // The row is still held.
    world.node().await.stop().await;
    world.pass(second(100)).await;
    let next = world.start(world.settings());
    assert!((44..=50).contains(&seconds_to_first_id(&world, &next).await));
    assert_eq!(next.worker(), worker);
    next.stop().await;
    world.pass(LONG).await;
    assert_eq!(seconds_to_first_id(&world, &world.start(world.settings())).await, 0);
}

/// The clock was changed since the last renewal, so the row's age proves less.
#[tokio::test(start_paused = true)]
async fn store_is_stale_also_by_a_clock_that_was_changed() {
    // By less than the allowed skew, and by more than the time that has passed.
    for (passed, step_ms) in [(second(46), -10_000), (LONG, -200_000)] {
        let world = world();
        let node = world.node().await;
        world.pass(second(60)).await;
        world.until_swap().await;
        drop(node);
        world.pass(passed).await;
        world.store_clock.step(step_ms);
        let node = world.start(world.settings());
        world.pass(second(1)).await;
        let reason = node.status().reason;
        assert!(matches!(reason, Some(UnavailableReason::StaleStore { .. })), "{reason:?}");
        let waited = seconds_to_first_id(&world, &node).await;
        assert!((43..=50).contains(&waited), "{waited}");
    }
}

#[tokio::test(start_paused = true)]
async fn start_beside_a_living_holder_does_not_wait() {
    let world = world();
    let (crashed, living) = (world.node().await, world.node().await);
    drop(crashed);
    world.pass(LONG).await;
    let next = world.start(world.settings());
    assert_eq!(seconds_to_first_id(&world, &next).await, 0);
    // Nor does a start with another worker id wait.
    let fixed = world.start(world.only(500));
    assert_eq!(seconds_to_first_id(&world, &fixed).await, 0);
    drop(fixed);
    world.pass(second(100)).await;
    let fixed = world.start(world.only(500));
    assert_eq!(seconds_to_first_id(&world, &fixed).await, 0);
    living.stop().await;
}

#[tokio::test(start_paused = true)]
async fn start_after_clean_stops_or_without_the_wait_does_not_wait() {
    let world = world();
    world.node().await.stop().await;
    world.pass(LONG).await;
    let node = world.start(world.settings());
    assert_eq!(seconds_to_first_id(&world, &node).await, 0);
    drop(node);
    world.pass(LONG).await;
    let mut settings = world.settings();
    settings.lease.stale_wait = Duration::ZERO;
    assert_eq!(seconds_to_first_id(&world, &world.start(settings)).await, 0);
}

/// A start that may only lease other rows waits, and releases this row. No later start waits for
/// it.
#[tokio::test(start_paused = true)]
async fn crashed_row_that_no_process_may_lease_makes_one_start_wait() {
    let world = world();
    let old = world.start(world.only(400));
    old.issuer.leased().await;
    world.pass(second(5)).await;
    drop(old);
    world.pass(second(100)).await;
    let crashed = world.row(400).await;
    let few = || world.start(KeeperSettings { max_worker: 255, ..world.settings() });
    let node = few();
    world.pass(second(1)).await;
    let reason = node.status().reason;
    assert!(
        matches!(reason, Some(UnavailableReason::StaleStore { worker: Ok(400), .. })),
        "{reason:?}"
    );
    let waited = seconds_to_first_id(&world, &node).await;
    assert!((48..=55).contains(&waited), "{waited}");
    node.stop().await;
    let released = world.row(400).await;
    assert_eq!((released.free, released.expires_ms), (true, 0));
    // The row had expired, so that any process could have used its marks.
    assert_eq!((released.marks, released.holder), (crashed.marks, crashed.holder));
    assert_ne!(released.token, crashed.token);
    world.pass(LONG).await;
    assert_eq!(seconds_to_first_id(&world, &few()).await, 0);
}

/// Starts a process for few worker ids long after a process with another worker id crashed. Returns
/// the wait that it reports, and the process.
async fn start_after_a_crash(world: &World, link: &Arc<Link>, ttl: Duration) -> (Duration, Node) {
    let mut old = world.only(400);
    old.lease.ttl = ttl;
    let old = world.start(old);
    old.issuer.leased().await;
    world.pass(second(5)).await;
    drop(old);
    world.pass(second(100)).await;
    let few = KeeperSettings { max_worker: 255, ..world.settings() };
    let node = world.start_by(few, link.clone());
    world.pass(second(1)).await;
    let reason = node.status().reason;
    let Some(UnavailableReason::StaleStore { due_ms, .. }) = reason else { panic!("{reason:?}") };
    let left_ms = due_ms - world.now_ms();
    (Duration::from_millis(left_ms.unsigned_abs()) + second(1), node)
}

/// A row that the store refuses to read or write does not keep a start from its lease.
#[tokio::test(start_paused = true)]
async fn row_that_cannot_be_released_makes_a_start_wait_once() {
    for refused in [Refused::Read, Refused::Write] {
        let world = world();
        let link = link(&world);
        *link.refused.lock().expect("unpoisoned") = Some((400, refused));
        let (_, node) = start_after_a_crash(&world, &link, second(90)).await;
        let waited = seconds_to_first_id(&world, &node).await;
        assert!((43..=55).contains(&waited), "{refused:?}: {waited}");
        assert_ne!(world.row(400).await.expires_ms, 0, "{refused:?}");
    }
}

/// No node can lease or release such a row, so it stands for a holder until an operator deletes it.
#[tokio::test(start_paused = true)]
async fn row_whose_worker_id_cannot_be_read_makes_each_start_wait_and_is_named() {
    let world = world();
    let link = link(&world);
    let told = "table workers, row default 0/0: delete it".to_owned();
    let heartbeat_ms = world.now_ms();
    let reserved_key = "0/0".to_owned();
    let row = UnreleasedRow { reserved_key, worker: Err(told.clone()), heartbeat_ms };
    *link.unreadable.lock().expect("unpoisoned") = Some(row);
    for _ in 0..2 {
        world.pass(LONG).await;
        let node = world.start_by(world.settings(), link.clone());
        world.pass(second(1)).await;
        let reason = node.status().reason.expect("it waits");
        assert!(reason.to_string().contains(&told), "{reason}");
        let public = reason.public_text();
        assert!(public.contains("cannot be read") && !public.contains("workers"), "{public}");
        let waited = seconds_to_first_id(&world, &node).await;
        assert!((43..=45).contains(&waited), "{waited}");
        // While a node lives, others start at once.
        let other = world.start_by(world.settings(), link.clone());
        assert_eq!(seconds_to_first_id(&world, &other).await, 0);
        other.stop().await;
        node.stop().await;
    }
}

/// The other rows are released, and the wait does not start again.
#[tokio::test(start_paused = true)]
async fn row_that_cannot_be_released_keeps_no_other_from_it() {
    for refused in [Refused::Read, Refused::Write] {
        for worker in [400, 401] {
            let world = world();
            let other = world.start(world.only(401));
            other.issuer.leased().await;
            world.pass(second(5)).await;
            drop(other);
            let link = link(&world);
            *link.refused.lock().expect("unpoisoned") = Some((worker, refused));
            let (_, node) = start_after_a_crash(&world, &link, second(90)).await;
            let waited = seconds_to_first_id(&world, &node).await;
            assert!((43..=55).contains(&waited), "{refused:?} {worker}: {waited}");
            let released = [400, 401].map(|other| other != worker);
            let found = [world.row(400).await, world.row(401).await];
            assert_eq!(found.map(|row| row.expires_ms == 0), released, "{refused:?} {worker}");
        }
    }
}

/// The start does not wait longer for this row, either.
#[tokio::test(start_paused = true)]
async fn row_that_has_not_expired_is_not_released() {
    for (ttl, wait) in [(second(90), second(50)), (second(400), second(45))] {
        let world = world();
        let link = link(&world);
        let (told, node) = start_after_a_crash(&world, &link, ttl).await;
        let off = told.abs_diff(wait);
        assert!(off < Duration::from_millis(100), "{ttl:?}: {told:?}");
        assert!(seconds_to_first_id(&world, &node).await <= 55);
        assert_eq!(world.row(400).await.expires_ms == 0, ttl == second(90), "{ttl:?}");
    }
}

/// Until that instant no process could lease the row, and each start would wait.
#[tokio::test(start_paused = true)]
async fn row_that_was_written_in_the_future_is_released_beyond_its_lease() {
    let world = world();
    let crashed = world.start(world.only(5));
    world.pass(second(1)).await;
    drop(crashed);
    world.store_clock.step(-100_000);
    let node = world.start(world.only(5));
    let before = world.row(5).await;
    assert!(!before.free);
    assert!((48..=60).contains(&seconds_to_first_id(&world, &node).await));
    assert_eq!((node.worker(), node.events.epochs()), (5, 0));
    assert_ne!(node.lane(), before.lane as u64, "that lane's mark is ahead");
    let layout = &world.settings().layout;
    let mark = world.row(5).await.marks[before.lane];
    let due_in_ms = layout.start_of_tick_ms(layout.tick_of(mark)) - world.now_ms();
    assert!((305_000..=325_000).contains(&due_in_ms), "{due_in_ms}");
}

/// That IDs differ in the reserved value is no reason to look only at rows of one's own.
#[tokio::test(start_paused = true)]
async fn node_waits_for_the_holders_of_other_reserved_values() {
    let spec = LayoutSpec { reserved_bits: 1, ..LayoutSpec::for_unit(TimeUnit::Millisecond) };
    let world = World::new(spec.clone());
    let layout = LayoutSpec { reserved_value: 1, ..spec }.build().expect("valid");
    let one = || {
        let settings = KeeperSettings::new(layout.clone(), "of value 1");
        world.start(KeeperSettings { min_worker: 5, max_worker: 5, ..settings })
    };
    let zero = world.start(world.only(9));
    let first = one();
    world.pass(second(20)).await;
    assert_eq!((zero.worker(), first.worker()), (9, 5));
    first.stop().await;
    let backup = world.store.snapshot();
    let living = one();
    world.pass(second(60)).await;
    world.issue(&living, "order", 100).await;
    world.fail_over("memory", backup);
    let late = one();
    issue_on(&world, &[&zero, &living, &late], second(100)).await;
    assert_eq!((late.status().lease, living.worker()), (None, 5), "its only row is held");
}

/// Without the wait, the node that starts would lease a held row.
#[tokio::test(start_paused = true)]
async fn node_that_starts_after_a_restore_waits_for_the_living_holders() {
    node_waits_for_holders_that_renew_every(second(30)).await;
}

#[tokio::test(start_paused = true)]
async fn node_that_renews_more_often_than_the_living_holders_waits_for_them() {
    node_waits_for_holders_that_renew_every(second(90)).await;
}

async fn node_waits_for_holders_that_renew_every(renew: Duration) {
    let world = world();
    let often = KeeperSettings { max_worker: 4, ..world.settings() };
    let mut few = often.clone();
    (few.lease.renew, few.lease.ttl, few.lease.stale_wait) = (renew, renew * 3, renew * 3 / 2);
    let mut nodes = vec![world.start(few.clone())];
    world.pass(second(10)).await;
    let held = world.store.snapshot();
    world.pass(renew * 5 / 2).await;
    nodes.extend([world.start(few.clone()), world.start(few.clone()), world.start(few)]);
    world.pass(second(100)).await;
    world.fail_over("memory", held);
    let late = world.start(often);
    let all: Vec<&Node> = nodes.iter().chain([&late]).collect();
    issue_on(&world, &all, renew * 2).await;
    for node in &nodes {
        world.issue(node, "order", 100).await;
    }
    assert_eq!(late.status().lease, None, "all rows are held");
}

/// Starts a process on the disk that may use only this row.
async fn start_on(world: &World, disk: &MemoryDisk, worker: u64) -> Node {
    let state_file = Some(disk.open());
    let node = world.start(KeeperSettings { state_file, ..world.only(worker) });
    world.pass(second(1)).await;
    node
}

/// Crashes a node, and waits until its row has expired.
async fn crash(world: &World, disk: &MemoryDisk, node: Node) {
    world.pass(second(60)).await;
    world.issue(&node, "order", 100).await;
    disk.kill();
    drop(node);
    world.pass(second(100)).await;
}

/// A row that is as its holder wrote it proves nothing if another process may have taken the row
/// since: the store may have lost that.
#[tokio::test(start_paused = true)]
async fn holder_that_was_down_waits_for_the_one_that_had_taken_its_row() {
    let spec = LayoutSpec { rollback_bits: 0, ..LayoutSpec::for_unit(TimeUnit::Hour) };
    let (world, disk) = (World::new(spec), MemoryDisk::default());
    let node = start_on(&world, &disk, 5).await;
    crash(&world, &disk, node).await;
    let backup = world.store.snapshot();
    let taker = world.start(world.only(5));
    assert!(seconds_to_first_id(&world, &taker).await < 60);
    world.pass(second(60)).await;
    world.issue(&taker, "order", 100).await;

    world.fail_over("memory", backup);
    let back = start_on(&world, &disk, 5).await;
    assert_eq!(back.events.count(LeaseOperation::Resume, LeaseOutcome::Done), 1);
    let reason = back.status().reason;
    assert!(matches!(reason, Some(UnavailableReason::StaleStore { .. })), "{reason:?}");
    issue_on(&world, &[&back, &taker], second(120)).await;
    assert!(taker.events.epochs() + back.events.epochs() > 0);
}

#[tokio::test(start_paused = true)]
async fn row_that_another_process_may_have_taken_is_not_freed() {
    let (world, disk) = (world(), MemoryDisk::default());
    let node = start_on(&world, &disk, 5).await;
    crash(&world, &disk, node).await;
    let row = world.row(5).await;
    let back = start_on(&world, &disk, 5).await;
    assert_eq!(back.events.count(LeaseOperation::Resume, LeaseOutcome::Done), 1);
    world.issue(&back, "order", 100).await;
    back.stop().await;
    assert_eq!(world.row(5).await, row);
}

/// The connection of one node to the store.
#[derive(Debug)]
struct Link {
    store: Arc<FaultyStore>,
    is_cut: AtomicBool,
    hangs: AtomicBool,
    /// The worker id whose row the store refuses to read or write.
    refused: Mutex<Option<(u64, Refused)>>,
    /// A row that was not released, and whose worker id cannot be read.
    unreadable: Mutex<Option<UnreleasedRow>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    Read,
    Write,
}

#[async_trait]
impl Intercept for Link {
    fn memory(&self) -> &MemoryStore {
        self.store.memory()
    }

    async fn answer(&self, call: Call) -> Result<Reply, StoreError> {
        if self.hangs.load(SeqCst) {
            pending::<()>().await;
        }
        if self.is_cut.load(SeqCst) {
            return Err(StoreError::Unavailable("cut off".into()));
        }
        let unreadable = self.unreadable.lock().expect("unpoisoned").clone();
        if let (Call::UnreleasedRows(_, limit), Some(unreadable)) = (&call, unreadable) {
            let limit = *limit as usize;
            let reply = self.store.answer(call).await?;
            let mut rows = *reply.downcast::<Vec<UnreleasedRow>>().expect("rows");
            rows.push(unreadable);
            rows.sort_by_key(|row| Reverse(row.heartbeat_ms));
            rows.truncate(limit);
            return Ok(Box::new(rows));
        }
        let asked = match &call {
            Call::ReadRow(_, worker) => Some((*worker, Refused::Read)),
            Call::SwapRow(_, worker, ..) => Some((*worker, Refused::Write)),
            _ => None,
        };
        if asked.is_some() && asked == *self.refused.lock().expect("unpoisoned") {
            return Err(StoreError::Refused("planned by the test".into()));
        }
        self.store.answer(call).await
    }
}

fn link(world: &World) -> Arc<Link> {
    let (is_cut, hangs, refused, unreadable) = Default::default();
    Arc::new(Link { store: Arc::clone(&world.store), is_cut, hangs, refused, unreadable })
}

fn world_of_one_lane() -> World {
    World::new(LayoutSpec { rollback_bits: 0, ..LayoutSpec::for_unit(TimeUnit::Millisecond) })
}

/// After an outage holders wait, too. Their wait may begin only when they retry.
#[tokio::test(start_paused = true)]
async fn start_does_not_release_the_rows_of_holders_that_wait_as_well() {
    let world = world();
    let links = [link(&world), link(&world)];
    let start =
        |(link, worker): (&Arc<Link>, u64)| world.start_by(world.only(worker), link.clone());
    let holders: Vec<Node> = links.iter().zip([5, 6]).map(start).collect();
    world.pass(second(60)).await;
    links.iter().for_each(|link| link.is_cut.store(true, SeqCst));
    world.pass(second(100)).await;
    let late = world.start(world.only(7));
    links.iter().for_each(|link| link.is_cut.store(false, SeqCst));
    issue_on(&world, &[&holders[0], &holders[1], &late], second(80)).await;
    for (holder, worker) in holders.iter().zip([5, 6]) {
        let acquired = holder.events.count(LeaseOperation::Acquire, LeaseOutcome::Done);
        assert_eq!((holder.worker(), acquired), (worker, 1));
    }
    assert_eq!(late.worker(), 7);
}

/// Lets nodes issue for some time, as far as they can. No ID may repeat an earlier one.
async fn issue_on(world: &World, nodes: &[&Node], duration: Duration) {
    for _ in 0..duration.as_secs() {
        for node in nodes {
            if let Ok(ids) = node.issuer.next_ids("order", 500).await {
                world.check("order", ids.collect());
            }
        }
        world.pass(second(1)).await;
    }
}

/// Another process takes the row and issues for some time. Then the backup is restored.
async fn taken_meanwhile(world: &World, backup: Snapshot, duration: Duration) -> Node {
    let taker = world.start(world.only(5));
    world.pass(duration).await;
    world.issue(&taker, "order", 10).await;
    world.until_swap().await;
    world.fail_over("memory", backup);
    taker
}

/// The lease begins again in an epoch that is older than the backup, so its barrier protects no
/// one.
#[tokio::test(start_paused = true)]
async fn holder_that_was_cut_off_waits_before_its_lease_begins_anew() {
    let world = world_of_one_lane();
    let link = link(&world);
    let node = world.start_by(world.only(5), link.clone());
    world.pass(second(60)).await;
    world.issue(&node, "order", 10).await;
    link.is_cut.store(true, SeqCst);
    world.pass(second(100)).await;
    let window = Duration::from_mins(5);
    world.operator(world.settings()).raise(window).await.expect("raised");
    world.pass(second(400)).await;
    let backup = world.store.snapshot();
    let taker = taken_meanwhile(&world, backup, second(150)).await;
    link.is_cut.store(false, SeqCst);
    issue_on(&world, &[&node, &taker], second(120)).await;
}

/// By that clock the holder has just written its row.
#[tokio::test(start_paused = true)]
async fn holder_that_was_cut_off_waits_where_the_clock_of_the_store_went_back_with_it() {
    let world = world_of_one_lane();
    let link = link(&world);
    let node = world.start_by(world.only(5), link.clone());
    world.pass(second(60)).await;
    world.until_swap().await;
    world.pass(second(5)).await;
    let (backup, then_ms) = (world.store.snapshot(), world.now_ms());
    link.is_cut.store(true, SeqCst);
    let taker = taken_meanwhile(&world, backup, second(400)).await;
    world.store_clock.step(then_ms - world.now_ms());
    link.is_cut.store(false, SeqCst);
    issue_on(&world, &[&node, &taker], second(120)).await;
}

/// Another process may have taken a row since a search took it without learning so.
#[tokio::test(start_paused = true)]
async fn row_that_a_search_perhaps_took_long_ago_is_not_freed() {
    let world = world_of_one_lane();
    let link = link(&world);
    world.node().await.stop().await;
    world.pass(second(1)).await;
    world.store.fail_next(Fault::LostReply);
    let node = world.start_by(world.only(5), link.clone());
    world.pass(Duration::from_millis(20)).await;
    link.is_cut.store(true, SeqCst);
    let backup = world.store.snapshot();
    world.pass(second(60)).await;
    let taker = taken_meanwhile(&world, backup, second(120)).await;
    let row = world.row(5).await;
    link.is_cut.store(false, SeqCst);
    node.stop().await;
    assert_eq!(world.row(5).await, row);
    let next = world.start(world.only(5));
    issue_on(&world, &[&next, &taker], second(120)).await;
}

#[tokio::test(start_paused = true)]
async fn process_that_is_stopped_while_it_resumes_leaves_the_lease_to_the_next() {
    let (world, disk) = (world(), MemoryDisk::default());
    let link = link(&world);
    let start = |disk: &MemoryDisk| {
        let state_file = Some(disk.open());
        world.start_by(KeeperSettings { state_file, ..world.only(5) }, link.clone())
    };
    let node = start(&disk);
    world.pass(second(60)).await;
    world.issue(&node, "order", 10).await;
    link.hangs.store(true, SeqCst);
    disk.kill();
    drop(node);
    let stopped = start(&disk);
    world.pass(Duration::from_millis(500)).await;
    let stopping = tokio::spawn(stopped.keeper.release(second(10)));
    world.pass(second(11)).await;
    stopping.await.expect("no panic");
    disk.kill();
    let next = start(&disk);
    world.pass(second(3)).await;
    assert_eq!(next.events.count(LeaseOperation::Resume, LeaseOutcome::Done), 1);
}
