//! Reads the `store` section: where nodes lease worker ids and reserve numbers.

use std::{path::PathBuf, time::Duration};

use super::{
    namespace::{Mode, NamespaceConfig},
    reader::Reader,
    secret::with_password,
    small_file,
};
use crate::store::{
    self, Failover, StoreSettings, StoreUrl, TlsMode, UrlSource, is_valid_table_name,
};

const URL: &str = "store.url";
const URL_FILE: &str = "store.url_file";
pub(super) const STATE_FILE: &str = "store.state_file";
const PASSWORD_FILE: &str = "store.password_file";

pub(super) fn read(reader: &mut Reader, namespaces: &[NamespaceConfig]) -> StoreSettings {
    let table = "a name that matches [A-Za-z_][A-Za-z0-9_]{0,47}";
    let name = |text: &str| is_valid_table_name(text).then(|| text.to_owned());
    let worker_table = reader.value("store.worker_table", table, name);
    let segment_table = reader.value("store.segment_table", table, name);
    if worker_table == segment_table {
        reader.reject("store.segment_table", "another name than store.worker_table");
    }
    let id = reader.given("store.id", "the text that raindrop config --store-id prints", |text| {
        text.parse().ok()
    });
    let max_connections = reader.number("store.max_connections");
    let timeout = reader.duration("store.timeout");
    let modes = TlsMode::ALL.map(TlsMode::name).join(", ");
    let tls = reader.given("store.tls", modes, TlsMode::by_name);
    let failovers = Failover::ALL.map(Failover::name).join(" or ");
    let failover = reader.value("store.failover", &failovers, Failover::by_name);
    let tls_ca_file = reader.text("store.tls_ca_file").map(PathBuf::from);
    let (key, url, url_source) = read_url(reader);
    if url == "memory:" {
        reject_memory(reader, key, namespaces);
        reader.reject_given(
            &["store.id"],
            "left out with store.url = memory:, which is new at each start",
        );
    }
    // At this age a session asks again which server it is on, so that even a busy pool notices
    // within the skew that its server has changed.
    let skews = namespaces.iter().filter_map(|namespace| match &namespace.mode {
        Mode::Snowflake { keeper, .. } => Some(keeper.lease.max_clock_skew),
        Mode::Segment { .. } => None,
    });
    let session_max = skews.fold(StoreSettings::default().session_max, Duration::min);
    let settings = StoreSettings {
        url: StoreUrl::new(url),
        url_source,
        worker_table,
        segment_table,
        id,
        max_connections,
        timeout,
        tls,
        tls_ca_file,
        failover,
        session_max,
    };
    let checked = if reader.is_bad("store") { Ok(()) } else { store::check(&settings) };
    if let Err(error) = checked {
        reader.reject(key, format!("an address that can be used: {error}"));
    }
    settings
}

/// Reads the path of the state file, which helps only with leases in a store that can be
/// unavailable.
pub(super) fn read_state_file(
    reader: &mut Reader,
    store: &StoreSettings,
    namespaces: &[NamespaceConfig],
) -> Option<PathBuf> {
    let path = PathBuf::from(reader.text(STATE_FILE)?);
    if store.url.is_memory() {
        reader.reject(STATE_FILE, "left out with store.url = memory:, which is never away");
    } else if !namespaces.iter().any(|of| matches!(of.mode, Mode::Snowflake { .. })) {
        reader.reject(STATE_FILE, "left out where every namespace has mode = segment");
    }
    Some(path)
}

/// Refuses the store `memory:`, except with an assigned worker id: it forgets leases with the
/// process.
fn reject_memory(reader: &mut Reader, key: &str, namespaces: &[NamespaceConfig]) {
    let names = |needs_store: fn(&Mode) -> bool| {
        let those = namespaces.iter().filter(|namespace| needs_store(&namespace.mode));
        those.map(|namespace| namespace.name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let counting = names(|mode| matches!(mode, Mode::Segment { .. }));
    let leasing = names(|mode| matches!(mode, Mode::Snowflake { premise: None, .. }));
    let allowed = if !counting.is_empty() {
        format!(
            "a persistent store with mode = segment for {counting}: memory: forgets which numbers \
             were used"
        )
    } else if !leasing.is_empty() {
        format!(
            "a persistent store, unless worker.id or worker.source is set for every namespace \
             (none is for {leasing}): memory: forgets which worker ids and times were used"
        )
    } else {
        return;
    };
    reader.reject(key, allowed);
}

/// Returns the key of the address, the address, and a function that reads it again if it is in a
/// file.
fn read_url(reader: &mut Reader) -> (&'static str, String, Option<UrlSource>) {
    let mut key = URL;
    let mut url = reader.value(URL, "an address", |text| Some(text.to_owned()));
    let files = [URL_FILE, PASSWORD_FILE].map(|key| reader.text(key));
    let source = files.iter().any(Option::is_some).then(|| {
        let (base, files) = (url.clone(), files.clone());
        UrlSource::new(move || read_again(&base, &files))
    });
    let [url_file, password_file] = files;
    if let Some(path) = url_file {
        if reader.is_given(URL) {
            reader.reject(URL_FILE, "left out beside store.url");
        }
        key = URL_FILE;
        match read_secret(&path) {
            Ok(text) => {
                reader.note_readable(URL_FILE, path.as_ref());
                url = text;
            }
            Err(reason) => reader.reject(key, format!("a readable file with an address: {reason}")),
        }
    }
    if let Some(path) = password_file {
        match read_secret(&path).map(|password| with_password(&url, &password)) {
            Ok(Some(with_password)) => {
                reader.note_readable(PASSWORD_FILE, path.as_ref());
                url = with_password;
            }
            Ok(None) => {
                let address = StoreUrl::new(&url);
                let needed = "the address must name a user and no password";
                let hint = if is_redis(&url) { REDIS_USER } else { "" };
                reader.reject(PASSWORD_FILE, format!("left out, or {needed}: {address}{hint}"));
            }
            Err(reason) => reader.reject(PASSWORD_FILE, format!("a readable file: {reason}")),
        }
    }
    (key, url, source)
}

/// The way out where a Redis has a password (`requirepass`) and no users.
const REDIS_USER: &str = "; the user of a Redis that has only requirepass is default, as in \
                          redis://default@host/0";

/// Returns whether it is the address of a Redis or of Sentinels, with TLS or without.
fn is_redis(url: &str) -> bool {
    url.starts_with("redis") && url.contains("://")
}

/// Reads an address again from its files.
fn read_again(url: &str, [url_file, password_file]: &[Option<String>; 2]) -> Option<StoreUrl> {
    let url = url_file.as_ref().map_or_else(|| Some(url.to_owned()), |it| read_secret(it).ok())?;
    let url = match password_file {
        Some(path) => with_password(&url, &read_secret(path).ok()?)?,
        None => url,
    };
    Some(StoreUrl::new(url))
}

fn read_secret(path: &str) -> Result<String, String> {
    let text = small_file::read_text(path.as_ref()).map_err(|error| error.to_string())?;
    let text = text.trim_end_matches(['\r', '\n']);
    if text.is_empty() { Err("it is empty".into()) } else { Ok(text.to_owned()) }
}
