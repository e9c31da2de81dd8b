//! Protection of the connections to a store's server.

/// How the connections to a store's server are protected. `docs/security.md` compares the modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsMode {
    /// TLS, with a certificate that a trusted authority issued for the server's name.
    Verify,
    /// TLS with any certificate: an attacker between node and server can pose as the server.
    Require,
    /// TLS with any certificate, unless the server is on this machine and offers none.
    #[default]
    Prefer,
    /// No TLS: the server may request the password in clear text.
    Off,
}

impl TlsMode {
    /// Every mode, the safest first.
    pub const ALL: [Self; 4] = [Self::Verify, Self::Require, Self::Prefer, Self::Off];

    /// Returns its name in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Verify => "verify",
            Self::Require => "require",
            Self::Prefer => "prefer",
            Self::Off => "off",
        }
    }

    /// Returns the mode with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

/// How the connections to one server are protected.
#[cfg(any(feature = "mysql", feature = "postgres"))]
#[derive(Clone, Copy, Debug)]
pub(super) struct Protection {
    pub(super) mode: TlsMode,
    /// Whether the server is on this machine.
    pub(super) is_local: bool,
}

#[cfg(any(feature = "mysql", feature = "postgres"))]
impl Protection {
    /// Returns whether no other server on the network can pose as this one.
    pub(super) fn is_verified(self) -> bool {
        self.is_local || self.mode == TlsMode::Verify
    }
}

/// Returns whether a host is on this machine, so that no attacker can be in between: `localhost`, a
/// loopback address, or the path of a Unix socket.
#[cfg(any(feature = "kubernetes", feature = "mysql", feature = "postgres", feature = "redis"))]
pub(super) fn is_local(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host.starts_with('/')
        || host.eq_ignore_ascii_case("localhost")
        || address.is_ok_and(|address| address.is_loopback())
}

/// Installs a default cryptography provider for drivers that use the process's one, also if several
/// are linked. Keeps one that the application installed before.
#[cfg(any(feature = "kubernetes", feature = "redis"))]
pub(super) fn choose_cryptography() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_found_by_their_names() {
        for mode in TlsMode::ALL {
            assert_eq!(TlsMode::by_name(mode.name()), Some(mode));
        }
        assert_eq!(TlsMode::by_name("Verify"), None);
    }

    #[test]
    #[cfg(any(feature = "kubernetes", feature = "mysql", feature = "postgres", feature = "redis"))]
    fn only_this_machine_is_local() {
        for host in ["localhost", "LocalHost", "127.0.0.1", "127.8.9.1", "[::1]", "::1", "/run/db"]
        {
            assert!(is_local(host), "{host}");
        }
        for host in [
            "db",
            "10.0.0.1",
            "0.0.0.0",
            "localhost.example.org",
            "127.0.0.1.example.org",
            "[::]",
            "[::ffff:127.0.0.1]",
            "",
        ] {
            assert!(!is_local(host), "{host}");
        }
    }
}
