//! Reads of files that may never answer: they may be on a network, or no files at all.

use std::{sync::Arc, time::Duration};

use tokio::{sync::Mutex, task::spawn_blocking, time::timeout};

/// How long a read may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Reads in another thread, one at a time: those that hang would take all threads in the end, and
/// looking up names and writing files need some.
#[derive(Debug, Default)]
pub(crate) struct Reads(Arc<Mutex<()>>);

impl Reads {
    /// Returns what `read` returns, or why there is nothing within [`PATIENCE`]: then it may not
    /// have begun, because another has not ended, or it goes on, and its result is dropped.
    pub(crate) async fn one<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, String> {
        let reading = async {
            let turn = Arc::clone(&self.0).lock_owned().await;
            let read = move || {
                let _turn = turn;
                read()
            };
            spawn_blocking(read).await
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

    #[tokio::test(start_paused = true)]
    async fn a_read_that_hangs_is_the_only_one_until_it_ends() {
        let reads = Reads::default();
        let (end, hung) = mpsc::channel::<()>();
        let first = late(reads.one(move || hung.recv())).await;
        assert_eq!(first, Err("not read within 5s".into()));
        let (begun, begins) = mpsc::channel();
        let second = late(reads.one(move || begun.send(()))).await;
        assert!(second.is_err());
        assert!(begins.recv().is_err(), "it never began");
        drop(end);
        assert_eq!(reads.one(|| 3).await, Ok(3));
    }

    #[tokio::test]
    async fn a_read_that_panics_does_not_keep_the_next_from_its_turn() {
        let reads = Reads::default();
        let failed: Result<(), _> = reads.one(|| panic!("as planned")).await;
        assert!(failed.is_err_and(|reason| reason.contains("as planned")));
        assert_eq!(reads.one(|| 2).await, Ok(2));
    }
}
