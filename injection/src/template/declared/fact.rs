//! Facts that a template's texts may name: what is known of a pod's sidecar, as text.

use super::writing::Scene;
use crate::configuration::Mesh;
use crate::template::opentelemetry;
use serde_json::Value;

/// A fact of the sidecar, or of the pod around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fact {
    AppContainers,
    CaAddress,
    CanonicalName,
    CanonicalRevision,
    Cluster,
    Domain,
    FirstContainer,
    InboundPort,
    InitImage,
    LogLevel,
    MeshId,
    Mode,
    Namespace,
    Network,
    OutboundPort,
    Owner,
    PodPortNumbers,
    PodPorts,
    ProxyComponentLogLevel,
    ProxyConfig,
    ProxyGid,
    ProxyImage,
    ProxyLogLevel,
    ProxyUid,
    PullPolicy,
    ReadinessDelay,
    ReadinessFailures,
    ReadinessPeriod,
    ResourceAttributes,
    Revision,
    StartupFailures,
    StatusPort,
    TrustDomain,
    Workload,
}

/// Each with its name.
pub(super) const FACTS: [(&str, Fact); 34] = [
    ("appContainers", Fact::AppContainers),
    ("caAddress", Fact::CaAddress),
    ("canonicalName", Fact::CanonicalName),
    ("canonicalRevision", Fact::CanonicalRevision),
    ("cluster", Fact::Cluster),
    ("domain", Fact::Domain),
    ("firstContainer", Fact::FirstContainer),
    ("inboundPort", Fact::InboundPort),
    ("initImage", Fact::InitImage),
    ("logLevel", Fact::LogLevel),
    ("meshId", Fact::MeshId),
    ("mode", Fact::Mode),
    ("namespace", Fact::Namespace),
    ("network", Fact::Network),
    ("outboundPort", Fact::OutboundPort),
    ("owner", Fact::Owner),
    ("podPortNumbers", Fact::PodPortNumbers),
    ("podPorts", Fact::PodPorts),
    ("proxyComponentLogLevel", Fact::ProxyComponentLogLevel),
    ("proxyConfig", Fact::ProxyConfig),
    ("proxyGid", Fact::ProxyGid),
    ("proxyImage", Fact::ProxyImage),
    ("proxyLogLevel", Fact::ProxyLogLevel),
    ("proxyUid", Fact::ProxyUid),
    ("pullPolicy", Fact::PullPolicy),
    ("readinessDelay", Fact::ReadinessDelay),
    ("readinessFailures", Fact::ReadinessFailures),
    ("readinessPeriod", Fact::ReadinessPeriod),
    ("resourceAttributes", Fact::ResourceAttributes),
    ("revision", Fact::Revision),
    ("startupFailures", Fact::StartupFailures),
    ("statusPort", Fact::StatusPort),
    ("trustDomain", Fact::TrustDomain),
    ("workload", Fact::Workload),
];

impl Fact {
    /// What it is for a pod; `None` where it isn't set.
    pub(super) fn value(self, scene: &Scene<'_>) -> Option<String> {
        let (sidecar, around) = (scene.sight.sidecar, scene.sight.around);
        let configuration = scene.sight.configuration;
        let label = |key: &str| Some(scene.label(key)?.to_owned());
        let workload = around.workload.as_ref();
        let set = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        match self {
            Self::AppContainers => set(&scene.app_containers().join(",")),
            Self::CaAddress => set(&configuration.values.ca_address),
            // The order in which Istio asks, `canonical_service` of its telemetry.
            Self::CanonicalName => label("service.istio.io/canonical-name")
                .or_else(|| label("app.kubernetes.io/name"))
                .or_else(|| label("app"))
                .or_else(|| workload.and_then(|workload| set(label_value(&workload.name)))),
            Self::CanonicalRevision => label("service.istio.io/canonical-revision")
                .or_else(|| label("app.kubernetes.io/version"))
                .or_else(|| label("version"))
                .or_else(|| Some("latest".to_owned())),
            Self::Cluster => set(&sidecar.cluster),
            Self::Domain => set(&sidecar.domain),
            Self::FirstContainer => scene.app_containers().first().map(|name| (*name).to_owned()),
            Self::InboundPort => Some(sidecar.traffic.inbound_port.to_string()),
            Self::InitImage => set(&sidecar.init_image),
            Self::LogLevel => set(&sidecar.log_level),
            Self::MeshId => set(&sidecar.mesh_id),
            Self::Mode => Some(sidecar.mode.name().to_owned()),
            Self::Namespace => set(&around.namespace.name),
            Self::Network => sidecar.network.as_deref().and_then(set),
            Self::OutboundPort => Some(sidecar.traffic.outbound_port.to_string()),
            Self::Owner => workload.filter(|workload| !workload.name.is_empty()).map(|workload| {
                format!(
                    "kubernetes://apis/{}/namespaces/{}/{}s/{}",
                    workload.api_version,
                    workload.namespace,
                    workload.kind.to_lowercase(),
                    workload.name
                )
            }),
            Self::PodPortNumbers => {
                let ports = ports(scene);
                let numbers = ports.iter().filter_map(|port| port.get("containerPort"));
                Some(numbers.map(Value::to_string).collect::<Vec<_>>().join(","))
            }
            Self::PodPorts => Some(Value::Array(ports(scene)).to_string()),
            Self::ProxyComponentLogLevel => sidecar.proxy_component_log_level.as_deref().and_then(set),
            Self::ProxyConfig => Some(Mesh::beyond_defaults(&sidecar.proxy_config).to_string()),
            Self::ProxyGid => Some(sidecar.proxy_identity.group.to_string()),
            Self::ProxyImage => set(&sidecar.proxy_image),
            Self::ProxyLogLevel => sidecar.proxy_log_level.as_deref().and_then(set),
            Self::ProxyUid => Some(sidecar.proxy_identity.user.to_string()),
            Self::PullPolicy => sidecar.pull_policy.as_deref().and_then(set),
            Self::ReadinessDelay => Some(sidecar.readiness.initial_delay.to_string()),
            Self::ReadinessFailures => Some(sidecar.readiness.failures.to_string()),
            Self::ReadinessPeriod => Some(sidecar.readiness.period.to_string()),
            Self::ResourceAttributes => opentelemetry::asked(&configuration.mesh).then(|| {
                let annotation = |name: &str| Some(scene.annotation(name)?.to_owned());
                opentelemetry::attributes(annotation, label, &around.namespace.name, &images(scene))
            }),
            Self::Revision => set(&configuration.values.revision).or_else(|| set("default")),
            Self::StartupFailures => sidecar.startup_failures.map(|failures| failures.to_string()),
            Self::StatusPort => sidecar.status_port.map(|port| port.to_string()),
            Self::TrustDomain => set(&configuration.mesh.trust_domain),
            Self::Workload => workload.and_then(|workload| set(&workload.name)),
        }
    }
}

/// As much of a name as a label may hold.
fn label_value(name: &str) -> &str {
    const MOST: usize = 63;
    let end = name.char_indices().nth(MOST).map_or(name.len(), |(end, _)| end);
    name[..end].trim_end_matches(['-', '.', '_'])
}

/// The names and images of all containers.
fn images(scene: &Scene<'_>) -> Vec<(String, String)> {
    let text = |container: &Value, field: &str| {
        container.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    scene.containers().map(|container| (text(container, "name"), text(container, "image"))).collect()
}

/// The ports of all containers.
fn ports(scene: &Scene<'_>) -> Vec<Value> {
    let ports = scene.containers().filter_map(|container| container.get("ports")?.as_array());
    ports.flatten().cloned().collect()
}
