//! Membership of pods in meshes; findings on pods that lack their sidecar or have two meshes.

use super::findings::{FindingGroups, Unjudged};
use super::injectors::Injectors;
use super::inventory::{DescribedPod, Inventory};
use crate::decision::{DecisionReason, INJECT};
use crate::webhook::{self, INJECTION, Miss, REVISION};
use mesh::Mesh;
use mesh::pod::{MeshSign, signs};
use rules::finding::{Code, Finding};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Membership {
    /// Evidence that a mesh has the pod, or is to have it; one of each mesh.
    pub(super) signs: Vec<MeshSign>,
    /// Set where all injectors that can be called for it are known.
    pub(super) is_known: bool,
}

impl Membership {
    pub(super) fn has(&self, mesh: Mesh) -> bool {
        self.signs.iter().any(|sign| sign.mesh == mesh)
    }
}

/// The annotation that the kubelet gives to the pods that it makes itself, for which no webhook can add anything.
const MIRROR: &str = "kubernetes.io/config.mirror";

pub(super) fn judge(
    pod: &DescribedPod<'_>,
    inventory: &Inventory<'_>,
    injectors: &Injectors<'_>,
    groups: &mut FindingGroups,
) -> Membership {
    let namespace = &pod.namespace.namespace;
    let mut found = Membership {
        signs: signs(&pod.read.pod, &namespace.labels, &namespace.annotations),
        is_known: injectors.is_known && pod.namespace.is_known,
    };
    if !pod.namespace.is_known && injectors.is_known && !inventory.is_whole {
        groups.not_judged(Unjudged::UnknownNamespace, &namespace.name);
    }
    let is_mirror = pod.read.pod.annotations.contains_key(MIRROR);
    if found.has(Mesh::default()) || !found.is_known || is_mirror {
        return found;
    }
    let wish = wish(pod);
    let Some((called, decision)) = webhook::judge(injectors.each(), namespace, pod.template) else {
        if let Some(wish) = wish.filter(|_| pod.is_running) {
            groups.about(unserved(&wish, pod, injectors), pod);
        }
        return found;
    };
    if decision.inject {
        let text = format!("webhook {}", called.webhook.name);
        found.signs.insert(0, MeshSign { mesh: Mesh::default(), text, is_present: false });
        if pod.is_pod && pod.is_running {
            groups.about(not_injected(&called.webhook.name), pod);
        }
    } else if let Some(wish) = wish.filter(|wish| pod.is_running && is_unexpected(decision.reason, wish)) {
        let text = format!(
            "asks for injection, and webhook {} does not inject it: {}",
            called.webhook.name, decision.reason
        );
        groups.about(
            Finding::warning(Code::InjectionUnserved, &wish.option, text, remedy(decision.reason)),
            pod,
        );
    }
    found
}

struct InjectionWish {
    option: String,
    is_of_pod: bool,
    revision: Option<String>,
}

fn wish(pod: &DescribedPod<'_>) -> Option<InjectionWish> {
    let namespace = &pod.namespace.namespace.labels;
    let own = pod.labels.get(INJECT).or_else(|| pod.read.pod.annotations.get(INJECT)).map(String::as_str);
    let wish = |option: &str, is_of_pod, revision: Option<&String>| {
        Some(InjectionWish { option: option.to_owned(), is_of_pod, revision: revision.cloned() })
    };
    let of_pod = pod.labels.get(REVISION);
    match (own, of_pod, namespace.get(INJECTION).map(String::as_str), namespace.get(REVISION)) {
        (Some("false"), ..) => None,
        (_, _, Some("disabled"), _) if own != Some("true") => None,
        (_, Some(revision), ..) => wish(REVISION, true, Some(revision)),
        (Some("true"), ..) => wish(INJECT, true, None),
        (_, _, Some("enabled"), _) => wish(INJECTION, false, None),
        (_, _, _, Some(revision)) => wish(REVISION, false, Some(revision)),
        // No webhook selects such values, "True" or "on" among them.
        (Some(own), ..) if asks(own) => wish(INJECT, true, None),
        (_, _, Some(value), _) if asks(value) => wish(INJECTION, false, None),
        (_, None, _, None) => None,
    }
}

/// A value that is meant as a yes, in whichever spelling.
fn asks(value: &str) -> bool {
    ["true", "enabled", "yes", "on", "1"].iter().any(|yes| value.eq_ignore_ascii_case(yes))
}

