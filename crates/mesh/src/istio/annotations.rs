//! Istio's pod annotations (`istio.io/api`): named injection controls, and all others.

use crate::mesh::KnownAnnotations;

pub const MODE: &str = "sidecar.istio.io/interceptionMode";
pub const INCLUDE_INBOUND: &str = "traffic.sidecar.istio.io/includeInboundPorts";
pub const EXCLUDE_INBOUND: &str = "traffic.sidecar.istio.io/excludeInboundPorts";
pub const STATUS_PORT: &str = "status.sidecar.istio.io/port";
pub const PROXY_CONFIG: &str = "proxy.istio.io/config";

macro_rules! of_container {
    ($($name:ident = $annotation:literal;)*) => {
        $(pub const $name: &str = $annotation;)*

        const OF_CONTAINER: &[&str] =
            &[$($name,)* RESOURCES[0].0, RESOURCES[1].0, RESOURCES[2].0, RESOURCES[3].0];
    };
}

of_container! {
    READINESS_DELAY = "readiness.status.sidecar.istio.io/initialDelaySeconds";
    READINESS_PERIOD = "readiness.status.sidecar.istio.io/periodSeconds";
    READINESS_FAILURES = "readiness.status.sidecar.istio.io/failureThreshold";
    MERGE_METRICS = "prometheus.istio.io/merge-metrics";
    SCRAPE_TARGETS = "prometheus.istio.io/scrape-targets";
    PROXY_IMAGE = "sidecar.istio.io/proxyImage";
    PROXY_IMAGE_TYPE = "sidecar.istio.io/proxyImageType";
    AGENT_LOG_LEVEL = "sidecar.istio.io/agentLogLevel";
    LOG_LEVEL = "sidecar.istio.io/logLevel";
    COMPONENT_LOG_LEVEL = "sidecar.istio.io/componentLogLevel";
    NATIVE = "sidecar.istio.io/nativeSidecar";
    BIND_SERVICE = "sidecar.istio.io/capNetBindService";
    REWRITE_PROBES = "sidecar.istio.io/rewriteAppHTTPProbers";
    USER_VOLUMES = "sidecar.istio.io/userVolume";
    USER_MOUNTS = "sidecar.istio.io/userVolumeMount";
}

pub const RESOURCES: [(&str, &str, &str); 4] = [
    ("sidecar.istio.io/proxyCPU", "requests", "cpu"),
    ("sidecar.istio.io/proxyMemory", "requests", "memory"),
    ("sidecar.istio.io/proxyCPULimit", "limits", "cpu"),
    ("sidecar.istio.io/proxyMemoryLimit", "limits", "memory"),
];

pub fn of_injection() -> impl Iterator<Item = &'static str> {
    let of_settings = super::settings::TABLE.iter().flat_map(|row| row.annotations);
    of_settings.chain(&[STATUS_PORT, PROXY_CONFIG]).chain(OF_CONTAINER).copied()
}

/// All annotations that are not settings. Label names are included: they have no effect as annotations.
pub(crate) const ALL: KnownAnnotations = KnownAnnotations {
    deciding: &[STATUS_PORT, PROXY_CONFIG, crate::pod::STATUS, "sidecar.istio.io/inject"],
    others: &[
        OF_CONTAINER,
        &[
            "alpha.istio.io/identity",
            "galley.istio.io/analyze-suppress",
            "inject.istio.io/templates",
            "istio.io/for-service-account ingress-use-waypoint rev tag use-waypoint use-waypoint-namespace \
            waypoint-for",
            "networking.istio.io/exportTo service-type traffic-distribution tunnel",
            "prometheus.istio.io/secure-envoy-port secure-port",
            "proxy.istio.io/overrides",
            "readiness.status.sidecar.istio.io/applicationPorts",
            "security.istio.io/tlsMode",
            "service.istio.io/canonical-name canonical-revision workload-name",
            "sidecar.istio.io/bootstrapOverride controlPlaneAuthPolicy discoveryAddress enableCoreDump extraStatTags \
            statsCompression statsEvictionInterval statsHistogramBuckets statsInclusionPrefixes \
            statsInclusionRegexps statsInclusionSuffixes",
            "topology.istio.io/cluster network subzone",
            "traffic.istio.io/nodeSelector",
        ],
    ],
};
