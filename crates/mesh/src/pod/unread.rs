//! Names in a manifest that no program reads: unknown annotations, mostly misspelt; a mesh's annotations and labels outside the
//! pod's metadata; and fields unknown to Kubernetes, which drops them.

use super::mesh::is_within;
use crate::mesh::{KnownAnnotations, Mesh};
use crate::settings::{ANNOTATIONS, nearest};
use crate::{Problems, data::document::at};
use rules::finding::{Code, Finding, Level};
use serde_json::Value;
use std::collections::BTreeSet;

const DOMAINS: [&str; 3] = ["istio.io", "linkerd.io", "kuma.io"];

pub fn unknown_among<'a>(names: impl IntoIterator<Item = &'a (impl AsRef<str> + 'a)>) -> Vec<String> {
    let mut found: Vec<String> = names.into_iter().filter_map(|name| unknown(name.as_ref())).collect();
    let more = found.len().saturating_sub(Problems::MAX_ITEMS);
    found.truncate(Problems::MAX_ITEMS);
    found.extend((more > 0).then(|| format!("{more} more annotations are unknown and have no effect")));
    found
}

/// Remark about an unknown annotation in a mesh's domain that resembles a known one or has a capture prefix.
pub fn unknown(name: &str) -> Option<String> {
    let split = name.split_once('/').filter(|split| !known().any(|known| known == *split));
    let is_capture = |(prefix, _): (&str, &str)| {
        prefix.starts_with("traffic.") && known().any(|(domain, _)| domain == prefix)
    };
    let hint = match nearest_annotation(name) {
        Some(nearest) => format!("; did you mean {nearest}?"),
        None if split.is_some_and(is_capture) => String::new(),
        None => return None,
    };
    Some(format!("the annotation {name} is unknown and has no effect{hint}"))
}

/// Known annotation that resembles an unknown one; `None` for a known one.
pub fn nearest_annotation(name: &str) -> Option<String> {
    let (prefix, last) = name.split_once('/')?;
    let domain = DOMAINS.into_iter().find(|domain| is_within(prefix, domain))?;
    let of_domain = || known().filter(|(prefix, _)| is_within(prefix, domain));
    if of_domain().any(|known| known == (prefix, last)) {
        return None;
    }
    // The right name after a wrong prefix; one-word names are too common.
    let is_own = last.contains(|c: char| c.is_ascii_uppercase() || c == '-');
    let moved = of_domain().find(|(_, known)| is_own && *known == last);
    let beside = || of_domain().filter(|(known, _)| *known == prefix).map(|(_, last)| last);
    let (prefix, last) = moved.or_else(|| nearest(last, beside()).map(|like| (prefix, like)))?;
    Some(format!("{prefix}/{last}"))
}

fn known() -> impl Iterator<Item = (&'static str, &'static str)> {
    let of_meshes = Mesh::ALL.iter().flat_map(|mesh| {
        let of_settings = mesh.settings().iter().flat_map(|row| row.annotations);
        let KnownAnnotations { deciding, others } = mesh.entry().annotations;
        deciding.iter().chain(others.iter().copied().flatten()).chain(of_settings)
    });
    of_meshes
        .filter_map(|names| names.split_once('/'))
        .flat_map(|(domain, names)| names.split(' ').map(move |name| (domain, name)))
}

/// Prefixes of names with which a pod controls its injection, capture or environment; ours is [`ANNOTATIONS`].
const OF_PODS: &str = "\
    config.alpha.linkerd.io/ config.beta.linkerd.io/ config.linkerd.io/ inject.istio.io/ istio.io/dataplane-mode \
    istio.io/reroute-virtual-interfaces istio.io/rev kuma.io/ linkerd.io/inject proxy.istio.io/ \
    readiness.status.sidecar.istio.io/ sidecar.istio.io/ status.sidecar.istio.io/ traffic.kuma.io/ traffic.sidecar.istio.io/ \
    virtual-env";

