//! Facts about this machine, for the holder's label and for worker ids.

use std::{
    fs,
    net::{IpAddr, SocketAddr},
};

use crate::core::host;

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
