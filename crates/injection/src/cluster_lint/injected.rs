//! Pods' membership in meshes; findings on pods without their sidecar or in two meshes.

use super::findings::FindingGroups;
use super::inventory::{DescribedPod, Inventory};
use crate::decision::{DecisionReason, INJECT};
use crate::webhook::{DeployedInjector, INJECTION, Miss, PodAdmission, REVISION, Unjudged, admit, remedy};
use mesh::Mesh;
use mesh::pod::{MeshSign, signs};
use rules::finding::{Code, Finding};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Membership {
    /// Evidence for each mesh that includes or will include the pod.
    pub(super) signs: Vec<MeshSign>,
    /// True if all possible injectors of the pod are known.
    pub(super) is_known: bool,
}

impl Membership {
    pub(super) fn has(&self, mesh: Mesh) -> bool {
        self.signs.iter().any(|sign| sign.mesh == mesh)
    }
}

/// Annotation of the kubelet's mirror pods, whose containers no webhook can change.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// `injectors` is `None` if they are unknown.
pub(super) fn judge(
    pod: &DescribedPod<'_>,
    inventory: &Inventory<'_>,
    injectors: Option<&[DeployedInjector]>,
    groups: &mut FindingGroups,
) -> Membership {
    let namespace = &*pod.namespace;
    let known = injectors.filter(|_| pod.is_namespace_known);
    let mut found = Membership {
        signs: signs(&pod.read.pod, &namespace.labels, &namespace.annotations),
        is_known: known.is_some(),
    };
    if !pod.is_namespace_known && injectors.is_some() && !inventory.is_whole {
        let why = "injection of pods in {}: the input lacks namespace labels";
        groups.not_judged(Unjudged(why), &namespace.name);
    }
    let is_mirror = pod.read.pod.annotations.contains_key(MIRROR);
    let Some(injectors) = known.filter(|_| !found.has(Mesh::default()) && !is_mirror) else { return found };
    let admission = admit(injectors, namespace, &pod.labels, pod.template);
    let wish = wish(pod).filter(|_| pod.is_running);
    let (option, text, remedy) = match (admission, wish) {
        (Some(PodAdmission { called: Some(webhook), decision, .. }), wish) => {
            let name = &webhook.name;
            if decision.inject {
                let text = format!("webhook {name}");
                found.signs.insert(0, MeshSign { mesh: Mesh::default(), text, is_present: false });
                if pod.is_pod && pod.is_running {
                    groups.about(not_injected(name), pod);
                }
                return found;
            }
            let Some(wish) = wish.filter(|wish| is_unexpected(decision.reason, wish)) else { return found };
            let text =
                format!("requests injection, but webhook {name} does not inject it: {}", decision.reason);
            (wish.option, text, remedy::of_decision(&decision).join(", or "))
        }
        (admission, Some(wish)) => {
            let (text, remedy) = unserved(&wish, admission.as_ref());
            (wish.option, text, remedy.to_owned())
        }
        (_, None) => return found,
    };
    groups.about(Finding::warning(Code::InjectionUnserved, option, text, remedy), pod);
    found
}

struct InjectionWish {
    option: &'static str,
    is_of_pod: bool,
}

fn wish(pod: &DescribedPod<'_>) -> Option<InjectionWish> {
    let namespace = &pod.namespace.labels;
    let own = pod.labels.get(INJECT).or_else(|| pod.read.pod.annotations.get(INJECT)).map(String::as_str);
    let of_pod = pod.labels.get(REVISION);
    let (option, is_of_pod) =
        match (own, of_pod, namespace.get(INJECTION).map(String::as_str), namespace.get(REVISION)) {
            (Some("false"), ..) => return None,
            (_, _, Some("disabled"), _) if own != Some("true") => return None,
            (_, Some(_), ..) => (REVISION, true),
            (Some("true"), ..) => (INJECT, true),
            (_, _, Some("enabled"), _) => (INJECTION, false),
            (_, _, _, Some(_)) => (REVISION, false),
            // Values that no webhook selects, such as "True" or "on".
            (Some(own), ..) if asks(own) => (INJECT, true),
            (_, _, Some(value), _) if asks(value) => (INJECTION, false),
            (_, None, _, None) => return None,
        };
    Some(InjectionWish { option, is_of_pod })
}

fn asks(value: &str) -> bool {
    ["true", "enabled", "yes", "on", "1"].iter().any(|yes| value.eq_ignore_ascii_case(yes))
}

/// Text and remedy for the webhook with the fewest unmet conditions, preferring webhooks with a condition on the requested label.
fn unserved(wish: &InjectionWish, admission: Option<&PodAdmission<'_>>) -> (String, &'static str) {
    let whose = if wish.is_of_pod { "the pod" } else { "the namespace" };
    let misses = |misses: &[Miss<'_>]| {
        let is_of_wish = misses.iter().any(|miss| miss.requirement.key == wish.option);
        (misses.len(), !is_of_wish)
    };
    let nearest = admission.and_then(|one| one.webhooks.iter().min_by_key(|(.., missed)| misses(missed)));
    let Some((_, webhook, missed)) = nearest else {
        let text = format!("{whose} requests injection, but no webhook injects pods");
        return (text, "install an injector, or remove the label");
    };
    let missed = missed.iter().map(Miss::to_string).collect::<Vec<_>>().join(", ");
    let name = &webhook.name;
    let text =
        format!("{whose} requests injection, but no webhook selects the pod; webhook {name}: {missed}");
    (text, "set the labels that the webhook requires")
}

fn not_injected(webhook: &str) -> Finding {
    let text = format!(
        "runs without a sidecar, although webhook {webhook} would inject it now: it was created before the \
         labels or the webhook, or while the injector was down"
    );
    let remedy = "restart the workload (kubectl rollout restart), or create the pod again";
    Finding::warning(Code::NotInjected, "", text, remedy)
}

fn is_unexpected(reason: DecisionReason, wish: &InjectionWish) -> bool {
    use DecisionReason::{ByPolicy, HostNetwork, NoPolicy, OtherSystem, SystemNamespace};
    matches!(reason, NoPolicy | ByPolicy)
        || (wish.is_of_pod && matches!(reason, HostNetwork | OtherSystem | SystemNamespace))
}

pub(super) fn judge_meshes(pod: &DescribedPod<'_>, membership: &Membership, groups: &mut FindingGroups) {
    let [first, second, ..] = &membership.signs[..] else { return };
    if !pod.is_running {
        return;
    }
    let [one, other] = [first, second].map(|sign| format!("{} ({})", title(sign.mesh), sign.text));
    let (text, remedy) = if (first.mesh, second.mesh) == (Mesh::Istio, Mesh::Ambient) {
        (
            format!(
                "is in {other} and has, or gets, {one}: pods with a sidecar are excluded from ambient mode"
            ),
            "give the pod the label istio.io/dataplane-mode: none, or remove the sidecar",
        )
    } else if first.is_present && second.is_present {
        (format!("has {one} and {other}: both meshes' rules capture its traffic"), "remove one of them")
    } else {
        (
            format!("has, or gets, {one} and {other}: both meshes' rules would capture its traffic"),
            "remove the label or annotation of one of them",
        )
    };
    groups.about(Finding::warning(Code::TwoMeshes, "", text, remedy), pod);
}

fn title(mesh: Mesh) -> &'static str {
    match mesh {
        Mesh::Istio => "Istio's sidecar",
        Mesh::Linkerd => "linkerd's sidecar",
        Mesh::Kuma => "Kuma's sidecar",
        Mesh::Ambient => "Istio's ambient mode",
    }
}