const LABELS: [&str; 5] =
    ["istio.io/dataplane-mode", "istio.io/rev", "kuma.io/", "sidecar.istio.io/inject", "virtual-env"];

// Fields of `k8s.io/api/core/v1` in Kubernetes 1.36; security contexts combine pods' and containers' fields.
const POD: &str = "apiVersion kind metadata spec status";
const SPEC: &str = "\
    activeDeadlineSeconds affinity automountServiceAccountToken containers dnsConfig dnsPolicy enableServiceLinks ephemeralContainers \
    hostAliases hostIPC hostNetwork hostPID hostUsers hostname hostnameOverride imagePullSecrets initContainers nodeName nodeSelector \
    os overhead preemptionPolicy priority priorityClassName readinessGates resourceClaims resources restartPolicy runtimeClassName \
    schedulerName schedulingGates schedulingGroup securityContext serviceAccount serviceAccountName setHostnameAsFQDN \
    shareProcessNamespace subdomain terminationGracePeriodSeconds tolerations topologySpreadConstraints volumes";
const CONTAINER: &str = "\
    args command env envFrom image imagePullPolicy lifecycle livenessProbe name ports readinessProbe resizePolicy resources \
    restartPolicy restartPolicyRules securityContext startupProbe stdin stdinOnce terminationMessagePath terminationMessagePolicy tty \
    volumeDevices volumeMounts workingDir";
const SECURITY: &str = "\
    allowPrivilegeEscalation appArmorProfile capabilities fsGroup fsGroupChangePolicy privileged procMount readOnlyRootFilesystem \
    runAsGroup runAsNonRoot runAsUser seLinuxChangePolicy seLinuxOptions seccompProfile supplementalGroups supplementalGroupsPolicy \
    sysctls windowsOptions";

const PLACES: [&[&str]; 6] = [
    &[],
    &["metadata"],
    &["annotations"],
    &["labels"],
    &["metadata", "annotations"],
    &["metadata", "labels"],
];

pub(super) fn metadata(object: &Value, path: &[&str]) -> Vec<Finding> {
    let [annotations, labels] = ["annotations", "labels"].map(|list| {
        let own = at(object, &[path, &["metadata", list]].concat());
        let given = fields_of(own.unwrap_or(&Value::Null)).filter(|(_, value)| !value.is_null());
        given.map(|(name, _)| name.as_str()).collect::<BTreeSet<_>>()
    });
    let is_label = |name: &str| LABELS.iter().any(|start| name.starts_with(start));
    // Istio's own workloads carry their revision as a mark.
    let is_mark = |name: &str| name == "istio.io/rev" && labels.contains("sidecar.istio.io/inject");
    let own =
        |name: &str| annotations.contains(name) || is_label(name) && labels.contains(name) || is_mark(name);
    let below = [path, &["spec"]].concat();
    let mut remarks = Vec::new();
    let levels = (0..=below.len()).map(|depth| &below[..depth]);
    for place in levels.flat_map(|level| PLACES.map(|tail| [level, tail].concat())) {
        let Some(fields) = at(object, &place).map(fields_of) else { continue };
        let starts = OF_PODS.split(' ').chain([ANNOTATIONS]);
        let is_misplaced = |name: &&String| starts.clone().any(|start| name.starts_with(start)) && !own(name);
        for name in fields.map(|(name, _)| name).filter(is_misplaced) {
            let list =
                if place.last() == Some(&"labels") && is_label(name) { "labels" } else { "annotations" };
            let right = [path, &["metadata", list]].concat().join(".");
            let where_found = if place.is_empty() { "the object itself".to_owned() } else { place.join(".") };
            let text = format!("{name} in {where_found} has no effect on pods; move it to {right}");
            remarks.push(Finding::plain(Level::Warning, Code::Misplaced, text));
        }
    }
    remarks
}

