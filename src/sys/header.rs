//! Numbers of the kernel's headers, each once, by the name that it has there. Only what is used.
//!
//! The types are those in which messages carry them, not those of C. What the crate `libc` has in the same type comes
//! from there. `tests/headers.rs` compares the others with the headers themselves.

// linux/netlink.h

pub(crate) const NLMSG_ALIGNTO: usize = 4;
pub(crate) const NLMSG_HDRLEN: usize = 16;
pub(crate) const NLMSG_ERROR: u16 = 2;
pub(crate) const NLMSG_DONE: u16 = 3;

pub(crate) const NLM_F_REQUEST: u16 = 0x1;
pub(crate) const NLM_F_ACK: u16 = 0x4;
/// The dump was disturbed by a change and may have missed something.
pub(crate) const NLM_F_DUMP_INTR: u16 = 0x10;
/// `NLM_F_ROOT | NLM_F_MATCH`.
pub(crate) const NLM_F_DUMP: u16 = 0x300;
/// Take the place of what is there.
pub(crate) const NLM_F_REPLACE: u16 = 0x100;
/// Fail where it is there.
pub(crate) const NLM_F_EXCL: u16 = 0x200;
pub(crate) const NLM_F_CREATE: u16 = 0x400;
pub(crate) const NLM_F_APPEND: u16 = 0x800;
/// Of the request, an acknowledgement repeats the header only.
pub(crate) const NLM_F_CAPPED: u16 = 0x100;
/// An acknowledgement has attributes.
pub(crate) const NLM_F_ACK_TLVS: u16 = 0x200;

// enum nlmsgerr_attrs
pub(crate) const NLMSGERR_ATTR_MSG: u16 = 1;
pub(crate) const NLMSGERR_ATTR_OFFS: u16 = 2;

pub(crate) const NLA_ALIGNTO: usize = 4;
pub(crate) const NLA_HDRLEN: usize = 4;
pub(crate) const NLA_F_NESTED: u16 = 0x8000;
pub(crate) const NLA_F_NET_BYTEORDER: u16 = 0x4000;

// linux/netfilter.h

pub(crate) const NF_DROP: u32 = 0;
pub(crate) const NF_ACCEPT: u32 = 1;

// enum nf_inet_hooks
pub(crate) const NF_INET_PRE_ROUTING: u32 = 0;
pub(crate) const NF_INET_LOCAL_IN: u32 = 1;
pub(crate) const NF_INET_FORWARD: u32 = 2;
pub(crate) const NF_INET_LOCAL_OUT: u32 = 3;
pub(crate) const NF_INET_POST_ROUTING: u32 = 4;
pub(crate) const NF_INET_INGRESS: u32 = 5;

pub(crate) const NF_NETDEV_INGRESS: u32 = 0;

pub(crate) const NFPROTO_UNSPEC: u8 = 0;
/// Of nf_tables: both families.
pub(crate) const NFPROTO_INET: u8 = 1;
pub(crate) const NFPROTO_IPV4: u8 = 2;
/// Its hooks are `NF_NETDEV_*`.
pub(crate) const NFPROTO_NETDEV: u8 = 5;
pub(crate) const NFPROTO_IPV6: u8 = 10;

// linux/netfilter_ipv4.h

// enum nf_ip_hook_priorities
pub(crate) const NF_IP_PRI_RAW: i32 = -300;
pub(crate) const NF_IP_PRI_MANGLE: i32 = -150;
pub(crate) const NF_IP_PRI_NAT_DST: i32 = -100;
pub(crate) const NF_IP_PRI_FILTER: i32 = 0;
pub(crate) const NF_IP_PRI_SECURITY: i32 = 50;
pub(crate) const NF_IP_PRI_NAT_SRC: i32 = 100;

// linux/netfilter_ipv4/ip_tables.h

pub(crate) const IPT_SO_GET_INFO: i32 = 64;
pub(crate) const IPT_SO_GET_ENTRIES: i32 = 65;

// linux/netfilter_ipv6/ip6_tables.h

pub(crate) const IP6T_SO_GET_INFO: i32 = 64;
pub(crate) const IP6T_SO_GET_ENTRIES: i32 = 65;

// linux/netfilter/nfnetlink.h

