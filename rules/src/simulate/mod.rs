//! A packet's way through rules: its end, and the rules that it meets.
//!
//! The walk follows the kernel: at each hook the base chains in the order of their priorities, those of iptables and of
//! nf_tables alike, in each the rules in order, marks and addresses as earlier rules left them. It answers for the first packet of a
//! connection unless the packet says otherwise. Where a rule is not understood and could matter, the answer
//! is [`Verdict::Unknown`]; nothing is guessed.
//!
//! Not followed: whether there is a listener, whether routes, neighbours and addresses of `lo` exist, policy rules of others,
//! filters of tc, `rp_filter`, IPsec, bridges.

mod actions;
mod atlas;
mod facts;
mod marks;
mod replay;
mod runs;
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
