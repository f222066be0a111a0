//! All network namespaces of the machine, each once, with its name, container and pod.

use super::lookup::{LookupPlaces, container_of, names, shortened};
use super::namespace::{NamespaceId, OpenNamespace};
use super::process;
use nix::libc::O_NONBLOCK;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::{collections::BTreeMap, fmt, fs, fs::File, io, io::Read, os::unix::fs::OpenOptionsExt};

#[derive(Debug)]
pub struct FoundNamespace {
    /// `NAMESPACE/NAME` of its pod, a container's `HOSTNAME`, an `ip netns` name, the start of a container ID, or a process.
    pub name: String,
    pub pod: Option<SandboxedPod>,
    pub container: Option<String>,
    pub is_named: bool,
    pub processes: Vec<PathBuf>,
    pub namespace: OpenNamespace,
}

/// Every network namespace with a name or a process, except our own and process 1's.
pub fn all(places: &LookupPlaces) -> io::Result<Vec<FoundNamespace>> {
    let own = OpenNamespace::own()?.id()?;
    // The node's namespace, if we run in a pod that sees the node's processes.
    let first = OpenNamespace::open(&places.proc.join("1/ns/net")).and_then(|namespace| namespace.id()).ok();
    let is_left_out = |id: NamespaceId| id == own || Some(id) == first;
    let mut found: BTreeMap<NamespaceId, FoundNamespace> = BTreeMap::new();
    for name in names(&places.names) {
        let opened = places.names.iter().find_map(|folder| OpenNamespace::open(&folder.join(&name)).ok());
        let Some(namespace) = opened else { continue };
        match namespace.id() {
            Ok(id) if !is_left_out(id) && namespace.is_one() => {
                found.entry(id).or_insert_with(|| FoundNamespace::new(name, true, namespace));
            }
            Ok(_) | Err(_) => {}
        }
    }
    for folder in process::folders(&places.proc)? {
        // An unreadable process has ended, or belongs to another user.
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
    FoundNamespace::new(name, false, namespace)
}

impl FoundNamespace {
    fn new(name: String, is_named: bool, namespace: OpenNamespace) -> Self {
        Self { name, pod: None, container: None, is_named, processes: Vec::new(), namespace }
    }

    fn add(&mut self, folder: PathBuf, places: &LookupPlaces) {
        if let (None, Some(id)) = (&self.pod, container_of(&folder)) {
            let is_in_container = |parent: &Path| container_of(parent).is_some();
            let host = hostname(&folder);
            self.pod = of_container(&id, &folder, &places.containers, is_in_container);
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

/// A container's `HOSTNAME` variable, which in Kubernetes is the pod's name; `None` if invalid.
fn hostname(folder: &Path) -> Option<String> {
    let environment = fs::read(folder.join("environ")).ok()?;
    let value = environment.split(|byte| *byte == 0).find_map(|one| one.strip_prefix(b"HOSTNAME="))?;
    String::from_utf8(value.to_vec()).ok().filter(|name| is_name(name))
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SandboxedPod {
    pub namespace: String,
    pub name: String,
}

impl fmt::Display for SandboxedPod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, name } = self;
        write!(f, "{namespace}/{name}")
    }
}

/// Files of a runtime's containers: `FOLDER/ID/FILE`. containerd and CRI-O write an OCI runtime configuration per container, with
/// the pod in its annotations; Docker writes a file with labels. Distributions with their own containerd use other folders.
/// There, the container's monitor (containerd's shim, conmon) leads to the file: the monitor is the container's parent process,
/// and its working directory holds the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerFiles {
    pub folder: PathBuf,
    pub file: &'static str,
}

impl ContainerFiles {
    pub fn usual() -> Vec<Self> {
        [
            ("/run/containerd/io.containerd.runtime.v2.task/k8s.io", CONFIGURATION),
            ("/run/containers/storage/overlay-containers", "userdata/config.json"),
            ("/var/lib/docker/containers", "config.v2.json"),
        ]
        .map(|(folder, file)| Self { folder: folder.into(), file })
        .into()
    }
}

const CONFIGURATION: &str = "config.json";

/// Size limit of a file; the kernel's limits on environments and arguments keep real files far below.
const MAX_LENGTH: u64 = 4 << 20;

#[derive(Deserialize)]
struct ContainerRecord {
    annotations: Option<PodKeys>,
    #[serde(rename = "Config")]
    config: Option<DockerConfig>,
}

#[derive(Deserialize)]
struct DockerConfig {
    #[serde(rename = "Labels")]
    labels: Option<PodKeys>,
}

type PodKeys = BTreeMap<String, String>;

/// Keys of a pod's namespace and name: containerd's, CRI-O's, and the kubelet's labels.
const KEYS: [(&str, &str); 3] = [
    ("io.kubernetes.cri.sandbox-namespace", "io.kubernetes.cri.sandbox-name"),
    ("io.kubernetes.cri-o.Namespace", "io.kubernetes.cri-o.KubeName"),
    ("io.kubernetes.pod.namespace", "io.kubernetes.pod.name"),
];

/// Pod of the process with this folder below `/proc`.
pub(super) fn of_container(
    id: &str,
    process: &Path,
    files: &[ContainerFiles],
    is_in_container: impl Fn(&Path) -> bool,
) -> Option<SandboxedPod> {
    let mut usual = files.iter().map(|files| files.folder.join(id).join(files.file));
    usual.find_map(|path| read(&path)).or_else(|| {
        let parent = process::parent(process)?;
        // A container's process could choose any working directory.
        (!is_in_container(&parent)).then(|| read(&parent.join("cwd").join(CONFIGURATION)))?
    })
}

fn read(path: &Path) -> Option<SandboxedPod> {
    let mut text = Vec::new();
    // Opening a pipe would wait for its writer.
    let file = File::options().read(true).custom_flags(O_NONBLOCK).open(path).ok()?;
    file.metadata().ok()?.is_file().then_some(())?;
    let length = file.take(MAX_LENGTH + 1).read_to_end(&mut text).ok()?;
    if u64::try_from(length).ok()? > MAX_LENGTH {
        return None;
    }
    let ContainerRecord { annotations, config } = serde_json::from_slice(&text).ok()?;
    let labels = config.and_then(|config| config.labels);
    annotations.iter().chain(&labels).find_map(named)
}

fn named(keys: &PodKeys) -> Option<SandboxedPod> {
    let get = |key: &str| keys.get(key).filter(|value| is_name(value)).cloned();
    KEYS.iter()
        .find_map(|(namespace, name)| Some(SandboxedPod { namespace: get(namespace)?, name: get(name)? }))
}

pub(super) fn is_name(text: &str) -> bool {
    const MAX: usize = 253;
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    (1..=MAX).contains(&text.len()) && text.bytes().all(is_of_name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::symlink, process::Command};
    use testkit::folder::Folder;

    struct Scratch(Folder);

    impl Scratch {
        fn new() -> Self {
            Self(Folder::new("pod"))
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        }

        fn files(&self) -> Vec<ContainerFiles> {
            let below = |ContainerFiles { folder, file }| {
                let folder = self.0.join(folder.strip_prefix("/").expect("absolute"));
                ContainerFiles { folder, file }
            };
            ContainerFiles::usual().into_iter().map(below).collect()
        }

        fn pod(&self, id: &str) -> Option<String> {
            let pod = of_container(id, &self.0.join("proc/7"), &self.files(), |_| false);
            pod.map(|pod| pod.to_string())
        }
    }

    const CONTAINERD: &str = r#"{"ociVersion":"1.1.0","process":{"args":["sleep"]},"annotations":{
        "io.kubernetes.cri.container-type":"container","io.kubernetes.cri.sandbox-name":"web-0",
        "io.kubernetes.cri.sandbox-namespace":"shop"}}"#;
    const CRIO: &str = r#"{"ociVersion":"1.1.0","annotations":{"io.kubernetes.cri-o.KubeName":"web-1",
        "io.kubernetes.cri-o.Namespace":"shop","io.kubernetes.cri-o.Annotations":"{\"a\":\"b\"}"}}"#;
    const KUBELET: &str =
        r#"{"annotations":{"io.kubernetes.pod.name":"web-2","io.kubernetes.pod.namespace":"shop"}}"#;
    const DOCKER: &str = r#"{"StreamConfig":{},"ID":"d","Config":{"Hostname":"web-3","Labels":{
        "io.kubernetes.container.name":"app","io.kubernetes.pod.name":"web-3","io.kubernetes.pod.namespace":"shop"}}}"#;

    #[test]
    fn each_runtime_names_the_pod() {
        let scratch = Scratch::new();
        scratch.write("run/containerd/io.containerd.runtime.v2.task/k8s.io/c/config.json", CONTAINERD);
        scratch.write("run/containers/storage/overlay-containers/o/userdata/config.json", CRIO);
        scratch.write("run/containers/storage/overlay-containers/k/userdata/config.json", KUBELET);
        scratch.write("var/lib/docker/containers/d/config.v2.json", DOCKER);
        for (id, pod) in [("c", "shop/web-0"), ("o", "shop/web-1"), ("k", "shop/web-2"), ("d", "shop/web-3")]
        {
            assert_eq!(scratch.pod(id).as_deref(), Some(pod), "{id}");
        }
        assert_eq!(scratch.pod("x"), None);
    }

    #[test]
    fn files_without_a_pod_are_skipped() {
        let scratch = Scratch::new();
        let long = format!(r#"{{"padding":"{}","annotations":{{}}}}"#, "x".repeat(5 << 20));
        for (id, text) in [
            ("empty", ""),
            ("podman", r#"{"annotations":{"io.podman.annotations.init":"FALSE"}}"#),
            ("null", r#"{"annotations":null,"Config":{"Labels":null}}"#),
            ("half", r#"{"annotations":{"io.kubernetes.pod.name":"web"}}"#),
            (
                "escape",
                "{\"annotations\":{\"io.kubernetes.pod.name\":\"\\u001b[2J\",\"io.kubernetes.pod.namespace\":\"shop\"}}",
            ),
            ("long", &*long),
        ] {
            let path = format!("run/containerd/io.containerd.runtime.v2.task/k8s.io/{id}/config.json");
            scratch.write(&path, text);
            assert_eq!(scratch.pod(id), None, "{id}");
        }
    }

    /// k3s keeps containerd's files elsewhere, in the shim's working directory.
    #[test]
    fn container_files_are_found_by_the_monitor_process() {
        let scratch = Scratch::new();
        scratch.write("run/k3s/task/c/config.json", CONTAINERD);
        scratch.write("proc/7/status", "Name:\tapp\nPPid:\t5\n");
        scratch.write("proc/5/status", "Name:\tcontainerd-shim\nPPid:\t1\n");
        symlink(scratch.0.join("run/k3s/task/c"), scratch.0.join("proc/5/cwd")).expect("a link");
        assert_eq!(scratch.pod("c").as_deref(), Some("shop/web-0"));
        let parent = scratch.0.join("proc/5");
        let process = scratch.0.join("proc/7");
        assert_eq!(of_container("c", &process, &scratch.files(), |path| path == parent), None);
    }

    #[test]
    fn pipes_are_not_read() {
        let scratch = Scratch::new();
        let folder = "run/containerd/io.containerd.runtime.v2.task/k8s.io/c";
        scratch.write(&format!("{folder}/other"), "");
        let made = Command::new("mkfifo").arg(scratch.0.join(folder).join("config.json")).status();
        assert!(made.expect("mkfifo starts").success());
        assert_eq!(scratch.pod("c"), None);
    }
}
