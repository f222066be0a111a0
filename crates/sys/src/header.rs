//! Constants of the kernel's headers under their kernel names: re-exports of `libc`, and own ones where it lacks a constant or
//! the type used in messages. `tests/house/headers.rs` compares the own ones with the headers.

mod nf_tables;

pub use nf_tables::*;

// linux/netlink.h

pub use nix::libc::{
    NETLINK_NETFILTER, NETLINK_ROUTE, NETLINK_SOCK_DIAG, NETLINK_XFRM, NLM_F_ACK, NLM_F_ACK_TLVS,
    NLM_F_APPEND, NLM_F_CAPPED, NLM_F_CREATE, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_EXCL, NLM_F_REPLACE,
    NLM_F_REQUEST,
};

pub const NLMSG_ALIGNTO: usize = 4;
pub const NLMSG_HDRLEN: usize = 16;
pub const NLMSG_ERROR: u16 = 2;
pub const NLMSG_DONE: u16 = 3;

pub const NLMSGERR_ATTR_MSG: u16 = 1;
pub const NLMSGERR_ATTR_OFFS: u16 = 2;

pub const NLA_ALIGNTO: usize = 4;
pub const NLA_HDRLEN: usize = 4;
pub const NLA_F_NESTED: u16 = 0x8000;
pub const NLA_F_NET_BYTEORDER: u16 = 0x4000;

// linux/netfilter.h

pub const NF_DROP: u32 = 0;
pub const NF_ACCEPT: u32 = 1;

pub const NF_INET_INGRESS: u32 = 5;

pub const NF_NETDEV_INGRESS: u32 = 0;

pub const NFPROTO_UNSPEC: u8 = 0;
/// Both families, in nf_tables.
pub const NFPROTO_INET: u8 = 1;
pub const NFPROTO_IPV4: u8 = 2;
/// Its hooks are `NF_NETDEV_*`.
pub const NFPROTO_NETDEV: u8 = 5;
pub const NFPROTO_BRIDGE: u8 = 7;
pub const NFPROTO_IPV6: u8 = 10;

// linux/netfilter_ipv4/ip_tables.h

pub const IPT_SO_GET_INFO: i32 = 64;
pub const IPT_SO_GET_ENTRIES: i32 = 65;

// linux/netfilter/nfnetlink.h

pub use nix::libc::{
    NFNL_MSG_BATCH_BEGIN, NFNL_MSG_BATCH_END, NFNL_SUBSYS_CTNETLINK, NFNL_SUBSYS_NFT_COMPAT,
    NFNL_SUBSYS_NFTABLES, NFNL_SUBSYS_ULOG, NFNLGRP_NFTRACE,
};

pub const NFNETLINK_V0: u8 = 0;

pub const NFNL_BATCH_GENID: u16 = 1;

// linux/netfilter/nf_nat.h

/// The registers hold addresses.
pub const NF_NAT_RANGE_MAP_IPS: u32 = 1;
pub const NF_NAT_RANGE_PROTO_SPECIFIED: u32 = 2;

// linux/netfilter/nfnetlink_conntrack.h

pub const IPCTNL_MSG_CT_GET: i32 = 1;
pub const IPCTNL_MSG_CT_DELETE: i32 = 2;

pub const CTA_TUPLE_ORIG: u16 = 1;
pub const CTA_TUPLE_REPLY: u16 = 2;
pub const CTA_STATUS: u16 = 3;
pub const CTA_ZONE: u16 = 18;

pub const CTA_TUPLE_IP: u16 = 1;
pub const CTA_TUPLE_PROTO: u16 = 2;

pub const CTA_IP_V4_SRC: u16 = 1;
pub const CTA_IP_V4_DST: u16 = 2;
pub const CTA_IP_V6_SRC: u16 = 3;
pub const CTA_IP_V6_DST: u16 = 4;

pub const CTA_PROTO_NUM: u16 = 1;
pub const CTA_PROTO_SRC_PORT: u16 = 2;
pub const CTA_PROTO_DST_PORT: u16 = 3;

// linux/netfilter/nf_conntrack_common.h

/// `IPS_DST_NAT | IPS_SRC_NAT`.
pub const IPS_NAT_MASK: u32 = 0x30;

// linux/in.h

