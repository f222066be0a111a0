//! The users and groups that the containers of an application run as.
//!
//! Init containers are left out, as they may well run as the proxy's user: where a plugin sets the rules, that is how they
//! reach the network before there is a proxy.

use super::facts::{Container, Pod};
use crate::mesh::Mesh;
use crate::settings::mapping::PROXY;

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
    let proxies = Mesh::ALL.iter().filter_map(|mesh| mesh.pods()?.proxy);
    let proxies: Vec<&str> = proxies.chain([PROXY]).collect();
    // A proxy has another name where a template says so.
    let injected = pod.status().map(|status| [status.containers, status.init_containers].concat());
    let injected = injected.unwrap_or_default();
    let is_proxy = |name: &String| proxies.contains(&name.as_str()) || injected.contains(name);
    let sidecars = spec.init_containers.iter().filter(|container| container.always_restarts);
    let running = spec.containers.iter().chain(sidecars);
    let id = |own: &Option<String>, of_pod: &Option<String>| {
        let id = own.as_ref().or(of_pod.as_ref())?;
        Some(Id { number: id.parse().ok()?, is_of_pod: own.is_none() })
    };
    let application = |container: &Container| Application {
        container: container.name.clone(),
        user: id(&container.run_as_user, &spec.run_as_user),
        group: id(&container.run_as_group, &spec.run_as_group),
    };
    running.filter(|container| !is_proxy(&container.name)).map(application).collect()
}
