//! What the machine says of itself: the one place in the core that asks it.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, UdpSocket},
};

/// The address that this machine speaks from: towards its default route. Nothing is sent.
pub fn outward_ip() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    // 192.0.2.0/24 is reserved for documentation, so it is routed by default. Connecting a UDP
    // socket sends no packet.
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

/// The name of this machine, which in Kubernetes is the pod's.
pub fn name() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = name.or_else(|| std::env::var("HOSTNAME").ok())?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}