pub(crate) const NFNETLINK_V0: u8 = 0;
pub(crate) const NFNL_SUBSYS_CTNETLINK: u8 = 1;
pub(crate) const NFNL_SUBSYS_ULOG: u8 = 4;
pub(crate) const NFNL_SUBSYS_NFTABLES: u8 = 10;
pub(crate) const NFNL_SUBSYS_NFT_COMPAT: u8 = 11;
pub(crate) const NFNL_MSG_BATCH_BEGIN: u16 = 0x10;
pub(crate) const NFNL_MSG_BATCH_END: u16 = 0x11;

// enum nfnl_batch_attributes
pub(crate) const NFNL_BATCH_GENID: u16 = 1;

// linux/netfilter/nf_tables.h

// enum nft_registers
pub(crate) const NFT_REG_VERDICT: u32 = 0;
pub(crate) const NFT_REG_1: u32 = 1;
pub(crate) const NFT_REG_2: u32 = 2;

// enum nft_verdicts
pub(crate) const NFT_JUMP: i32 = -3;
pub(crate) const NFT_GOTO: i32 = -4;
pub(crate) const NFT_RETURN: i32 = -5;

// enum nf_tables_msg_types
pub(crate) const NFT_MSG_NEWTABLE: u8 = 0;
pub(crate) const NFT_MSG_GETTABLE: u8 = 1;
pub(crate) const NFT_MSG_DELTABLE: u8 = 2;
pub(crate) const NFT_MSG_NEWCHAIN: u8 = 3;
pub(crate) const NFT_MSG_GETCHAIN: u8 = 4;
pub(crate) const NFT_MSG_DELCHAIN: u8 = 5;
pub(crate) const NFT_MSG_NEWRULE: u8 = 6;
pub(crate) const NFT_MSG_GETRULE: u8 = 7;
pub(crate) const NFT_MSG_DELRULE: u8 = 8;
pub(crate) const NFT_MSG_NEWSET: u8 = 9;
pub(crate) const NFT_MSG_GETSET: u8 = 10;
pub(crate) const NFT_MSG_NEWSETELEM: u8 = 12;
pub(crate) const NFT_MSG_GETSETELEM: u8 = 13;
pub(crate) const NFT_MSG_GETGEN: u8 = 16;
pub(crate) const NFT_MSG_GETOBJ: u8 = 19;
pub(crate) const NFT_MSG_GETFLOWTABLE: u8 = 23;

// enum nft_list_attributes
pub(crate) const NFTA_LIST_ELEM: u16 = 1;

// enum nft_hook_attributes
pub(crate) const NFTA_HOOK_HOOKNUM: u16 = 1;
pub(crate) const NFTA_HOOK_PRIORITY: u16 = 2;
pub(crate) const NFTA_HOOK_DEV: u16 = 3;
pub(crate) const NFTA_HOOK_DEVS: u16 = 4;
pub(crate) const NFTA_DEVICE_NAME: u16 = 1;

// enum nft_table_attributes
pub(crate) const NFTA_TABLE_NAME: u16 = 1;
pub(crate) const NFTA_TABLE_FLAGS: u16 = 2;

// enum nft_chain_attributes
pub(crate) const NFTA_CHAIN_TABLE: u16 = 1;
pub(crate) const NFTA_CHAIN_NAME: u16 = 3;
pub(crate) const NFTA_CHAIN_HOOK: u16 = 4;
pub(crate) const NFTA_CHAIN_POLICY: u16 = 5;
pub(crate) const NFTA_CHAIN_TYPE: u16 = 7;

// enum nft_rule_attributes
pub(crate) const NFTA_RULE_TABLE: u16 = 1;
pub(crate) const NFTA_RULE_CHAIN: u16 = 2;
pub(crate) const NFTA_RULE_HANDLE: u16 = 3;
pub(crate) const NFTA_RULE_EXPRESSIONS: u16 = 4;
pub(crate) const NFTA_RULE_USERDATA: u16 = 7;

// enum nft_set_flags
pub(crate) const NFT_SET_ANONYMOUS: u32 = 1;
pub(crate) const NFT_SET_CONSTANT: u32 = 2;
pub(crate) const NFT_SET_INTERVAL: u32 = 4;
pub(crate) const NFT_SET_TIMEOUT: u32 = 0x10;

