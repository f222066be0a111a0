//! The protocol between a container runtime and a plugin, by the CNI specification 1.1 and earlier versions.
//!
//! Pure: text to values or a [`Fault`]. Nothing here reads the environment, a file or a namespace, so that
//! a network configuration can be checked before it is written.

mod capture;
mod configuration;
mod environment;
mod fault;
mod fields;
mod keys;
mod result;
mod verb;
mod version;

pub(crate) use configuration::{
    Attachment, Configuration, LogTarget, MAX_BYTES, PartialConfiguration, Places, TIMEOUT,
};
pub(crate) use environment::{Pod, Request, Target};
pub(crate) use fault::{Code, Fault};
pub(crate) use fields::Fields;
pub(crate) use keys::{KEYS, names_kubeconfig};
pub(crate) use result::result;
pub(crate) use verb::Verb;
pub(crate) use version::Version;
