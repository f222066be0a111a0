//! Listening sockets of the network namespace and their processes, over `sock_diag` (`linux/inet_diag.h`). If the kernel lacks
//! that module, `/proc` is read, which lacks `IP_TRANSPARENT`, a TPROXY requirement.

use super::message::{attribute, ip, u32_at};
use super::netlink::NetlinkSocket;
use super::process::{self, field};
use super::{header::*, link::interface, user::OwnerIds};
use rules::{Protocol, nft::protocol_number};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::{collections::BTreeMap, fs, io};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListeningSocket {
    pub protocol: Protocol,
    pub port: u16,
    /// Unspecified (`0.0.0.0`, `::`) for all addresses.
    pub address: IpAddr,
    /// Interface that the socket is bound to (`SO_BINDTODEVICE`) and receives from; not shown by `/proc`.
    pub device: Option<String>,
    /// True if a listener at `::` accepts IPv4 too.
    pub is_dual: bool,
    /// Owner, in the numbers used in rules.
    pub uid: u32,
    pub inode: u64,
    /// True with `IP_TRANSPARENT`, which TPROXY requires; `None` if the kernel does not show it.
    pub is_transparent: Option<bool>,
}

impl ListeningSocket {
    pub fn hears(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (own, other) if own == other => true,
            (IpAddr::V4(own), IpAddr::V4(_)) => own.is_unspecified(),
            (IpAddr::V6(own), IpAddr::V6(_)) => own.is_unspecified(),
            (IpAddr::V6(own), IpAddr::V4(other)) => {
                own.to_ipv4_mapped() == Some(other)
                    || own.to_ipv4_mapped().is_some_and(|own| own.is_unspecified())
                    || (own.is_unspecified() && self.is_dual)
            }
            (IpAddr::V4(_), IpAddr::V6(_)) => false,
        }
    }
}

const FAMILIES: [u8; 2] = [AF_INET, AF_INET6];

/// Every listener of the thread's network namespace, by protocol and port.
pub fn all() -> io::Result<Vec<ListeningSocket>> {
    let mut found = Vec::new();
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        for family in FAMILIES {
            found.extend(match by_netlink(protocol, family) {
                Ok(listeners) => listeners,
                Err(refused) => by_proc(protocol, family).map_err(|_| refused)?,
            });
        }
    }
    let ids = OwnerIds::here();
    found.iter_mut().for_each(|listener| listener.uid = ids.user_in_rules(listener.uid));
    found.sort();
    Ok(found)
}

/// State of listening sockets; a UDP socket listens if it is not connected.
const fn listening(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::Tcp => TCP_LISTEN,
        Protocol::Udp => TCP_CLOSE,
    }
}

/// `struct inet_diag_req_v2` up to the states; the zeros after them select all sockets.
const REQUEST: usize = 56;

fn by_netlink(protocol: Protocol, family: u8) -> io::Result<Vec<ListeningSocket>> {
    let mut head = [0; REQUEST];
    head[0] = family;
    head[1] = protocol_number(protocol);
    head[4..8].copy_from_slice(&(1u32 << listening(protocol)).to_ne_bytes());
    let mut socket = NetlinkSocket::open(NETLINK_SOCK_DIAG)?;
    socket.dump(SOCK_DIAG_BY_FAMILY, &head, |payload| listener(protocol, payload))
}

/// `struct inet_diag_msg`: family, state, two bytes, `struct inet_diag_sockid`, five numbers.
const ANSWER: usize = 72;
const SOURCE_PORT: usize = 4;
const SOURCE: usize = 8;
const DEVICE: usize = 40;
const UID: usize = 64;
const INODE: usize = 68;

