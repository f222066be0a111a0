//! Numbers of the kernel's headers, by the names they have there.
//!
//! From `linux/netfilter/nf_tables.h`, `linux/netfilter/nfnetlink.h` and `linux/netfilter.h`. Only what is used.

/// `NFNL_SUBSYS_NFTABLES`, as a subsystem and in the upper half of a message type.
pub(super) const SUBSYSTEM: u16 = 10;
const TYPE: u16 = SUBSYSTEM << 8;
pub(super) const BATCH_BEGIN: u16 = 0x10;
pub(super) const BATCH_END: u16 = 0x11;
pub(super) const BATCH_GENERATION: u16 = 1;

pub(super) const NEW_TABLE: u16 = TYPE;
pub(super) const GET_TABLE: u16 = TYPE | 1;
pub(super) const DELETE_TABLE: u16 = TYPE | 2;
pub(super) const NEW_CHAIN: u16 = TYPE | 3;
pub(super) const DELETE_CHAIN: u16 = TYPE | 5;
pub(super) const GET_CHAIN: u16 = TYPE | 4;
pub(super) const NEW_RULE: u16 = TYPE | 6;
pub(super) const GET_RULE: u16 = TYPE | 7;
pub(super) const NEW_SET: u16 = TYPE | 9;
pub(super) const GET_SET: u16 = TYPE | 10;
pub(super) const NEW_ELEMENTS: u16 = TYPE | 12;
pub(super) const GET_ELEMENTS: u16 = TYPE | 13;
pub(super) const GET_GENERATION: u16 = TYPE | 16;

pub(super) const GENERATION_ID: u16 = 1;
pub(super) const TABLE_NAME: u16 = 1;
pub(super) const TABLE_FLAGS: u16 = 2;

pub(super) const CHAIN_TABLE: u16 = 1;
pub(super) const CHAIN_NAME: u16 = 3;
pub(super) const CHAIN_HOOK: u16 = 4;
pub(super) const CHAIN_POLICY: u16 = 5;
pub(super) const CHAIN_TYPE: u16 = 7;
pub(super) const HOOK_NUMBER: u16 = 1;
pub(super) const HOOK_PRIORITY: u16 = 2;

pub(super) const RULE_TABLE: u16 = 1;
pub(super) const RULE_CHAIN: u16 = 2;
pub(super) const RULE_EXPRESSIONS: u16 = 4;
pub(super) const RULE_USERDATA: u16 = 7;

pub(super) const SET_TABLE: u16 = 1;
pub(super) const SET_NAME: u16 = 2;
pub(super) const SET_FLAGS: u16 = 3;
pub(super) const SET_KEY_TYPE: u16 = 4;
pub(super) const SET_KEY_LENGTH: u16 = 5;
pub(super) const SET_ID: u16 = 10;
pub(super) const SET_USERDATA: u16 = 13;
/// `NFT_SET_INTERVAL`.
pub(super) const SET_IS_INTERVAL: u32 = 4;

pub(super) const ELEMENTS_TABLE: u16 = 1;
pub(super) const ELEMENTS_SET: u16 = 2;
pub(super) const ELEMENTS_LIST: u16 = 3;
pub(super) const ELEMENT_KEY: u16 = 1;
pub(super) const ELEMENT_FLAGS: u16 = 3;
/// `NFT_SET_ELEM_INTERVAL_END`.
pub(super) const ELEMENT_IS_END: u32 = 1;

/// `NFPROTO_INET`: tables of both families.
pub(super) const INET: u8 = 1;
/// `NFTA_LIST_ELEM`.
pub(super) const ITEM: u16 = 1;
/// `NFTA_DATA_VALUE` and `NFTA_DATA_VERDICT`.
pub(super) const DATA_VALUE: u16 = 1;
pub(super) const DATA_VERDICT: u16 = 2;
/// `NF_DROP`, `NF_ACCEPT` (`linux/netfilter.h`).
pub(super) const NF_DROP: u32 = 0;
pub(super) const NF_ACCEPT: u32 = 1;
