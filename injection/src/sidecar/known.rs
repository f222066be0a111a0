//! The annotations that Istio knows of pods (`istio.io/api`, `annotation`), so that a misspelt one is noticed: it would have no
//! effect, and nobody would say so.

use policy::settings::nearest;

pub(super) const MODE: &str = "sidecar.istio.io/interceptionMode";
pub(super) const INCLUDE_NETWORKS: &str = "traffic.sidecar.istio.io/includeOutboundIPRanges";
pub(super) const EXCLUDE_NETWORKS: &str = "traffic.sidecar.istio.io/excludeOutboundIPRanges";
pub(super) const INCLUDE_INBOUND: &str = "traffic.sidecar.istio.io/includeInboundPorts";
pub(super) const EXCLUDE_INBOUND: &str = "traffic.sidecar.istio.io/excludeInboundPorts";
pub(super) const INCLUDE_OUTBOUND: &str = "traffic.sidecar.istio.io/includeOutboundPorts";
pub(super) const EXCLUDE_OUTBOUND: &str = "traffic.sidecar.istio.io/excludeOutboundPorts";
pub(super) const EXCLUDE_INTERFACES: &str = "traffic.sidecar.istio.io/excludeInterfaces";
pub(super) const VM_INTERFACES: &str = "istio.io/reroute-virtual-interfaces";
pub(super) const VM_INTERFACES_BEFORE: &str = "traffic.sidecar.istio.io/kubevirtInterfaces";
pub(super) const STATUS_PORT: &str = "status.sidecar.istio.io/port";
pub(super) const READINESS_DELAY: &str = "readiness.status.sidecar.istio.io/initialDelaySeconds";
pub(super) const READINESS_PERIOD: &str = "readiness.status.sidecar.istio.io/periodSeconds";
pub(super) const READINESS_FAILURES: &str = "readiness.status.sidecar.istio.io/failureThreshold";
pub(super) const MERGE_METRICS: &str = "prometheus.istio.io/merge-metrics";
pub(super) const PROXY_CONFIG: &str = "proxy.istio.io/config";
pub(super) const PROXY_IMAGE: &str = "sidecar.istio.io/proxyImage";
pub(super) const PROXY_IMAGE_TYPE: &str = "sidecar.istio.io/proxyImageType";
pub(super) const AGENT_LOG_LEVEL: &str = "sidecar.istio.io/agentLogLevel";
pub(super) const LOG_LEVEL: &str = "sidecar.istio.io/logLevel";
pub(super) const COMPONENT_LOG_LEVEL: &str = "sidecar.istio.io/componentLogLevel";
pub(super) const NATIVE: &str = "sidecar.istio.io/nativeSidecar";
pub(super) const BIND_SERVICE: &str = "sidecar.istio.io/capNetBindService";
pub(crate) const USER_VOLUMES: &str = "sidecar.istio.io/userVolume";
pub(crate) const USER_MOUNTS: &str = "sidecar.istio.io/userVolumeMount";
pub(super) const REWRITE_PROBES: &str = "sidecar.istio.io/rewriteAppHTTPProbers";
/// What is asked of CPU and memory, what is allowed of them.
pub(super) const RESOURCES: [(&str, &str, &str); 4] = [
    ("sidecar.istio.io/proxyCPU", "requests", "cpu"),
    ("sidecar.istio.io/proxyMemory", "requests", "memory"),
    ("sidecar.istio.io/proxyCPULimit", "limits", "cpu"),
    ("sidecar.istio.io/proxyMemoryLimit", "limits", "memory"),
];

/// Those that this module does not name otherwise.
const OTHERS: [&str; 16] = [
    "inject.istio.io/templates",
    "proxy.istio.io/overrides",
    "readiness.status.sidecar.istio.io/applicationPorts",
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
];

fn all() -> impl Iterator<Item = &'static str> {
    [
        MODE,
        INCLUDE_NETWORKS,
        EXCLUDE_NETWORKS,
        INCLUDE_INBOUND,
        EXCLUDE_INBOUND,
        INCLUDE_OUTBOUND,
        EXCLUDE_OUTBOUND,
        EXCLUDE_INTERFACES,
        VM_INTERFACES_BEFORE,
        STATUS_PORT,
        READINESS_DELAY,
        READINESS_PERIOD,
        READINESS_FAILURES,
        MERGE_METRICS,
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
    ]
    .into_iter()
    .chain(RESOURCES.iter().map(|(name, _, _)| *name))
    .chain(OTHERS)
}

/// What to say of an annotation that is like one of Istio's and is none.
pub(crate) fn misspelt(name: &str) -> Option<String> {
    let (prefix, last) = name.split_once('/')?;
    if all().any(|known| known == name) {
        return None;
    }
    let split = || all().filter_map(|known| known.split_once('/'));
    // The right name behind a wrong prefix; names of one word are everybody's.
    let own_name = prefix.ends_with("istio.io") && last.contains(char::is_uppercase);
    let moved = split().find(|(_, known)| own_name && *known == last);
    let beside = || {
        let names = split().filter(|(known, _)| *known == prefix).map(|(_, last)| last);
        nearest(last, names).map(|like| (prefix, like))
    };
    let (prefix, last) = moved.or_else(beside)?;
    Some(format!("the annotation {name} is not known and has no effect; did you mean {prefix}/{last}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_names_each_that_is_read() {
        let document = include_str!("../../../docs/injection.md");
        for name in all().filter(|name| !OTHERS.contains(name)).chain([VM_INTERFACES]) {
            assert!(document.contains(&format!("`{name}`")), "docs/injection.md does not name {name}");
        }
    }

    #[test]
    fn a_name_that_is_like_a_known_one_is_misspelt() {
        let check = |name: &str, meant: Option<&str>| {
            let told = misspelt(name);
            let found = told.as_deref().and_then(|told| told.strip_suffix('?')?.rsplit(' ').next());
            assert_eq!(found, meant, "{name}: {told:?}");
        };
        check(INCLUDE_NETWORKS, None);
        check(VM_INTERFACES, None);
        check("traffic.sidecar.istio.io/includeOutboundIpRanges", Some(INCLUDE_NETWORKS));
        check("traffic.sidecar.istio.io/excludeOutboundPort", Some(EXCLUDE_OUTBOUND));
        check("sidecar.istio.io/excludeOutboundPorts", Some(EXCLUDE_OUTBOUND));
        check("traffic.istio.io/excludeOutboundPorts", Some(EXCLUDE_OUTBOUND));
        check("sidecar.istio.io/proxyCpu", Some("sidecar.istio.io/proxyCPU"));
        check("sidecar.istio.io/zzz", None);
        check("example.com/inject", None);
        check("example.com/port", None);
    }
}
