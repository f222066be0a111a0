//! A packet's way through rules: what becomes of it, and which rules it meets.
//!
//! The walk follows the kernel: at each hook the base chains in the order of their priorities, those of iptables and of
//! nf_tables alike, in each the rules in order, marks and addresses as earlier rules left them. It answers for the first packet of a
//! connection unless the packet says otherwise. Where a rule is not understood and could matter, the answer
//! is [`Verdict::Unknown`]; nothing is guessed.
//!
//! Not followed: whether there is a listener, whether routes, neighbours and addresses of `lo` exist, policy rules of others,
//! filters of tc, `rp_filter`, IPsec, bridges.

mod actions;
mod facts;
mod packet;
mod reach;
mod replay;
mod ties;
mod trace;
mod view;
mod walk;
mod ways;

pub use packet::{Direction, Packet, Routing};
pub use replay::{has_met_nat, is_untracked, replay};
pub use ties::walk;
pub use trace::{At, Matched, Observer, Outcome, Step, Trace, Verdict};
pub use view::{OriginOf, View, ViewChain, ViewRule};
pub use ways::{Reachability, Reachable};
