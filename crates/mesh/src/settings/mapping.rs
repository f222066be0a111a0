//! The table by which pods say what flags say: annotations, fields and variables of the proxy's container.
//!
//! Istio's rows are those of its CNI plugin (`cni/pkg/plugin`, `sidecar_redirect.go`). Every setting of capture has an
//! annotation of our own besides, `sidecar-init/` and the flag's name, which wins and takes whatever the flag takes.

use super::Setting;

/// How Istio wants the value of an annotation written. It refuses pods with others when they are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The name of a mode.
    Mode,
    /// Ports, each on its own.
    Ports,
    /// The same, or `*`.
    PortsOrAll,
    /// Networks.
    Networks,
    /// The same, or `*`.
    NetworksOrAll,
    /// Names of interfaces.
    Interfaces,
}

/// A setting that annotations of Istio say.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The annotations; the first that a pod has counts.
    pub annotations: &'static [&'static str],
    pub setting: Setting,
    /// What a pod without the annotation means.
    pub default: &'static str,
    /// Items of the list that are always there.
    pub always: &'static [&'static str],
    pub form: Form,
}

const fn row(
    annotations: &'static [&'static str],
    setting: Setting,
    default: &'static str,
    form: Form,
) -> Row {
    Row { annotations, setting, default, always: &[], form }
}

/// What annotations of Istio say.
pub const TABLE: &[Row] = &[
    row(&["sidecar.istio.io/interceptionMode"], Setting::InterceptionMode, "REDIRECT", Form::Mode),
    row(
        &["traffic.sidecar.istio.io/includeOutboundIPRanges"],
        Setting::ServiceCidr,
        "*",
        Form::NetworksOrAll,
    ),
    row(
        &["traffic.sidecar.istio.io/excludeOutboundIPRanges"],
        Setting::ServiceExcludeCidr,
        "",
        Form::Networks,
    ),
    row(&["traffic.sidecar.istio.io/includeInboundPorts"], Setting::InboundPorts, "*", Form::PortsOrAll),
    Row {
        annotations: &["traffic.sidecar.istio.io/excludeInboundPorts"],
        setting: Setting::InboundPortsExclude,
        default: "15020",
        // The agent's metrics, the proxy's readiness, the proxy's metrics: asked by those outside of the mesh.
        always: &["15020", "15021", "15090"],
        form: Form::Ports,
    },
    row(&["traffic.sidecar.istio.io/includeOutboundPorts"], Setting::OutboundPorts, "", Form::Ports),
    row(
        &["traffic.sidecar.istio.io/excludeOutboundPorts"],
        Setting::OutboundPortsExclude,
        "15020",
        Form::Ports,
    ),
    row(
        &["istio.io/reroute-virtual-interfaces", "traffic.sidecar.istio.io/kubevirtInterfaces"],
        Setting::VmInterfaces,
        "",
        Form::Interfaces,
    ),
    row(&["traffic.sidecar.istio.io/excludeInterfaces"], Setting::ExcludeInterfaces, "", Form::Interfaces),
];

/// The container whose fields and variables say the rest.
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

impl Row {
    /// The row of a setting.
    pub fn of(setting: Setting) -> Option<&'static Self> {
        TABLE.iter().find(|row| row.setting == setting)
    }
}
