//! What a service mesh wants captured, and why.
//!
//! Pure: no system call, no file, no environment, no clock, no logging; what has to be asked of a machine goes
//! through [`Host`]. Data flows one way: words ([`sources`], by the tables of [`settings`]) become a configuration
//! and rules (of a [`mesh`], such as [`istio`]), which are then asked about: a packet's fate ([`explain`]), what is odd ([`lint`]), which
//! connections to try ([`probe`]), what the kernel reports ([`trace`]), what live rules mean ([`status`]), and what all
//! traffic does, drawn ([`picture`]). Who calls it, and what takes the rules, is unknown here.
#![forbid(unsafe_code)]

pub mod ambient;
pub mod basis;
pub mod data;
pub mod explain;
mod finding;
mod fold;
pub mod istio;
pub mod kuma;
mod limit;
pub mod linkerd;
pub mod lint;
pub mod mesh;
pub mod picture;
pub mod pod;
pub mod preview;
pub mod probe;
mod problem;
pub mod reason;
mod recognition;
pub mod settings;
pub mod sources;
pub mod status;
pub mod subject;
pub mod tone;
pub mod trace;
mod writing;

pub use basis::Basis;
pub use fold::{columns, fold, plain};
pub use problem::{Problem, Problems};
pub use reason::Reason;
pub use settings::Setting;
pub use sources::Host;
pub use subject::Subject;
pub use tone::Tone;
