//! Common parts of netfilter's messages, and tests for kernel features that rules need.

use super::netlink::NetlinkSocket;
use super::{header::*, message::wire_u16};
use rules::{Family, nft::family_number};
use std::io;

const COMPAT_GET: u16 = message_type(NFNL_SUBSYS_NFT_COMPAT, NFNL_MSG_COMPAT_GET);

pub fn lacks_nf_tables(error: &io::Error) -> bool {
    use nix::libc::{EINVAL, EOPNOTSUPP, EPROTONOSUPPORT};
    matches!(error.raw_os_error(), Some(EINVAL | EOPNOTSUPP | EPROTONOSUPPORT))
}

/// True if the kernel has no netfilter over netlink: Linux without `CONFIG_NETFILTER_NETLINK`, and gVisor.
pub fn lacks_netlink(error: &io::Error) -> bool {
    error.raw_os_error() == Some(nix::libc::EPROTONOSUPPORT)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extension {
    Match = 0,
    Target = 1,
}

/// True if the kernel has the extension. The request may load the module, as a rule would.
pub fn has_extension(family: Family, kind: Extension, name: &str) -> io::Result<bool> {
    let mut socket = NetlinkSocket::open(NETLINK_NETFILTER)?;
    let answer = socket.request(COMPAT_GET, 0, &nfgenmsg(family_number(family), 0), |message| {
        message.text(NFTA_COMPAT_NAME, name).number(NFTA_COMPAT_REV, 0).number(NFTA_COMPAT_TYPE, kind as u32);
    });
    match answer {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        // The extension exists in another revision.
        Err(error) if error.raw_os_error() == Some(nix::libc::EPROTONOSUPPORT) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Type of a subsystem's message (`nfnl_msg_type` in the kernel).
pub const fn message_type(subsystem: i32, message: i32) -> u16 {
    wire_u16(subsystem << 8 | message)
}

/// `struct nfgenmsg`: family, version, and in network order a resource, whose meaning depends on the subsystem.
pub const fn nfgenmsg(family: u8, resource: u16) -> [u8; 4] {
    let [high, low] = resource.to_be_bytes();
    [family, NFNETLINK_V0, high, low]
}

pub fn body(payload: &[u8]) -> Option<&[u8]> {
    payload.get(size_of_val(&nfgenmsg(0, 0))..)
}
