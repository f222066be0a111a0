//! nf_tables over netlink, as far as it concerns the tables of iptables.
//!
//! Numbers are from `linux/netfilter/nfnetlink.h` and `linux/netfilter/nf_tables.h`.

use super::message::{attribute, text};
use super::netlink::{Request, Socket};
use nix::sys::socket::SockProtocol;
use std::io;

/// `NFNL_SUBSYS_NFTABLES`, in the upper half of a message type.
const NF_TABLES: u16 = 10 << 8;
const GET_TABLE: u16 = NF_TABLES | 1;
const TABLE_NAME: u16 = 1;

/// A netfilter family, by its number (`NFPROTO_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// `ip`.
    V4 = 2,
    /// `ip6`.
    V6 = 10,
}

/// Whether nf_tables holds tables by the names that iptables uses. Asking creates none.
///
/// # Errors
/// When the kernel refuses. One without nf_tables holds none.
pub fn iptables_tables_exist(family: Family) -> io::Result<bool> {
    let mut socket = match Socket::open(SockProtocol::NetlinkNetFilter) {
        Err(error) if lacks_nf_tables(&error) => return Ok(false),
        other => other?,
    };
    // struct nfgenmsg: family, version, resource.
    let request = Request { kind: GET_TABLE, flags: 0, head: &[family as u8, 0, 0, 0] };
    let names = socket.dump(&request, |payload| {
        let name = text(attribute(payload.get(4..)?, TABLE_NAME)?);
        (payload.first() == Some(&(family as u8)) && matches!(name, "nat" | "mangle" | "raw")).then_some(())
    });
    match names {
        Ok(names) => Ok(!names.is_empty()),
        Err(error) if lacks_nf_tables(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether the error says that the kernel has no nf_tables.
pub fn lacks_nf_tables(error: &io::Error) -> bool {
    use nix::libc::{EINVAL, EOPNOTSUPP, EPROTONOSUPPORT};
    matches!(error.raw_os_error(), Some(EINVAL | EOPNOTSUPP | EPROTONOSUPPORT))
}

/// `NFNL_SUBSYS_NFT_COMPAT`: whether the kernel knows an extension of iptables.
const COMPAT_GET: u16 = 11 << 8;
const COMPAT_NAME: u16 = 1;
const COMPAT_REVISION: u16 = 2;
const COMPAT_TYPE: u16 = 3;

/// Whether an extension is a match or a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extension {
    /// A match, such as `owner`.
    Match = 0,
    /// A target, such as `REDIRECT`.
    Target = 1,
}

/// Whether the kernel has an extension of iptables. It may load the module to find out, as it would for a
/// rule.
///
/// # Errors
/// When the kernel can't be asked.
pub fn has_extension(family: Family, kind: Extension, name: &str) -> io::Result<bool> {
    let mut socket = Socket::open(SockProtocol::NetlinkNetFilter)?;
    let request = Request { kind: COMPAT_GET, flags: 0, head: &[family as u8, 0, 0, 0] };
    let answer = socket.request(&request, |message| {
        message.attribute(COMPAT_NAME, format!("{name}\0").as_bytes());
        message.attribute(COMPAT_REVISION, &0_u32.to_be_bytes());
        message.attribute(COMPAT_TYPE, &(kind as u32).to_be_bytes());
    });
    match answer {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        // It is there, in another revision.
        Err(error) if error.raw_os_error() == Some(nix::libc::EPROTONOSUPPORT) => Ok(true),
        Err(error) => Err(error),
    }
}

const GET_CHAIN: u16 = NF_TABLES | 4;
const CHAIN_TABLE: u16 = 1;
const CHAIN_NAME: u16 = 3;
const CHAIN_HOOK: u16 = 4;
const CHAIN_TYPE: u16 = 7;
const HOOK_NUMBER: u16 = 1;
const HOOK_PRIORITY: u16 = 2;

/// A base chain of nf_tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseChain {
    /// Its table's name.
    pub table: String,
    /// Its name.
    pub name: String,
    /// `filter`, `nat` or `route`.
    pub kind: String,
    /// `NF_INET_*`: 0 prerouting, 3 output.
    pub hook: u32,
    /// Lower ones see packets first.
    pub priority: i32,
}

/// The base chains of all tables of nf_tables, those of iptables included.
///
/// # Errors
/// When the kernel can't be asked. One without nf_tables has none.
pub fn base_chains() -> io::Result<Vec<BaseChain>> {
    let mut socket = Socket::open(SockProtocol::NetlinkNetFilter)?;
    match socket
        .dump(&Request { kind: GET_CHAIN, flags: 0, head: &[0; 4] }, |payload| base_chain(payload.get(4..)?))
    {
        Err(error) if lacks_nf_tables(&error) => Ok(Vec::new()),
        other => other,
    }
}

fn base_chain(attributes: &[u8]) -> Option<BaseChain> {
    let name = |kind| attribute(attributes, kind).map(|payload| text(payload).to_owned());
    let hook = attribute(attributes, CHAIN_HOOK)?;
    let number = |kind| attribute(hook, kind)?.try_into().ok().map(u32::from_be_bytes);
    Some(BaseChain {
        table: name(CHAIN_TABLE)?,
        name: name(CHAIN_NAME)?,
        kind: name(CHAIN_TYPE)?,
        hook: number(HOOK_NUMBER)?,
        priority: number(HOOK_PRIORITY)?.cast_signed(),
    })
}
