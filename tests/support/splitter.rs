//! A proxy that gives each statement of a MySQL client to one of two servers, and the requests that
//! change the session to both: the login, `SET`, preparing and closing.

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Mutex,
    task::JoinHandle,
};

/// Requests.
const QUIT: u8 = 0x01;
const QUERY: u8 = 0x03;
const PREPARE: u8 = 0x16;
const EXECUTE: u8 = 0x17;
const CLOSE: u8 = 0x19;

/// How packets of an answer begin.
const OK: u8 = 0x00;
const EOF: u8 = 0xfe;
const ERR: u8 = 0xff;

/// Capabilities that no client may use: TLS, and rows that end without an EOF packet.
const KEPT_BACK: u32 = 1 << 11 | 1 << 24;
const MORE_RESULTS: u16 = 1 << 3;

/// Which server gets a statement, and answers it. The first one answers what both get.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Split {
    /// This many statements of a connection go to the first one, then as many to the second one.
    Turns(u32),
    /// Chance decides, with this seed, and differently on each connection.
    Lot(u64),
    /// Only writes go to the second one.
    WritesToSecond,
    /// Only reads go to the second one.
    ReadsToSecond,
}

/// A proxy in front of two servers.
#[derive(Debug)]
pub(crate) struct Splitter {
    port: u16,
    shared: Arc<Shared>,
    listening: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    /// The ports of the servers.
    servers: [u16; 2],
    split: Split,
    /// How many clients have logged in.
    logins: AtomicU64,
    /// How many statements only one server got.
    statements: AtomicU32,
}

impl Splitter {
    /// Starts a proxy for the servers on these ports of 127.0.0.1, for users without a password.
    pub(crate) async fn start(servers: [u16; 2], split: Split) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let (logins, statements) = (AtomicU64::new(0), AtomicU32::new(0));
        let shared = Arc::new(Shared { servers, split, logins, statements });
        let listening = tokio::spawn({
            let shared = Arc::clone(&shared);
            async move {
                while let Ok((client, _)) = listener.accept().await {
                    // The task ends with an error when one of the three ends the connection.
                    tokio::spawn(shared.clone().serve(client));
                }
            }
        });
        Self { port, shared, listening }
    }

    /// Returns the proxy's port on 127.0.0.1.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns how many statements only one server got.
    pub(crate) fn statements(&self) -> u32 {
        self.shared.statements.load(Ordering::Relaxed)
    }
}

impl Drop for Splitter {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// A statement that both servers prepared.
struct Prepared {
    /// Its number on each of them.
    numbers: [Vec<u8>; 2],
    text: Vec<u8>,
}

impl Shared {
    async fn serve(self: Arc<Self>, mut client: TcpStream) -> io::Result<()> {
        client.set_nodelay(true)?;
        let (mut servers, mut turns) = self.log_in(&mut client).await?;
        // By the number on the first server, which the client knows.
        let mut prepared: HashMap<Vec<u8>, Prepared> = HashMap::new();
        loop {
            let request = packet(&mut client).await?;
            let command = request[4];
            let known = matches!(command, EXECUTE | CLOSE).then(|| &prepared[&request[5..9]]);
            let text = known.map_or(&request[5..], |known| &known.text);
            let request_to = |server: usize| match known {
                Some(Prepared { numbers, .. }) => {
                    [&request[..5], &numbers[server], &request[9..]].concat()
                }
                None => request.clone(),
            };
            if matches!(command, QUERY | EXECUTE) && !text.starts_with(b"SET ") {
                let chosen = turns.next(text);
                self.statements.fetch_add(1, Ordering::Relaxed);
                let answer = ask(&mut servers[chosen], &request_to(chosen)).await?;
                client.write_all(&answer).await?;
                continue;
            }
            let answer = ask(&mut servers[0], &request_to(0)).await?;
            let second = ask(&mut servers[1], &request_to(1)).await?;
            client.write_all(&answer).await?;
            match command {
                QUIT => return Ok(()),
                PREPARE if [&answer, &second].iter().all(|answer| answer[4] == OK) => {
                    let numbers = [&answer, &second].map(|answer| answer[5..9].to_vec());
                    let statement = Prepared { text: text.to_vec(), numbers };
                    prepared.insert(answer[5..9].to_vec(), statement);
                }
                _ => {}
            }
        }
    }