fn fields_of(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

pub(super) fn fields(template: &Value, path: &[&str]) -> Vec<Finding> {
    let mut remarks = Vec::new();
    let start = path.iter().map(|key| format!("{key}.")).collect::<String>();
    dropped(template, &start, POD, &mut remarks);
    let Some(spec) = template.get("spec") else { return remarks };
    let start = format!("{start}spec.");
    dropped(spec, &start, SPEC, &mut remarks);
    for list in ["initContainers", "containers"] {
        for (at, item) in spec.get(list).and_then(Value::as_array).into_iter().flatten().enumerate() {
            dropped(item, &format!("{start}{list}[{at}]."), CONTAINER, &mut remarks);
        }
    }
    remarks
}

const OWNERS: [(&str, &str); 4] = [
    ("annotations labels", "metadata"),
    (SPEC, "the pod's spec"),
    (CONTAINER, "a container"),
    (SECURITY, "a securityContext"),
];

fn dropped(written: &Value, path: &str, known: &str, remarks: &mut Vec<Finding>) {
    let has = |list: &str, name: &str| list.split(' ').any(|field| field == name);
    // `$patch` and the like are directives of kustomize; a key with a slash belongs to metadata.
    let fields = fields_of(written).map(|(name, _)| name).filter(|name| !name.contains(['$', '/']));
    for name in fields.filter(|name| !has(known, name)) {
        let other = OWNERS.iter().find(|(list, _)| has(list, name));
        let hint = match (other, nearest(name, known.split(' '))) {
            (Some((_, owner)), _) => format!("; it is a field of {owner}"),
            (None, Some(near)) => format!("; did you mean {near}?"),
            (None, None) => String::new(),
        };
        // Later Kubernetes versions may have more fields.
        let level = if hint.is_empty() { Level::Note } else { Level::Warning };
        let text = format!("{path}{name} is an unknown field, which Kubernetes drops{hint}");
        remarks.push(Finding::plain(level, Code::DroppedField, text));
    }
    if let Some(security) = written.get("securityContext") {
        dropped(security, &format!("{path}securityContext."), SECURITY, remarks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::{Pod, annotated, skip};
    use crate::sources::Raw;
    use std::collections::BTreeMap;

    const EXCLUDE_OUTBOUND: &str = "traffic.sidecar.istio.io/excludeOutboundPorts";

    fn check(name: &str, intended: Option<&str>) {
        let text = unknown(name);
        let found = text.as_deref().and_then(|text| text.strip_suffix('?')?.rsplit(' ').next());
        assert_eq!(found, intended, "{name}: {text:?}");
    }

    #[test]
    fn names_similar_to_known_ones_are_misspelt() {
        check(
            "traffic.sidecar.istio.io/includeOutboundIpRanges",
            Some("traffic.sidecar.istio.io/includeOutboundIPRanges"),
        );
        check("traffic.sidecar.istio.io/excludeOutboundPort", Some(EXCLUDE_OUTBOUND));
        check("trafic.sidecar.istio.io/excludeOutboundPorts", Some(EXCLUDE_OUTBOUND));
        check("sidecar.istio.io/excludeOutboundPorts", Some(EXCLUDE_OUTBOUND));
        check("traffic.istio.io/excludeOutboundPorts", Some(EXCLUDE_OUTBOUND));
        check("sidecar.istio.io/proxyCpu", Some("sidecar.istio.io/proxyCPU"));
        check("istio.io/reroute-virtual-interface", Some("istio.io/reroute-virtual-interfaces"));
        check("config.linkerd.io/skip-inbound-port", Some("config.linkerd.io/skip-inbound-ports"));
        check("linkerd.io/skip-outbound-ports", Some("config.linkerd.io/skip-outbound-ports"));
        check("traffic.kuma.io/exclude-inbound-port", Some("traffic.kuma.io/exclude-inbound-ports"));
        check("kuma.io/exclude-outbound-ports", Some("traffic.kuma.io/exclude-outbound-ports"));
        check("ambient.istio.io/dns-captured", Some("ambient.istio.io/dns-capture"));
    }

    #[test]
    fn only_the_first_unknown_names_are_reported() {
        let names: Vec<String> = (0..16_000).map(|at| format!("traffic.sidecar.istio.io/{at}")).collect();
        let found = unknown_among(&names);
        let last = "15968 more annotations are unknown and have no effect";
        assert_eq!((found.len(), &*found[Problems::MAX_ITEMS]), (Problems::MAX_ITEMS + 1, last));
    }

    #[test]
    fn known_and_unrelated_names_are_not_reported() {
        let known = known().map(|(domain, name)| format!("{domain}/{name}"));
        let others = [
            "sidecar.istio.io/zzz",
            "traffic.example.istio.io/zzz",
            "config.linkerd.io/zzz",
            "example.com/inject",
            "example.com/port",
            "notistio.io/excludeOutboundPorts",
            "plain",
        ];
        for name in known.chain(others.map(str::to_owned)) {
            assert_eq!(unknown(&name), None);
        }
    }

    /// Any other annotation would affect capture upstream, but not here.
    #[test]
    fn a_known_annotation_decides_about_capture_or_has_no_meaning_for_it() {
        const VALUES: [&str; 11] = [
            "true",
            "false",
            "enabled",
            "none",
            "ambient",
            "81",
            "TPROXY",
            "x",
            r#"{"containers": []}"#,
            "interceptionMode: TPROXY",
            "redirect: {inbound: {enabled: false}}",
        ];
        let signs = |mesh| match mesh {
            Mesh::Istio => vec![("sidecar.istio.io/status", "{}")],
            Mesh::Linkerd => vec![("linkerd.io/inject", "enabled"), ("linkerd.io/created-by", "x")],
            Mesh::Kuma => vec![("kuma.io/sidecar-injected", "true"), ("kuma.io/virtual-probes-port", "82")],
            Mesh::Ambient => vec![("ambient.istio.io/redirection", "enabled")],
        };
        let read = |words: &BTreeMap<String, String>| {
            let pod = Pod { labels: Some(words.clone()), ..Pod::annotated("web", "shop", words.clone()) };
            let read = annotated(&pod, "Pod", &Raw::default());
            let values: Vec<_> =
                read.raw.iter().map(|(setting, given)| (setting, given.value.clone())).collect();
            (values, read.problems(), skip(&pod, &[""; 0]))
        };
        let decides = |name: &str, signs: &[(&str, &str)]| {
            let words = signs.iter().filter(|(sign, _)| *sign != name);
            let words: BTreeMap<_, _> =
                words.map(|(sign, value)| ((*sign).to_owned(), (*value).to_owned())).collect();
            let with = |value: &str| {
                words.clone().into_iter().chain([(name.to_owned(), value.to_owned())]).collect()
            };
            VALUES.iter().any(|value| read(&with(value)) != read(&words))
        };
        for mesh in Mesh::ALL {
            let signs = signs(*mesh);
            let KnownAnnotations { deciding, others } = mesh.entry().annotations;
            let of_settings = mesh.settings().iter().map(|row| (true, row.annotations));
            let others = others.iter().map(|names| (false, *names));
            for (is_deciding, names) in others.chain([(true, deciding)]).chain(of_settings) {
                let split = names.iter().filter_map(|names| names.split_once('/'));
                let names = split
                    .flat_map(|(domain, names)| names.split(' ').map(move |name| format!("{domain}/{name}")));
                for name in names {
                    let found = match is_deciding {
                        // With all injection signs, with the first, or alone.
                        true => [&signs[..], &signs[..1], &[]].iter().any(|signs| decides(&name, signs)),
                        false => decides(&name, &signs),
                    };
                    assert_eq!(found, is_deciding, "{name}");
                }
            }
        }
    }

    /// Under these prefixes every name is about capture.
    #[test]
    fn unknown_capture_annotation_is_reported_without_a_similar_name() {
        for name in ["traffic.sidecar.istio.io/zzz", "traffic.kuma.io/zzz"] {
            let text = format!("the annotation {name} is unknown and has no effect");
            assert_eq!(unknown(name), Some(text));
        }
    }
}
