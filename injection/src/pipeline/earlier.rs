//! An earlier injection, undone: the pod as its user wrote it.
//!
//! A pod can be injected twice, and its mesh's setup may have changed between. So what was injected is taken out by its
//! names, what the user had written of it comes back, and the new injection starts from there. Injecting twice is then the
//! same as injecting once.

use super::pod::{Item, List, Pod};
use super::record::{OVERRIDES, Overrides, STATUS, Status};
use super::{metrics, order, probes};
use crate::sidecar::PROXY;

/// The pod without its earlier injection.
pub(super) fn undone(given: &Pod, status: Option<&Status>, overrides: &Overrides) -> Pod {
    let mut pod = given.clone();
    pod.retain_annotations(|name| ![STATUS, OVERRIDES].contains(&name));
    if let Some(status) = status {
        let listed = List::OF_CONTAINERS.into_iter().any(|list| status.has(list, PROXY));
        if let Some((_, proxy)) = given.container(PROXY).filter(|_| listed) {
            probes::restore(&mut pod, proxy);
            metrics::restore(&mut pod, proxy);
        }
        for list in List::ALL {
            let gone = |name: &str| status.has(list, name) && overrides.item(list, name).is_none();
            pod.edit(list, |items| items.retain(|item| !gone(item.name())));
        }
    }
    for list in List::ALL {
        for item in overrides.items(list) {
            match pod.items_mut(list).iter_mut().find(|other| other.name() == item.name()) {
                Some(other) => *other = item.clone(),
                None => pod.edit(list, |items| items.push(item.clone())),
            }
        }
    }
    // Among the containers that start first, the user's proxy was recorded where an injection had moved it.
    let recorded = overrides.item(List::InitContainers, PROXY);
    let moved = recorded.is_some_and(|proxy| proxy.get("restartPolicy").is_none());
    if moved && let Some(proxy) = pod.take(List::InitContainers, PROXY) {
        pod.edit(List::Containers, |items| items.push(proxy));
    }
    pod
}

/// Keeps of the earlier injection what the new one has too in its order, and volumes that the user's own containers mount
/// though he never wrote them.
pub(super) fn keep_order(given: &Pod, status: &Status, own: &Pod, pod: &mut Pod) {
    for name in status.names(List::Volumes) {
        let mounts = own.containers().flat_map(|container| container.list("volumeMounts"));
        let is_mounted = mounts.into_iter().any(|mount| mount["name"] == name.as_str());
        if pod.item(List::Volumes, name).is_none()
            && is_mounted
            && let Some(volume) = given.item(List::Volumes, name)
        {
            pod.edit(List::Volumes, |volumes| volumes.push(volume.clone()));
        }
    }
    for list in List::ALL {
        order::as_in(given.items(list), pod.items_mut(list));
    }
}
