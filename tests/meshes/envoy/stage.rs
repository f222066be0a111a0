//! A pod with rules and Envoy, and a host outside, joined by a veth pair.

use crate::support::program::{BINARY, PATH, Run};
pub(crate) use crate::support::wait::TIMEOUT;
use crate::support::wait::poll;
use crate::{
    meshes::envoy::proxy::{Envoy, Launch},
    support::{
        namespace::Namespace,
        pod::{APP, joined},
        setting::{Family, Mode, Variant},
        traffic::{Identity, assume},
    },
};

use nix::errno::Errno;
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream},
    process::Command,
    time::Duration,
};

/// Time limit of a run. `timeout` enforces it, because a handler of SIGCHLD would interrupt other tests.
pub(crate) const RUN_LIMIT: &str = "30s";
/// The two sides use separate ranges of client ports, so a port identifies the caller's side.
const PORTS_OUTSIDE: &str = "20000 29999";
const PORTS_IN_POD: &str = "30000 60999";

pub(crate) const RESOLVER: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);
pub(crate) const RESOLVER_V6: Ipv6Addr = Ipv6Addr::new(0xfd96, 0, 0, 0, 0, 0, 0, 0x10);

pub(crate) struct Stage {
    pub(crate) mode: Mode,
    pub(crate) inside: Namespace,
    pub(crate) outside: Namespace,
    pub(crate) envoy: Envoy,
}

impl Stage {
    pub(crate) fn new(variant: Variant, mode: Mode) -> Self {
        Self::with(mode, |inside| apply(inside, variant, mode), Launch::of(mode))
    }

    /// A stage whose rules are set by `set_rules` before Envoy is launched.
    pub(crate) fn with(mode: Mode, set_rules: impl FnOnce(&Namespace), launch: Launch) -> Self {
        let (inside, outside) = joined();
        for place in ["10.99.0.1", "fd99::1", "10.96.0.10", "fd96::10"] {
            outside
                .ip(&format!("addr add {place} dev lo {}", if place.contains(':') { "nodad" } else { "" }));
        }
        inside.set("ipv4/ip_local_port_range", PORTS_IN_POD);
        outside.set("ipv4/ip_local_port_range", PORTS_OUTSIDE);
        set_rules(&inside);
        let envoy = Envoy::start(&inside, launch);
        Self { mode, inside, outside, envoy }
    }

    pub(crate) fn dial(&self, identity: Identity, to: SocketAddr) -> io::Result<TcpStream> {
        dial(&self.inside, identity, to, TIMEOUT)
    }

    pub(crate) fn dial_from_outside(&self, to: SocketAddr) -> io::Result<TcpStream> {
        dial(&self.outside, APP, to, TIMEOUT)
    }

    /// The injected proxy's identity; with TPROXY it runs as root, identified only by its group.
    pub(crate) fn proxy_identity(&self) -> Identity {
        crate::support::pod::proxy_identity(self.mode)
    }

    pub(crate) fn rules(&self) -> String {
        let legacy = ["iptables-legacy-save", "ip6tables-legacy-save"].map(|save| {
            // Listing legacy tables would create them.
            let made = self.inside.run(|| std::fs::read_to_string("/proc/net/ip_tables_names"));
            if made.unwrap_or_default().is_empty() { String::new() } else { self.inside.stdout(save, &[]) }
        });
        self.inside.stdout("nft", &["list", "ruleset"]) + &legacy.concat()
    }
}

pub(crate) fn dial(
    host: &Namespace,
    identity: Identity,
    to: SocketAddr,
    patience: Duration,
) -> io::Result<TcpStream> {
    let stream = host.run(|| {
        assume(identity);
        TcpStream::connect_timeout(&to, patience)
    })?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn apply(inside: &Namespace, variant: Variant, mode: Mode) {
    let backend = variant.backend();
    let servers = format!("{RESOLVER},{RESOLVER_V6}");
    let output = Command::new("timeout")
        .env_clear()
        .env("PATH", PATH)
        .args([RUN_LIMIT, BINARY])
        .args(["apply", "--network-namespace", &inside.path(), "--backend", backend])
        .args(["-m", mode.name(), "-b", "*", "-i", "*", "--dual-stack"])
        .args(["--redirect-dns", "--dns-servers", &servers])
        .outcome();
    output.with(0, &format!("{backend} {}", mode.name()));
}

pub(crate) fn pod(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(10, 77, 0, 2).into(),
        Family::V6 => Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2).into(),
    }
}

pub(crate) fn service(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(10, 99, 0, 1).into(),
        Family::V6 => Ipv6Addr::new(0xfd99, 0, 0, 0, 0, 0, 0, 1).into(),
    }
}

/// The proxy's source address for deliveries in REDIRECT mode.
pub(crate) fn six(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(127, 0, 0, 6).into(),
        Family::V6 => Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, 6).into(),
    }
}

pub(crate) fn until<T>(ask: impl FnMut() -> Option<T>) -> Option<T> {
    poll(TIMEOUT, ask)
}

/// False for a timeout.
pub(crate) fn is_cut_off(error: &io::Error) -> bool {
    let number = error.raw_os_error().map(Errno::from_raw);
    matches!(number, Some(Errno::ECONNREFUSED | Errno::ECONNRESET | Errno::EPIPE))
        || error.kind() == io::ErrorKind::UnexpectedEof
}
