//! Table of the settings that pods of Istio give, as in its CNI plugin (`cni/pkg/plugin`, `sidecar_redirect.go`). Our annotation
//! of a setting, `sidecar-init/` and the flag's name, ranks above and accepts every value of the flag.

use super::Setting;

/// Istio's form of an annotation's value. Istio refuses to create pods with other values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnnotationForm {
    Mode,
    Ports,
    PortsOrAll,
    Networks,
    NetworksOrAll,
    Interfaces,
}

#[derive(Clone, Copy, Debug)]
pub struct AnnotationRow {
    pub setting: Setting,
    pub default: &'static str,
    pub always: &'static [&'static str],
    pub form: AnnotationForm,
}

const fn row(setting: Setting, default: &'static str, form: AnnotationForm) -> AnnotationRow {
    AnnotationRow { setting, default, always: &[], form }
}

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

pub const PROXY: &str = "istio-proxy";

pub const VARIABLES: &[(&str, Setting)] = &[
    ("ISTIO_META_DNS_CAPTURE", Setting::RedirectDns),
    ("ISTIO_META_DNS_CAPTURE", Setting::CaptureAllDns),
    ("INVALID_DROP", Setting::DropInvalid),
    ("ISTIO_DUAL_STACK", Setting::DualStack),
];

/// Fields of its security context. Without one, or with 0, the proxy is [`crate::istio::defaults::PROXY_ID`].
pub const FIELDS: &[(&str, Setting)] = &[("runAsUser", Setting::ProxyUid), ("runAsGroup", Setting::ProxyGid)];
