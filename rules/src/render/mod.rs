//! Rule sets and changes as text for other programs, and as pictures.

pub mod dot;
pub mod graph;
pub mod iptables;
pub mod listed;
pub mod mermaid;
pub mod nft;
pub mod svg;