pub const IPPROTO_TCP: u8 = 6;
pub const IPPROTO_UDP: u8 = 17;

// linux/netfilter/nfnetlink_log.h

pub use nix::libc::{
    NFULA_GID, NFULA_IFINDEX_INDEV, NFULA_IFINDEX_OUTDEV, NFULA_MARK, NFULA_PACKET_HDR, NFULA_PAYLOAD,
    NFULA_PREFIX, NFULA_TIMESTAMP, NFULA_UID, NFULNL_MSG_CONFIG, NFULNL_MSG_PACKET,
};

pub const NFULA_CFG_CMD: u16 = 1;
pub const NFULA_CFG_MODE: u16 = 2;
pub const NFULA_CFG_QTHRESH: u16 = 5;
pub const NFULNL_CFG_CMD_BIND: u8 = 1;
pub const NFULNL_COPY_PACKET: u8 = 2;

// sys/socket.h

pub const AF_UNSPEC: u8 = 0;
pub const AF_INET: u8 = 2;
pub const AF_INET6: u8 = 10;

// linux/rtnetlink.h

pub use nix::libc::{
    IFLA_IFNAME, IFLA_INFO_DATA, IFLA_INFO_KIND, IFLA_LINKINFO, IFLA_NET_NS_FD, IFLA_XDP, RT_SCOPE_HOST,
    RT_SCOPE_UNIVERSE, RT_TABLE_MAIN, RTA_DST, RTA_GATEWAY, RTA_IIF, RTA_MARK, RTA_MULTIPATH, RTA_OIF,
    RTA_PREFSRC, RTA_SRC, RTA_TABLE, RTM_DELADDR, RTM_DELROUTE, RTM_DELRULE, RTM_GETADDR, RTM_GETLINK,
    RTM_GETQDISC, RTM_GETROUTE, RTM_GETRULE, RTM_NEWADDR, RTM_NEWLINK, RTM_NEWROUTE, RTM_NEWRULE,
    RTN_BROADCAST, RTN_LOCAL, RTN_MULTICAST, RTN_UNICAST, RTPROT_BOOT, TCA_KIND,
};
/// Nested in [`IFLA_XDP`]: attach mode of a program, 0 for none (`linux/if_link.h`).
pub const IFLA_XDP_ATTACHED: u16 = 2;
pub const RTA_UID: u16 = 25;
pub const RTA_IP_PROTO: u16 = 27;
pub const RTA_SPORT: u16 = 28;
pub const RTA_DPORT: u16 = 29;
/// Requests the matching route itself, with all its next hops.
pub const RTM_F_FIB_MATCH: u32 = 0x2000;
/// First of three tables of the kernel (default, main, local).
pub const RT_TABLE_DEFAULT: u32 = 253;
pub const RT_TABLE_LOCAL: u32 = 255;

// linux/xfrm.h

pub const XFRM_MSG_GETPOLICY: u16 = 21;

// linux/fib_rules.h

pub const FRA_PRIORITY: u16 = 6;
pub const FRA_FWMARK: u16 = 10;
pub const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
pub const FRA_TABLE: u16 = 15;
pub const FRA_FWMASK: u16 = 16;
pub const FRA_PROTOCOL: u16 = 21;
/// First and last source port.
pub const FRA_SPORT_RANGE: u16 = 23;
pub const FR_ACT_TO_TBL: u8 = 1;

// linux/if_addr.h

pub use nix::libc::{IFA_ADDRESS, IFA_LOCAL};
/// Since 5.18.
pub const IFA_PROTO: u16 = 11;
/// Skips duplicate address detection, without which even an address on `lo` is unusable for a moment.
pub const IFA_F_NODAD: u8 = 2;

// linux/sock_diag.h

pub const SOCK_DIAG_BY_FAMILY: u16 = 20;

// linux/inet_diag.h

pub const INET_DIAG_SKV6ONLY: u16 = 11;
/// Since 5.10.
pub const INET_DIAG_SOCKOPT: u16 = 22;

// netinet/tcp.h

/// State of an unconnected UDP socket.
pub const TCP_CLOSE: u8 = 7;
pub const TCP_LISTEN: u8 = 10;

// linux/veth.h

/// Holds the other end of the pair, as a link message.
pub const VETH_INFO_PEER: u16 = 1;
