//! The pod's choice of users and groups that identify the proxy's traffic to rules.

use super::pod::{CheckedPod, PodSpecItem, PodSpecList, object_in};
use crate::sidecar::{INIT, Identity, InitMode, OPENSHIFT_USERS, PROXY, Sidecar, VALIDATION};
use serde_json::{Map, Value};

pub(super) const IDS: [&str; 2] = ["runAsUser", "runAsGroup"];

/// Removes the proxy's OpenShift user, which the application shares: the rules could not distinguish their traffic.
pub(super) fn forget_openshifts(pod: &mut CheckedPod, namespace: &crate::admission::Namespace) {
    if !namespace.annotations.contains_key(OPENSHIFT_USERS) {
        return;
    }
    let Some(user) = pod.container(PROXY).and_then(|(_, proxy)| proxy.runs_as(IDS[0])) else { return };
    let mut others = pod.items(PodSpecList::Containers).iter().filter(|container| container.name() != PROXY);
    let is_the_applications = others.any(|container| container.runs_as(IDS[0]) == Some(user));
    if let Some(proxy) = pod.container_mut(PROXY).filter(|_| is_the_applications) {
        let context = object_in(proxy.fields_mut(), "securityContext");
        IDS.iter().for_each(|id| drop(context.remove(*id)));
    }
}

/// Applies the chosen proxy user and group wherever they must agree, which Go templates can't do. With TPROXY, the proxy's user
/// can't be chosen: transparent sockets require root.
pub(super) fn settle(
    pod: &mut CheckedPod,
    own: &CheckedPod,
    overlay: &CheckedPod,
    sidecar: &Sidecar,
) -> Option<String> {
    let (_, user) = own.container(PROXY)?;
    overlay.container(PROXY)?;
    let stated: Vec<&str> = IDS.into_iter().filter(|id| user.runs_as(id).is_some()).collect();
    if stated.is_empty() {
        return None;
    }
    let of = |identity: Identity, id: &str| if id == IDS[0] { identity.user } else { identity.group };
    if let Some(proxy) = pod.container_mut(PROXY) {
        let context = object_in(proxy.fields_mut(), "securityContext");
        stated.iter().for_each(|id| set(context, id, of(sidecar.identities.proxy, id)));
    }
    let starting = pod.items_mut(PodSpecList::InitContainers).iter_mut();
    for container in starting.filter(|container| [INIT, VALIDATION].contains(&container.name())) {
        if container.name() == VALIDATION {
            let context = object_in(container.fields_mut(), "securityContext");
            stated.iter().for_each(|id| set(context, id, of(sidecar.identities.init, id)));
        }
        if let Some(Value::Array(args)) =
            container.get_mut("args").filter(|_| sidecar.init != InitMode::Nothing)
            && let Some(at) = args.iter().position(|word| word == "-u")
            && let Some(number) = args.get_mut(at + 1)
        {
            *number = sidecar.proxy_number().into();
        }
    }
    let given = user.runs_as(IDS[0]).filter(|given| *given != sidecar.identities.proxy.user)?;
    Some(format!(
        "runAsUser {given} of {PROXY} is ignored: interception mode {} requires {}",
        sidecar.mode.name(),
        sidecar.identities.proxy.user
    ))
}

fn set(context: &mut Map<String, Value>, id: &str, value: i64) {
    context.insert(id.to_owned(), value.into());
}
