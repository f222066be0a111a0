//! The protocol between a container runtime and a plugin, by the CNI specification 1.1 and earlier versions.
//!
//! Pure: text to values or a [`CniError`]. Nothing here reads the environment, a file or a namespace, so that
//! a network configuration can be checked before it is written.

mod configuration;
mod environment;
mod keys;
mod terms;

pub(crate) use configuration::{
    ANNOTATIONS, Attachment, LogTarget, MAX_BYTES, PartialConfiguration, Places, PluginConfiguration, TIMEOUT,
};
pub(crate) use environment::{AttachmentTarget, CniRequest, RuntimePod, is_id};
pub(crate) use keys::{CAPTURE, KEYS, KUBECONFIG, PluginFields, has_key, help};
pub(crate) use terms::{CniError, CniErrorCode, CniVersion, Verb, result};