fn unserved(wish: &InjectionWish, pod: &DescribedPod<'_>, injectors: &Injectors<'_>) -> Finding {
    let whose = if wish.is_of_pod { "the pod" } else { "the namespace" };
    let found =
        |text: String, remedy: &str| Finding::warning(Code::InjectionUnserved, &wish.option, text, remedy);
    if injectors.webhooks.is_empty() {
        let text = format!("{whose} asks for injection, and no webhook injects pods");
        return found(text, "install an injector, or remove the label");
    }
    let revisions: Vec<&str> = injectors.revisions().into_iter().collect();
    if let Some(revision) = &wish.revision
        && !revisions.contains(&revision.as_str())
    {
        let text = format!(
            "{whose} asks for revision {revision}, which no webhook serves; served: {}",
            if revisions.is_empty() { "none".to_owned() } else { revisions.join(", ") }
        );
        return found(text, "name a revision or tag that is served, or install that revision");
    }
    if wish.option == INJECTION && !revisions.is_empty() && !injectors.serves_namespaces() {
        let text = format!(
            "{whose} asks for injection, and no webhook selects this label; revisions served: {}",
            revisions.join(", ")
        );
        return found(
            text,
            "label the namespace with istio.io/rev and a revision that is served, and remove this label",
        );
    }
    let namespace = &pod.namespace.namespace.labels;
    let nearest =
        injectors.webhooks.iter().min_by_key(|known| known.webhook.misses(namespace, &pod.labels).len());
    let missed = nearest.map(|known| {
        let misses: Vec<String> =
            known.webhook.misses(namespace, &pod.labels).iter().map(Miss::to_string).collect();
        format!("; webhook {}: {}", known.webhook.name, misses.join(", "))
    });
    let text =
        format!("{whose} asks for injection, and no webhook selects the pod{}", missed.unwrap_or_default());
    found(text, "correct the label that the webhook requires")
}

fn not_injected(webhook: &str) -> Finding {
    Finding::warning(
        Code::NotInjected,
        "",
        format!(
            "runs without a sidecar, though webhook {webhook} would inject it now: it was created before the labels or the \
             webhook, or while the injector did not answer"
        ),
        "restart the workload (kubectl rollout restart), or create the pod again",
    )
}

fn is_unexpected(reason: DecisionReason, wish: &InjectionWish) -> bool {
    use DecisionReason::{ByPolicy, HostNetwork, NoPolicy, OtherSystem, SystemNamespace};
    matches!(reason, NoPolicy | ByPolicy)
        || (wish.is_of_pod && matches!(reason, HostNetwork | OtherSystem | SystemNamespace))
}

fn remedy(reason: DecisionReason) -> &'static str {
    match reason {
        DecisionReason::NoPolicy => "set policy: enabled in the injector's configuration",
        DecisionReason::ByPolicy => {
            "give the pods the label sidecar.istio.io/inject: \"true\", or set policy: enabled"
        }
        DecisionReason::HostNetwork => "remove hostNetwork, or the label",
        DecisionReason::OtherSystem
        | DecisionReason::SystemNamespace
        | DecisionReason::Label
        | DecisionReason::Annotation
        | DecisionReason::NeverSelected
        | DecisionReason::AlwaysSelected => "remove the label",
    }
}

pub(super) fn judge_meshes(pod: &DescribedPod<'_>, membership: &Membership, groups: &mut FindingGroups) {
    let [first, second, ..] = &membership.signs[..] else { return };
    if !pod.is_running {
        return;
    }
    let named = |sign: &MeshSign| format!("{} ({})", title(sign.mesh), sign.text);
    let (text, remedy) = if (first.mesh, second.mesh) == (Mesh::Istio, Mesh::Ambient) {
        (
            format!(
                "is in {} and has, or gets, {}: pods with a sidecar are excluded from ambient mode",
                named(second),
                named(first)
            ),
            "give the pod the label istio.io/dataplane-mode: none, or remove the sidecar",
        )
    } else {
        let both = format!("{} and {}", named(first), named(second));
        match first.is_present && second.is_present {
            true => (format!("has {both}: the rules of both capture its traffic"), "remove one of them"),
            false => (
                format!("has, or gets, {both}: the rules of both would capture its traffic"),
                "remove the label or annotation of one of them",
            ),
        }
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
