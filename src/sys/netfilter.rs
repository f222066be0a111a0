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

fn lacks_nf_tables(error: &io::Error) -> bool {
    use nix::libc::{EINVAL, EOPNOTSUPP, EPROTONOSUPPORT};
    matches!(error.raw_os_error(), Some(EINVAL | EOPNOTSUPP | EPROTONOSUPPORT))
}
