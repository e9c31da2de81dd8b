//! A TCP proxy that delays, cuts and loses requests and answers.

use std::{
    future::pending,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{self, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::{carried::Carried, kubernetes, poll::until};

/// The answer of servers to a connection too many: "Too many connections", "sorry, too many clients
/// already".
const TOO_MANY: &[u8] = b"oo many c";

/// How long a server may take to answer a client that is gone.
const DRAINING: Duration = Duration::from_secs(300);

/// The fate of the connection on which a certain text is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The proxy holds the request back until [`Proxy::release`], even when the client is gone by
    /// then.
    Hold,
    /// The proxy holds the request back until [`Proxy::release`], whatever ends by then. The
    /// request then goes to the server to which the proxy points at that time, as from a pool that
    /// connects again.
    Carry,
    /// The request arrives; the proxy swallows its answer, and everything after it.
    SwallowReplies,
    /// The request arrives; instead of the answer the connection ends.
    CutReplies,
}

/// A proxy in front of one server.
#[derive(Debug)]
pub(crate) struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    listening: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    /// The address for which the proxy was made; it tells what the clients speak.
    url: String,
    /// The server; `None` while the proxy is disconnected.
    server: Mutex<Option<Target>>,
    fault: Mutex<Option<(Vec<u8>, Fault)>>,
    /// How often the proxy released held requests.
    released: watch::Sender<u32>,
    /// How many faulty requests the server has answered.
    answered: watch::Sender<u32>,
    /// How often the proxy cut every connection.
    cut: watch::Sender<u32>,
    /// The delay of every answer.
    late: Mutex<Duration>,
    /// How many connections clients have opened; the next field counts those that the server
    /// refused as too many.
    logins: AtomicU32,
    refused: AtomicU32,
}

