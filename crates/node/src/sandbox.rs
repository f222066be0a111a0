//! Finds a pod's network namespace from the node. All of a pod's processes, including its pause container's, run in control
//! groups named after the pod's uid (`kubepods.slice/.../pod<uid>`, with `_` for `-` under systemd). If the node sees none, as
//! with virtual machines, the pod's addresses select a named namespace below `/run/netns`. The plugin's state is not used: the
//! plugin was not called for such a pod.

use clap::Args;
use sidecar_init::sys::inventory::{self, FoundNamespace};
pub(crate) use sidecar_init::sys::namespace::OpenNamespace as Sandbox;
use sidecar_init::sys::{address, namespace};
use sidecar_init::sys::{inventory::ContainerFiles, lookup::LookupPlaces};
use std::{fs, io, net::IpAddr, path::PathBuf};

#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodePaths {
    /// The node's /proc, as this process sees it
    #[arg(long, value_name = "DIR", default_value = "/proc")]
    pub(crate) proc: PathBuf,
    /// The node's named network namespaces
    #[arg(long = "netns-dir", value_name = "DIR", default_value = "/run/netns")]
    pub(crate) names: PathBuf,
}

impl NodePaths {
    pub(crate) fn lookup(&self) -> LookupPlaces {
        let (proc, names) = (self.proc.clone(), vec![self.names.clone()]);
        LookupPlaces { proc, names, containers: ContainerFiles::usual() }
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum PodSandboxError {
    #[error("{} can't be read; access to the node's processes is required (hostPID, or --proc)", .0.display())]
    Proc(PathBuf, #[source] io::Error),
    #[error("this node has no process of the pod, and no namespace with its addresses")]
    Nowhere,
    #[error("several namespaces may be the pod's ({}); nothing is changed", .0.join(", "))]
    Several(Vec<String>),
}

fn has(sandbox: &Sandbox, addresses: &[IpAddr]) -> bool {
    let found = namespace::within(&sandbox.path(), || address::all().unwrap_or_default());
    found.is_ok_and(|found| found.iter().any(|address| addresses.contains(address)))
}

pub(crate) fn find(places: &NodePaths, uid: &str, addresses: &[IpAddr]) -> Result<Sandbox, PodSandboxError> {
    let all = inventory::all(&places.lookup());
    let all = all.map_err(|error| PodSandboxError::Proc(places.proc.clone(), error))?;
    // A node may itself be a container of a pod.
    let node = fs::read_to_string(places.proc.join("1/cgroup")).unwrap_or_default();
    let (mut of_pod, mut others) = (Vec::new(), Vec::new());
    for FoundNamespace { namespace, processes, .. } in all {
        let groups = processes.iter().filter_map(|folder| fs::read_to_string(folder.join("cgroup")).ok());
        let groups = groups.collect::<Vec<_>>().join("\n");
        if names(&groups, uid) {
            of_pod.push(namespace);
        } else if !names_another(&groups, uid, &node) {
            // An address of a pod whose processes have ended may belong to another pod now.
            others.push(namespace);
        }
    }
    let mut found = of_pod;
    if !addresses.is_empty() {
        found.retain(|sandbox| has(sandbox, addresses));
        if found.is_empty() {
            found = others;
            found.retain(|sandbox| has(sandbox, addresses));
        }
    }
    match found.len() {
        0 => Err(PodSandboxError::Nowhere),
        1 => Ok(found.remove(0)),
        _ => Err(PodSandboxError::Several(found.iter().map(|one| one.found.display().to_string()).collect())),
    }
}

/// The uids of pods in control groups (`/proc/PID/cgroup`, `cgroups(7)`), each with its part of the path: `pod<uid>`,
/// `kubepods-pod<uid>.slice`, or `kubepods-burstable-pod<uid>.slice`.
fn uids(groups: &str) -> impl Iterator<Item = (&str, String)> {
    groups.lines().flat_map(|line| line.split('/')).filter_map(|part| {
        // Without systemd, runc appends `:cri-containerd:ID`.
        let slice = part.split_once(':').map_or(part, |(slice, _)| slice);
        let name = slice.strip_suffix(".slice").unwrap_or(slice);
        let within = name.rsplit_once("-pod").map(|(_, uid)| uid);
        let uid = within.or_else(|| name.strip_prefix("pod"))?;
        Some((part, uid.replace('_', "-")))
    })
}

fn names(groups: &str, uid: &str) -> bool {
    !uid.is_empty() && uids(groups).any(|(_, found)| found == uid)
}

/// True if one of the control groups belongs to another pod, other than one that contains the node itself.
fn names_another(groups: &str, uid: &str, node: &str) -> bool {
    let is_uid = |uid: &str| uid.len() == 36 && uid.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    !names(groups, uid) && uids(groups).any(|(part, found)| is_uid(&found) && !node.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_groups_identify_pods() {
        let uid = "7c3e4f2a-0000-4d1c-9a55-1234567890ab";
        for line in [
            "0::/kubepods/besteffort/pod7c3e4f2a-0000-4d1c-9a55-1234567890ab/abc",
            "0::/../kubepods-pod7c3e4f2a_0000_4d1c_9a55_1234567890ab.slice/cri-containerd-abc.scope",
            "0::/kubelet.slice/kubelet-kubepods.slice/\
             kubelet-kubepods-besteffort-pod7c3e4f2a_0000_4d1c_9a55_1234567890ab.slice/crio-abc",
            "0::/pods.slice/pods-kubepods-pod7c3e4f2a_0000_4d1c_9a55_1234567890ab.slice/abc",
            "12:cpu:/\n4:memory:/kubepods/burstable/pod7c3e4f2a-0000-4d1c-9a55-1234567890ab",
            "0::/system.slice/containerd.service/\
             kubepods-burstable-pod7c3e4f2a_0000_4d1c_9a55_1234567890ab.slice:cri-containerd:abc",
        ] {
            assert!(names(line, uid), "{line}");
            assert!(!names_another(line, uid, ""), "{line}");
            let other = "7c3e4f2a-0000-4d1c-9a55-1234567890ac";
            assert!(names_another(line, other, ""), "{line}");
            assert!(!names_another(line, other, line), "the node is in it too: {line}");
        }
        for line in [
            "0::/",
            "0::/kubepods/pod7c3e4f2a-0000-4d1c-9a55-1234567890ac",
            "0::/kubepods/pod7c3e4f2a-0000-4d1c-9a55-1234567890ab1",
            "0::/system.slice/7c3e4f2a-0000-4d1c-9a55-1234567890ab",
        ] {
            assert!(!names(line, uid), "{line}");
        }
        assert!(!names("0::/kubepods/pod", ""));
        assert!(!names_another("0::/kubepods.slice/kubepods-burstable.slice", uid, ""));
        assert!(!names_another("0::/user.slice/podman-pause.scope", uid, ""));
    }

    #[test]
    fn a_pod_without_processes_has_no_namespace() {
        let places = NodePaths { proc: "/proc".into(), names: "/nonexistent".into() };
        let lost = find(&places, "00000000-1111-2222-3333-444444444444", &[]);
        assert!(matches!(lost, Err(PodSandboxError::Nowhere)), "{lost:?}");
        let places = NodePaths { proc: "/nonexistent".into(), ..places };
        assert!(matches!(find(&places, "u", &[]), Err(PodSandboxError::Proc(..))));
    }
}
