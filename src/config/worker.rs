//! Which worker ids this node may lease, from the `worker` section, and the facts about this
//! machine that decide it and the holder's label.

use std::{
    fs,
    net::{IpAddr, SocketAddr},
    ops::RangeInclusive,
};

use super::reader::Reader;
use crate::core::{
    host,
    layout::Layout,
    worker_id::{WorkerIdError, WorkerIdSource},
};

/// The ways to choose worker ids, by their keys. They exclude each other.
const ALTERNATIVES: [&[&str]; 3] = [&[ID], &[SOURCE], &[MIN_ID, MAX_ID]];
const ID: &str = "worker.id";
const SOURCE: &str = "worker.source";
const MIN_ID: &str = "worker.min_id";
const MAX_ID: &str = "worker.max_id";

/// Reads which worker ids the node may lease. For an assigned one, also returns the premise under
/// which it is unique without a store; `None` if the node leases any free one.
pub(super) fn read(
    reader: &mut Reader,
    layout: &Layout,
    host: &Host,
) -> (RangeInclusive<u64>, Option<String>) {
    let alternative = read_alternative(reader);
    let source = match alternative {
        ID => reader.given_number(ID).map(|id| Ok(WorkerIdSource::Fixed(id))),
        SOURCE => reader.given(SOURCE, "ip or hostname", |text| match text {
            "ip" => Some(WorkerIdSource::ipv4_low_bits_of(host.ip)),
            "hostname" => Some(WorkerIdSource::trailing_ordinal_of(host.name.clone())),
            _ => None,
        }),
        _ => None,
    };
    let given = source.map(|source| {
        let source = source?;
        Ok((source.worker_id(layout)?, source.premise()))
    });
    let (ids, premise) = match given {
        Some(Ok((id, premise))) => (id..=id, Some(premise)),
        None if alternative == MIN_ID => {
            let min = reader.given_number(MIN_ID).unwrap_or(1);
            let max = reader.given_number(MAX_ID).unwrap_or(layout.largest_worker());
            (min..=max, None)
        }
        refused => {
            if let Some(Err(error)) = refused {
                reject(reader, alternative, &error);
            }
            (layout.smallest_worker()..=layout.smallest_worker(), Some(String::new()))
        }
    };
    reader.resolve(MIN_ID, ids.start());
    reader.resolve(MAX_ID, ids.end());
    (ids, premise)
}

/// Returns the first key of the alternative that the configuration uses. A key of the namespace
/// overrides inherited keys of other alternatives. Keys of two alternatives in one place are a
/// problem.
fn read_alternative(reader: &mut Reader) -> &'static str {
    let any =
        |is: &dyn Fn(&str) -> bool| ALTERNATIVES.iter().find(|keys| keys.iter().any(|key| is(key)));
    let own = any(&|key| reader.is_own(key));
    let Some(used) = own.or_else(|| any(&|key| reader.is_given(key))) else { return MIN_ID };
    for key in ALTERNATIVES.concat() {
        let clashes = reader.is_own(key) || (own.is_none() && reader.is_given(key));
        if clashes && !used.contains(&key) {
            reader.reject(key, format!("left out beside {}", used[0]));
        }
    }
    used[0]
}

fn reject(reader: &mut Reader, key: &str, error: &WorkerIdError) {
    let allowed = match error {
        // The range is that of a default layout if the configured one is bad: report only the
        // layout.
        WorkerIdError::OutOfRange { .. } if reader.is_bad("layout") => return,
        WorkerIdError::OutOfRange { smallest, largest, .. } if key == ID => {
            format!("{smallest} to {largest}")
        }
        error => format!("another source, or worker.id instead: {error}"),
    };
    reader.reject(key, allowed);
}

/// Facts about this machine, as far as the operating system reports them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// The source address of traffic on the default route.
    pub ip: Option<IpAddr>,
    /// The hardware address of an interface.
    pub mac: Option<String>,
    /// The host name.
    pub name: Option<String>,
}

impl Host {
    /// Asks the operating system. A fact that it does not report stays `None`.
    pub fn detect() -> Self {
        Self { ip: host::outward_ip(), mac: first_mac(), name: host::name() }
    }

    /// Returns the default holder: `{ip}:{port}#{mac}`.
    pub fn holder(&self, listen: SocketAddr) -> String {
        let ip = Some(listen.ip()).filter(|ip| !ip.is_unspecified() && !ip.is_loopback());
        let ip = ip.or(self.ip).unwrap_or(listen.ip());
        let mac = self.mac.as_deref().unwrap_or("unknown");
        format!("{}#{mac}", SocketAddr::new(ip, listen.port()))
    }
}

fn first_mac() -> Option<String> {
    let mut interfaces: Vec<_> =
        fs::read_dir("/sys/class/net").ok()?.filter_map(Result::ok).map(|e| e.path()).collect();
    interfaces.sort();
    interfaces.iter().find_map(|interface| {
        let address = fs::read_to_string(interface.join("address")).ok()?;
        let address = address.trim();
        let is_set = address.bytes().any(|byte| byte != b'0' && byte != b':');
        (address.len() == 17 && is_set).then(|| address.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_holder_has_address_port_and_mac() {
        let host = Host {
            ip: Some([10, 0, 0, 7].into()),
            mac: Some("02:42:ac:11:00:02".into()),
            name: None,
        };
        let holder = |listen: &str| host.holder(listen.parse().expect("an address"));
        assert_eq!(holder("[::]:8080"), "10.0.0.7:8080#02:42:ac:11:00:02");
        assert_eq!(holder("127.0.0.1:80"), "10.0.0.7:80#02:42:ac:11:00:02");
        assert_eq!(holder("10.1.1.1:80"), "10.1.1.1:80#02:42:ac:11:00:02");
        let unknown = Host::default().holder("127.0.0.1:8080".parse().expect("an address"));
        assert_eq!(unknown, "127.0.0.1:8080#unknown");
    }
}
