//! A disk in memory that outlives the processes of a test, and that can fail, hang and lose bytes
//! that are not durable.

use std::{
    future::pending,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use tokio::time::sleep;

use super::{Disk, StateFile};

/// A state file's disk.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk(Arc<Mutex<Bytes>>);

#[derive(Debug, Default)]
struct Bytes {
    /// The bytes that the next process reads if the process before was only killed.
    written: Vec<u8>,
    /// The bytes that survive a loss of power.
    durable: Vec<u8>,
    /// The present process. Writes of earlier ones have no effect.
    process: u32,
    /// How long each of the three parts of a write takes.
    latency: Duration,
    fails: bool,
    hangs: bool,
    writes: u64,
}

impl MemoryDisk {
    /// Starts a process on this disk. The process before counts as dead.
    pub fn open(&self) -> StateFile {
        let mut bytes = self.lock();
        bytes.process += 1;
        let disk = ProcessDisk { disk: self.clone(), process: bytes.process };
        StateFile::on_disk(Box::new(disk), &bytes.written, "boot")
    }

    /// Kills the process. Of a write in progress, the parts that were done stay.
    pub fn kill(&self) {
        self.lock().process += 1;
    }

    /// Kills the process, and loses the bytes that are not durable.
    pub fn lose_power(&self) {
        self.kill();
        let mut bytes = self.lock();
        bytes.written = bytes.durable.clone();
    }

    /// Sets how long each part of a write takes.
    pub fn set_latency(&self, latency: Duration) {
        self.lock().latency = latency;
    }

    /// Sets whether every write fails from now on.
    pub fn set_failing(&self, fails: bool) {
        self.lock().fails = fails;
    }

    /// Sets whether no write ends from now on.
    pub fn set_hanging(&self, hangs: bool) {
        self.lock().hangs = hangs;
    }

    /// Returns the number of completed writes.
    pub fn writes(&self) -> u64 {
        self.lock().writes
    }

    fn lock(&self) -> MutexGuard<'_, Bytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The disk as one process sees it.
#[derive(Debug)]
struct ProcessDisk {
    disk: MemoryDisk,
    process: u32,
}

impl ProcessDisk {
    /// Waits, and then does a part of a write, unless the process is dead.
    async fn part(&self, mut act: impl FnMut(&mut Bytes)) -> io::Result<()> {
        let latency = self.disk.lock().latency;
        if !latency.is_zero() {
            sleep(latency).await;
        }
        {
            let mut bytes = self.disk.lock();
            if bytes.fails {
                return Err(io::Error::other("planned by the test"));
            }
            if bytes.process == self.process && !bytes.hangs {
                act(&mut bytes);
                return Ok(());
            }
        }
        pending().await
    }
}

fn put(bytes: &mut Vec<u8>, offset: usize, new: &[u8]) {
    let end = offset + new.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(new);
}

#[async_trait]
impl Disk for ProcessDisk {
    async fn write(&self, offset: u64, new: Vec<u8>) -> io::Result<()> {
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        let half = &new[..new.len() / 2];
        self.part(|bytes| put(&mut bytes.written, offset, half)).await?;
        self.part(|bytes| put(&mut bytes.written, offset, &new)).await?;
        self.part(|bytes| {
            put(&mut bytes.durable, offset, &new);
            bytes.writes += 1;
        })
        .await
    }
}
