//! Logins with an address that may change while the service runs, because its password is rotated.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{sync::Semaphore, task::spawn_blocking, time::timeout};

use super::{
    Result, StoreSettings, StoreUrl,
    hosts::{Connector, Hosts},
    lock,
};

/// How long reading the address may take: its file may be on a network mount.
const READ_WITHIN: Duration = Duration::from_secs(1);

/// The most reads under way: a read that hangs must not stop all further ones.
const READS: usize = 4;

type Make<C> = dyn Fn(&StoreSettings) -> Result<C> + Send + Sync;

/// A connector that logs in with the present address. While that cannot be read or used, or names
/// other hosts, it uses the last one that worked.
pub(super) struct Renewed<C> {
    /// The connector of the address at the start.
    pub(super) first: Arc<C>,
    settings: StoreSettings,
    make: Box<Make<C>>,
    present: Mutex<Login<C>>,
    /// A permit for each read that may be under way. Without a bound, reads that hang would use up
    /// all threads.
    permits: Arc<Semaphore>,
}

/// An address, and the connector that logs in with it.
struct Login<C> {
    url: StoreUrl,
    connector: Arc<C>,
}

impl<C: Connector> Renewed<C> {
    pub(super) fn new(
        settings: &StoreSettings,
        make: impl Fn(&StoreSettings) -> Result<C> + Send + Sync + 'static,
    ) -> Result<Self> {
        let first = Arc::new(make(settings)?);
        let login = Login { url: settings.url.clone(), connector: Arc::clone(&first) };
        let present = Mutex::new(login);
        let permits = Arc::new(Semaphore::new(READS));
        Ok(Self { first, settings: settings.clone(), make: Box::new(make), present, permits })
    }

    async fn present(&self) -> Arc<C> {
        let url = match self.settings.url_source.clone() {
            Some(source) => {
                let reading = async {
                    let permit =
                        Arc::clone(&self.permits).acquire_owned().await.expect("never closed");
                    spawn_blocking(move || (source.read(), permit)).await.map(|(url, _)| url)
                };
                timeout(READ_WITHIN, reading).await.ok().and_then(|read| read.ok().flatten())
            }
            None => None,
        };
        let mut present = lock(&self.present);
        if let Some(url) = url.filter(|url| *url != present.url) {
            let settings = StoreSettings { url, ..self.settings.clone() };
            if let Ok(made) = (self.make)(&settings)
                && made.hosts().same_as(self.hosts())
            {
                *present = Login { url: settings.url, connector: Arc::new(made) };
            }
        }
        Arc::clone(&present.connector)
    }
}

impl<C: Connector> Connector for Renewed<C> {
    type Connection = C::Connection;

    fn hosts(&self) -> &Hosts {
        self.first.hosts()
    }

    async fn open(&self, host: usize) -> Result<C::Connection> {
        self.present().await.open(host).await
    }

    async fn is_alive(&self, connection: &mut C::Connection) -> bool {
        self.first.is_alive(connection).await
    }

    async fn close(connection: C::Connection) {
        C::close(connection).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        atomic::{AtomicU32, Ordering},
        mpsc,
    };

    use tokio::{join, time::advance};

    use super::*;
    use crate::UrlSource;

    #[derive(Default)]
    struct Server(Hosts);

    impl Connector for Server {
        type Connection = ();

        fn hosts(&self) -> &Hosts {
            &self.0
        }

        async fn open(&self, _host: usize) -> Result<()> {
            Ok(())
        }

        async fn is_alive(&self, (): &mut ()) -> bool {
            true
        }

        async fn close((): ()) {}
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_cannot_be_read_keeps_few_threads() {
        let begun = Arc::new(AtomicU32::new(0));
        let (end, hung) = mpsc::channel::<()>();
        let (counted, hung) = (Arc::clone(&begun), Mutex::new(hung));
        let source = UrlSource::new(move || {
            counted.fetch_add(1, Ordering::SeqCst);
            // The read ends with the test.
            let _ended = lock(&hung).recv();
            None
        });
        let settings = StoreSettings { url_source: Some(source), ..StoreSettings::default() };
        let renewed = Renewed::new(&settings, |_| Ok(Server::default())).expect("made");
        for _ in 0..=READS {
            join!(renewed.present(), advance(READ_WITHIN));
        }
        drop(end);
        let all = u32::try_from(READS).expect("few");
        let _ended = renewed.permits.acquire_many(all).await.expect("never closed");
        assert_eq!(begun.load(Ordering::SeqCst), all);
    }
}