impl Proxy {
    /// Starts a proxy for the server at a store's address. The proxy can read all requests and
    /// answers, even where the server speaks TLS alone.
    pub(crate) async fn start(url: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let shared = Arc::new(Shared {
            url: url.to_owned(),
            server: Mutex::new(Some(Target::of(url))),
            fault: Mutex::new(None),
            released: watch::Sender::new(0),
            answered: watch::Sender::new(0),
            cut: watch::Sender::new(0),
            late: Mutex::new(Duration::ZERO),
            logins: AtomicU32::new(0),
            refused: AtomicU32::new(0),
        });
        let listening = tokio::spawn({
            let shared = shared.clone();
            async move {
                while let Ok((client, _)) = listener.accept().await {
                    shared.logins.fetch_add(1, Ordering::Relaxed);
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

    /// Delays every answer of the server by this time from now on.
    pub(crate) fn delay(&self, late: Duration) {
        *lock(&self.shared.late) = late;
    }

    /// Sets the fault of the next connection that sends this text; others pass.
    pub(crate) fn fail(&self, text: &str, fault: Fault) {
        *lock(&self.shared.fault) = Some((text.as_bytes().to_vec(), fault));
    }

    /// Sets [`Fault::Carry`] for the next connection that sends this text. Open ones end, because
    /// the proxy sends the earlier requests of a connection to the other server as well.
    pub(crate) fn carry(&self, text: &str) {
        self.fail(text, Fault::Carry);
        self.cut();
    }

    /// Waits until a connection has met the fault.
    pub(crate) async fn met(&self) {
        until(DRAINING, "a connection meets the fault", async || {
            lock(&self.shared.fault).is_none().then_some(())
        })
        .await;
    }

    /// Releases held requests.
    pub(crate) fn release(&self) {
        self.shared.released.send_modify(|count| *count += 1);
    }

    /// Forwards to another server from now on; open connections end.
    pub(crate) fn point_to(&self, url: &str) {
        *lock(&self.shared.server) = Some(Target::of(url));
        self.cut();
    }

    /// Forwards nothing until [`Self::point_to`]; open connections end.
    pub(crate) fn disconnect(&self) {
        *lock(&self.shared.server) = None;
        self.cut();
    }

    /// Ends every connection, on both sides.
    pub(crate) fn cut(&self) {
        self.shared.cut.send_modify(|count| *count += 1);
    }

    /// Returns how many faulty requests the server has answered.
    pub(crate) fn count_answered(&self) -> u32 {
        *self.shared.answered.borrow()
    }

    /// Returns how many connections clients have opened.
    pub(crate) fn count_logins(&self) -> u32 {
        self.shared.logins.load(Ordering::Relaxed)
    }

    /// Returns how many of them a server refused because it had enough.
    pub(crate) fn count_refused(&self) -> u32 {
        self.shared.refused.load(Ordering::Relaxed)
    }

    /// Waits until the server has answered this many faulty requests.
    pub(crate) async fn answered(&self, count: u32) {
        let mut answered = self.shared.answered.subscribe();
        let waiting = answered.wait_for(|answered| *answered >= count);
        timeout(DRAINING, waiting).await.expect("an answer in time").expect("the proxy runs");
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl Shared {
    async fn serve(self: Arc<Self>, client: TcpStream) {
        let mut cut = self.cut.subscribe();
        let server = lock(&self.server).clone();
        let Some(server) = server else { return };
        let Some((from_server, to_server)) = server.connect().await else { return };
        let _ = client.set_nodelay(true);
        let (from_client, to_client) = client.into_split();
        let (fault, faults) = watch::channel(None);
        let replies = tokio::spawn(self.clone().replies(from_server, to_client, faults));
        let ending = replies.abort_handle();
        let passing = async {
            self.requests(from_client, to_server, fault).await;
            // No client waits for the answer to a late request, but the request must not be cut
            // off.
            let _ = timeout(DRAINING, replies).await;
        };
        tokio::select! {
            () = passing => {}
            _ = cut.changed() => ending.abort(),
        }
    }

    async fn requests(
        self: &Arc<Self>,
        mut client: OwnedReadHalf,
        mut server: impl AsyncWrite + Unpin,
        fault: watch::Sender<Option<Fault>>,
    ) {
        let mut buffer = vec![0; 64 * 1024];
        let is_kept = lock(&self.fault).as_ref().is_some_and(|(_, fault)| *fault == Fault::Carry);
        let mut sent = Carried::new(&self.url);
        while let Ok(length @ 1..) = client.read(&mut buffer).await {
            let request = &buffer[..length];
            if is_kept {
                sent.push(request);
            }
            if let Some(found) = self.take(request, is_kept) {
                if found == Fault::Carry {
                    tokio::spawn(self.clone().carry(sent, self.released.subscribe()));
                    // The client gets nothing more.
                    return pending().await;
                }
                let mut released = self.released.subscribe();
                fault.send_replace(Some(found));
                if found == Fault::Hold {
                    let _ = released.changed().await;
                }
            }
            if server.write_all(request).await.is_err() || server.flush().await.is_err() {
                return;
            }
        }
        let is_late = *fault.borrow() == Some(Fault::Hold);
        if is_late {
            // Waits until the server has answered: it might not read on from a connection that
            // ends.
            fault.closed().await;
        }
    }

    async fn replies(
        self: Arc<Self>,
        mut server: impl AsyncRead + Unpin,
        mut client: OwnedWriteHalf,
        fault: watch::Receiver<Option<Fault>>,
    ) {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = server.read(&mut buffer).await {
            if contains(&buffer[..length], TOO_MANY) {
                self.refused.fetch_add(1, Ordering::Relaxed);
            }
            let late = *lock(&self.late);
            sleep(late).await;
            let fault = *fault.borrow();
            if fault.is_some() {
                self.answered.send_modify(|count| *count += 1);
            }
            match fault {
                None => {
                    if client.write_all(&buffer[..length]).await.is_err() {
                        return;
                    }
                }
                Some(Fault::SwallowReplies) => {}
                Some(Fault::Hold | Fault::Carry | Fault::CutReplies) => return,
            }
        }
    }

    /// Sends the requests of a connection to the present server, once [`Self::release`] is called.
    async fn carry(self: Arc<Self>, sent: Carried, mut released: watch::Receiver<u32>) {
        let _ = released.changed().await;
        let server = lock(&self.server).clone().expect("a server to carry the request to");
        let (from, to) = server.connect().await.expect("the server");
        sent.deliver(from, to).await;
        self.answered.send_modify(|count| *count += 1);
    }

    /// Returns the fault, if this request has the text. `is_kept` says whether the proxy recorded
    /// the earlier requests.
    fn take(&self, request: &[u8], is_kept: bool) -> Option<Fault> {
        let mut fault = lock(&self.fault);
        let (text, found) = fault.as_ref()?;
        let is_it = (is_kept || *found != Fault::Carry) && contains(request, text);
        if is_it { fault.take().map(|(_, fault)| fault) } else { None }
    }
}

/// The server behind a proxy.
#[derive(Clone, Debug)]
enum Target {
    Plain(String),
    Kubernetes(String),
}

type Halves = (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>);

impl Target {
    /// Returns the server that `scheme://user@host:port/database` or a kubeconfig names.
    fn of(url: &str) -> Self {
        if url.starts_with("kubernetes:") {
            return Self::Kubernetes(url.to_owned());
        }
        let (_, rest) = url.split_once("://").expect("an address");
        let server = rest.split('/').next().unwrap_or(rest);
        Self::Plain(server.rsplit_once('@').map_or(server, |(_, server)| server).to_owned())
    }

    async fn connect(&self) -> Option<Halves> {
        match self {
            Self::Plain(server) => {
                let server = TcpStream::connect(server).await.ok()?;
                let _ = server.set_nodelay(true);
                let (from, to) = server.into_split();
                Some((Box::new(from), Box::new(to)))
            }
            Self::Kubernetes(url) => {
                let (from, to) = io::split(kubernetes::connect(url).await?);
                Some((Box::new(from), Box::new(to)))
            }
        }
    }
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window == text)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
