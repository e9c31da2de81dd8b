//! Who gives way when every connection has its place taken and another client comes.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use tokio::{task::AbortHandle, time::Instant};

use super::pace::Pace;

/// How long a new connection may take for its first request before it gives way to others.
const GRACE: Duration = Duration::from_secs(1);

/// The open connections, in two queues.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Those that asked for nothing yet, as far as is known; the oldest first.
    newcomers: VecDeque<Seat>,
    /// Those that asked before.
    regulars: VecDeque<Seat>,
}

/// An open connection.
#[derive(Debug)]
struct Seat {
    pace: Arc<Pace>,
    task: AbortHandle,
    since: Instant,
}

impl Places {
    /// Takes a new connection in.
    pub(super) fn take(&mut self, pace: Arc<Pace>, task: AbortHandle) {
        push(&mut self.newcomers, Seat { pace, task, since: Instant::now() });
    }

    /// Ends a connection that waits for its client: one that never asked for anything, or else one
    /// that was idle for a while. `false` when every client is at work or has just come.
    pub(super) fn make_room(&mut self) -> bool {
        for _ in 0..self.newcomers.len() {
            let Some(seat) = self.newcomers.pop_front() else { break };
            if seat.task.is_finished() {
                continue;
            }
            if seat.pace.has_asked() {
                push(&mut self.regulars, seat);
            } else if seat.pace.is_answering() {
                self.newcomers.push_back(seat);
            } else if seat.pace.was_kept_waiting() && seat.since.elapsed() >= GRACE {
                seat.task.abort();
                return true;
            } else {
                self.newcomers.push_front(seat);
                break;
            }
        }
        for _ in 0..self.regulars.len() {
            let Some(seat) = self.regulars.pop_front() else { break };
            if seat.task.is_finished() {
                continue;
            }
            if seat.pace.waits_for_client() {
                seat.task.abort();
                return true;
            }
            self.regulars.push_back(seat);
        }
        false
    }
}

/// Those that ended are let go before a queue grows, which costs little for each on average.
fn push(seats: &mut VecDeque<Seat>, seat: Seat) {
    if seats.len() == seats.capacity() {
        seats.retain(|seat| !seat.task.is_finished());
    }
    seats.push_back(seat);
}
