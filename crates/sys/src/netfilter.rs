//! nf_tables over netlink, as far as it concerns the tables of iptables.

use super::header::*;
use super::netlink::{NetlinkSocket, SockProtocol};
use super::nfnetlink::{message_type, nfgenmsg, nfproto};
use rules::Family;
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
    let answer = socket.request(COMPAT_GET, 0, &nfgenmsg(nfproto(family), 0), |message| {
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
