//! The protocol between a container runtime and a plugin, by the CNI specification 1.1 and earlier versions.
//!
//! Pure: text to values or a [`CniError`]. Nothing here reads the environment, a file or a namespace, so that
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
    ANNOTATIONS, Attachment, LogTarget, MAX_BYTES, PartialConfiguration, Places, PluginConfiguration, TIMEOUT,
};
pub(crate) use environment::{AttachmentTarget, CniRequest, RuntimePod, is_id};
pub(crate) use fault::{CniError, CniErrorCode};
pub(crate) use fields::PluginFields;
pub(crate) use keys::{CAPTURE, KEYS, KUBECONFIG, has_key};
pub(crate) use result::result;
pub(crate) use verb::Verb;
pub(crate) use version::CniVersion;
