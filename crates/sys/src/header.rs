//! Constants of the kernel's headers under their kernel names: re-exports of `libc`, and ours where `libc` lacks a constant or
//! the type used in messages. `tests/house/headers.rs` compares ours with the headers.

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
/// First of the kernel's three tables (default, main, local).
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
/// Skips duplicate address detection, which makes even an address on `lo` unusable for a moment.
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

// linux/netfilter/nf_tables.h

pub use nix::libc::{
    NFT_BYTEORDER_HTON, NFT_CMP_EQ, NFT_CMP_GT, NFT_CMP_GTE, NFT_CMP_LT, NFT_CMP_LTE, NFT_CMP_NEQ,
    NFT_CT_MARK, NFT_CT_STATE, NFT_CT_ZONE, NFT_GOTO, NFT_JUMP, NFT_META_IIF, NFT_META_IIFNAME,
    NFT_META_L4PROTO, NFT_META_MARK, NFT_META_NFPROTO, NFT_META_NFTRACE, NFT_META_OIF, NFT_META_OIFNAME,
    NFT_META_PRIORITY, NFT_META_PROTOCOL, NFT_META_SKGID, NFT_META_SKUID, NFT_MSG_DELCHAIN, NFT_MSG_DELRULE,
    NFT_MSG_DELSET, NFT_MSG_DELSETELEM, NFT_MSG_DELTABLE, NFT_MSG_GETCHAIN, NFT_MSG_GETGEN, NFT_MSG_GETOBJ,
    NFT_MSG_GETRULE, NFT_MSG_GETSET, NFT_MSG_GETSETELEM, NFT_MSG_GETTABLE, NFT_MSG_NEWCHAIN, NFT_MSG_NEWRULE,
    NFT_MSG_NEWSET, NFT_MSG_NEWSETELEM, NFT_MSG_NEWTABLE, NFT_MSG_TRACE, NFT_NAT_DNAT, NFT_NAT_SNAT,
    NFT_PAYLOAD_NETWORK_HEADER, NFT_PAYLOAD_TRANSPORT_HEADER, NFT_REG_1, NFT_REG_2, NFT_REG_VERDICT,
    NFT_REG32_00, NFT_RETURN, NFT_SET_ANONYMOUS, NFT_SET_CONSTANT, NFT_SET_ELEM_INTERVAL_END,
    NFT_SET_INTERVAL, NFT_SET_MAP, NFT_SET_TIMEOUT, NFT_TRACETYPE_POLICY, NFT_TRACETYPE_RETURN,
    NFT_TRACETYPE_RULE,
};

pub const NFT_MSG_GETFLOWTABLE: i32 = 23;

pub const NFTA_LIST_ELEM: u16 = 1;

pub const NFTA_HOOK_HOOKNUM: u16 = 1;
pub const NFTA_HOOK_PRIORITY: u16 = 2;
pub const NFTA_HOOK_DEV: u16 = 3;
pub const NFTA_HOOK_DEVS: u16 = 4;
pub const NFTA_DEVICE_NAME: u16 = 1;

pub const NFT_TABLE_F_DORMANT: u32 = 1;
/// Only the socket that created the table can change it; both are removed together.
pub const NFT_TABLE_F_OWNER: u32 = 2;

pub const NFTA_TABLE_NAME: u16 = 1;
pub const NFTA_TABLE_FLAGS: u16 = 2;
pub const NFTA_TABLE_OWNER: u16 = 7;

pub const NFTA_CHAIN_TABLE: u16 = 1;
pub const NFTA_CHAIN_NAME: u16 = 3;
pub const NFTA_CHAIN_HOOK: u16 = 4;
pub const NFTA_CHAIN_POLICY: u16 = 5;
pub const NFTA_CHAIN_TYPE: u16 = 7;

pub const NFTA_RULE_TABLE: u16 = 1;
pub const NFTA_RULE_CHAIN: u16 = 2;
pub const NFTA_RULE_HANDLE: u16 = 3;
pub const NFTA_RULE_EXPRESSIONS: u16 = 4;
pub const NFTA_RULE_USERDATA: u16 = 7;

