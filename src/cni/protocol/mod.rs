//! The protocol between a container runtime and a plugin: the CNI specification 1.1 and earlier versions. Free of side effects,
//! so that a network configuration can be checked before it is written.

mod configuration;
mod keys;
mod terms;

pub(crate) use configuration::{
    ANNOTATIONS, LogTarget, MAX_BYTES, PartialConfiguration, Places, PluginConfiguration, TIMEOUT,
};
pub(crate) use keys::{CAPTURE, KEYS, KUBECONFIG, PluginFields, has_key, help};
pub(crate) use terms::{
    Attachment, AttachmentTarget, CniError, CniErrorCode, CniRequest, CniResult, CniVersion, RuntimePod,
    Verb, is_id, result,
};
