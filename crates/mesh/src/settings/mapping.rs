//! Settings that Istio's CNI plugin reads from a pod (`cni/pkg/plugin`, `sidecar_redirect.go`). Our annotation for a setting,
//! `sidecar-init/` and the flag's name, overrides Istio's and accepts every value of the flag.

use super::Setting;

/// Form of an annotation's value. Istio refuses to create pods with other values.
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
    // Agent metrics, proxy readiness and proxy metrics, called from outside the mesh.
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

/// Fields of the proxy's security context. An absent or zero field means [`crate::istio::defaults::PROXY_ID`].
pub const FIELDS: &[(&str, Setting)] = &[("runAsUser", Setting::ProxyUid), ("runAsGroup", Setting::ProxyGid)];
