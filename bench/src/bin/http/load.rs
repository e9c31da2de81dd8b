//! The load generator: one thread, keep-alive connections, each with a fixed number of requests
//! under way.

use std::{
    io::{self, Read, Write},
    mem,
    net::SocketAddr,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use mio::{Events, Interest, Poll, Token, net::TcpStream};
use rustix::time::{ClockId, clock_gettime};

use super::{
    answer::{Counter, Position},
    process::Process,
    requests::Requests,
    tools::{Result, context, warn},
};

/// How long the last answers may take.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// A load on one server.
#[derive(Debug)]
pub(crate) struct Load<'a> {
    pub(crate) server: &'a Process,
    pub(crate) requests: &'a Requests,
    pub(crate) connections: usize,
}

/// What one run of a load measured.
#[derive(Debug)]
pub(crate) struct Measured {
    /// Good answers within `time`.
    pub(crate) answers: u64,
    /// Requests that were answered with an error, or not at all, in the whole run.
    pub(crate) failures: u64,
    pub(crate) time: Duration,
    /// Time of the processors that the server took within `time`, user and system.
    pub(crate) server: Duration,
    /// Time within `time` in which the load generator found nothing to do.
    pub(crate) idle: Duration,
    /// From sending a batch to each of its answers, in nanoseconds.
    pub(crate) latency: Histogram<u64>,
}

impl Measured {
    /// Whether every request was answered, and any within the time.
    pub(crate) fn is_sound(&self) -> bool {
        self.failures == 0 && self.answers > 0
    }
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    at: Position,
    /// The number of the batch under way, and how much of it is written.
    batch: usize,
    written: usize,
    sent: Instant,
    /// Requests without an answer.
    open: usize,
    broken: bool,
}

/// When things were, and what had been used by then.
struct Moment {
    when: Instant,
    server: Duration,
}

impl Load<'_> {
    /// Sends for `warm_up` and then for `time`, which alone is measured.
    pub(crate) fn run(&self, warm_up: Duration, time: Duration) -> Result<Measured> {
        let mut run = Run::new(self)?;
        let counting_from = Instant::now() + warm_up;
        run.until(counting_from, true)?;
        let first = self.moment()?;
        (run.answers, run.idle) = (0, Duration::ZERO);
        run.latency.reset();
        run.until(first.when + time, true)?;
        let last = self.moment()?;
        let (answers, idle, latency) = (run.answers, run.idle, run.latency.clone());
        run.until(last.when + LAST_ANSWERS, false)?;
        Ok(Measured {
            answers,
            failures: run.failures + run.open(),
            time: last.when - first.when,
            server: last.server.saturating_sub(first.server),
            idle,
            latency,
        })
    }

    fn moment(&self) -> Result<Moment> {
        Ok(Moment { when: Instant::now(), server: self.server.cpu_time()? })
    }
}

/// The processor time of this process.
pub(crate) fn own_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).expect("time used is not negative")
}

/// A load that is being sent.
struct Run<'a> {
    requests: &'a Requests,
    counter: Counter,
    poll: Poll,
    connections: Vec<Connection>,
    next_batch: usize,
    buffer: Vec<u8>,
    answers: u64,
    failures: u64,
    idle: Duration,
    latency: Histogram<u64>,
}

impl<'a> Run<'a> {
    fn new(load: &Load<'a>) -> Result<Self> {
        let poll = Poll::new()?;
        let mut connections = Vec::with_capacity(load.connections);
        for number in 0..load.connections {
            let stream = connect(load.server.address)?;
            let mut stream = TcpStream::from_std(stream);
            let interest = Interest::READABLE | Interest::WRITABLE;
            poll.registry().register(&mut stream, Token(number), interest)?;
            connections.push(Connection {
                stream,
                at: Position::default(),
                batch: number,
                written: 0,
                sent: Instant::now(),
                open: 0,
                broken: false,
            });
        }
        let mut run = Self {
            requests: load.requests,
            counter: Counter::new(load.requests.protocol),
            poll,
            connections,
            next_batch: 0,
            buffer: vec![0; 256 * 1024],
            answers: 0,
            failures: 0,
            idle: Duration::ZERO,
            latency: Histogram::new_with_bounds(100, 60_000_000_000, 3).expect("valid bounds"),
        };
        for number in 0..run.connections.len() {
            run.send_next(number, Instant::now());
        }
        Ok(run)
    }

