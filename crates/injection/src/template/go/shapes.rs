//! Go's structures, as far as unset fields, or the order of fields, distinguish them from maps.

use crate::mesh_config::proxy_config;
use gtmpl_ng::Value;
use std::collections::HashMap;

/// The type of a field that JSON leaves out where it is empty. In the Go structure it is there, with the zero of its type.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unset {
    Text,
    List,
    Map,
    Bool,
    Number,
}

impl Unset {
    /// The zero of its type.
    pub(super) fn value(self) -> Value {
        match self {
            Self::Text => "".into(),
            Self::List => Value::Array(Vec::new()),
            Self::Map => Value::Map(HashMap::new()),
            Self::Bool => false.into(),
            Self::Number => 0_u8.into(),
        }
    }

    /// Whether a structure has a field of this kind and name; others of these names are pointers.
    pub(super) fn is_of(self, name: &str) -> bool {
        ALL.iter().any(|shape| shape.unset().iter().any(|(known, zero)| *known == name && *zero == self))
    }
}

/// A structure with unset fields that templates read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum GoStructure {
    Metadata,
    Spec,
    Container,
    Port,
    Resources,
    ProxyConfig,
    MeshConfig,
    /// Whatever has no unset fields that matter.
    Other,
}

const ALL: [GoStructure; 7] = [
    GoStructure::Metadata,
    GoStructure::Spec,
    GoStructure::Container,
    GoStructure::Port,
    GoStructure::Resources,
    GoStructure::ProxyConfig,
    GoStructure::MeshConfig,
];
/// The structures of which the order of fields counts.
pub(super) const ORDERED: [GoStructure; 2] = [GoStructure::Port, GoStructure::ProxyConfig];

impl GoStructure {
    /// What a field of JSON holds, itself or in a list.
    pub(super) fn of(self, field: &str) -> Self {
        match (self, field) {
            (Self::Spec, "containers" | "initContainers") => Self::Container,
            (Self::Container, "ports") => Self::Port,
            (Self::Container, "resources") => Self::Resources,
            (Self::MeshConfig, "defaultConfig") => Self::ProxyConfig,
            _ => Self::Other,
        }
    }

    /// The fields that JSON leaves out where they are empty, and templates see all the same.
    pub(super) fn unset(self) -> &'static [(&'static str, Unset)] {
        match self {
            Self::Metadata => &[
                ("Name", Unset::Text),
                ("GenerateName", Unset::Text),
                ("Namespace", Unset::Text),
                ("UID", Unset::Text),
                ("Labels", Unset::Map),
                ("Annotations", Unset::Map),
                ("OwnerReferences", Unset::List),
                ("Finalizers", Unset::List),
            ],
            Self::Spec => &[
                ("Containers", Unset::List),
                ("InitContainers", Unset::List),
                ("Volumes", Unset::List),
                ("ImagePullSecrets", Unset::List),
                ("Tolerations", Unset::List),
                ("HostAliases", Unset::List),
                ("NodeSelector", Unset::Map),
                ("ServiceAccountName", Unset::Text),
                ("NodeName", Unset::Text),
                ("RestartPolicy", Unset::Text),
                ("DNSPolicy", Unset::Text),
                ("Hostname", Unset::Text),
                ("Subdomain", Unset::Text),
                ("SchedulerName", Unset::Text),
                ("PriorityClassName", Unset::Text),
                ("HostNetwork", Unset::Bool),
                ("HostPID", Unset::Bool),
                ("HostIPC", Unset::Bool),
            ],
            Self::Container => &[
                ("Name", Unset::Text),
                ("Image", Unset::Text),
                ("ImagePullPolicy", Unset::Text),
                ("WorkingDir", Unset::Text),
                ("TerminationMessagePath", Unset::Text),
                ("Command", Unset::List),
                ("Args", Unset::List),
                ("Env", Unset::List),
                ("EnvFrom", Unset::List),
                ("Ports", Unset::List),
                ("VolumeMounts", Unset::List),
                ("Stdin", Unset::Bool),
                ("TTY", Unset::Bool),
            ],
            Self::Port => &[
                ("Name", Unset::Text),
                ("Protocol", Unset::Text),
                ("HostIP", Unset::Text),
                ("HostPort", Unset::Number),
            ],
            Self::Resources => &[("Limits", Unset::Map), ("Requests", Unset::Map)],
            Self::ProxyConfig => &[
                ("ConfigPath", Unset::Text),
                ("BinaryPath", Unset::Text),
                ("DiscoveryAddress", Unset::Text),
                ("ZipkinAddress", Unset::Text),
                ("StatsdUdpAddress", Unset::Text),
                ("AvailabilityZone", Unset::Text),
                ("CustomConfigFile", Unset::Text),
                ("ProxyBootstrapTemplatePath", Unset::Text),
                ("MeshId", Unset::Text),
                ("ExtraStatTags", Unset::List),
                ("CaCertificatesPem", Unset::List),
                ("ProxyMetadata", Unset::Map),
                ("RuntimeValues", Unset::Map),
                ("ProxyAdminPort", Unset::Number),
                ("StatNameLength", Unset::Number),
                ("StatusPort", Unset::Number),
            ],
            Self::MeshConfig => &[
                ("AccessLogFile", Unset::Text),
                ("AccessLogFormat", Unset::Text),
                ("IngressClass", Unset::Text),
                ("IngressService", Unset::Text),
                ("IngressSelector", Unset::Text),
                ("RootNamespace", Unset::Text),
                ("TrustDomain", Unset::Text),
                ("CaCertificates", Unset::List),
                ("DiscoverySelectors", Unset::List),
                ("ExtensionProviders", Unset::List),
                ("ServiceSettings", Unset::List),
                ("TrustDomainAliases", Unset::List),
                ("DisableEnvoyListenerLog", Unset::Bool),
                ("EnableEnvoyAccessLogService", Unset::Bool),
                ("EnableTracing", Unset::Bool),
                ("VerifyCertificateAtClient", Unset::Bool),
                ("ProxyHttpPort", Unset::Number),
                ("ProxyInboundListenPort", Unset::Number),
                ("ProxyListenPort", Unset::Number),
            ],
            Self::Other => &[],
        }
    }

    /// The place of a field in Go's order, where templates print the structure as JSON: of a port, and of a ProxyConfig. Other
    /// fields come after.
    pub(super) fn place(self, name: &str) -> usize {
        const OF_PORT: [&str; 5] = ["name", "hostPort", "containerPort", "protocol", "hostIP"];
        let place = match self {
            Self::Port => OF_PORT.iter().position(|known| *known == name),
            Self::ProxyConfig => proxy_config::names().position(|known| known == name),
            Self::Metadata
            | Self::Spec
            | Self::Container
            | Self::Resources
            | Self::MeshConfig
            | Self::Other => None,
        };
        place.unwrap_or(usize::MAX)
    }
}
