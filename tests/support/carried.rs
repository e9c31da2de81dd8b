//! Keeps the requests of a client on one connection, to send them to another server.

use std::time::Duration;

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    time::timeout,
};

/// How long a server may take for an answer.
const ANSWERING: Duration = Duration::from_secs(10);
/// How long it may be silent before its answer counts as complete.
const QUIET: Duration = Duration::from_millis(200);

/// MySQL's requests that prepare a statement, and that run one by its number.
const PREPARE: u8 = 0x16;
const EXECUTE: u8 = 0x17;

/// The messages of one connection, from its beginning.
#[derive(Debug)]
pub(super) struct Carried {
    messages: Vec<Vec<u8>>,
    is_mysql: bool,
}

impl Carried {
    /// Returns no messages yet, for a server at this address.
    pub(super) fn new(url: &str) -> Self {
        Self { messages: Vec::new(), is_mysql: url.starts_with("mysql:") }
    }

    pub(super) fn push(&mut self, message: &[u8]) {
        self.messages.push(message.to_vec());
    }

    /// Sends one message after the other, each after the answer to the last one.
    pub(super) async fn deliver(
        self,
        mut server: impl AsyncRead + Unpin,
        mut to_server: impl AsyncWrite + Unpin,
    ) {
        // MariaDB numbers statements differently on each connection: `numbers` has those of this
        // one in the order of their preparation, `former` those of the other one in the order of
        // their first use.
        let (mut numbers, mut former) = (Vec::new(), Vec::new());
        for mut message in self.messages {
            if self.is_mysql && command(&message) == Some(EXECUTE) {
                let number = message[5..9].to_vec();
                if !former.contains(&number) {
                    former.push(number.clone());
                }
                let index = former.iter().position(|other| *other == number);
                let new: &Vec<u8> = &numbers[index.expect("it was added")];
                message[5..9].copy_from_slice(new);
            }
            to_server.write_all(&message).await.expect("a server that reads");
            to_server.flush().await.expect("a server that reads");
            let answer = complete_answer(&mut server).await;
            if self.is_mysql && command(&message) == Some(PREPARE) {
                numbers.push(answer[5..9].to_vec());
            }
        }
    }
}

/// Returns the command of a message to MySQL, once the login is over.
fn command(message: &[u8]) -> Option<u8> {
    let [_, _, _, 0, command, ..] = message else { return None };
    Some(*command)
}

async fn complete_answer(server: &mut (impl AsyncRead + Unpin)) -> Vec<u8> {
    let (mut answer, mut buffer) = (Vec::new(), vec![0; 64 * 1024]);
    let mut patience = ANSWERING;
    while let Ok(Ok(length @ 1..)) = timeout(patience, server.read(&mut buffer)).await {
        answer.extend(&buffer[..length]);
        patience = QUIET;
    }
    answer
}
