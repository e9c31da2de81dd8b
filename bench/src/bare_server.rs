//! The command line of the bare servers, whose responses are as long as Raindrop's.

use std::{error::Error, net::SocketAddr};

/// Stands before a path whose responses are copied from the constant, by a server that can.
pub const COPIED: &str = "/copied";

/// Paths with their response bodies.
pub type Bodies = Vec<(String, String)>;

/// Reads the arguments `ADDRESS PATH=LENGTH…` after the program's name: the address to listen on,
/// and each path with its response body.
///
/// # Errors
///
/// If an argument has another form.
pub fn parse(
    mut arguments: impl Iterator<Item = String>,
) -> Result<(SocketAddr, Bodies), Box<dyn Error>> {
    let address = arguments.nth(1).ok_or("the address to listen on is missing")?.parse()?;
    let bodies = arguments.map(|argument| {
        let (path, length) = argument.split_once('=').ok_or("expected PATH=LENGTH")?;
        Ok((path.to_owned(), "0".repeat(length.parse()?)))
    });
    Ok((address, bodies.collect::<Result<_, Box<dyn Error>>>()?))
}
