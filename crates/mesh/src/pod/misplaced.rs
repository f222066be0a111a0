//! Keys of a manifest in places where nothing reads them: annotations and labels of meshes that are not in the metadata of the
//! pod, and fields that Kubernetes drops because it does not know them.

use super::node::{ManifestNode, ManifestValue};
use crate::settings::{ANNOTATIONS, nearest};
use rules::finding::{Code, Finding, Level};
use std::collections::BTreeSet;

/// The beginnings of names by which a pod controls its injection or its capture; our own have [`ANNOTATIONS`].
const OF_PODS: &str = "\
    config.alpha.linkerd.io/ config.beta.linkerd.io/ config.linkerd.io/ inject.istio.io/ istio.io/dataplane-mode \
    istio.io/reroute-virtual-interfaces istio.io/rev kuma.io/ linkerd.io/inject proxy.istio.io/ \
    readiness.status.sidecar.istio.io/ sidecar.istio.io/ status.sidecar.istio.io/ traffic.kuma.io/ traffic.sidecar.istio.io/";

/// The beginnings of names that are read as labels.
const LABELS: [&str; 4] = ["istio.io/dataplane-mode", "istio.io/rev", "kuma.io/", "sidecar.istio.io/inject"];

// The fields of `k8s.io/api/core/v1` in Kubernetes 1.36; of security contexts, those of pods and of containers.
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

/// Places of annotations and labels by mistake, from each level of an object.
const PLACES: &str = " metadata annotations labels metadata.annotations metadata.labels";

/// Remarks about annotations and labels of meshes that are in an object, or in the template of its pods at `path`, but not in
/// the metadata of the template.
pub(super) fn metadata(object: &ManifestNode, path: &[&str]) -> Vec<Finding> {
    let [annotations, labels] = ["annotations", "labels"].map(|list| {
        let own = object.at(path).and_then(|template| template.at(&["metadata", list]));
        own.map(names).unwrap_or_default()
    });
    let is_label = |name: &str| LABELS.iter().any(|start| name.starts_with(start));
    // Istio's own workloads have their revision as a mark.
    let is_mark = |name: &str| name == "istio.io/rev" && labels.contains("sidecar.istio.io/inject");
    let own =
        |name: &str| annotations.contains(name) || is_label(name) && labels.contains(name) || is_mark(name);
    let below = [path, &["spec"]].concat();
    let mut remarks = Vec::new();
    for (depth, tail) in (0..=below.len()).flat_map(|depth| PLACES.split(' ').map(move |tail| (depth, tail)))
    {
        let steps = tail.split('.').filter(|step| !step.is_empty());
        let place: Vec<&str> = below[..depth].iter().copied().chain(steps).collect();
        let Some(ManifestValue::Map(entries)) = object.at(&place).map(|node| &node.value) else { continue };
        let starts = OF_PODS.split(' ').chain([ANNOTATIONS]);
        let is_misplaced = |name: &&String| starts.clone().any(|start| name.starts_with(start)) && !own(name);
        for name in entries.iter().map(|(name, _)| name).filter(is_misplaced) {
            let list =
                if place.last() == Some(&"labels") && is_label(name) { "labels" } else { "annotations" };
            let right = [path, &["metadata", list]].concat().join(".");
            let at = if place.is_empty() { "the object itself".to_owned() } else { place.join(".") };
            let text = format!("{name} at {at} has no effect on pods; put it into {right}");
            remarks.push(Finding::plain(Level::Warning, Code::Misplaced, text));
        }
    }
    remarks
}

/// The keys with a value.
fn names(node: &ManifestNode) -> BTreeSet<&str> {
    let ManifestValue::Map(entries) = &node.value else { return BTreeSet::new() };
    entries.iter().filter(|(_, node)| !node.is_null()).map(|(name, _)| name.as_str()).collect()
}

/// Remarks about fields of a pod, or of the template of pods at `path` in an object, that Kubernetes does not know.
pub(super) fn fields(template: &ManifestNode, path: &[&str]) -> Vec<Finding> {
    let mut remarks = Vec::new();
    let start = path.iter().map(|key| format!("{key}.")).collect::<String>();
    unknown(template, &start, POD, &mut remarks);
    let Some(spec) = template.get("spec") else { return remarks };
    let start = format!("{start}spec.");
    unknown(spec, &start, SPEC, &mut remarks);
    for list in ["initContainers", "containers"] {
        let Some(ManifestValue::List(items)) = spec.get(list).map(|list| &list.value) else { continue };
        for (at, item) in items.iter().enumerate() {
            unknown(item, &format!("{start}{list}[{at}]."), CONTAINER, &mut remarks);
        }
    }
    remarks
}

/// The owners of fields, as hints for misplaced ones.
const OWNERS: [(&str, &str); 4] = [
    ("annotations labels", "metadata"),
    (SPEC, "the pod's spec"),
    (CONTAINER, "a container"),
    (SECURITY, "a securityContext"),
];

fn unknown(node: &ManifestNode, path: &str, known: &str, remarks: &mut Vec<Finding>) {
    let has = |list: &str, name: &str| list.split(' ').any(|field| field == name);
    let ManifestValue::Map(entries) = &node.value else { return };
    // `$patch` and its like are directives of kustomize; what has a slash is a matter of metadata.
    let fields = entries.iter().map(|(name, _)| name).filter(|name| !name.contains(['$', '/']));
    for name in fields.filter(|name| !has(known, name)) {
        let other = OWNERS.iter().find(|(list, _)| has(list, name));
        let hint = match (other, nearest(name, known.split(' '))) {
            (Some((_, owner)), _) => format!("; it is a field of {owner}"),
            (None, Some(near)) => format!("; did you mean {near}?"),
            (None, None) => String::new(),
        };
        // Later versions of Kubernetes have more fields.
        let level = if hint.is_empty() { Level::Note } else { Level::Warning };
        let text = format!("{path}{name} is not a field that is known, and Kubernetes drops it{hint}");
        remarks.push(Finding::plain(level, Code::DroppedField, text));
    }
    if let Some(security) = node.get("securityContext") {
        unknown(security, &format!("{path}securityContext."), SECURITY, remarks);
    }
}