fn listener(protocol: Protocol, payload: &[u8]) -> Option<ListeningSocket> {
    let (head, attributes) = payload.split_first_chunk::<ANSWER>()?;
    let source = &head[SOURCE..SOURCE + 16];
    let address = ip(&source[..if head[0] == AF_INET { 4 } else { 16 }])?;
    let only_ipv6 = attribute(attributes, INET_DIAG_SKV6ONLY).is_some_and(|only| only == [1]);
    Some(ListeningSocket {
        protocol,
        port: u16::from_be_bytes([head[SOURCE_PORT], head[SOURCE_PORT + 1]]),
        address,
        device: u32_at(head, DEVICE).filter(|index| *index != 0).map(interface),
        is_dual: address == Ipv6Addr::UNSPECIFIED && !only_ipv6,
        uid: u32_at(head, UID)?,
        inode: u32_at(head, INODE)?.into(),
        is_transparent: attribute(attributes, INET_DIAG_SOCKOPT).and_then(transparent),
    })
}

/// Sixth bit of `struct inet_diag_sockopt`, in the machine's bit-field order.
fn transparent(options: &[u8]) -> Option<bool> {
    let bit = if cfg!(target_endian = "little") { 1 << 5 } else { 1 << 2 };
    options.first().map(|byte| byte & bit != 0)
}

fn by_proc(protocol: Protocol, family: u8) -> io::Result<Vec<ListeningSocket>> {
    let listeners = in_proc(protocol, family)?.into_iter().filter(|(state, _)| *state == listening(protocol));
    Ok(listeners.map(|(_, listener)| listener).collect())
}

/// Sockets in any state, each with its state, from `/proc/net`.
fn in_proc(protocol: Protocol, family: u8) -> io::Result<Vec<(u8, ListeningSocket)>> {
    let six = if family == AF_INET6 { "6" } else { "" };
    match fs::read_to_string(format!("/proc/thread-self/net/{protocol}{six}")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && family == AF_INET6 => Ok(Vec::new()),
        text => Ok(text?.lines().skip(1).filter_map(|line| listed(protocol, line)).collect()),
    }
}

/// User of the socket with this local address, in our numbers. An unconnected socket has only a port.
pub fn user_of(protocol: Protocol, own: SocketAddr) -> Option<u32> {
    let find_in = |family, ip: IpAddr| {
        let mut sockets = in_proc(protocol, family).ok()?.into_iter().map(|(_, socket)| socket);
        let is_own = |address: IpAddr| address == ip || address.is_unspecified();
        sockets.find(|socket| socket.port == own.port() && is_own(socket.address)).map(|socket| socket.uid)
    };
    match own.ip() {
        // An IPv6 socket, like Java's, can reach IPv4 too, from a mapped address (`ipv6(7)`).
        IpAddr::V4(ip) => {
            find_in(AF_INET, ip.into()).or_else(|| find_in(AF_INET6, ip.to_ipv6_mapped().into()))
        }
        IpAddr::V6(ip) => find_in(AF_INET6, ip.into()),
    }
}

/// `  0: 0100007F:3A98 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1337  0 4711 ..`
fn listed(protocol: Protocol, line: &str) -> Option<(u8, ListeningSocket)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let state = u8::from_str_radix(words.get(3)?, 16).ok()?;
    let (address, port) = words.get(1)?.split_once(':')?;
    let address = proc_address(address)?;
    let socket = ListeningSocket {
        protocol,
        port: u16::from_str_radix(port, 16).ok()?,
        address,
        device: None,
        // Not shown; assumes the default.
        is_dual: address == Ipv6Addr::UNSPECIFIED,
        uid: words.get(7)?.parse().ok()?,
        inode: words.get(9)?.parse().ok()?,
        is_transparent: None,
    };
    Some((state, socket))
}

