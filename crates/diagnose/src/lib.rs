//! Answers about service meshes' rules: the verdict for a packet ([`explain`]), the packets that a change of settings
//! affects ([`mod@compare`]), suspicious settings ([`lint`]), test connections ([`probe`]), the kernel's reports ([`trace`]),
//! the effect of live rules in one network namespace ([`status`]) and on a node ([`overview`]), and a drawing of all traffic
//! ([`picture`]). Free of I/O, like the crate `mesh`; meshes are known only by their traits.
#![forbid(unsafe_code)]

#[cfg(test)]
mod answers_tests;
pub mod basis;
pub mod compare;
pub mod explain;
pub mod finding;
mod groups;
pub mod lint;
mod live_proxy;
pub mod overview;
mod packets;
pub mod picture;
mod pod_packets;
pub mod probe;
#[cfg(test)]
mod random_tests;
pub mod status;
pub mod style;
pub mod subject;
pub mod trace;
mod traffic;

pub use basis::Basis;
pub use live_proxy::live_proxy;
pub use style::{Span, Style, TextLine, columns, fold, listed, painted, plain};
pub use subject::{Prepared, Subject, SubjectPacket};
