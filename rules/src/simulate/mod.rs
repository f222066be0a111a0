//! Simulation of a packet's path through rules: its verdict, and the rules that it meets.
//!
//! The walk follows the kernel: each hook's base chains by priority, both iptables' and nf_tables', and each chain's rules in
//! order, with marks and addresses as changed by earlier rules. A packet counts as its connection's first unless its state
//! differs. If an unknown rule could matter, the verdict is [`Verdict::Unknown`]; nothing is guessed.
//!
//! Not modelled: listeners; routes, neighbours and addresses of `lo`; other policy rules; tc filters; `rp_filter`; IPsec;
//! bridges.

mod actions;
mod atlas;
mod facts;
mod marks;
mod replay;
mod set;
mod ties;
mod trace;
mod view;
mod walk;

pub use crate::net::{address, number};
pub use atlas::{Atlas, Region, Unreached, Work, trace, unreached, walk};
pub use facts::Binding;
pub use marks::Marks;
pub use replay::{has_met_nat, is_untracked, replay};
pub use set::{Direction, LOOPBACK, Packet, PacketSet, Routing, Way, interface_name, loopback_interface};
pub use trace::{At, Ending, Matched, NatTarget, Outcome, Step, Verdict};
pub use view::{View, ViewChain, ViewRule, statements};
