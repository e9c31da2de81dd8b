//! The name and the address of this machine.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, UdpSocket},
};

/// Returns the source address of this machine's traffic on its default route. Sends no packet.
pub fn outward_ip() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    // 192.0.2.0/24 is reserved for documentation, so it takes the default route. Connecting a UDP
    // socket chooses the source address and sends nothing.
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

/// Returns the host name of this machine; in Kubernetes, the name of the pod.
pub fn name() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = name.or_else(|| std::env::var("HOSTNAME").ok())?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}