pub const NFT_SET_CONCAT: i32 = 0x80;

pub const NFTA_SET_TABLE: u16 = 1;
pub const NFTA_SET_NAME: u16 = 2;
pub const NFTA_SET_FLAGS: u16 = 3;
pub const NFTA_SET_KEY_TYPE: u16 = 4;
pub const NFTA_SET_KEY_LEN: u16 = 5;
pub const NFTA_SET_DESC: u16 = 9;
pub const NFTA_SET_ID: u16 = 10;
pub const NFTA_SET_GC_INTERVAL: u16 = 12;
pub const NFTA_SET_USERDATA: u16 = 13;

pub const NFTA_SET_DESC_SIZE: u16 = 1;

pub const NFTA_SET_ELEM_KEY: u16 = 1;
pub const NFTA_SET_ELEM_DATA: u16 = 2;
pub const NFTA_SET_ELEM_FLAGS: u16 = 3;
pub const NFTA_SET_ELEM_TIMEOUT: u16 = 4;
pub const NFTA_SET_ELEM_EXPIRATION: u16 = 5;
pub const NFTA_SET_ELEM_EXPR: u16 = 7;
pub const NFTA_SET_ELEM_OBJREF: u16 = 9;
pub const NFTA_SET_ELEM_KEY_END: u16 = 10;
pub const NFTA_SET_ELEM_EXPRESSIONS: u16 = 11;

pub const NFTA_SET_ELEM_LIST_TABLE: u16 = 1;
pub const NFTA_SET_ELEM_LIST_SET: u16 = 2;
pub const NFTA_SET_ELEM_LIST_ELEMENTS: u16 = 3;

pub const NFTA_DATA_VALUE: u16 = 1;
pub const NFTA_DATA_VERDICT: u16 = 2;

pub const NFTA_VERDICT_CODE: u16 = 1;
pub const NFTA_VERDICT_CHAIN: u16 = 2;

pub const NFTA_EXPR_NAME: u16 = 1;
pub const NFTA_EXPR_DATA: u16 = 2;

pub const NFTA_COUNTER_BYTES: u16 = 1;
pub const NFTA_COUNTER_PACKETS: u16 = 2;

pub const NFTA_IMMEDIATE_DREG: u16 = 1;
pub const NFTA_IMMEDIATE_DATA: u16 = 2;

pub const NFTA_BITWISE_SREG: u16 = 1;
pub const NFTA_BITWISE_DREG: u16 = 2;
pub const NFTA_BITWISE_LEN: u16 = 3;
pub const NFTA_BITWISE_MASK: u16 = 4;
pub const NFTA_BITWISE_XOR: u16 = 5;

pub const NFTA_BYTEORDER_SREG: u16 = 1;
pub const NFTA_BYTEORDER_DREG: u16 = 2;
pub const NFTA_BYTEORDER_OP: u16 = 3;
pub const NFTA_BYTEORDER_LEN: u16 = 4;
pub const NFTA_BYTEORDER_SIZE: u16 = 5;

pub const NFTA_CMP_SREG: u16 = 1;
pub const NFTA_CMP_OP: u16 = 2;
pub const NFTA_CMP_DATA: u16 = 3;

pub const NFTA_RANGE_SREG: u16 = 1;
pub const NFTA_RANGE_OP: u16 = 2;
pub const NFTA_RANGE_FROM_DATA: u16 = 3;
pub const NFTA_RANGE_TO_DATA: u16 = 4;

pub const NFTA_LOOKUP_SET: u16 = 1;
pub const NFTA_LOOKUP_SREG: u16 = 2;
pub const NFTA_LOOKUP_DREG: u16 = 3;
pub const NFTA_LOOKUP_FLAGS: u16 = 5;

pub const NFTA_PAYLOAD_DREG: u16 = 1;
pub const NFTA_PAYLOAD_BASE: u16 = 2;
pub const NFTA_PAYLOAD_OFFSET: u16 = 3;
pub const NFTA_PAYLOAD_LEN: u16 = 4;
pub const NFTA_PAYLOAD_SREG: u16 = 5;

