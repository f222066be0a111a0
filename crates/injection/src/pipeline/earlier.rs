//! An earlier injection, undone: the pod as its user wrote it.
//!
//! A pod can be injected twice, and its mesh's setup may have changed between. So what was injected is taken out by its
//! names, what the user had written of it comes back, and the new injection starts from there. Injecting twice is then the
//! same as injecting once.

use super::pod::{CheckedPod, PodSpecItem, PodSpecList};
use super::record::{InjectionStatus, OVERRIDES, Overrides, STATUS};
use super::{metrics, order, probes};
use crate::sidecar::PROXY;
use std::collections::BTreeSet;

/// The pod without its earlier injection.
pub(super) fn undone(
    given: &CheckedPod,
    status: Option<&InjectionStatus>,
    overrides: &Overrides,
) -> CheckedPod {
    let mut pod = given.clone();
    pod.retain_annotations(|name| ![STATUS, OVERRIDES].contains(&name));
    if let Some(status) = status {
        let listed = PodSpecList::OF_CONTAINERS.into_iter().any(|list| status.has(list, PROXY));
        if let Some((_, proxy)) = given.container(PROXY).filter(|_| listed) {
            probes::restore(&mut pod, proxy);
            metrics::restore(&mut pod, proxy);
        }
        for list in PodSpecList::ALL {
            let injected: BTreeSet<&str> = status.names(list).iter().map(String::as_str).collect();
            let kept: BTreeSet<&str> = overrides.items(list).iter().map(PodSpecItem::name).collect();
            pod.edit(list, |items| {
                items.retain(|item| !injected.contains(item.name()) || kept.contains(item.name()));
            });
        }
    }
    for list in PodSpecList::ALL {
        let mut places = pod.places(list);
        pod.edit(list, |items| {
            for item in overrides.items(list) {
                match places.get(item.name()) {
                    Some(at) => items[*at] = item.clone(),
                    None => {
                        places.insert(item.name().to_owned(), items.len());
                        items.push(item.clone());
                    }
                }
            }
        });
    }
    // Among the containers that start first, the user's proxy was recorded where an injection had moved it.
    let recorded = overrides.item(PodSpecList::InitContainers, PROXY);
    let moved = recorded.is_some_and(|proxy| proxy.get("restartPolicy").is_none());
    if moved && let Some(proxy) = pod.take(PodSpecList::InitContainers, PROXY) {
        pod.edit(PodSpecList::Containers, |items| items.push(proxy));
    }
    pod
}

/// Keeps of the earlier injection what the new one has too in its order, and volumes that the user's own containers mount
/// though he never wrote them.
pub(super) fn keep_order(
    given: &CheckedPod,
    status: &InjectionStatus,
    own: &CheckedPod,
    pod: &mut CheckedPod,
) {
    let mounts = own.containers().flat_map(|container| container.list("volumeMounts"));
    let mounted: BTreeSet<&str> = mounts.map(PodSpecItem::name).collect();
    let (given_volumes, mut places) = (given.by_name(PodSpecList::Volumes), pod.places(PodSpecList::Volumes));
    pod.edit(PodSpecList::Volumes, |volumes| {
        for name in status.names(PodSpecList::Volumes).iter().filter(|name| mounted.contains(name.as_str())) {
            if let (Some(volume), false) = (given_volumes.get(name.as_str()), places.contains_key(name)) {
                places.insert(name.clone(), volumes.len());
                volumes.push((*volume).clone());
            }
        }
    });
    for list in PodSpecList::ALL {
        order::as_in(given.items(list), pod.items_mut(list));
    }
}