// enum nft_set_attributes
pub(crate) const NFTA_SET_TABLE: u16 = 1;
pub(crate) const NFTA_SET_NAME: u16 = 2;
pub(crate) const NFTA_SET_FLAGS: u16 = 3;
pub(crate) const NFTA_SET_KEY_TYPE: u16 = 4;
pub(crate) const NFTA_SET_KEY_LEN: u16 = 5;
pub(crate) const NFTA_SET_ID: u16 = 10;
pub(crate) const NFTA_SET_GC_INTERVAL: u16 = 12;
pub(crate) const NFTA_SET_USERDATA: u16 = 13;

// enum nft_set_elem_flags
pub(crate) const NFT_SET_ELEM_INTERVAL_END: u32 = 1;

// enum nft_set_elem_attributes
pub(crate) const NFTA_SET_ELEM_KEY: u16 = 1;
pub(crate) const NFTA_SET_ELEM_FLAGS: u16 = 3;
pub(crate) const NFTA_SET_ELEM_TIMEOUT: u16 = 4;
pub(crate) const NFTA_SET_ELEM_EXPIRATION: u16 = 5;

// enum nft_set_elem_list_attributes
pub(crate) const NFTA_SET_ELEM_LIST_TABLE: u16 = 1;
pub(crate) const NFTA_SET_ELEM_LIST_SET: u16 = 2;
pub(crate) const NFTA_SET_ELEM_LIST_ELEMENTS: u16 = 3;

// enum nft_data_attributes
pub(crate) const NFTA_DATA_VALUE: u16 = 1;
pub(crate) const NFTA_DATA_VERDICT: u16 = 2;

// enum nft_verdict_attributes
pub(crate) const NFTA_VERDICT_CODE: u16 = 1;
pub(crate) const NFTA_VERDICT_CHAIN: u16 = 2;

// enum nft_expr_attributes
pub(crate) const NFTA_EXPR_NAME: u16 = 1;
pub(crate) const NFTA_EXPR_DATA: u16 = 2;

// enum nft_immediate_attributes
pub(crate) const NFTA_IMMEDIATE_DREG: u16 = 1;
pub(crate) const NFTA_IMMEDIATE_DATA: u16 = 2;

// enum nft_bitwise_attributes
pub(crate) const NFTA_BITWISE_SREG: u16 = 1;
pub(crate) const NFTA_BITWISE_DREG: u16 = 2;
pub(crate) const NFTA_BITWISE_LEN: u16 = 3;
pub(crate) const NFTA_BITWISE_MASK: u16 = 4;
pub(crate) const NFTA_BITWISE_XOR: u16 = 5;

// enum nft_cmp_ops, enum nft_cmp_attributes
pub(crate) const NFT_CMP_EQ: u32 = 0;
pub(crate) const NFT_CMP_NEQ: u32 = 1;
pub(crate) const NFT_CMP_LT: u32 = 2;
pub(crate) const NFT_CMP_LTE: u32 = 3;
pub(crate) const NFT_CMP_GT: u32 = 4;
pub(crate) const NFT_CMP_GTE: u32 = 5;
pub(crate) const NFTA_CMP_SREG: u16 = 1;
pub(crate) const NFTA_CMP_OP: u16 = 2;
pub(crate) const NFTA_CMP_DATA: u16 = 3;

// enum nft_range_ops, enum nft_range_attributes
pub(crate) const NFT_RANGE_EQ: u32 = 0;
pub(crate) const NFT_RANGE_NEQ: u32 = 1;
pub(crate) const NFTA_RANGE_SREG: u16 = 1;
pub(crate) const NFTA_RANGE_OP: u16 = 2;
pub(crate) const NFTA_RANGE_FROM_DATA: u16 = 3;
pub(crate) const NFTA_RANGE_TO_DATA: u16 = 4;

// enum nft_lookup_flags, enum nft_lookup_attributes
pub(crate) const NFT_LOOKUP_F_INV: u32 = 1;
pub(crate) const NFTA_LOOKUP_SET: u16 = 1;
pub(crate) const NFTA_LOOKUP_SREG: u16 = 2;
pub(crate) const NFTA_LOOKUP_DREG: u16 = 3;
pub(crate) const NFTA_LOOKUP_FLAGS: u16 = 5;

