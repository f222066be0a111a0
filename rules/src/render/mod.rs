//! Rule sets and changes as text for other programs.

pub mod iptables;
pub mod listed;
pub mod nft;
