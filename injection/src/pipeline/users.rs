//! Users and groups, by which rules know the proxy's own traffic: what a pod says of them, where it may.

use super::pod::{List, Pod};
use super::{PROXY, VALIDATION};
use crate::sidecar::{Mode, Sidecar};
use serde_json::{Map, Value};

/// The annotation by which OpenShift tells which users the pods of a namespace run as.
const OPENSHIFT_RANGE: &str = "openshift.io/sa.scc.uid-range";
const IDS: [&str; 2] = ["runAsUser", "runAsGroup"];

/// Forgets a user of the proxy that OpenShift has filled in: it gives all containers the application's, and then nothing
/// tells their traffic apart.
pub(super) fn forget_openshifts(pod: &mut Pod, namespace: &crate::pipeline::Namespace) {
    if !namespace.annotations.contains_key(OPENSHIFT_RANGE) {
        return;
    }
    let Some(user) = pod.container(PROXY).and_then(|(_, proxy)| proxy.runs_as(IDS[0])) else { return };
    let mut others = pod.items(List::Containers).iter().filter(|container| container.name() != PROXY);
    let is_the_applications = others.any(|container| container.runs_as(IDS[0]) == Some(user));
    if let Some(proxy) = pod.container_mut(PROXY).filter(|_| is_the_applications) {
        let context = proxy.object_mut("securityContext");
        IDS.iter().for_each(|id| drop(context.remove(*id)));
    }
}

/// Follows what the user says of the proxy's user and group, in all places that have to say the same.
///
/// With TPROXY nobody may say it: the proxy has to be root to make transparent sockets, and is known by its group. So it keeps what
/// the templates say.
pub(super) fn settle(pod: &mut Pod, own: &Pod, overlay: &Pod, sidecar: &Sidecar) -> Vec<String> {
    let Some((_, user)) = own.container(PROXY) else { return Vec::new() };
    let Some((_, template)) = overlay.container(PROXY) else { return Vec::new() };
    let mut warnings = Vec::new();
    for id in IDS {
        let Some(said) = user.runs_as(id) else { continue };
        match sidecar.mode {
            Mode::Tproxy => {
                let kept = template.runs_as(id);
                if kept.is_some_and(|kept| kept != said) {
                    warnings.push(format!(
                        "{id} {said} of {PROXY} is passed over: with interception mode TPROXY it has to be {}",
                        kept.unwrap_or_default()
                    ));
                }
                if let Some(proxy) = pod.container_mut(PROXY) {
                    set(proxy.object_mut("securityContext"), id, kept);
                }
            }
            Mode::Redirect | Mode::None => {
                let starting = pod.items_mut(List::InitContainers);
                if let Some(validation) = starting.iter_mut().find(|container| container.name() == VALIDATION)
                {
                    set(validation.object_mut("securityContext"), id, Some(said));
                }
            }
        }
    }
    warnings
}

fn set(context: &mut Map<String, Value>, id: &str, value: Option<i64>) {
    match value {
        Some(value) => drop(context.insert(id.to_owned(), value.into())),
        None => drop(context.remove(id)),
    }
}