// enum nft_payload_bases, enum nft_payload_attributes
pub(crate) const NFT_PAYLOAD_NETWORK_HEADER: u32 = 1;
pub(crate) const NFT_PAYLOAD_TRANSPORT_HEADER: u32 = 2;
pub(crate) const NFTA_PAYLOAD_DREG: u16 = 1;
pub(crate) const NFTA_PAYLOAD_BASE: u16 = 2;
pub(crate) const NFTA_PAYLOAD_OFFSET: u16 = 3;
pub(crate) const NFTA_PAYLOAD_LEN: u16 = 4;

// enum nft_meta_keys, enum nft_meta_attributes
pub(crate) const NFT_META_PROTOCOL: u32 = 1;
pub(crate) const NFT_META_MARK: u32 = 3;
pub(crate) const NFT_META_IIF: u32 = 4;
pub(crate) const NFT_META_OIF: u32 = 5;
pub(crate) const NFT_META_IIFNAME: u32 = 6;
pub(crate) const NFT_META_OIFNAME: u32 = 7;
pub(crate) const NFT_META_SKUID: u32 = 10;
pub(crate) const NFT_META_SKGID: u32 = 11;
pub(crate) const NFT_META_NFPROTO: u32 = 15;
pub(crate) const NFT_META_L4PROTO: u32 = 16;
pub(crate) const NFTA_META_DREG: u16 = 1;
pub(crate) const NFTA_META_KEY: u16 = 2;
pub(crate) const NFTA_META_SREG: u16 = 3;

// enum nft_ct_keys, enum nft_ct_attributes
pub(crate) const NFT_CT_STATE: u32 = 0;
pub(crate) const NFT_CT_MARK: u32 = 3;
pub(crate) const NFT_CT_ZONE: u32 = 17;
pub(crate) const NFTA_OBJ_TABLE: u16 = 1;
pub(crate) const NFTA_FLOWTABLE_TABLE: u16 = 1;
pub(crate) const NFTA_CT_DREG: u16 = 1;
pub(crate) const NFTA_CT_KEY: u16 = 2;
pub(crate) const NFTA_CT_DIRECTION: u16 = 3;
pub(crate) const NFTA_CT_SREG: u16 = 4;

// enum nft_log_attributes
pub(crate) const NFTA_LOG_GROUP: u16 = 1;
pub(crate) const NFTA_LOG_PREFIX: u16 = 2;

// enum nft_redir_attributes
pub(crate) const NFTA_REDIR_REG_PROTO_MIN: u16 = 1;
pub(crate) const NFTA_REDIR_REG_PROTO_MAX: u16 = 2;
pub(crate) const NFTA_REDIR_FLAGS: u16 = 3;

// enum nft_nat_types, enum nft_nat_attributes
pub(crate) const NFT_NAT_DNAT: u32 = 1;
pub(crate) const NFTA_NAT_TYPE: u16 = 1;
pub(crate) const NFTA_NAT_REG_ADDR_MIN: u16 = 3;
pub(crate) const NFTA_NAT_REG_ADDR_MAX: u16 = 4;
pub(crate) const NFTA_NAT_REG_PROTO_MIN: u16 = 5;
pub(crate) const NFTA_NAT_REG_PROTO_MAX: u16 = 6;

// enum nft_fib_result, enum nft_fib_flags, enum nft_fib_attributes
pub(crate) const NFT_FIB_RESULT_ADDRTYPE: u32 = 3;
pub(crate) const NFTA_FIB_F_DADDR: u32 = 2;
pub(crate) const NFTA_FIB_DREG: u16 = 1;
pub(crate) const NFTA_FIB_RESULT: u16 = 2;
pub(crate) const NFTA_FIB_FLAGS: u16 = 3;

// enum nft_tproxy_attributes
pub(crate) const NFTA_TPROXY_FAMILY: u16 = 1;
pub(crate) const NFTA_TPROXY_REG_PORT: u16 = 3;

// enum nft_gen_attributes
pub(crate) const NFTA_GEN_ID: u16 = 1;

// linux/netfilter/nf_nat.h

/// The registers hold ports.
pub(crate) const NF_NAT_RANGE_PROTO_SPECIFIED: u32 = 2;

// linux/netfilter/nf_tables_compat.h

pub(crate) const NFNL_MSG_COMPAT_GET: u8 = 0;
pub(crate) const NFTA_COMPAT_NAME: u16 = 1;
pub(crate) const NFTA_COMPAT_REV: u16 = 2;
pub(crate) const NFTA_COMPAT_TYPE: u16 = 3;

