//! Computes, without I/O, how service meshes capture a pod's traffic, and why; machine facts come from [`Host`].
//!
//! The [`settings`] tables turn strings ([`sources`], [`pod`]) into one mesh's [`Capture`], which becomes rules, each with a
//! [`RuleReason`]. [`recognition`] finds the reasons of live rules.
#![forbid(unsafe_code)]

pub mod ambient;
pub mod data;
mod facts;
pub mod istio;
pub mod kuma;
pub mod limit;
pub mod linkerd;
mod mesh;
pub mod pod;
mod policy;
pub mod preview;
mod problem;
pub mod reason;
pub mod recognition;
mod registry;
pub mod settings;
pub mod sources;
mod visible;
mod writing;

pub use facts::{
    ConfigKeys, DNS_PORT, Ipv6Advice, ListItem, Listeners, Proxy, ProxyProgram, Selection, Selector, loopback,
};
pub use mesh::{Feature, Mesh};
pub use policy::{CapturePart, CapturePolicy, PolicyFacts};
pub use problem::{InputProblem, Problems};
pub use reason::RuleReason;
pub use registry::{
    Capture, MeshEntry, OWNERS, Resolved, configure, made, of, parse_settings_text, quoted, resolve,
    settings_text,
};
pub use settings::Setting;
pub use sources::Host;
pub use visible::{is_obeyed, visible, visible_lines};
