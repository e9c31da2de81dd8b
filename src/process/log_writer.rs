//! A thread that writes log lines, so that a task that logs never waits, fails or panics.
//!
//! Lines wait in a queue of fixed length. A line that finds the queue full, or that the output
//! refuses, is dropped and counted. The thread is never joined, because a write may hang for ever:
//! the end of the process waits for the queue for a limited time only
//! ([`LogWriter::flush_within`]).
//!
//! `tracing-appender` has such a thread, too, but does not count failed writes, and when its queue
//! is full at the end, it prints to standard output, which may panic.

use std::{
    collections::VecDeque,
    io::{self, Write},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use prometheus::IntCounter;

use crate::config::mask_tokens;

/// The largest number of queued lines: enough for a moment of a busy service's debug log.
const CAPACITY: usize = 1024;

/// Queues lines for the thread. Clones share the queue.
#[derive(Clone, Debug)]
pub(super) struct LogWriter(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    /// Notified after a line was queued, written or dropped.
    changed: Condvar,
    dropped: IntCounter,
}

#[derive(Debug, Default)]
struct Queue {
    lines: VecDeque<Vec<u8>>,
    is_writing: bool,
}

impl LogWriter {
    /// Starts the thread, which lives as long as the process. `dropped` counts the lines that found
    /// the queue full or that `out` refused.
    ///
    /// # Errors
    ///
    /// When the operating system cannot start a thread.
    pub(super) fn start(out: impl Write + Send + 'static, dropped: IntCounter) -> io::Result<Self> {
        let shared = Shared { queue: Mutex::default(), changed: Condvar::new(), dropped };
        let writer = Self(Arc::new(shared));
        let shared = Arc::clone(&writer.0);
        thread::Builder::new().name("raindrop-log".into()).spawn(move || shared.write_to(out))?;
        Ok(writer)
    }

    /// Waits until every line is written or dropped, but no longer than `limit`. Returns `false` if
    /// lines are left.
    pub(super) fn flush_within(&self, limit: Duration) -> bool {
        let is_busy = |queue: &mut Queue| queue.is_writing || !queue.lines.is_empty();
        let waited = self.0.changed.wait_timeout_while(self.0.lock(), limit, is_busy);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

/// Takes each call as one line, and always succeeds.
impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut queue = self.0.lock();
        if queue.lines.len() < CAPACITY {
            queue.lines.push_back(line.to_vec());
            self.0.changed.notify_all();
        } else {
            self.0.dropped.inc();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_to(&self, mut out: impl Write) {
        loop {
            let line = {
                let queue = self.changed.wait_while(self.lock(), |queue| queue.lines.is_empty());
                let mut queue = queue.unwrap_or_else(PoisonError::into_inner);
                queue.is_writing = true;
                queue.lines.pop_front().unwrap_or_default()
            };
            let line = String::from_utf8_lossy(&line);
            let line = mask_tokens(&line);
            // Continue: the next write may succeed, once there is a reader or a free block again.
            if out.write_all(line.as_bytes()).and_then(|()| out.flush()).is_err() {
                self.dropped.inc();
            }
            self.lock().is_writing = false;
            self.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn start(out: impl Write + Send + 'static) -> (LogWriter, IntCounter) {
        let dropped = IntCounter::new("dropped", "Lines.").expect("a valid name");
        (LogWriter::start(out, dropped.clone()).expect("a thread"), dropped)
    }

    /// An output that passes each line to the test and returns when the test allows it.
    struct Gate(SyncSender<Vec<u8>>, Receiver<()>);

    impl Write for Gate {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.0.send(line.to_vec()).expect("the test listens");
            self.1.recv().expect("the test opens it");
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn full_queue_drops_and_counts_lines_without_waiting() {
        let (given, written) = sync_channel(2 * CAPACITY);
        let (open, gate) = sync_channel(2 * CAPACITY);
        let (mut writer, dropped) = start(Gate(given, gate));
        writer.write_all(b"first").expect("it never fails");
        assert_eq!(written.recv().expect("a line"), b"first");
        // The thread hangs in the first line, so the queue takes exactly its capacity.
        for number in 0..CAPACITY + 3 {
            writer.write_all(number.to_string().as_bytes()).expect("it never fails");
        }
        assert_eq!(dropped.get(), 3);
        assert!(!writer.flush_within(Duration::ZERO));

        (0..=CAPACITY).for_each(|_| open.send(()).expect("it waits"));
        assert!(writer.flush_within(PATIENCE));
        let lines: Vec<Vec<u8>> = written.try_iter().collect();
        let queued: Vec<Vec<u8>> =
            (0..CAPACITY).map(|number| number.to_string().into_bytes()).collect();
        assert_eq!(lines, queued);
        assert_eq!(dropped.get(), 3);
    }

    #[test]
    fn broken_pipe_drops_and_counts_lines() {
        let (reader, pipe) = io::pipe().expect("a pipe");
        drop(reader);
        let (mut writer, dropped) = start(pipe);
        for _ in 0..3 {
            writer.write_all(b"lost\n").expect("it never fails");
        }
        assert!(writer.flush_within(PATIENCE));
        assert_eq!(dropped.get(), 3);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn full_disk_drops_and_counts_lines() {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
        let (mut writer, dropped) = start(full);
        for _ in 0..3 {
            writer.write_all(b"lost\n").expect("it never fails");
        }
        assert!(writer.flush_within(PATIENCE));
        assert_eq!(dropped.get(), 3);
    }

    /// An output that fails as long as the test tells it to.
    struct Failing(Receiver<bool>, SyncSender<Vec<u8>>);

    impl Write for Failing {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            if self.0.recv().expect("the test says") {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.1.send(line.to_vec()).expect("the test listens");
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_are_written_again_once_writing_succeeds() {
        let (fail, failing) = sync_channel(2);
        let (given, written) = sync_channel(2);
        let (mut writer, dropped) = start(Failing(failing, given));
        for (line, fails) in [(b"lost".as_slice(), true), (b"kept", false)] {
            fail.send(fails).expect("it listens");
            writer.write_all(line).expect("it never fails");
        }
        assert!(writer.flush_within(PATIENCE));
        assert_eq!((dropped.get(), written.try_iter().collect()), (1, vec![b"kept".to_vec()]));
    }
}
