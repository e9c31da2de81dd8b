//! Bounds the memory that the kernel holds for each connection.
//!
//! Accepted connections inherit these options from their listener. Without them, the kernel grows
//! the buffers of a single connection to megabytes, and counts them against the memory limit of the
//! service. [`Buffers::adapt`] shrinks the send buffers of new connections as the number of open
//! ones grows; open connections keep theirs. If the kernel refuses an option, the service logs that
//! and runs without it. `server::memory` assumes these bounds. Tests: tests/faults/overload
//! measures the memory of the process.

use std::time::Duration;

use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};

/// Connections that may wait to be accepted; the system's own limit may be lower. A client that
/// finds the queue full tries again after a second at the earliest.
const BACKLOG: i32 = 4096;

/// The receive buffer in bytes, which the kernel doubles. Requests are small; a larger one arrives
/// in several parts.
const RECEIVE_BUFFER: usize = 16 * 1024;

/// The smallest and largest send buffer in bytes, which the kernel doubles. With a small buffer,
/// the task that sends a batch of IDs must wake up more often.
const SEND_BUFFER: [usize; 2] = [8 * 1024, 128 * 1024];

/// The most bytes that the kernel takes while the client's window is closed.
#[cfg(target_os = "linux")]
const MOST_NOT_SENT: u32 = 16 * 1024;

/// After this time without an acknowledgement the kernel drops the connection, also one that is
/// closed.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

/// Sets the kernel's buffers of connections that are accepted from now on. All send buffers
/// together take about `memory` bytes, or more if the smallest size needs more.
#[derive(Debug)]
pub(super) struct Buffers {
    memory: u64,
    send_buffer: usize,
}

impl Buffers {
    pub(super) fn new(listener: &TcpListener, memory: u64) -> Self {
        let socket = SockRef::from(listener);
        let set = || {
            socket.listen(BACKLOG)?;
            socket.set_tcp_nodelay(true)?;
            socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
            #[cfg(target_os = "linux")]
            {
                socket.set_tcp_notsent_lowat(MOST_NOT_SENT)?;
                socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED))?;
            }
            Ok::<_, std::io::Error>(())
        };
        if let Err(error) = set() {
            tracing::warn!(%error, "cannot bound the kernel's buffers of connections");
        }
        let mut buffers = Self { memory, send_buffer: 0 };
        buffers.adapt(listener, 1);
        buffers
    }

    /// Adapts the send buffers of new connections to the number of open ones.
    pub(super) fn adapt(&mut self, listener: &TcpListener, open: usize) {
        let share = self.memory / 2 / open.max(1) as u64;
        // Rounded to a power of two, so that it changes seldom.
        let size =
            usize::try_from(share).unwrap_or(usize::MAX).clamp(SEND_BUFFER[0], SEND_BUFFER[1]);
        let size = 1 << size.ilog2();
        if size != self.send_buffer {
            self.send_buffer = size;
            if let Err(error) = SockRef::from(listener).set_send_buffer_size(size) {
                tracing::debug!(%error, "cannot bound send buffers");
            }
        }
    }
}

/// Makes the close of a connection discard its unsent bytes.
pub(super) fn discard_unsent(stream: &TcpStream) {
    // A connection that is closed already has nothing to discard.
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}