    /// Logs a client in to both servers, as connections with one number.
    async fn log_in(&self, client: &mut TcpStream) -> io::Result<([TcpStream; 2], Turns)> {
        // One client after the other, so that both servers reach the same number.
        static LOGIN: Mutex<()> = Mutex::const_new(());
        let alone = LOGIN.lock().await;
        let [(mut first, mut greeting), (mut second, mut other)] =
            [greeted(self.servers[0]).await?, greeted(self.servers[1]).await?];
        while connection(&greeting) != connection(&other) {
            if connection(&greeting) < connection(&other) {
                (first, greeting) = greeted(self.servers[0]).await?;
            } else {
                (second, other) = greeted(self.servers[1]).await?;
            }
        }
        drop(alone);
        let turns = Turns::new(self.split, self.logins.fetch_add(1, Ordering::Relaxed));
        keep_back(&mut greeting);
        client.write_all(&greeting).await?;
        let login = packet(client).await?;
        let (mut servers, mut answers) = ([first, second], Vec::new());
        for server in &mut servers {
            server.write_all(&login).await?;
            answers.push(packet(server).await?);
        }
        let refused = answers.iter().find(|answer| answer[4] != OK);
        client.write_all(refused.unwrap_or(&answers[0])).await?;
        match refused {
            Some(_) => Err(io::ErrorKind::PermissionDenied.into()),
            None => Ok((servers, turns)),
        }
    }
}

/// The server that has the next turn on a connection.
struct Turns {
    split: Split,
    statements: u32,
    lots: StdRng,
}

impl Turns {
    fn new(split: Split, login: u64) -> Self {
        let seed = if let Split::Lot(seed) = split { seed } else { 0 };
        Self { split, statements: 0, lots: StdRng::seed_from_u64(seed + login) }
    }

    fn next(&mut self, text: &[u8]) -> usize {
        self.statements += 1;
        let is_read = text.starts_with(b"SELECT ") && !text.ends_with(b"FOR UPDATE");
        usize::from(match self.split {
            Split::Turns(length) => self.statements / length % 2 == 1,
            Split::Lot(_) => self.lots.random(),
            Split::WritesToSecond => !is_read,
            Split::ReadsToSecond => is_read,
        })
    }
}

/// Connects to a server; returns its greeting, too.
async fn greeted(port: u16) -> io::Result<(TcpStream, Vec<u8>)> {
    let mut server = TcpStream::connect(("127.0.0.1", port)).await?;
    server.set_nodelay(true)?;
    let greeting = packet(&mut server).await?;
    Ok((server, greeting))
}

/// Returns where in a greeting the version of the server ends; the fields after it have fixed
/// lengths.
fn fixed(greeting: &[u8]) -> usize {
    let end = greeting[5..].iter().position(|byte| *byte == 0);
    5 + end.expect("a whole greeting") + 1
}

/// Returns the number of the connection.
fn connection(greeting: &[u8]) -> u32 {
    u32::from_le_bytes(*greeting[fixed(greeting)..].first_chunk().expect("a whole greeting"))
}

fn keep_back(greeting: &mut [u8]) {
    let (at, [a, b, c, d]) = (fixed(greeting), KEPT_BACK.to_le_bytes());
    for (offset, kept_back) in [(13, a), (14, b), (18, c), (19, d)] {
        greeting[at + offset] &= !kept_back;
    }
}

/// Sends a request to a server and returns its whole answer.
async fn ask(server: &mut TcpStream, request: &[u8]) -> io::Result<Vec<u8>> {
    server.write_all(request).await?;
    let mut answer = Vec::new();
    match request[4] {
        QUIT | CLOSE => {}
        QUERY | EXECUTE => while result(server, &mut answer).await? {},
        PREPARE => {
            let first = next(server, &mut answer).await?;
            if first[0] == OK {
                // The descriptions of the arguments and of the columns.
                for count in [&first[7..9], &first[5..7]].map(short) {
                    let last = u16::from(count > 0);
                    for _ in 0..count + last {
                        next(server, &mut answer).await?;
                    }
                }
            }
        }
        _ => {
            next(server, &mut answer).await?;
        }
    }
    Ok(answer)
}

/// Reads the result of a statement; returns whether another one follows.
async fn result(server: &mut TcpStream, answer: &mut Vec<u8>) -> io::Result<bool> {
    let first = next(server, answer).await?;
    let status = match first[0] {
        ERR => return Ok(false),
        OK => {
            // After the number of rows and the last number.
            let at = 1 + length(first[1]);
            short(&first[at + length(first[at])..])
        }
        columns => {
            for _ in 0..=columns {
                next(server, answer).await?;
            }
            loop {
                let row = next(server, answer).await?;
                match row[0] {
                    ERR => return Ok(false),
                    EOF if row.len() < 9 => break short(&row[3..]),
                    _ => {}
                }
            }
        }
    };
    Ok(status & MORE_RESULTS != 0)
}

/// Returns the length of an integer that begins with this byte.
fn length(first: u8) -> usize {
    match first {
        0xfc => 3,
        0xfd => 4,
        0xfe => 9,
        _ => 1,
    }
}

fn short(bytes: &[u8]) -> u16 {
    u16::from_le_bytes([bytes[0], bytes[1]])
}

/// Reads a packet and adds it to an answer; returns it without its head.
async fn next(server: &mut TcpStream, answer: &mut Vec<u8>) -> io::Result<Vec<u8>> {
    let packet = packet(server).await?;
    answer.extend(&packet);
    Ok(packet[4..].to_vec())
}

/// Reads a packet with its head. None is so long that it comes in parts.
async fn packet(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut packet = vec![0; 4];
    stream.read_exact(&mut packet).await?;
    let length = u32::from_le_bytes([packet[0], packet[1], packet[2], 0]);
    packet.resize(4 + length as usize, 0);
    stream.read_exact(&mut packet[4..]).await?;
    Ok(packet)
}
