//! What the messages of all of netfilter's subsystems have in common: the numbers of families, how their type is made up,
//! and the header before their attributes.

use super::header::{NFNETLINK_V0, NFPROTO_IPV4, NFPROTO_IPV6};
use rules::Family;

/// The number of a family in messages of netfilter.
pub const fn nfproto(family: Family) -> u8 {
    match family {
        Family::V4 => NFPROTO_IPV4,
        Family::V6 => NFPROTO_IPV6,
    }
}

/// The type of a subsystem's message (`nfnl_msg_type` inside of the kernel).
pub const fn message_type(subsystem: u8, message: u8) -> u16 {
    u16::from_be_bytes([subsystem, message])
}

/// `struct nfgenmsg`: family, version, and in network order a resource, which each subsystem understands differently.
pub const fn nfgenmsg(family: u8, resource: u16) -> [u8; 4] {
    let [high, low] = resource.to_be_bytes();
    [family, NFNETLINK_V0, high, low]
}

/// The attributes after `struct nfgenmsg`.
pub fn body(payload: &[u8]) -> Option<&[u8]> {
    payload.get(size_of_val(&nfgenmsg(0, 0))..)
}
