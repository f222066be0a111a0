//! What service meshes capture of a pod's traffic, and why.
//!
//! Pure: no system call, no file, no environment, no clock, no logging; facts about a machine come through [`Host`].
//! Data flows one way: words ([`sources`], [`pod`], by the tables of [`settings`]) become a [`Capture`] of one mesh, and that
//! becomes rules, each with its [`Reason`]. [`recognition`] finds the reasons of live rules. Answers about rules are the
//! crate `diagnose`'s, which is unknown here, as are all callers.
#![forbid(unsafe_code)]

pub mod ambient;
pub mod data;
pub mod finding;
pub mod istio;
pub mod kuma;
pub mod limit;
pub mod linkerd;
mod mesh;
pub mod pod;
pub mod preview;
mod problem;
pub mod reason;
pub mod recognition;
pub mod settings;
pub mod sources;
mod writing;

pub use mesh::{
    Capture, ConfigKeys, DNS_PORT, Feature, ListItem, Listeners, Mesh, NoIpv6, OWNERS, Policy, Proxy,
    ProxyProgram, Resolved, Selector, Unused, configure, loopback, made, of, parse_settings_text, resolve,
    settings_text,
};
pub use problem::{Problem, Problems};
pub use reason::Reason;
pub use settings::Setting;
pub use sources::Host;
