//! Runs several processes, and collects the numbers that their clients got.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use reqwest::{Client, StatusCode};
use rustix::process::Signal;
use tokio::task::JoinHandle;

use super::{PATIENCE, answer, code};
use crate::{
    collected::Collected,
    service::{Service, Setup, parse_ids},
    support::poll,
};

/// How many processes there are.
pub(super) const MEMBERS: usize = 5;

/// The numbers that the clients of several processes got.
#[derive(Debug)]
pub(super) struct Crowd {
    homes: Vec<Home>,
    /// By code.
    pub(super) numbers: Vec<Collected>,
    unexpected: Mutex<Vec<String>>,
    stopped: AtomicBool,
}

/// A process as its clients see it.
#[derive(Debug)]
struct Home {
    address: Mutex<String>,
    /// How many requests it answered with numbers.
    answered: AtomicUsize,
    /// Odd while the test lets its connections break.
    harm: AtomicUsize,
}

impl Crowd {
    /// Starts the processes, and no clients yet.
    pub(super) async fn start(setup: &Setup, codes: usize) -> (Arc<Self>, Vec<Service>) {
        let mut members = Vec::new();
        for _ in 0..MEMBERS {
            members.push(setup.clone().start_leased().await);
        }
        let home = |member: &Service| Home {
            address: Mutex::new(member.url("")),
            answered: AtomicUsize::new(0),
            harm: AtomicUsize::new(0),
        };
        let crowd = Self {
            homes: members.iter().map(home).collect(),
            numbers: (0..codes).map(|_| Collected::default()).collect(),
            unexpected: Mutex::default(),
            stopped: AtomicBool::new(false),
        };
        (Arc::new(crowd), members)
    }

    /// Returns whether clients must end.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Ends the clients.
    pub(super) async fn stop(&self, clients: Vec<JoinHandle<()>>) {
        self.stopped.store(true, Ordering::SeqCst);
        for client in clients {
            client.await.expect("no client panics");
        }
    }

    /// Requests numbers of one process, and keeps its answer.
    pub(super) async fn ask(&self, client: &Client, member: usize, index: usize, count: u32) {
        let home = &self.homes[member];
        let harm = home.harm.load(Ordering::SeqCst);
        let address = home.address.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let url = format!("{address}/ids/{}?n={count}", code(index));
        let problem = match answer(client, &url).await {
            Ok((StatusCode::OK, body, _)) => {
                let numbers = parse_ids(&body);
                assert_eq!(numbers.len(), count as usize, "as many as were asked for");
                self.numbers[index].add(&numbers);
                home.answered.fetch_add(1, Ordering::SeqCst);
                return;
            }
            Ok((StatusCode::SERVICE_UNAVAILABLE, _, true)) => return,
            Ok((status, body, _)) => format!("{status} {body}"),
            Err(_) if harm % 2 == 1 || home.harm.load(Ordering::SeqCst) != harm => return,
            Err(error) => error.to_string(),
        };
        let mut unexpected = self.unexpected.lock().unwrap_or_else(PoisonError::into_inner);
        unexpected.push(format!("{url}: {problem}"));
    }

    fn answered(&self) -> Vec<usize> {
        self.homes.iter().map(|home| home.answered.load(Ordering::SeqCst)).collect()
    }

    /// Waits until every process has answered this many more requests.
    pub(super) async fn until_each_answered(&self, more: usize) {
        let before = self.answered();
        poll::until(PATIENCE, "every process serves", async || {
            let answered = self.answered().into_iter().zip(&before);
            answered.into_iter().all(|(now, before)| now >= before + more).then_some(())
        })
        .await;
    }

    /// Ends a process with a signal and starts another one in its place.
    pub(super) async fn replace(
        &self,
        members: &mut [Service],
        victim: usize,
        signal: Signal,
        setup: &Setup,
    ) {
        let home = &self.homes[victim];
        home.harm.fetch_add(1, Ordering::SeqCst);
        members[victim].signal(signal);
        let status = members[victim].ended().await;
        assert_eq!(status.success(), signal == Signal::TERM, "{}", members[victim].log());
        // The database may be away, so the process need not be ready.
        members[victim] = setup.clone().start().await;
        *home.address.lock().unwrap_or_else(PoisonError::into_inner) = members[victim].url("");
        home.harm.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns how many numbers there are, after a check that none came twice.
    pub(super) fn assert_sound(&self) -> usize {
        assert_eq!(*self.unexpected.lock().unwrap_or_else(PoisonError::into_inner), [""; 0]);
        let duplicates: usize = self.numbers.iter().map(Collected::duplicates).sum();
        assert_eq!(duplicates, 0);
        self.numbers.iter().map(Collected::count).sum()
    }
}
