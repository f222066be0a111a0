//! The table by which pods give settings: annotations, fields and variables of the proxy's container.
//!
//! The rows are those of Istio's CNI plugin (`cni/pkg/plugin`, `sidecar_redirect.go`). Every setting of capture has an
//! annotation of our own besides, `sidecar-init/` and the flag's name, which wins and takes whatever the flag takes.

use super::Setting;

/// How Istio wants the value of an annotation written. It refuses pods with others when they are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnnotationForm {
    /// The name of a mode.
    Mode,
    /// Ports, each on its own.
    Ports,
    /// The same, or `*`.
    PortsOrAll,
    Networks,
    /// The same, or `*`.
    NetworksOrAll,
    Interfaces,
}

/// A setting that annotations of Istio give, those of its row in the table of settings.
#[derive(Clone, Copy, Debug)]
pub struct AnnotationRow {
    pub setting: Setting,
    /// What a pod without the annotation means.
    pub default: &'static str,
    /// Items of the list that are always there.
    pub always: &'static [&'static str],
    pub form: AnnotationForm,
}

const fn row(setting: Setting, default: &'static str, form: AnnotationForm) -> AnnotationRow {
    AnnotationRow { setting, default, always: &[], form }
}

/// The settings that annotations of Istio give.
pub const TABLE: &[AnnotationRow] = &[
    row(Setting::InterceptionMode, "REDIRECT", AnnotationForm::Mode),
    row(Setting::ServiceCidr, "*", AnnotationForm::NetworksOrAll),
    row(Setting::ServiceExcludeCidr, "", AnnotationForm::Networks),
    row(Setting::InboundPorts, "*", AnnotationForm::PortsOrAll),
    // The agent's metrics, the proxy's readiness, the proxy's metrics: called from outside of the mesh.
    AnnotationRow {
        always: &["15020", "15021", "15090"],
        ..row(Setting::InboundPortsExclude, "15020", AnnotationForm::Ports)
    },
    row(Setting::OutboundPorts, "", AnnotationForm::Ports),
    row(Setting::OutboundPortsExclude, "15020", AnnotationForm::Ports),
    row(Setting::VmInterfaces, "", AnnotationForm::Interfaces),
    row(Setting::ExcludeInterfaces, "", AnnotationForm::Interfaces),
];

/// The container whose fields and variables give the rest.
pub const PROXY: &str = "istio-proxy";

/// Variables of the proxy's container, and the switches that they are.
pub const VARIABLES: &[(&str, Setting)] = &[
    ("ISTIO_META_DNS_CAPTURE", Setting::RedirectDns),
    ("ISTIO_META_DNS_CAPTURE", Setting::CaptureAllDns),
    ("INVALID_DROP", Setting::DropInvalid),
    ("ISTIO_DUAL_STACK", Setting::DualStack),
];

/// Fields of its security context, and the settings that they are. Without one, or with 0, the proxy counts as user and
/// group [`crate::istio::defaults::PROXY_ID`].
pub const FIELDS: &[(&str, Setting)] = &[("runAsUser", Setting::ProxyUid), ("runAsGroup", Setting::ProxyGid)];

impl AnnotationRow {
    /// The annotations; the first that a pod has counts.
    pub fn annotations(&self) -> &'static [&'static str] {
        self.setting.row().annotations
    }
}
