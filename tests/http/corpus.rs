//! Odd requests, byte for byte as they come over a socket, each with its outcome, and changes of
//! them.
//!
//! The name of a file begins with the statuses of the responses (`200-200`, or `none`), and
//! `closed` if the service closes the connection after them. Requests that a fuzzer finds are added
//! to it.

use std::{ffi::OsStr, net::SocketAddr, str::from_utf8};

use proptest::{collection::vec, prelude::*, sample::Index};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    runtime::Runtime,
    time::timeout,
};

use crate::{
    serving::Served,
    support::PATIENCE,
    test_corpus::{changed, files, repeatable, replaced_piece},
};

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/http/corpus");

/// Follows each file on its connection: its response shows that nothing of the file is left over.
const LAST: &[u8] = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n";
const OF_LAST: &[u8] = b"\"namespaces\"";

/// The statuses of documented responses; 500 would be a bug.
const DOCUMENTED: [u16; 15] =
    [100, 200, 400, 403, 404, 405, 408, 413, 414, 415, 422, 429, 431, 501, 503];

/// The statuses in what a service sent. No body has a status line in it.
fn statuses(sent: &[u8]) -> Vec<u16> {
    let status =
        |part: &[u8]| from_utf8(part).ok()?.strip_prefix("HTTP/1.")?.get(2..)?.parse().ok();
    sent.windows("HTTP/1.1 200".len()).filter_map(status).collect()
}

/// Sends the bytes and [`LAST`], and reads until that is answered or the service closes the
/// connection. Returns the statuses of the responses before that, and whether it was closed.
async fn outcome(address: SocketAddr, bytes: &[u8]) -> (Vec<u16>, bool) {
    let mut stream = TcpStream::connect(address).await.expect("connected");
    let (mut reading, mut writing) = stream.split();
    // Completes a body that swallows the last request: nothing has to time out.
    let rest = "\r\n".repeat(40_000);
    let sent = [bytes, LAST, rest.as_bytes(), LAST].concat();
    let send = async {
        // The service may close the connection before it takes everything.
        let _ = writing.write_all(&sent).await;
        std::future::pending().await
    };
    let receive = async {
        let mut received = Vec::new();
        while let Ok(1..) = reading.read_buf(&mut received).await {
            let end = received.windows(OF_LAST.len()).position(|part| part == OF_LAST);
            if let Some(end) = end {
                let mut found = statuses(&received[..end]);
                assert_eq!(found.pop(), Some(200));
                return (found, false);
            }
        }
        (statuses(&received), true)
    };
    let outcome = timeout(PATIENCE, async {
        tokio::select! {
            outcome = receive => outcome,
            never = send => never,
        }
    });
    outcome.await.unwrap_or_else(|_| panic!("it hangs: {}", bytes.escape_ascii()))
}

#[tokio::test]
async fn each_request_has_the_outcome_that_its_file_states() {
    let served = Served::start(&[]).await;
    let corpus = files(CORPUS);
    assert!(corpus.len() > 100, "{}", corpus.len());
    let mut wrong = Vec::new();
    for (file, bytes) in corpus {
        let name = file.file_name().and_then(OsStr::to_str).expect("a plain name");
        let (found, is_closed) = outcome(served.address, &bytes).await;
        let mut found: Vec<String> = found.iter().map(ToString::to_string).collect();
        if is_closed {
            found.push("closed".to_owned());
        }
        if found.is_empty() {
            found.push("none".to_owned());
        }
        let found = found.join("-");
        if name.split('.').next() != Some(&*found) {
            wrong.push(format!("{name}: {found}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    served.stop().await;
}

#[test]
fn mutated_requests_are_answered_as_documented() {
    let runtime = Runtime::new().expect("a runtime");
    let served = runtime.block_on(Served::start(&[]));
    let corpus: Vec<Vec<u8>> = files(CORPUS).into_iter().map(|(_, bytes)| bytes).collect();
    let change = replaced_piece(corpus.clone());
    proptest!(repeatable(500, 20_261_125), |(file in any::<Index>(), changes in vec(change, 1..4))| {
        let original: &Vec<u8> = file.get(&corpus);
        let bytes = changed(original, changes);
        let (found, _) = runtime.block_on(outcome(served.address, &bytes));
        for status in &found {
            prop_assert!(DOCUMENTED.contains(status), "{found:?} for {}", bytes.escape_ascii());
        }
    });
    assert_eq!(runtime.block_on(served.get("/livez")).status(), 200);
    runtime.block_on(served.stop());
}