    /// Requests under way.
    fn open(&self) -> u64 {
        self.connections.iter().map(|connection| connection.open as u64).sum()
    }

    /// Answers are awaited until then; with `sending`, each batch is followed by the next, without,
    /// it ends when nothing is under way.
    fn until(&mut self, end: Instant, sending: bool) -> Result<()> {
        let mut events = Events::with_capacity(1024);
        let mut now = Instant::now();
        while now < end && self.open() > 0 {
            // It never sleeps: else the slower a server is, the oftener it pays for waking it.
            match self.poll.poll(&mut events, Some(Duration::ZERO)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result?,
            }
            let before = mem::replace(&mut now, Instant::now());
            if events.is_empty() {
                self.idle += now - before;
                continue;
            }
            for event in &events {
                let Token(number) = event.token();
                if event.is_writable() {
                    self.write(number);
                }
                if event.is_readable() {
                    self.read(number, sending);
                }
            }
            now = Instant::now();
        }
        Ok(())
    }

    fn read(&mut self, number: usize, sending: bool) {
        loop {
            let connection = &mut self.connections[number];
            if connection.broken {
                return;
            }
            let arrived = match connection.stream.read(&mut self.buffer) {
                Ok(0) => return self.fail(number, &"the server closed a connection"),
                Ok(arrived) => arrived,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return self.fail(number, &error),
            };
            let counted = match self.counter.count(&mut connection.at, &self.buffer[..arrived]) {
                Ok(counted) => counted,
                Err(error) => return self.fail(number, &error),
            };
            let all = counted.good + counted.bad;
            let Some(open) = connection.open.checked_sub(usize::try_from(all).expect("few")) else {
                return self.fail(number, &"more answers than requests");
            };
            connection.open = open;
            self.answers += counted.good;
            self.failures += counted.bad;
            if all > 0 {
                let now = Instant::now();
                let took = u64::try_from((now - connection.sent).as_nanos()).expect("seconds");
                self.latency.saturating_record_n(took, all);
                if open == 0 {
                    // Nothing more can arrive before the next requests are sent.
                    if sending {
                        self.send_next(number, now);
                    }
                    return;
                }
            }
            // A short read emptied the socket; what arrives later is another event.
            if arrived < self.buffer.len() {
                return;
            }
        }
    }

    fn send_next(&mut self, number: usize, now: Instant) {
        let connection = &mut self.connections[number];
        connection.batch = self.next_batch;
        self.next_batch += 1;
        connection.written = 0;
        connection.sent = now;
        connection.open = self.requests.depth;
        self.write(number);
    }

    fn write(&mut self, number: usize) {
        loop {
            let connection = &mut self.connections[number];
            let rest = &self.requests.batch(connection.batch)[connection.written..];
            if rest.is_empty() || connection.open == 0 || connection.broken {
                return;
            }
            match connection.stream.write(rest) {
                Ok(written) => connection.written += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.fail(number, &error),
            }
        }
    }

    /// Gives a connection up: what it had under way failed.
    fn fail(&mut self, number: usize, why: &dyn std::fmt::Display) {
        let connection = &mut self.connections[number];
        connection.broken = true;
        self.failures += connection.open.max(1) as u64;
        connection.open = 0;
        warn(&format!("a connection was given up: {why}"));
    }
}

fn connect(address: SocketAddr) -> Result<std::net::TcpStream> {
    let stream = std::net::TcpStream::connect(address)
        .map_err(context(format!("connecting to {address}")))?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}
