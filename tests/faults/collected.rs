//! Every ID that anybody was given, and clients that ask for them.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use reqwest::{Client, StatusCode};
use serde_json::Value;
use tokio::{task::JoinHandle, time::sleep};

use crate::service::{Service, client, parse_ids};

/// IDs of one code and what became of the requests for them.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    ids: Mutex<Vec<u64>>,
    count: AtomicUsize,
    requests: AtomicUsize,
    failures: Mutex<Vec<String>>,
    stopped: AtomicBool,
}

impl Collected {
    pub(crate) fn add(&self, ids: &[u64]) {
        assert!(ids.is_sorted_by(|a, b| a < b), "a batch ascends");
        self.ids.lock().expect("unpoisoned").extend(ids);
        self.count.fetch_add(ids.len(), Ordering::Relaxed);
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    pub(crate) fn failures(&self) -> Vec<String> {
        self.failures.lock().expect("unpoisoned").clone()
    }

    /// Ends the clients.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// How many IDs were given to more than one request.
    pub(crate) fn duplicates(&self) -> usize {
        let mut ids = self.ids.lock().expect("unpoisoned").clone();
        ids.sort_unstable();
        let all = ids.len();
        ids.dedup();
        all - ids.len()
    }

    /// Starts a client that asks for `count` IDs at a time, again and again, whether the process
    /// answers or not.
    pub(crate) fn client(
        self: &Arc<Self>,
        service: &Service,
        code: &str,
        count: u32,
    ) -> JoinHandle<()> {
        let url = if count == 1 {
            service.url(&format!("/id/{code}"))
        } else {
            service.url(&format!("/ids/{code}?n={count}"))
        };
        let collected = Arc::clone(self);
        tokio::spawn(async move {
            let client = client();
            while !collected.stopped.load(Ordering::Relaxed) {
                collected.requests.fetch_add(1, Ordering::Relaxed);
                match ask(&client, &url).await {
                    Ok(ids) => collected.add(&ids),
                    Err(failure) => {
                        collected.failures.lock().expect("unpoisoned").push(failure);
                        sleep(Duration::from_millis(20)).await;
                    }
                }
            }
        })
    }
}

async fn ask(client: &Client, url: &str) -> Result<Vec<u64>, String> {
    let answer = client.get(url).send().await.map_err(|error| error.to_string())?;
    let status = answer.status();
    let body: Value = answer.json().await.map_err(|error| error.to_string())?;
    if status == StatusCode::OK { Ok(parse_ids(&body)) } else { Err(format!("{status} {body}")) }
}
