//! The annotations that Istio knows of pods (`istio.io/api`, `annotation` and `label`): those that control how a sidecar is
//! injected, by name, and all others, so that a misspelt one is noticed.

pub const MODE: &str = "sidecar.istio.io/interceptionMode";
pub const INCLUDE_NETWORKS: &str = "traffic.sidecar.istio.io/includeOutboundIPRanges";
pub const EXCLUDE_NETWORKS: &str = "traffic.sidecar.istio.io/excludeOutboundIPRanges";
pub const INCLUDE_INBOUND: &str = "traffic.sidecar.istio.io/includeInboundPorts";
pub const EXCLUDE_INBOUND: &str = "traffic.sidecar.istio.io/excludeInboundPorts";
pub const INCLUDE_OUTBOUND: &str = "traffic.sidecar.istio.io/includeOutboundPorts";
pub const EXCLUDE_OUTBOUND: &str = "traffic.sidecar.istio.io/excludeOutboundPorts";
pub const EXCLUDE_INTERFACES: &str = "traffic.sidecar.istio.io/excludeInterfaces";
pub const VM_INTERFACES: &str = "istio.io/reroute-virtual-interfaces";
pub const VM_INTERFACES_BEFORE: &str = "traffic.sidecar.istio.io/kubevirtInterfaces";
pub const STATUS_PORT: &str = "status.sidecar.istio.io/port";
pub const READINESS_DELAY: &str = "readiness.status.sidecar.istio.io/initialDelaySeconds";
pub const READINESS_PERIOD: &str = "readiness.status.sidecar.istio.io/periodSeconds";
pub const READINESS_FAILURES: &str = "readiness.status.sidecar.istio.io/failureThreshold";
pub const MERGE_METRICS: &str = "prometheus.istio.io/merge-metrics";
pub const SCRAPE_TARGETS: &str = "prometheus.istio.io/scrape-targets";
pub const PROXY_CONFIG: &str = "proxy.istio.io/config";
pub const PROXY_IMAGE: &str = "sidecar.istio.io/proxyImage";
pub const PROXY_IMAGE_TYPE: &str = "sidecar.istio.io/proxyImageType";
pub const AGENT_LOG_LEVEL: &str = "sidecar.istio.io/agentLogLevel";
pub const LOG_LEVEL: &str = "sidecar.istio.io/logLevel";
pub const COMPONENT_LOG_LEVEL: &str = "sidecar.istio.io/componentLogLevel";
pub const NATIVE: &str = "sidecar.istio.io/nativeSidecar";
pub const BIND_SERVICE: &str = "sidecar.istio.io/capNetBindService";
pub const USER_VOLUMES: &str = "sidecar.istio.io/userVolume";
pub const USER_MOUNTS: &str = "sidecar.istio.io/userVolumeMount";
pub const REWRITE_PROBES: &str = "sidecar.istio.io/rewriteAppHTTPProbers";
/// Requests and limits of CPU and memory.
pub const RESOURCES: [(&str, &str, &str); 4] = [
    ("sidecar.istio.io/proxyCPU", "requests", "cpu"),
    ("sidecar.istio.io/proxyMemory", "requests", "memory"),
    ("sidecar.istio.io/proxyCPULimit", "limits", "cpu"),
    ("sidecar.istio.io/proxyMemoryLimit", "limits", "memory"),
];

/// Those that control how a sidecar is injected.
pub const OF_INJECTION: &[&str] = &[
    MODE,
    INCLUDE_NETWORKS,
    EXCLUDE_NETWORKS,
    INCLUDE_INBOUND,
    EXCLUDE_INBOUND,
    INCLUDE_OUTBOUND,
    EXCLUDE_OUTBOUND,
    EXCLUDE_INTERFACES,
    VM_INTERFACES,
    VM_INTERFACES_BEFORE,
    STATUS_PORT,
    READINESS_DELAY,
    READINESS_PERIOD,
    READINESS_FAILURES,
    MERGE_METRICS,
    SCRAPE_TARGETS,
    PROXY_CONFIG,
    PROXY_IMAGE,
    PROXY_IMAGE_TYPE,
    AGENT_LOG_LEVEL,
    LOG_LEVEL,
    COMPONENT_LOG_LEVEL,
    NATIVE,
    BIND_SERVICE,
    REWRITE_PROBES,
    USER_VOLUMES,
    USER_MOUNTS,
    RESOURCES[0].0,
    RESOURCES[1].0,
    RESOURCES[2].0,
    RESOURCES[3].0,
];

/// The others. Names that are labels are among them: they do no harm where they have no effect.
pub(super) const OTHERS: &[&str] = &[
    "alpha.istio.io/identity",
    "galley.istio.io/analyze-suppress",
    "inject.istio.io/templates",
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
    "prometheus.istio.io/secure-envoy-port",
    "prometheus.istio.io/secure-port",
    "proxy.istio.io/overrides",
    "readiness.status.sidecar.istio.io/applicationPorts",
    "security.istio.io/tlsMode",
    "service.istio.io/canonical-name",
    "service.istio.io/canonical-revision",
    "service.istio.io/workload-name",
    "sidecar.istio.io/bootstrapOverride",
    "sidecar.istio.io/controlPlaneAuthPolicy",
    "sidecar.istio.io/discoveryAddress",
    "sidecar.istio.io/enableCoreDump",
    "sidecar.istio.io/extraStatTags",
    "sidecar.istio.io/inject",
    "sidecar.istio.io/statsCompression",
    "sidecar.istio.io/statsEvictionInterval",
    "sidecar.istio.io/statsHistogramBuckets",
    "sidecar.istio.io/statsInclusionPrefixes",
    "sidecar.istio.io/statsInclusionRegexps",
    "sidecar.istio.io/statsInclusionSuffixes",
    "sidecar.istio.io/status",
    "topology.istio.io/cluster",
    "topology.istio.io/network",
    "topology.istio.io/subzone",
    "traffic.istio.io/nodeSelector",
];
