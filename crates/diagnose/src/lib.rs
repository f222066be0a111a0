//! Answers about the rules of service meshes: what becomes of a packet ([`explain`]), which packets a change of settings
//! concerns ([`mod@compare`]), what is suspicious ([`lint`]), which connections to try ([`probe`]), what the kernel reports
//! ([`trace`]), what live rules do in one network namespace ([`status`]) and on a node ([`overview`]), and all traffic, drawn
//! ([`picture`]). Pure, as the crate `mesh` below it; meshes are known by their traits alone.
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
