//! Network of a sandbox: two unnamed network namespaces connected by a veth pair, in a PID namespace that ends with this
//! process. The machine's own namespace is not changed.

use super::options::SandboxFailure;
use mesh::DNS_PORT;
use nix::libc;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::{fs, io, path::Path};
use sys::namespace::{self, OpenNamespace};
use sys::{fork, link::NamespaceLinks, mount};

pub(super) const POD_V4: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
pub(super) const WORLD_V4: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
pub(super) const POD_V6: Ipv6Addr = Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, 1);
pub(super) const WORLD_V6: Ipv6Addr = Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, 2);

const VETH: &str = "eth0";

/// Addresses of the pod and of the world, with the prefix length, in each family.
fn ends(ipv6: bool) -> Vec<(IpAddr, IpAddr, u8)> {
    let v6 = ipv6.then_some((POD_V6.into(), WORLD_V6.into(), 64));
    [(POD_V4.into(), WORLD_V4.into(), 24)].into_iter().chain(v6).collect()
}

/// True if the kernel was built or booted without IPv6 (`ipv6.disable=1`), and so has no IPv6 sockets.
pub(super) fn lacks_ipv6() -> bool {
    let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0));
    socket.is_err_and(|error| error.raw_os_error() == Some(libc::EAFNOSUPPORT))
}

pub fn addresses() -> Vec<IpAddr> {
    vec![POD_V4.into(), POD_V6.into()]
}

pub fn name_servers(ipv6: bool) -> Vec<SocketAddr> {
    ends(ipv6).into_iter().map(|(_, world, _)| SocketAddr::new(world, DNS_PORT.number())).collect()
}

/// Leaves the machine's network and mount namespaces and, for child processes, its PID namespace. Returns true if mounts stay
/// inside.
pub(super) fn leave() -> Result<bool, SandboxFailure> {
    namespace::enter_new()
        .and_then(|()| mount::leave())
        .and_then(|private| fork::new_process_namespace().map(|()| private))
        .map_err(SandboxFailure::Leave)
}

/// Connects the current network namespace to a new one, the world. If `mounts` stay inside, `/proc` and
/// `/etc/resolv.conf` become the pod's own.
pub(super) fn create(ipv6: bool, mounts: bool) -> Result<OpenNamespace, SandboxFailure> {
    if mounts {
        cover_files(ipv6);
    }
    connect(ipv6).map_err(SandboxFailure::Network)
}

fn cover_files(ipv6: bool) {
    // The machine's `/proc` numbers processes in its own PID namespace.
    if let Err(error) = mount::proc() {
        tracing::debug!(target: "sandbox", "cannot mount /proc: {error}");
    }
    let servers =
        name_servers(ipv6).iter().map(|server| format!("nameserver {}\n", server.ip())).collect::<String>();
    if let Err(error) = mount::cover(Path::new("/etc/resolv.conf"), &servers) {
        tracing::debug!(target: "sandbox", "cannot replace /etc/resolv.conf: {error}");
    }
}

fn connect(ipv6: bool) -> io::Result<OpenNamespace> {
    let pod = OpenNamespace::own()?;
    namespace::enter_new()?;
    let world = OpenNamespace::own()?;
    pod.enter()?;
    let mut links = NamespaceLinks::open()?;
    links.veth_pair(VETH, &world)?;
    links.up("lo")?;
    links.up(VETH)?;
    for (own, other, length) in ends(ipv6) {
        links.address(VETH, own, length)?;
        links.default_by(other)?;
    }
    // Applications in containers often listen on ports reserved for root elsewhere. A failure only prevents that.
    let _ = fs::write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
    world.enter()?;
    let mut links = NamespaceLinks::open()?;
    links.up("lo")?;
    links.up(VETH)?;
    for (_, own, length) in ends(ipv6) {
        links.address(VETH, own, length)?;
        links.answer_at_all(own)?;
    }
    pod.enter()?;
    Ok(world)
}
