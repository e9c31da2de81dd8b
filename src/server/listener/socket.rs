//! Bounds what the kernel holds for each connection.
//!
//! Accepted connections inherit these options from their listener. Without them the kernel grows
//! the buffers of a single connection to megabytes, and counts them to the service's memory limit.

use std::time::Duration;

use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};

/// Connections that wait to be accepted, up to the system's own limit. A client that finds no room
/// tries again after a second at the earliest.
const BACKLOG: i32 = 4096;

/// Requests are small; larger ones arrive in several parts. The kernel doubles it.
const RECEIVE_BUFFER: usize = 16 * 1024;

/// The bounds of a send buffer: small ones need more wake-ups for a batch. The kernel doubles it.
const SEND_BUFFER: [usize; 2] = [8 * 1024, 128 * 1024];

/// The most bytes that wait in the kernel because the client's window is closed.
#[cfg(target_os = "linux")]
const MOST_NOT_SENT: u32 = 16 * 1024;

/// After this time without an acknowledgement the kernel gives up, after a close as well.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

/// Sets the bounds for connections that are accepted from now on. All send buffers together take
/// about `memory` bytes, unless the smallest size takes more.
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
        // A power of two, so that it seldom changes.
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

/// Makes closing discard what was not sent.
pub(super) fn discard_unsent(stream: &TcpStream) {
    // One that is closed already has nothing to discard.
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}
