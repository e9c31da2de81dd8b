//! The name and the address of this machine.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, UdpSocket},
};

/// Returns the address that this machine speaks from on its default route. Sends nothing.
pub fn outward_ip() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    // 192.0.2.0/24 is reserved for documentation, so it is routed by default. Connecting a UDP
    // socket sends no packet.
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

/// Returns the name of this machine, which in Kubernetes is the pod's.
pub fn name() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = name.or_else(|| std::env::var("HOSTNAME").ok())?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}
