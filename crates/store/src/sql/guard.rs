//! Logs in to a server that offers no TLS without ever sending it the password.
//!
//! The drivers send the password itself, or encrypt it with a key that the server has just sent, when
//! the server asks for that: so does whoever poses as the server. Such a connection goes through a
//! relay in this process, which reads what the server sends until the login is over and ends the
//! connection at such a request. Challenges, to which a hash is the answer, pass.

#[cfg(test)]
mod tests;

use std::{io, pin::pin};

use sqlx::ConnectOptions;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, copy},
    net::{TcpListener, TcpStream},
};

use super::engine::Failure;
use crate::{StoreError, tls::Protection};

/// What the drivers say of a server that offers no TLS.
const NO_TLS: &str = "server does not support TLS";

/// No message of a login is as long.
const LONGEST_MESSAGE: usize = 1 << 16;

/// What a relay does after a message of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Passes it on, and reads the next one.
    PassOn,
    /// Passes it on, and then whatever follows.
    LoggedIn,
    /// Ends the connection: the answer would be the password.
    Refuse,
}

/// The messages that a server sends while a client logs in.
pub(super) trait Login: Send + 'static {
    /// The driver's connection.
    type Connection;
    /// The driver's options.
    type Options: ConnectOptions<Connection = Self::Connection>;
    /// The length of a message's beginning.
    const HEADER: usize;

    /// Returns the same options for a relay on this port of this machine, without TLS.
    fn through(options: &Self::Options, port: u16) -> Self::Options;

    /// Returns how many bytes follow a beginning, if it is one.
    fn length(header: &[u8]) -> Option<usize>;

    /// Judges a message, the beginning included.
    fn judge(&mut self, message: &[u8]) -> Step;
}

/// Connects as the options say. Where TLS may be missing, they ask for it, and the relay stands in
/// once the server itself says that it has none.
pub(super) async fn connect<L: Login>(
    login: L,
    options: &L::Options,
    protection: Protection,
    server: (&str, u16),
) -> Result<L::Connection, Failure> {
    match options.connect().await {
        Err(sqlx::Error::Tls(error))
            if protection.may_lack_tls() && error.to_string() == NO_TLS => {}
        opened => return Ok(opened?),
    }
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(sqlx::Error::Io)?;
    let port = listener.local_addr().map_err(sqlx::Error::Io)?.port();
    let options = L::through(options, port);
    let server = TcpStream::connect(server).await.map_err(sqlx::Error::Io)?;
    let mut relay = Box::pin(relay(login, listener, server));
    let mut connecting = pin!(options.connect());
    tokio::select! {
        biased;
        ended = &mut relay => {
            ended?;
            // The driver knows better why.
            Ok(connecting.await?)
        }
        opened = &mut connecting => {
            let opened = opened?;
            tokio::spawn(relay);
            Ok(opened)
        }
    }
}

/// Passes on what one client and the server send, until either ends. Fails when the server asks for
/// the password.
async fn relay<L: Login>(
    login: L,
    listener: TcpListener,
    mut server: TcpStream,
) -> Result<(), StoreError> {
    let Ok((mut client, _)) = listener.accept().await else { return Ok(()) };
    drop(listener);
    for socket in [&client, &server] {
        // Only the delay would be worse.
        let _ = socket.set_nodelay(true);
    }
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let answers = async {
        match log_in(login, &mut from_server, &mut to_client).await {
            Ok(Step::Refuse) => Err(StoreError::Unavailable(
                "the server asked for the password over a connection without TLS: set store.tls = \
                 \"verify\" or \"require\" and give the server TLS, or send the password without \
                 protection by store.tls = \"off\""
                    .into(),
            )),
            Ok(_) => {
                let _ = copy(&mut from_server, &mut to_client).await;
                Ok(())
            }
            Err(_) => Ok(()),
        }
    };
    tokio::select! {
        ended = answers => ended,
        _ = copy(&mut from_client, &mut to_server) => Ok(()),
    }
}

/// Passes on the messages of a login; returns the step that ends it.
async fn log_in<L: Login>(
    mut login: L,
    from_server: &mut (impl AsyncRead + Unpin),
    to_client: &mut (impl AsyncWrite + Unpin),
) -> io::Result<Step> {
    loop {
        let mut message = vec![0; L::HEADER];
        from_server.read_exact(&mut message).await?;
        let length = L::length(&message).filter(|length| *length <= LONGEST_MESSAGE);
        message.resize(L::HEADER + length.ok_or(io::ErrorKind::InvalidData)?, 0);
        from_server.read_exact(&mut message[L::HEADER..]).await?;
        let step = login.judge(&message);
        if step == Step::Refuse {
            return Ok(step);
        }
        to_client.write_all(&message).await?;
        if step == Step::LoggedIn {
            return Ok(step);
        }
    }
}
