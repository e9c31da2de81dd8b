//! The `store` section: where worker ids are leased.

use std::{fs, time::Duration};

use super::{
    namespace::NamespaceRead,
    reader::Reader,
    secret::{hide_password, with_password},
};
use crate::store::{self, StoreSettings, is_valid_table_name};

pub(super) fn read(reader: &mut Reader, namespaces: &[NamespaceRead]) -> StoreSettings {
    let table = "a name that matches [A-Za-z_][A-Za-z0-9_]{0,47}";
    let name = |text: &str| is_valid_table_name(text).then(|| text.to_owned());
    let worker_table = reader.value("store.worker_table", table, name);
    let segment_table = reader.value("store.segment_table", table, name);
    if worker_table == segment_table {
        reader.reject("store.segment_table", "another name than store.worker_table");
    }
    let max_connections = reader.number("store.max_connections", 1..=100);
    let timeout =
        reader.duration("store.timeout", Duration::from_millis(100)..=Duration::from_secs(10));
    let url = read_url(reader);
    if url == "memory:" {
        refuse_forgetting(reader, namespaces);
    }
    let settings = StoreSettings { url, worker_table, segment_table, max_connections, timeout };
    let is_bad = reader.is_bad("store.");
    if let (false, Err(reason)) = (is_bad, store::check(&settings)) {
        reader.reject(url_key(reader), format!("an address that can be used: {reason}"));
    }
    settings
}

/// The key that the address is from.
fn url_key(reader: &Reader) -> &'static str {
    if reader.is_given("store.url_file") { "store.url_file" } else { "store.url" }
}

/// `memory:` is for worker ids that are given.
fn refuse_forgetting(reader: &mut Reader, namespaces: &[NamespaceRead]) {
    let key = url_key(reader);
    let names = |is_meant: &dyn Fn(&NamespaceRead) -> bool| {
        let meant = namespaces.iter().filter(|namespace| is_meant(namespace));
        meant.map(|namespace| namespace.config.name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let counted = names(&|namespace| namespace.segment.is_some());
    let leased = names(&|namespace| namespace.segment.is_none() && !namespace.worker_is_given);
    if !counted.is_empty() {
        let because = "memory: forgets which numbers were used";
        reader.reject(
            key,
            format!(
                "a store that outlives the process, since mode = segment for {counted}: {because}"
            ),
        );
    } else if !leased.is_empty() {
        reader.reject(
            key,
            format!(
                "a store that outlives the process, unless worker.id or worker.source is set for \
                 every namespace (none is for {leased}): memory: forgets which worker ids and \
                 times were used"
            ),
        );
    }
}

fn read_url(reader: &mut Reader) -> String {
    let mut key = "store.url";
    let mut url = reader.value(key, "an address", |text| Some(text.to_owned()));
    if let Some(path) = reader.text("store.url_file") {
        if reader.is_given("store.url") {
            reader.reject("store.url_file", "left out beside store.url");
        }
        key = "store.url_file";
        match read_secret(&path) {
            Ok(text) => url = text,
            Err(reason) => reader.reject(key, format!("a readable file with an address: {reason}")),
        }
    }
    check_scheme(reader, key, &url);
    if let Some(path) = reader.text("store.password_file") {
        let with = read_secret(&path).map(|password| with_password(&url, &password));
        match with {
            Ok(Some(with)) => url = with,
            Ok(None) => reader.reject(
                "store.password_file",
                format!(
                    "left out, or the address must name a user and no password: {}",
                    hide_password(&url)
                ),
            ),
            Err(reason) => {
                reader.reject("store.password_file", format!("a readable file: {reason}"));
            }
        }
    }
    url
}

fn check_scheme(reader: &mut Reader, key: &str, url: &str) {
    let schemes: Vec<&str> = [
        ("sqlite://", cfg!(feature = "sqlite")),
        ("mysql://", cfg!(feature = "mysql")),
        ("mariadb://", cfg!(feature = "mysql")),
        ("postgres://", cfg!(feature = "postgres")),
        ("postgresql://", cfg!(feature = "postgres")),
        ("redis://", cfg!(feature = "redis")),
        ("rediss://", cfg!(feature = "redis")),
        ("memory:", true),
    ]
    .into_iter()
    .filter_map(|(scheme, is_built_in)| is_built_in.then_some(scheme))
    .collect();
    let fits = |scheme: &&str| match *scheme {
        "memory:" => url == "memory:",
        scheme => url.len() > scheme.len() && url.starts_with(scheme),
    };
    if !reader.is_bad(key) && !schemes.iter().any(fits) {
        reader.reject(key, format!("an address that begins with {}", schemes.join(" or ")));
    }
}

fn read_secret(path: &str) -> Result<String, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let text = text.trim_end_matches(['\r', '\n']);
    if text.is_empty() { Err("it is empty".into()) } else { Ok(text.to_owned()) }
}
