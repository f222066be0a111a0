//! Every network namespace of the machine, each once, with what is known of it: a name, a container, its pod.

use super::lookup::{LookupPlaces, container_of, names, shortened};
use super::namespace::{NamespaceId, OpenNamespace};
use super::pod::{self, SandboxedPod};
use super::process;
use std::path::{Path, PathBuf};
use std::{collections::BTreeMap, fs, io};

#[derive(Debug)]
pub struct FoundNamespace {
    /// `NAMESPACE/NAME` of its pod, the pod's name as a container was given it (`HOSTNAME`), a name of `ip netns`, the first
    /// digits of a container's id, or a process.
    pub name: String,
    /// The pod, as the container runtime names it.
    pub pod: Option<SandboxedPod>,
    /// Its whole id.
    pub container: Option<String>,
    /// True if it has a name of `ip netns`.
    pub is_named: bool,
    /// By their folders.
    pub processes: Vec<PathBuf>,
    pub namespace: OpenNamespace,
}

/// Every network namespace that has a name or a process, once, but for our own and that of the first process.
///
/// # Errors
/// When our own can't be read, or processes can't be listed.
pub fn all(places: &LookupPlaces) -> io::Result<Vec<FoundNamespace>> {
    let own = OpenNamespace::own()?.id()?;
    // The node's, where we run in a pod that sees the node's processes.
    let first = OpenNamespace::open(&places.proc.join("1/ns/net")).and_then(|namespace| namespace.id()).ok();
    let is_left_out = |id: NamespaceId| id == own || Some(id) == first;
    let mut found: BTreeMap<NamespaceId, FoundNamespace> = BTreeMap::new();
    for name in names(&places.names) {
        let opened = places.names.iter().find_map(|folder| OpenNamespace::open(&folder.join(&name)).ok());
        let Some(namespace) = opened else { continue };
        match namespace.id() {
            Ok(id) if !is_left_out(id) && namespace.is_one() => {
                found.entry(id).or_insert_with(|| FoundNamespace {
                    name,
                    pod: None,
                    container: None,
                    is_named: true,
                    processes: Vec::new(),
                    namespace,
                });
            }
            Ok(_) | Err(_) => {}
        }
    }
    for folder in process::folders(&places.proc)? {
        // A process that can't be read has ended, or is another user's.
        let Ok(namespace) = OpenNamespace::open(&folder.join("ns/net")) else { continue };
        let Ok(id) = namespace.id() else { continue };
        if !is_left_out(id) {
            let known = found.entry(id).or_insert_with(|| of_process(&folder, namespace));
            known.add(folder, places);
        }
    }
    Ok(found.into_values().collect())
}

fn of_process(folder: &Path, namespace: OpenNamespace) -> FoundNamespace {
    let number = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = container_of(folder).map_or_else(|| format!("pid:{number}"), |id| shortened(&id));
    FoundNamespace { name, pod: None, container: None, is_named: false, processes: Vec::new(), namespace }
}

impl FoundNamespace {
    fn add(&mut self, folder: PathBuf, places: &LookupPlaces) {
        if let (None, Some(id)) = (&self.pod, container_of(&folder)) {
            let is_in_container = |parent: &Path| container_of(parent).is_some();
            let host = hostname(&folder);
            self.pod = pod::of_container(&id, &folder, &places.containers, is_in_container);
            let name = self.pod.as_ref().map(ToString::to_string).or(host);
            if self.container.is_none() || name.is_some() {
                self.container = Some(id);
            }
            if let Some(name) = name {
                self.name = name;
            }
        }
        self.processes.push(folder);
    }
}

/// The host name that a container was started with, which is its pod's name in Kubernetes. It is the container's word, so what
/// no host is called is left out.
fn hostname(folder: &Path) -> Option<String> {
    let environment = fs::read(folder.join("environ")).ok()?;
    let value = environment.split(|byte| *byte == 0).find_map(|one| one.strip_prefix(b"HOSTNAME="))?;
    String::from_utf8(value.to_vec()).ok().filter(|name| pod::is_name(name))
}
