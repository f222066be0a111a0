//! The annotations that Istio knows of pods (`istio.io/api`, `annotation` and `label`): those that control how a sidecar is
//! injected, by name, and all others, so that a misspelt one is noticed.

use crate::mesh::AnnotationGroup;

macro_rules! of_injection {
    (capture { $($name:ident = $annotation:literal;)* } container { $($other:ident = $other_annotation:literal;)* }) => {
        $(pub const $name: &str = $annotation;)*
        $(pub const $other: &str = $other_annotation;)*

        pub const OF_INJECTION: &[&str] =
            &[$($name,)* $($other,)* RESOURCES[0].0, RESOURCES[1].0, RESOURCES[2].0, RESOURCES[3].0];

        const OF_CONTAINER: &[&str] =
            &[$($other,)* RESOURCES[0].0, RESOURCES[1].0, RESOURCES[2].0, RESOURCES[3].0];
    };
}

of_injection! {
    capture {
    MODE = "sidecar.istio.io/interceptionMode";
    INCLUDE_NETWORKS = "traffic.sidecar.istio.io/includeOutboundIPRanges";
    EXCLUDE_NETWORKS = "traffic.sidecar.istio.io/excludeOutboundIPRanges";
    INCLUDE_INBOUND = "traffic.sidecar.istio.io/includeInboundPorts";
    EXCLUDE_INBOUND = "traffic.sidecar.istio.io/excludeInboundPorts";
    INCLUDE_OUTBOUND = "traffic.sidecar.istio.io/includeOutboundPorts";
    EXCLUDE_OUTBOUND = "traffic.sidecar.istio.io/excludeOutboundPorts";
    EXCLUDE_INTERFACES = "traffic.sidecar.istio.io/excludeInterfaces";
    VM_INTERFACES = "istio.io/reroute-virtual-interfaces";
    VM_INTERFACES_BEFORE = "traffic.sidecar.istio.io/kubevirtInterfaces";
    STATUS_PORT = "status.sidecar.istio.io/port";
    PROXY_CONFIG = "proxy.istio.io/config";
    }
    container {
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
}

pub const RESOURCES: [(&str, &str, &str); 4] = [
    ("sidecar.istio.io/proxyCPU", "requests", "cpu"),
    ("sidecar.istio.io/proxyMemory", "requests", "memory"),
    ("sidecar.istio.io/proxyCPULimit", "limits", "cpu"),
    ("sidecar.istio.io/proxyMemoryLimit", "limits", "memory"),
];

/// All, beside those of the settings. Names that are labels are among them: they do no harm where they have no effect.
pub(crate) const ALL: &[AnnotationGroup] = &[
    (None, &[STATUS_PORT, PROXY_CONFIG, "sidecar.istio.io/inject", crate::pod::STATUS]),
    (Some("they change the proxy's container, which is read in the injected pod"), OF_CONTAINER),
    (
        Some("they change what the injector writes, which is read in the injected pod"),
        &[
            "inject.istio.io/templates",
            "proxy.istio.io/overrides",
            "sidecar.istio.io/bootstrapOverride",
            "sidecar.istio.io/controlPlaneAuthPolicy",
            "sidecar.istio.io/discoveryAddress",
            "sidecar.istio.io/enableCoreDump",
            "readiness.status.sidecar.istio.io/applicationPorts",
        ],
    ),
    (
        Some("they configure the proxy's statistics"),
        &[
            "prometheus.istio.io/secure-envoy-port",
            "prometheus.istio.io/secure-port",
            "sidecar.istio.io/extraStatTags",
            "sidecar.istio.io/statsCompression",
            "sidecar.istio.io/statsEvictionInterval",
            "sidecar.istio.io/statsHistogramBuckets",
            "sidecar.istio.io/statsInclusionPrefixes",
            "sidecar.istio.io/statsInclusionRegexps",
            "sidecar.istio.io/statsInclusionSuffixes",
        ],
    ),
    (
        Some("they describe workloads, Services and waypoints to the control plane"),
        &[
            "alpha.istio.io/identity",
            "galley.istio.io/analyze-suppress",
            "istio.io/for-service-account",
            "istio.io/ingress-use-waypoint",
            "istio.io/rev",
            "istio.io/tag",
            "istio.io/use-waypoint",
            "istio.io/use-waypoint-namespace",
            "istio.io/waypoint-for",
            "networking.istio.io/exportTo",
            "networking.istio.io/service-type",
            "networking.istio.io/traffic-distribution",
            "networking.istio.io/tunnel",
            "security.istio.io/tlsMode",
            "service.istio.io/canonical-name",
            "service.istio.io/canonical-revision",
            "service.istio.io/workload-name",
            "topology.istio.io/cluster",
            "topology.istio.io/network",
            "topology.istio.io/subzone",
            "traffic.istio.io/nodeSelector",
        ],
    ),
];
