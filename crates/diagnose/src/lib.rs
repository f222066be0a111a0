//! Answers about the rules of service meshes: what becomes of a packet ([`explain`]), which packets a change of settings
//! concerns ([`mod@compare`]), what is suspicious ([`lint`]), which connections to try ([`probe`]), what the kernel reports
//! ([`trace`]), what live rules do in one network namespace ([`status`]) and in all of a node ([`overview`]), and all
//! traffic, drawn ([`picture`]).
//!
//! Pure, as the crate `mesh` below it. Meshes are known by their traits alone: no module names one, but where a default has
//! to be some mesh's.
#![forbid(unsafe_code)]

#[cfg(test)]
mod answers_tests;
pub mod basis;
pub mod compare;
pub mod explain;
pub mod finding;
mod fold;
mod groups;
pub mod lint;
mod live_proxy;
pub mod overview;
mod packets;
pub mod picture;
mod pod_packets;
pub mod probe;
#[cfg(test)]
mod random;
pub mod status;
pub mod style;
pub mod subject;
mod subject_packet;
pub mod trace;
mod traffic;
mod unnamed;

pub use basis::Basis;
pub use fold::{columns, fold, plain};
pub use live_proxy::live_proxy;
pub use style::{Span, Style, TextLine, painted};
pub use subject::Subject;
pub use subject_packet::{Prepared, SubjectPacket};