// linux/netfilter/nfnetlink_conntrack.h

// enum cntl_msg_types
pub(crate) const IPCTNL_MSG_CT_GET: u8 = 1;
pub(crate) const IPCTNL_MSG_CT_DELETE: u8 = 2;

// enum ctattr_type
pub(crate) const CTA_TUPLE_ORIG: u16 = 1;
pub(crate) const CTA_STATUS: u16 = 3;
pub(crate) const CTA_ZONE: u16 = 18;

// enum ctattr_tuple
pub(crate) const CTA_TUPLE_IP: u16 = 1;
pub(crate) const CTA_TUPLE_PROTO: u16 = 2;

// enum ctattr_ip
pub(crate) const CTA_IP_V4_DST: u16 = 2;
pub(crate) const CTA_IP_V6_DST: u16 = 4;

// enum ctattr_l4proto
pub(crate) const CTA_PROTO_NUM: u16 = 1;
pub(crate) const CTA_PROTO_DST_PORT: u16 = 3;

// linux/netfilter/nf_conntrack_common.h

/// `IPS_DST_NAT | IPS_SRC_NAT`.
pub(crate) const IPS_NAT_MASK: u32 = 0x30;

// linux/in.h

pub(crate) const IPPROTO_TCP: u8 = 6;
pub(crate) const IPPROTO_UDP: u8 = 17;

// linux/netfilter/nfnetlink_log.h

// enum nfulnl_msg_types
pub(crate) const NFULNL_MSG_PACKET: u8 = 0;
pub(crate) const NFULNL_MSG_CONFIG: u8 = 1;

// enum nfulnl_attr_config
pub(crate) const NFULA_CFG_CMD: u16 = 1;
pub(crate) const NFULA_CFG_MODE: u16 = 2;
pub(crate) const NFULA_CFG_QTHRESH: u16 = 5;
pub(crate) const NFULNL_CFG_CMD_BIND: u8 = 1;
pub(crate) const NFULNL_COPY_PACKET: u8 = 2;

// enum nfulnl_attr_type
pub(crate) const NFULA_PACKET_HDR: u16 = 1;
pub(crate) const NFULA_MARK: u16 = 2;
pub(crate) const NFULA_TIMESTAMP: u16 = 3;
pub(crate) const NFULA_IFINDEX_INDEV: u16 = 4;
pub(crate) const NFULA_IFINDEX_OUTDEV: u16 = 5;
pub(crate) const NFULA_PAYLOAD: u16 = 9;
pub(crate) const NFULA_PREFIX: u16 = 10;
pub(crate) const NFULA_UID: u16 = 11;
pub(crate) const NFULA_GID: u16 = 14;

// sys/socket.h

pub(crate) const AF_INET: u8 = 2;
pub(crate) const AF_INET6: u8 = 10;

// linux/rtnetlink.h

pub(crate) use nix::libc::{
    RT_SCOPE_HOST, RTA_OIF, RTA_TABLE, RTM_DELADDR, RTM_DELROUTE, RTM_DELRULE, RTM_GETADDR, RTM_GETROUTE,
    RTM_GETRULE, RTM_NEWADDR, RTM_NEWROUTE, RTM_NEWRULE, RTN_LOCAL,
};
pub(crate) const RT_SCOPE_UNIVERSE: u8 = 0;
/// From here on three tables are the kernel's own.
pub(crate) const RT_TABLE_DEFAULT: u32 = 253;
pub(crate) const RT_TABLE_LOCAL: u32 = 255;

// linux/fib_rules.h

pub(crate) const FRA_PRIORITY: u16 = 6;
pub(crate) const FRA_FWMARK: u16 = 10;
/// In every dump; no length is -1.
pub(crate) const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
pub(crate) const FRA_TABLE: u16 = 15;
pub(crate) const FRA_FWMASK: u16 = 16;
pub(crate) const FRA_PROTOCOL: u16 = 21;
/// Look the table up.
pub(crate) const FR_ACT_TO_TBL: u8 = 1;

// linux/if_addr.h

pub(crate) use nix::libc::{IFA_ADDRESS, IFA_LOCAL};
/// Since 5.18.
pub(crate) const IFA_PROTO: u16 = 11;
/// Without it, even an address on `lo` can't be used for a moment.
pub(crate) const IFA_F_NODAD: u8 = 2;
