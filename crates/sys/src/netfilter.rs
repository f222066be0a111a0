//! nf_tables over netlink, as far as it concerns the tables of iptables.

use super::header::*;
use super::message::{self, attribute};
use super::netlink::{NetlinkRequest, NetlinkSocket};
use super::nfnetlink::{message_type, nfgenmsg, nfproto};
use nix::sys::socket::SockProtocol;
use rules::{Family, Ownership};
use std::io;

const COMPAT_GET: u16 = message_type(NFNL_SUBSYS_NFT_COMPAT, NFNL_MSG_COMPAT_GET);

/// Whether the error means that the kernel has no nf_tables.
pub fn lacks_nf_tables(error: &io::Error) -> bool {
    use nix::libc::{EINVAL, EOPNOTSUPP, EPROTONOSUPPORT};
    matches!(error.raw_os_error(), Some(EINVAL | EOPNOTSUPP | EPROTONOSUPPORT))
}

/// Whether the error means that the kernel has no netfilter over netlink at all, so that no socket can be opened.
/// Linux without `CONFIG_NETFILTER_NETLINK` does not, nor does gVisor's kernel.
pub fn lacks_netlink(error: &io::Error) -> bool {
    error.raw_os_error() == Some(nix::libc::EPROTONOSUPPORT)
}

/// Whether an extension is a match or a target, by the numbers of `NFTA_COMPAT_TYPE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extension {
    /// A match, such as `owner`.
    Match = 0,
    /// A target, such as `REDIRECT`.
    Target = 1,
}

/// Whether the kernel has an extension of iptables. It may load the module to find out, as it would for a
/// rule.
pub fn has_extension(family: Family, kind: Extension, name: &str) -> io::Result<bool> {
    let mut socket = NetlinkSocket::open(SockProtocol::NetlinkNetFilter)?;
    let request = NetlinkRequest { kind: COMPAT_GET, flags: 0, head: &nfgenmsg(nfproto(family), 0) };
    let answer = socket.request(&request, |message| {
        message.text(NFTA_COMPAT_NAME, name).number(NFTA_COMPAT_REV, 0).number(NFTA_COMPAT_TYPE, kind as u32);
    });
    match answer {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        // It is there, in another revision.
        Err(error) if error.raw_os_error() == Some(nix::libc::EPROTONOSUPPORT) => Ok(true),
        Err(error) => Err(error),
    }
}

/// A base chain of nf_tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetfilterBaseChain {
    /// `NFPROTO_*`.
    pub family: u8,
    pub table: String,
    pub name: String,
    /// `filter`, `nat` or `route`.
    pub kind: String,
    /// `NF_INET_*`.
    pub hook: u32,
    /// Lower ones see packets first.
    pub priority: i32,
    /// Whether what no rule decides is dropped.
    pub drops: bool,
}

impl NetfilterBaseChain {
    /// Whether it is one of those that iptables makes (`xtables_ipv4` in its `nft.c`), whatever its policy.
    pub fn is_of_iptables(&self) -> bool {
        let hook = match self.name.as_str() {
            "PREROUTING" => NF_INET_PRE_ROUTING,
            "INPUT" => NF_INET_LOCAL_IN,
            "FORWARD" => NF_INET_FORWARD,
            "OUTPUT" => NF_INET_LOCAL_OUT,
            "POSTROUTING" => NF_INET_POST_ROUTING,
            _ => return false,
        };
        let (kind, priority) = match (self.table.as_str(), self.name.as_str()) {
            ("raw", "PREROUTING" | "OUTPUT") => ("filter", NF_IP_PRI_RAW),
            ("mangle", "OUTPUT") => ("route", NF_IP_PRI_MANGLE),
            ("mangle", _) => ("filter", NF_IP_PRI_MANGLE),
            ("nat", "PREROUTING" | "OUTPUT") => ("nat", NF_IP_PRI_NAT_DST),
            ("nat", "INPUT" | "POSTROUTING") => ("nat", NF_IP_PRI_NAT_SRC),
            ("filter", "INPUT" | "FORWARD" | "OUTPUT") => ("filter", NF_IP_PRI_FILTER),
            ("security", "INPUT" | "FORWARD" | "OUTPUT") => ("filter", NF_IP_PRI_SECURITY),
            _ => return false,
        };
        matches!(self.family, NFPROTO_IPV4 | NFPROTO_IPV6)
            && (self.hook, self.kind.as_str(), self.priority) == (hook, kind, priority)
    }

    /// Whether it is in the owner's table.
    pub fn is_of(&self, owner: &Ownership) -> bool {
        self.family == NFPROTO_INET && self.table == owner.table
    }
}

/// A base chain by its attributes; `None` for chains that no hook calls.
pub fn base_chain(family: u8, attributes: &[u8]) -> Option<NetfilterBaseChain> {
    let name = |kind| attribute(attributes, kind).map(message::name);
    let hook = attribute(attributes, NFTA_CHAIN_HOOK)?;
    let number = |kind| attribute(hook, kind)?.try_into().ok().map(u32::from_be_bytes);
    let policy = attribute(attributes, NFTA_CHAIN_POLICY).and_then(|payload| payload.try_into().ok());
    Some(NetfilterBaseChain {
        family,
        table: name(NFTA_CHAIN_TABLE)?,
        name: name(NFTA_CHAIN_NAME)?,
        kind: name(NFTA_CHAIN_TYPE)?,
        hook: number(NFTA_HOOK_HOOKNUM)?,
        priority: number(NFTA_HOOK_PRIORITY)?.cast_signed(),
        drops: policy.map(u32::from_be_bytes) == Some(NF_DROP),
    })
}
