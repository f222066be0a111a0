//! The users and groups that the containers of an application run as.
//!
//! Init containers are apart, as they may well run as the proxy's user: where a plugin sets the rules, that is how they
//! reach the network before there is a proxy.

use super::facts::{Container, Pod, Spec};
use crate::mesh::Mesh;
use crate::settings::mapping::PROXY;
use std::collections::BTreeSet;

/// A container that is not a proxy, with its user and its group where the manifest has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Application {
    pub container: String,
    pub user: Option<Id>,
    pub group: Option<Id>,
}

/// The number of a user or of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id {
    pub number: u32,
    /// Whether the pod's security context has it, and not the container's.
    pub is_of_pod: bool,
}

/// The containers of a pod that run beside its proxy.
pub(super) fn applications(pod: &Pod) -> Vec<Application> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let sidecars = spec.init_containers.iter().filter(|container| container.always_restarts);
    let running = spec.containers.iter().chain(sidecars);
    let injected = injected(pod);
    let others = running.filter(|container| !injected.contains(&container.name));
    others.map(|container| application(spec, container)).collect()
}

/// The names of proxies, and of the containers that the injector has added by its own record: a template may name them.
pub(super) fn injected(pod: &Pod) -> BTreeSet<String> {
    let proxies = Mesh::ALL.iter().filter_map(|mesh| mesh.pods()?.proxy).chain([PROXY]).map(str::to_owned);
    let added = pod.status().into_iter().flat_map(|status| [status.containers, status.init_containers]);
    proxies.chain(added.flatten()).collect()
}

/// A container with the ids that it runs as.
pub(super) fn application(spec: &Spec, container: &Container) -> Application {
    let id = |own: &Option<String>, of_pod: &Option<String>| {
        let id = own.as_ref().or(of_pod.as_ref())?;
        Some(Id { number: id.parse().ok()?, is_of_pod: own.is_none() })
    };
    Application {
        container: container.name.clone(),
        user: id(&container.run_as_user, &spec.run_as_user),
        group: id(&container.run_as_group, &spec.run_as_group),
    }
}
