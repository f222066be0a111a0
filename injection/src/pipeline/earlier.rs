//! An earlier injection, undone: the pod as its user wrote it.
//!
//! A pod can be injected twice, and its mesh's setup may have changed between. So what was injected is taken out by its
//! names, what the user had written of it comes back, and the new injection starts from there. Injecting twice is then the
//! same as injecting once.

use super::metrics;
use super::pod::{List, Pod};
use super::probes;
use super::record::{OVERRIDES, Overrides, STATUS, Status};
use super::{PROXY, order};

/// The pod without its earlier injection.
pub(super) fn undone(given: &Pod, status: Option<&Status>, overrides: &Overrides) -> Pod {
    let mut pod = given.clone();
    for annotation in [STATUS, OVERRIDES] {
        pod.annotations.remove(annotation);
    }
    if let Some(status) = status {
        let listed = List::OF_CONTAINERS.into_iter().any(|list| status.has(list, PROXY));
        if let Some((_, proxy)) = given.container(PROXY).filter(|_| listed) {
            probes::restore(&mut pod, proxy);
            metrics::restore(&mut pod, proxy);
        }
        for list in List::ALL {
            let gone = |name: &str| status.has(list, name) && overrides.item(list, name).is_none();
            pod.items_mut(list).retain(|item| !gone(item.name()));
        }
    }
    for list in List::ALL {
        for item in overrides.items(list) {
            let items = pod.items_mut(list);
            match items.iter_mut().find(|other| other.name() == item.name()) {
                Some(other) => *other = item.clone(),
                None => items.push(item.clone()),
            }
        }
    }
    // Among the containers that start first, the user's proxy was recorded where an injection had moved it.
    let recorded = overrides.item(List::InitContainers, PROXY);
    let moved = recorded.is_some_and(|proxy| !proxy.0.contains_key("restartPolicy"));
    if moved && let Some(proxy) = pod.take(List::InitContainers, PROXY) {
        pod.items_mut(List::Containers).push(proxy);
    }
    pod
}

/// Keeps of the earlier injection what the new one has too in its order, and volumes that the user's own containers mount
/// though he never wrote them.
pub(super) fn kept(given: &Pod, status: &Status, own: &Pod, pod: &mut Pod) {
    for name in status.names(List::Volumes) {
        let mounts = own.containers().flat_map(|container| container.list("volumeMounts"));
        let is_mounted = mounts.into_iter().any(|mount| mount["name"] == name.as_str());
        if pod.item(List::Volumes, name).is_none()
            && is_mounted
            && let Some(volume) = given.item(List::Volumes, name)
        {
            pod.items_mut(List::Volumes).push(volume.clone());
        }
    }
    for list in List::ALL {
        order::as_in(given.items(list), pod.items_mut(list));
    }
}
