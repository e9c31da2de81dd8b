//! Reads of files that may never answer: they may be on a network, or no files at all.

use std::{sync::Arc, time::Duration};

use tokio::{sync::Semaphore, task::spawn_blocking, time::timeout};

/// How long a read may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// How many reads are under way at most: one that never ends must not be the last.
const AT_A_TIME: usize = 4;

/// Reads in other threads, but not in more and more of them while reads hang: looking up names and
/// writing files need some.
#[derive(Debug)]
pub(crate) struct Reads(Arc<Semaphore>);

impl Default for Reads {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_A_TIME)))
    }
}

impl Reads {
    /// Returns what `read` returns, or why there is nothing within [`PATIENCE`]: then it may not
    /// have begun, because others have not ended, or it goes on, and its result is dropped.
    pub(crate) async fn one<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, String> {
        let reading = async {
            let place = Arc::clone(&self.0).acquire_owned().await.expect("never closed");
            spawn_blocking(move || (read(), place)).await.map(|(read, _)| read)
        };
        match timeout(PATIENCE, reading).await {
            Ok(read) => read.map_err(|error| error.to_string()),
            Err(_) => Err(format!("not read within {PATIENCE:?}")),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Lets the time for a read pass, which it does not by itself while a thread works.
    pub(crate) async fn late<T>(reading: impl Future<Output = T>) -> T {
        tokio::join!(reading, tokio::time::advance(PATIENCE)).0
    }

    /// As many reads as there may be: each hangs until its sender is dropped.
    pub(crate) async fn hang(reads: &Reads) -> Vec<mpsc::Sender<()>> {
        let mut ends = Vec::new();
        for _ in 0..AT_A_TIME {
            let (end, hung) = mpsc::channel::<()>();
            ends.push(end);
            let read = late(reads.one(move || hung.recv())).await;
            assert_eq!(read, Err("not read within 5s".into()));
        }
        ends
    }

    #[tokio::test(start_paused = true)]
    async fn no_read_begins_while_too_many_hang() {
        let reads = Reads::default();
        let mut ends = hang(&reads).await;
        let (begun, begins) = mpsc::channel();
        assert!(late(reads.one(move || begun.send(()))).await.is_err());
        assert!(begins.recv().is_err(), "it never began");
        ends.pop();
        assert_eq!(reads.one(|| 3).await, Ok(3));
    }

    #[tokio::test]
    async fn reads_that_panic_keep_no_place() {
        let reads = Reads::default();
        for _ in 0..=AT_A_TIME {
            let failed: Result<(), _> = reads.one(|| panic!("as planned")).await;
            assert!(failed.is_err_and(|reason| reason.contains("as planned")));
        }
        assert_eq!(reads.one(|| 2).await, Ok(2));
    }
}
