//! Capture of a pod's traffic by service meshes, and its reasons, without I/O: facts about a machine come through [`Host`].
//!
//! Strings ([`sources`], [`pod`], by the tables of [`settings`]) become a [`Capture`] of one mesh, and that becomes rules, each
//! with its [`RuleReason`]. [`recognition`] finds the reasons of live rules.
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
