//! What a container runtime says to a plugin and what it is answered, by the CNI specification 1.1 and those before it.
//!
//! Pure: words go in, values or a [`Fault`] come out. Nothing here reads the environment, a file or a namespace, so that
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

pub(crate) use configuration::{Attachment, Configuration, LogTarget, MAX_BYTES, Places, Read, TIMEOUT};
pub(crate) use environment::{Pod, Request, Target};
pub(crate) use fault::{Code, Fault};
pub(crate) use fields::Fields;
pub(crate) use keys::{KEYS, names_kubeconfig};
pub(crate) use result::result;
pub(crate) use verb::Verb;
pub(crate) use version::Version;
