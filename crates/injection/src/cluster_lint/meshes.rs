//! Pods that two meshes have, or are to have.

use super::findings::FindingGroups;
use super::injected::Membership;
use super::inventory::DescribedPod;
use mesh::Mesh;
use mesh::pod::MeshSign;
use rules::finding::{Code, Finding};

/// Reports a pod that has signs of two meshes.
pub(super) fn judge(pod: &DescribedPod<'_>, membership: &Membership, groups: &mut FindingGroups) {
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

/// What a mesh puts into pods, in a sentence.
fn title(mesh: Mesh) -> &'static str {
    match mesh {
        Mesh::Istio => "Istio's sidecar",
        Mesh::Linkerd => "linkerd's sidecar",
        Mesh::Kuma => "Kuma's sidecar",
        Mesh::Ambient => "Istio's ambient mode",
    }
}
