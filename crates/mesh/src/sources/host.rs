//! Host facts that the configuration needs.

use super::Raw;
use crate::istio::defaults::{PROXY_ID, PROXY_USER};
use crate::settings::Setting;
use rules::{Family, Gid, Uid};
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// Placeholders for a pod's unknown addresses (RFC 5737, RFC 3849). Reports mention their use.
pub const STAND_IN: (Ipv4Addr, Ipv6Addr) =
    (Ipv4Addr::new(198, 51, 100, 7), Ipv6Addr::new(0x2001, 0xdb8, 7, 0, 0, 0, 0, 7));

/// Facts about the machine and the network namespace, used unless declared. A fact that can't be read is an error.
pub trait Host {
    /// `None` if there is no such user, or names are meaningless here: a host that does not run the pod has other users.
    fn user(&self, _name: &str) -> io::Result<Option<Uid>> {
        Ok(None)
    }

    fn has_user(&self, _uid: Uid) -> io::Result<bool> {
        Ok(true)
    }

    fn group(&self, _name: &str) -> io::Result<Option<Gid>> {
        Ok(None)
    }

    /// False if addresses are unknown and placeholders take their place.
    fn knows_addresses(&self) -> bool {
        true
    }

    fn addresses(&self) -> io::Result<Vec<IpAddr>>;

    /// False if missing addresses are a problem.
    fn may_lack_addresses(&self) -> bool {
        false
    }

    /// Empty if resolv.conf does not exist.
    fn name_servers(&self) -> io::Result<Vec<IpAddr>>;

    fn name_servers_in(&self, _path: &str) -> io::Result<Vec<IpAddr>> {
        self.name_servers()
    }

    /// True if an iptables table `nat`, of either variant, holds the chain; false if no tables can be read.
    fn has_nat_chain(&self, _family: Family, _name: &str) -> io::Result<bool> {
        Ok(false)
    }
}

/// No host, as for a webhook: user names are unknown, and addresses and servers are declared or absent.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullHost;

impl Host for NullHost {
    fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        Ok(Vec::new())
    }

    fn name_servers(&self) -> io::Result<Vec<IpAddr>> {
        Ok(Vec::new())
    }
}

#[derive(Clone, Copy, Debug)]
pub enum RemoteHost {
    /// For queries about the pod's traffic: missing facts are assumed.
    Assumed { dual_stack: bool },
    /// For checks of a pod's settings: any addresses, servers and groups are possible.
    Open,
}

impl RemoteHost {
    pub fn host(raw: &Raw) -> Box<dyn Host> {
        Box::new(Self::Assumed { dual_stack: raw.is_on(Setting::DualStack) })
    }
}

impl Host for RemoteHost {
    fn user(&self, name: &str) -> io::Result<Option<Uid>> {
        Ok(Uid::new(PROXY_ID).filter(|_| matches!(self, Self::Open) && name == PROXY_USER))
    }

    fn group(&self, name: &str) -> io::Result<Option<Gid>> {
        const SOME: u32 = 65534;
        Ok(match self {
            Self::Open if name == PROXY_USER => Gid::new(PROXY_ID),
            Self::Open if is_name(name) => Gid::new(SOME),
            Self::Open | Self::Assumed { .. } => None,
        })
    }

    fn knows_addresses(&self) -> bool {
        false
    }

    fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        let (v4, v6) = (STAND_IN.0.into(), STAND_IN.1.into());
        Ok(match self {
            Self::Assumed { dual_stack: true } => vec![v4, v6],
            Self::Assumed { dual_stack: false } => vec![v4],
            // IPv4 is captured in any case.
            Self::Open => vec![v6],
        })
    }

    fn name_servers(&self) -> io::Result<Vec<IpAddr>> {
        match self {
            Self::Assumed { .. } => Err(io::Error::other("it belongs to the pod, which does not run here")),
            Self::Open => Ok(vec![IpAddr::V6(STAND_IN.1)]),
        }
    }
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-$".contains(&byte))
}

/// DNS servers of resolv.conf, as libc reads it (`res_init.c`, `resolvconf.c`): other lines are skipped.
pub fn name_servers(text: &[u8]) -> Vec<IpAddr> {
    text.split(|&byte| byte == b'\n').filter_map(server).collect()
}

fn server(line: &[u8]) -> Option<IpAddr> {
    let rest = line.strip_prefix(b"nameserver")?;
    let (b' ' | b'\t', rest) = rest.split_first()? else { return None };
    let address = std::str::from_utf8(rest).ok()?.split_ascii_whitespace().next()?;
    // `fe80::1%eth0` has a zone, the interface; rules have none.
    address.split('%').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_pod_may_have_any_group() {
        let check = |name: &str, open: Option<u32>| {
            let number = |host: RemoteHost| host.group(name).expect("no error").map(Gid::number);
            assert_eq!(number(RemoteHost::Open), open, "{name:?}");
            assert_eq!(number(RemoteHost::Assumed { dual_stack: true }), None, "{name:?}");
        };
        check("istio-proxy", Some(PROXY_ID));
        check("root", Some(65534));
        for bad in ["", "-1", "4294967296", "a b", "a:b", "1a"] {
            check(bad, None);
        }
    }

    #[test]
    fn remote_pod_has_placeholder_addresses() {
        let (v4, v6): (IpAddr, IpAddr) = (STAND_IN.0.into(), STAND_IN.1.into());
        let assumed = |value: &str| RemoteHost::host(&Raw::of_flags([(Setting::DualStack, value)]));
        assert_eq!(assumed("true").addresses().expect("no error"), [v4, v6]);
        assert_eq!(assumed("false").addresses().expect("no error"), [v4]);
        assert_eq!(RemoteHost::Open.addresses().expect("no error"), [v6]);
        assert!(!assumed("true").knows_addresses() && !RemoteHost::Open.knows_addresses());
        let error = assumed("true").name_servers().expect_err("unknown");
        assert_eq!(error.to_string(), "it belongs to the pod, which does not run here");
        assert_eq!(RemoteHost::Open.name_servers().expect("no error"), [v6]);
        let user = |host: &dyn Host, name| host.user(name).expect("no error").map(Uid::number);
        assert_eq!(user(&RemoteHost::Open, "istio-proxy"), Some(PROXY_ID));
        assert_eq!(user(&RemoteHost::Open, "root"), None);
        assert_eq!(user(&*assumed("true"), "istio-proxy"), None);
    }

    #[test]
    fn invalid_lines_of_resolv_conf_are_skipped() {
        let check = |text: &[u8], expected: &[&str]| {
            let found: Vec<String> = name_servers(text).iter().map(ToString::to_string).collect();
            assert_eq!(found, expected, "{}", String::from_utf8_lossy(text));
        };
        check(b"nameserver 10.0.0.10\n", &["10.0.0.10"]);
        check(b"options insecure1\noptions ndots\ndomain\nnameserver 10.0.0.10", &["10.0.0.10"]);
        check(b"nameserver 10.0.0\nnameserver \nnameserver 10.0.0.10\n", &["10.0.0.10"]);
        check(b"search caf\xe9.example\nnameserver 10.0.0.10\n", &["10.0.0.10"]);
        check(b"nameserver\t10.0.0.10 # the cluster's\r\nnameserver fd00::a\r\n", &["10.0.0.10", "fd00::a"]);
        check(b"nameserver fe80::1%eth0\n", &["fe80::1"]);
        check(b"#nameserver 10.0.0.1\n; nameserver 10.0.0.2\nnameservers 10.0.0.3\n", &[]);
        check(b" nameserver 10.0.0.10\n", &[]);
        check(b"", &[]);
    }
}
