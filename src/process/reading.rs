//! Reads of files that may hang, because they are on a network or are pipes.
//!
//! Each read runs on a blocking thread and has a time-out. A read that hangs keeps its thread, so
//! only [`AT_A_TIME`] reads run at the same time: threads remain for looking up names and writing
//! files. The result of a read that ends after its time-out is dropped.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use tokio::{sync::Semaphore, task::spawn_blocking, time::timeout};

use crate::keeper::catch_panic;

/// The time-out of a read.
const PATIENCE: Duration = Duration::from_secs(5);

/// The largest number of reads under way. More than one, so that a read that hangs does not stop
/// all others.
const AT_A_TIME: usize = 4;

/// Runs reads on blocking threads, at most [`AT_A_TIME`] of them.
#[derive(Debug)]
pub(crate) struct Reads(Arc<Semaphore>);

impl Default for Reads {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_A_TIME)))
    }
}

impl Reads {
    /// Runs a read and returns its result.
    ///
    /// # Errors
    ///
    /// When there is no result within [`PATIENCE`]: the read hangs, or did not begin because others
    /// hang.
    pub(crate) async fn one<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, String> {
        let reading = async {
            let place = Arc::clone(&self.0).acquire_owned().await.expect("never closed");
            // Caught here, because tokio's error differs with each task.
            let read = catch_panic(async { read() });
            let read = move || (read.now_or_never().expect("it waits for nothing"), place);
            spawn_blocking(read).await.map_err(|error| error.to_string())?.0
        };
        match timeout(PATIENCE, reading).await {
            Ok(read) => read,
            Err(_) => Err(format!("not read within {PATIENCE:?}")),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Advances the paused clock by the time-out of a read: tokio does not while a blocking thread
    /// works.
    pub(crate) async fn late<T>(reading: impl Future<Output = T>) -> T {
        tokio::join!(reading, tokio::time::advance(PATIENCE)).0
    }

    /// Starts as many reads as are allowed. Each hangs until its sender is dropped.
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
            assert_eq!(failed, Err("as planned".into()));
        }
        assert_eq!(reads.one(|| 2).await, Ok(2));
    }
}