/// Parses an address, printed as 32-bit numbers in the machine's byte order.
fn proc_address(text: &str) -> Option<IpAddr> {
    let words = text.as_bytes().chunks(8).map(|word| {
        let number = u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()?;
        Some(number.to_ne_bytes())
    });
    ip(&words.collect::<Option<Vec<_>>>()?.concat())
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketHolder {
    /// In our PID namespace.
    pub id: u32,
    /// Cut to 15 bytes by the kernel.
    pub name: String,
    /// Effective group.
    pub gid: Option<u32>,
}

/// Visible holders of these sockets. A shared socket belongs to the oldest process; process IDs wrap around and don't show age.
pub fn holders(inodes: &[u64]) -> BTreeMap<u64, SocketHolder> {
    holders_among(&process::folders(Path::new("/proc")).unwrap_or_default(), inodes)
}

/// Like [`holders`], among these processes, given by their folders.
pub fn holders_among(processes: &[PathBuf], inodes: &[u64]) -> BTreeMap<u64, SocketHolder> {
    let mut found: BTreeMap<u64, (u64, SocketHolder)> = BTreeMap::new();
    for folder in processes {
        let Some(id) = folder.file_name().and_then(|name| name.to_str()?.parse().ok()) else { continue };
        for inode in process::sockets(folder).filter(|inode| inodes.contains(inode)) {
            let Some(started) = process::started(folder) else { continue };
            if found.get(&inode).is_none_or(|(earlier, holder)| (*earlier, holder.id) > (started, id)) {
                let status = process::status(folder).unwrap_or_default();
                let name = process::name(&status).unwrap_or_default();
                let gid = field(&status, "Gid:").and_then(|gids| gids.split('\t').nth(1)?.parse().ok());
                found.insert(inode, (started, SocketHolder { id, name, gid }));
            }
        }
    }
    found.into_iter().map(|(inode, (_, holder))| (inode, holder)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace;
    use std::{
        net::{TcpListener, TcpStream, UdpSocket},
        os::{fd::AsFd, unix::fs::symlink},
        process::{self, Command},
    };

    fn in_a_namespace(check: impl FnOnce() + Send) {
        namespace::within_new(|| {
            let up = Command::new("ip").args(["link", "set", "lo", "up"]).status().expect("ip starts");
            assert!(up.success(), "lo: {up}");
            check();
        })
        .expect("a network namespace: tests run as root");
    }

    #[test]
    fn listeners_are_found_by_netlink_and_by_proc() {
        in_a_namespace(|| {
            let content = (
                TcpListener::bind("127.0.0.1:15001").expect("IPv4"),
                TcpListener::bind("[::]:15006").expect("both"),
                TcpListener::bind("[::1]:15007").expect("IPv6"),
                UdpSocket::bind("127.0.0.1:15053").expect("UDP"),
            );
            let connection = TcpStream::connect("127.0.0.1:15001").expect("it listens");
            let connected = UdpSocket::bind("127.0.0.1:15054").expect("UDP");
            connected.connect("127.0.0.1:15053").expect("a destination");
            let found = all().expect("they are listed");
            let listed: Vec<_> = found.iter().map(|l| (l.protocol, l.port, l.address.to_string())).collect();
            let expected = [
                (Protocol::Tcp, 15001, "127.0.0.1".to_owned()),
                (Protocol::Tcp, 15006, "::".to_owned()),
                (Protocol::Tcp, 15007, "::1".to_owned()),
                (Protocol::Udp, 15053, "127.0.0.1".to_owned()),
            ];
            assert_eq!(listed, expected);
            assert!(found.iter().all(|listener| listener.uid == 0 && listener.is_transparent == Some(false)));
            assert_eq!(
                found.iter().map(|listener| listener.is_dual).collect::<Vec<_>>(),
                [false, true, false, false]
            );

            let mut by_proc: Vec<ListeningSocket> = [Protocol::Tcp, Protocol::Udp]
                .into_iter()
                .flat_map(|protocol| FAMILIES.map(|family| by_proc(protocol, family).expect("/proc")))
                .flatten()
                .collect();
            by_proc.sort();
            let less =
                found.iter().map(|listener| ListeningSocket { is_transparent: None, ..listener.clone() });
            assert_eq!(by_proc, less.collect::<Vec<_>>());

            let holders = holders(&found.iter().map(|listener| listener.inode).collect::<Vec<_>>());
            assert_eq!(holders.len(), 4);
            assert!(holders.values().all(|holder| (holder.id, holder.gid) == (process::id(), Some(0))));
            drop((content, connection, connected));
        });
    }

    #[test]
    fn sockets_of_this_test_are_held_by_this_process() {
        in_a_namespace(|| {
            let own = nix::unistd::getuid().as_raw();
            for address in ["127.0.0.1:0", "[::1]:0"] {
                let tcp = TcpListener::bind(address).expect("a port is free");
                assert_eq!(user_of(Protocol::Tcp, tcp.local_addr().expect("bound")), Some(own), "{address}");
                let udp = UdpSocket::bind(address).expect("a port is free");
                assert_eq!(user_of(Protocol::Udp, udp.local_addr().expect("bound")), Some(own), "{address}");
            }
            for address in ["[::ffff:127.0.0.1]:0", "[::]:0"] {
                let udp = UdpSocket::bind(address).expect("a port is free");
                let port = udp.local_addr().expect("bound").port();
                let mapped = SocketAddr::from(([127, 0, 0, 1], port));
                assert_eq!(user_of(Protocol::Udp, mapped), Some(own), "{address}");
            }
            assert_eq!(user_of(Protocol::Tcp, "192.0.2.1:1".parse().expect("an address")), None);
        });
    }

    /// Process IDs wrap around, so a child's can be lower than its parent's.
    #[test]
    fn shared_socket_is_held_by_the_oldest_process() {
        let root = testkit::folder::Folder::new("holders");
        let folder = |id: u32, started: u64| {
            let folder = root.join(id.to_string());
            fs::create_dir_all(folder.join("fd")).expect("a folder");
            symlink("socket:[5]", folder.join("fd/3")).expect("a link");
            fs::write(folder.join("status"), format!("Name:\tp{id}\nGid:\t0\t{id}\t0\t0\n")).expect("status");
            let stat = format!("{id} (a) b) S {}{started} 0", "0 ".repeat(18));
            fs::write(folder.join("stat"), stat).expect("stat");
            folder
        };
        let folders = [folder(7, 200), folder(900, 100), folder(901, 100)];
        let found = holders_among(&folders, &[5, 6]);
        let oldest = SocketHolder { id: 900, name: "p900".to_owned(), gid: Some(900) };
        assert_eq!(found, BTreeMap::from([(5, oldest)]));
    }

    #[test]
    fn transparent_option_is_reported() {
        use nix::sys::socket::{
            setsockopt,
            sockopt::{BindToDevice, IpTransparent},
        };
        in_a_namespace(|| {
            let listener = TcpListener::bind("127.0.0.1:15006").expect("IPv4");
            setsockopt(&listener.as_fd(), IpTransparent, &true).expect("root may");
            setsockopt(&listener.as_fd(), BindToDevice, &"lo".into()).expect("root may");
            let found = all().expect("they are listed");
            assert_eq!(found.iter().map(|l| l.is_transparent).collect::<Vec<_>>(), [Some(true)]);
            assert_eq!(found[0].device.as_deref(), Some("lo"));
        });
    }

    #[test]
    fn listeners_receive_packets_to_their_address() {
        let hears = |own: &str, is_dual, other: &str| {
            let address = own.parse().expect("an address");
            let listener = ListeningSocket {
                protocol: Protocol::Tcp,
                port: 1,
                address,
                device: None,
                is_dual,
                uid: 0,
                inode: 0,
                is_transparent: None,
            };
            listener.hears(other.parse().expect("an address"))
        };
        assert!(hears("0.0.0.0", false, "127.0.0.1") && hears("127.0.0.1", false, "127.0.0.1"));
        assert!(
            hears("::", true, "10.0.0.1")
                && hears("::", false, "fd00::1")
                && hears("::ffff:1.2.3.4", false, "1.2.3.4")
        );
        assert!(!hears("::", false, "127.0.0.1") && !hears("0.0.0.0", false, "::1"));
        assert!(!hears("10.0.0.1", false, "127.0.0.1") && !hears("::1", false, "127.0.0.1"));
    }
}
