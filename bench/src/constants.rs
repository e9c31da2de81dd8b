//! What the bare servers answer: bodies as long as Raindrop's.

use std::{error::Error, net::SocketAddr};

/// Paths with the bodies that they answer.
pub type Bodies = Vec<(String, String)>;

/// The address to listen at, and each path with its body, from the words of a command line:
/// `ADDRESS PATH=LENGTH…`.
///
/// # Errors
///
/// When a word is none of these.
pub fn of_arguments(
    arguments: impl Iterator<Item = String>,
) -> Result<(SocketAddr, Bodies), Box<dyn Error>> {
    let mut arguments = arguments.skip(1);
    let address = arguments.next().ok_or("an address to listen at is missing")?.parse()?;
    let constants = arguments.map(|argument| {
        let (path, length) = argument.split_once('=').ok_or("it must be PATH=LENGTH")?;
        Ok((path.to_owned(), "0".repeat(length.parse()?)))
    });
    Ok((address, constants.collect::<Result<_, Box<dyn Error>>>()?))
}