pub const NFTA_EXTHDR_DREG: u16 = 1;

pub const NFTA_OBJREF_IMM_TYPE: u16 = 1;
pub const NFT_OBJECT_COUNTER: i32 = 1;
pub const NFT_OBJECT_QUOTA: i32 = 2;
pub const NFT_OBJECT_CT_HELPER: i32 = 3;
pub const NFT_OBJECT_LIMIT: i32 = 4;
pub const NFT_OBJECT_CONNLIMIT: i32 = 5;
pub const NFT_OBJECT_CT_TIMEOUT: i32 = 7;

pub const NFTA_META_DREG: u16 = 1;
pub const NFTA_META_KEY: u16 = 2;
pub const NFTA_META_SREG: u16 = 3;

pub const NFTA_OBJ_TABLE: u16 = 1;
pub const NFTA_FLOWTABLE_TABLE: u16 = 1;
pub const NFTA_CT_DREG: u16 = 1;
pub const NFTA_CT_KEY: u16 = 2;
pub const NFTA_CT_DIRECTION: u16 = 3;
pub const NFTA_CT_SREG: u16 = 4;

pub const NFTA_LOG_GROUP: u16 = 1;
pub const NFTA_LOG_PREFIX: u16 = 2;
pub const NFTA_LOG_LEVEL: u16 = 5;

pub const NFTA_REDIR_REG_PROTO_MIN: u16 = 1;
pub const NFTA_REDIR_REG_PROTO_MAX: u16 = 2;
pub const NFTA_REDIR_FLAGS: u16 = 3;

pub const NFTA_NAT_TYPE: u16 = 1;
pub const NFTA_NAT_FAMILY: u16 = 2;
pub const NFTA_NAT_REG_ADDR_MIN: u16 = 3;
pub const NFTA_NAT_REG_ADDR_MAX: u16 = 4;
pub const NFTA_NAT_REG_PROTO_MIN: u16 = 5;
pub const NFTA_NAT_REG_PROTO_MAX: u16 = 6;
pub const NFTA_NAT_FLAGS: u16 = 7;

pub const NFT_FIB_RESULT_ADDRTYPE: i32 = 3;
pub const NFTA_FIB_F_DADDR: i32 = 2;
pub const NFTA_FIB_DREG: u16 = 1;
pub const NFTA_FIB_RESULT: u16 = 2;
pub const NFTA_FIB_FLAGS: u16 = 3;

pub const NFTA_TPROXY_FAMILY: u16 = 1;
pub const NFTA_TPROXY_REG_PORT: u16 = 3;

pub const NFTA_GEN_ID: u16 = 1;

pub const NFTA_TRACE_TABLE: u16 = 1;
pub const NFTA_TRACE_CHAIN: u16 = 2;
pub const NFTA_TRACE_RULE_HANDLE: u16 = 3;
pub const NFTA_TRACE_TYPE: u16 = 4;
pub const NFTA_TRACE_VERDICT: u16 = 5;
pub const NFTA_TRACE_ID: u16 = 6;
pub const NFTA_TRACE_NETWORK_HEADER: u16 = 8;
pub const NFTA_TRACE_TRANSPORT_HEADER: u16 = 9;
pub const NFTA_TRACE_IIF: u16 = 10;
pub const NFTA_TRACE_OIF: u16 = 12;
pub const NFTA_TRACE_MARK: u16 = 14;
pub const NFTA_TRACE_POLICY: u16 = 16;

// linux/netfilter/nf_tables_compat.h

pub const NFNL_MSG_COMPAT_GET: i32 = 0;
pub const NFTA_COMPAT_NAME: u16 = 1;
pub const NFTA_COMPAT_REV: u16 = 2;
pub const NFTA_COMPAT_TYPE: u16 = 3;

pub const NFTA_MATCH_NAME: u16 = 1;
pub const NFTA_MATCH_INFO: u16 = 3;
pub const NFTA_TARGET_NAME: u16 = 1;
