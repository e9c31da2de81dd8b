//! The load generator: one thread, and keep-alive connections with a fixed number of pending
//! requests each.

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
    http2,
    process::Process,
    requests::Requests,
    responses::{Position, Protocol, ResponseCounter},
    support::{Result, context, warn},
};

/// How long the last responses may take.
const LAST_RESPONSES: Duration = Duration::from_secs(5);

/// A load on one server.
#[derive(Debug)]
pub(crate) struct Load<'a> {
    pub(crate) server: &'a Process,
    /// The request in words. Loads that are compared to each other have the same.
    pub(crate) what: String,
    pub(crate) requests: Requests,
    pub(crate) connections: usize,
}

/// The results of a load in one round.
#[derive(Debug)]
pub(crate) struct Measured {
    /// Good responses within `time`.
    responses: u64,
    /// Requests with an error response or none, in the whole run.
    pub(crate) failures: u64,
    time: Duration,
    /// CPU time of the server within `time`, user and system.
    server: Duration,
    /// Time within `time` in which the load generator had nothing to do.
    idle: Duration,
    /// From sending a batch to each response, in nanoseconds.
    latency: Histogram<u64>,
}

impl Measured {
    /// Whether there are responses within the time, and all requests succeeded.
    pub(crate) fn is_sound(&self) -> bool {
        self.failures == 0 && self.responses > 0
    }

    pub(crate) fn requests_per_second(&self) -> f64 {
        self.responses as f64 / self.time.as_secs_f64()
    }

    /// Returns the server's CPU time per response in microseconds.
    pub(crate) fn cpu_time(&self) -> f64 {
        self.server.as_secs_f64() * 1e6 / self.responses as f64
    }

    /// Returns the share of the time in which the server ran.
    pub(crate) fn server_busy(&self) -> f64 {
        self.server.as_secs_f64() / self.time.as_secs_f64()
    }

    /// Returns the share of the time in which the load generator had something to do.
    pub(crate) fn generator_busy(&self) -> f64 {
        1.0 - self.idle.as_secs_f64() / self.time.as_secs_f64()
    }

    /// Returns a quantile of the latency in microseconds.
    pub(crate) fn latency(&self, quantile: f64) -> f64 {
        self.latency.value_at_quantile(quantile) as f64 / 1e3
    }
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    at: Position,
    /// The batch that is being sent, and how much of it is written.
    batch: Vec<u8>,
    written: usize,
    /// The number of the next stream of HTTP/2.
    next_stream: u32,
    sent: Instant,
    /// Requests without a response.
    pending: usize,
    broken: bool,
}

impl Load<'_> {
    /// Sends for `warm_up` and then for `time`, which alone is measured.
    pub(crate) fn run(&self, warm_up: Duration, time: Duration) -> Result<Measured> {
        let mut run = Run::new(self)?;
        run.until(Instant::now() + warm_up, true)?;
        let (begin, server) = (Instant::now(), self.server.cpu_time()?);
        (run.responses, run.idle) = (0, Duration::ZERO);
        run.latency.reset();
        run.until(begin + time, true)?;
        let end = Instant::now();
        let mut measured = Measured {
            responses: run.responses,
            failures: 0,
            time: end - begin,
            server: self.server.cpu_time()?.saturating_sub(server),
            idle: run.idle,
            latency: run.latency.clone(),
        };
        run.until(end + LAST_RESPONSES, false)?;
        measured.failures = run.failures + run.pending();
        Ok(measured)
    }
}

/// Returns the CPU time of this process so far.
pub(crate) fn own_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).expect("CPU time is not negative")
}

/// A load that is being sent.
struct Run<'a> {
    requests: &'a Requests,
    counter: ResponseCounter,
    poll: Poll,
    connections: Vec<Connection>,
    next_batch: usize,
    buffer: Vec<u8>,
    responses: u64,
    failures: u64,
    idle: Duration,
    latency: Histogram<u64>,
}

impl<'a> Run<'a> {
    fn new(load: &'a Load<'_>) -> Result<Self> {
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
                batch: Vec::new(),
                written: 0,
                next_stream: 1,
                sent: Instant::now(),
                pending: 0,
                broken: false,
            });
        }
        let mut run = Self {
            requests: &load.requests,
            counter: ResponseCounter::new(load.requests.protocol),
            poll,
            connections,
            next_batch: 0,
            buffer: vec![0; 256 * 1024],
            responses: 0,
            failures: 0,
            idle: Duration::ZERO,
            latency: Histogram::new_with_bounds(100, 60_000_000_000, 3).expect("valid bounds"),
        };
        for number in 0..run.connections.len() {
            run.send_next(number, Instant::now());
        }
        Ok(run)
    }

    /// Returns the number of requests without a response.
    fn pending(&self) -> u64 {
        self.connections.iter().map(|connection| connection.pending as u64).sum()
    }

    /// Receives responses until `end`. With `sending`, the next batch follows each; otherwise it
    /// returns as soon as no request is pending.
    fn until(&mut self, end: Instant, sending: bool) -> Result<()> {
        let mut events = Events::with_capacity(1024);
        let mut now = Instant::now();
        while now < end && self.pending() > 0 {
            // It never sleeps: a server would pay for waking it, and a slower one more often.
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
            let responses = usize::try_from(all).expect("few");
            let Some(pending) = connection.pending.checked_sub(responses) else {
                return self.fail(number, &"more responses than requests");
            };
            connection.pending = pending;
            self.responses += counted.good;
            self.failures += counted.bad;
            if all > 0 {
                let now = Instant::now();
                let took = u64::try_from((now - connection.sent).as_nanos()).expect("seconds");
                self.latency.saturating_record_n(took, all);
                if pending == 0 {
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
        connection.batch.clear();
        connection.batch.extend_from_slice(self.requests.batch(self.next_batch));
        self.next_batch += 1;
        if self.requests.protocol == Protocol::Http2 {
            let is_first = connection.next_stream == 1;
            connection.next_stream = http2::number(&mut connection.batch, connection.next_stream);
            if is_first {
                connection.batch.splice(..0, http2::preface());
            }
        }
        connection.written = 0;
        connection.sent = now;
        connection.pending = self.requests.depth;
        self.write(number);
    }

    fn write(&mut self, number: usize) {
        loop {
            let connection = &mut self.connections[number];
            let rest = &connection.batch[connection.written..];
            if rest.is_empty() || connection.pending == 0 || connection.broken {
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

    /// Abandons a connection, whose pending requests fail.
    fn fail(&mut self, number: usize, why: &dyn std::fmt::Display) {
        let connection = &mut self.connections[number];
        connection.broken = true;
        self.failures += connection.pending.max(1) as u64;
        connection.pending = 0;
        warn(&format!("connection abandoned: {why}"));
    }
}

fn connect(address: SocketAddr) -> Result<std::net::TcpStream> {
    let stream = std::net::TcpStream::connect(address)
        .map_err(context(format!("connecting to {address}")))?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}
