//! Finds a network namespace by an `ip netns` name, a container ID, a process or a path, without a container runtime: control
//! group names end in a container's ID (`docker/ID`, `cri-containerd-ID.scope`, `crio-ID`, `libpod-ID.scope/container`).

use super::inventory::ContainerFiles;
use super::namespace::OpenNamespace;
use super::process;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupPlaces {
    pub proc: PathBuf,
    pub names: Vec<PathBuf>,
    pub containers: Vec<ContainerFiles>,
}

impl Default for LookupPlaces {
    fn default() -> Self {
        Self {
            proc: "/proc".into(),
            names: vec!["/run/netns".into(), "/var/run/netns".into()],
            containers: ContainerFiles::usual(),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    #[error("can't be entered: {0}")]
    Open(#[source] io::Error),
    #[error("is not a process; expected pid: and a number from 1")]
    NoNumber,
    #[error("does not exist: no process has this number in {}", .0.display())]
    NoProcess(PathBuf),
    #[error("is not a network namespace ({})", all_known(.names, .containers))]
    Unknown { names: Vec<String>, containers: Vec<String> },
    #[error("matches {}; give more of the ID", first_few(.0, DIGITS_SHOWN))]
    Ambiguous(Vec<String>),
    #[error("has processes in several network namespaces ({}); give the path of one", .0.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", "))]
    Several(Vec<PathBuf>),
}

impl LookupError {
    pub fn known(&self) -> impl Iterator<Item = &str> {
        let known: [&[String]; 2] = match self {
            Self::Unknown { names, containers } => [names, containers],
            _ => [&[], &[]],
        };
        known.into_iter().flatten().map(String::as_str)
    }
}

fn all_known(names: &[String], containers: &[String]) -> String {
    let list =
        |found: &[String], width| if found.is_empty() { "none".to_owned() } else { first_few(found, width) };
    format!("known names: {}; containers: {}", list(names, usize::MAX), list(containers, DIGITS_SHOWN))
}

fn first_few(names: &[String], width: usize) -> String {
    const FEW: usize = 5;
    let cut = |name: &String| name.chars().take(width).collect::<String>();
    let text = names.iter().take(FEW).map(cut).collect::<Vec<_>>().join(", ");
    if names.len() > FEW { format!("{text} and {} more", names.len() - FEW) } else { text }
}

pub fn find(word: &str, places: &LookupPlaces) -> Result<OpenNamespace, LookupError> {
    if let Some(number) = word.strip_prefix("pid:") {
        let number: u32 =
            number.trim().parse().ok().filter(|number| *number > 0).ok_or(LookupError::NoNumber)?;
        let folder = places.proc.join(number.to_string());
        return match OpenNamespace::open(&folder.join("ns/net")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(LookupError::NoProcess(places.proc.clone()))
            }
            opened => opened.map_err(LookupError::Open),
        };
    }
    // `kubectl get pod -o yaml` shows a container as containerd://ID.
    let id = word.split_once("://").map(|(_, id)| id);
    if id.is_none() && word.contains('/') {
        return OpenNamespace::open(Path::new(word)).map_err(LookupError::Open);
    }
    if id.is_none()
        && let Some(path) = places.names.iter().map(|folder| folder.join(word)).find(|path| path.exists())
    {
        return OpenNamespace::open(&path).map_err(LookupError::Open);
    }
    let containers = containers(&places.proc);
    if let Some(namespace) = namespace_of_container(id.unwrap_or(word), &containers)? {
        return Ok(namespace);
    }
    let here = Path::new(word);
    if id.is_none() && here.exists() {
        return OpenNamespace::open(here).map_err(LookupError::Open);
    }
    Err(LookupError::Unknown { names: names(&places.names), containers: containers.into_keys().collect() })
}

/// Names that [`find`] accepts: `ip netns` names, and the first digits of container IDs.
pub fn known(places: &LookupPlaces) -> Vec<String> {
    let containers = containers(&places.proc);
    names(&places.names).into_iter().chain(containers.keys().map(|id| shortened(id))).collect()
}

/// Digits of an ID in output, as many as `docker ps` shows.
const DIGITS_SHOWN: usize = 12;

pub(super) fn shortened(id: &str) -> String {
    id.chars().take(DIGITS_SHOWN).collect()
}

pub(super) fn names(folders: &[PathBuf]) -> Vec<String> {
    let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let names: BTreeSet<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.into_iter().collect()
}

/// Minimum digits of an ID. Fewer may be a word, such as `bad`.
const MIN_DIGITS: usize = 4;

fn namespace_of_container(
    start: &str,
    containers: &BTreeMap<String, Vec<PathBuf>>,
) -> Result<Option<OpenNamespace>, LookupError> {
    let start = start.to_ascii_lowercase();
    if start.len() < MIN_DIGITS || !start.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(None);
    }
    let found: Vec<(&String, &Vec<PathBuf>)> =
        containers.iter().filter(|(id, _)| id.starts_with(&start)).collect();
    match found[..] {
        [] => Ok(None),
        [(id, folders)] => namespace_of_processes(id, folders),
        _ => Err(LookupError::Ambiguous(found.into_iter().map(|(id, _)| id.clone()).collect())),
    }
}

/// Returns `None` if all processes have ended.
fn namespace_of_processes(id: &str, folders: &[PathBuf]) -> Result<Option<OpenNamespace>, LookupError> {
    let (mut found, mut refused) = (BTreeMap::new(), None);
    for folder in folders {
        match OpenNamespace::open(&folder.join("ns/net")) {
            // The process may have ended and its ID been reused meanwhile.
            Ok(namespace) if container_of(folder).as_deref() == Some(id) => {
                if let Ok(number) = namespace.id() {
                    found.entry(number).or_insert(namespace);
                }
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => refused = Some(error),
        }
    }
    match (found.len(), refused) {
        (0, Some(error)) => Err(LookupError::Open(error)),
        (0 | 1, _) => Ok(found.into_values().next()),
        _ => Err(LookupError::Several(found.into_values().map(|namespace| namespace.found).collect())),
    }
}

fn containers(proc: &Path) -> BTreeMap<String, Vec<PathBuf>> {
    let mut found: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for folder in process::folders(proc).unwrap_or_default() {
        if let Some(id) = container_of(&folder) {
            found.entry(id).or_default().push(folder);
        }
    }
    found
}

pub(super) fn container_of(folder: &Path) -> Option<String> {
    innermost(&fs::read_to_string(folder.join("cgroup")).ok()?)
}

/// ID of the innermost container in control group names (`/proc/PID/cgroup`, `cgroups(7)`).
fn innermost(text: &str) -> Option<String> {
    let mut groups = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    groups.find_map(|group| group.rsplit('/').find_map(id)).map(str::to_owned)
}

/// A container ID: 64 digits, after the runtime's name and before systemd's suffix.
fn id(part: &str) -> Option<&str> {
    const DIGITS: usize = 64;
    let part = part.strip_suffix(".scope").unwrap_or(part);
    let (runtime, id) = part.rsplit_once(['-', ':']).unwrap_or(("", part));
    let is_id =
        id.len() == DIGITS && id.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    // conmon monitors a container. Its control group has the container's ID too, but conmon runs in the node's namespace.
    (is_id && !runtime.ends_with("conmon")).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const WEB: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const DB: &str = "0123f6789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0";

    #[test]
    fn containers_are_found_by_control_groups() {
        for line in [
            format!("0::/docker/{WEB}"),
            format!("0::/system.slice/docker-{WEB}.scope"),
            format!("0::/kubepods/besteffort/pod7c3e4f2a-0000-4d1c-9a55-1234567890ab/{WEB}"),
            format!("0::/kubepods.slice/kubepods-pod7c3e4f2a_0000.slice/cri-containerd-{WEB}.scope"),
            format!("0::/kubepods.slice/kubepods-pod7c3e4f2a_0000.slice:cri-containerd:{WEB}"),
            format!("0::/kubepods.slice/kubepods-pod7c3e4f2a_0000.slice/crio-{WEB}.scope"),
            format!("0::/machine.slice/libpod-{WEB}.scope/container"),
            format!("12:cpu:/\n4:memory:/docker/{WEB}\n0::/"),
            format!("0::/docker/{DB}/docker/{WEB}"),
        ] {
            assert_eq!(innermost(&line).as_deref(), Some(WEB), "{line}");
        }
        for line in [
            "0::/".to_owned(),
            "0::/system.slice/sshd.service".to_owned(),
            format!("0::/machine.slice/libpod-conmon-{WEB}.scope"),
            format!("0::/system.slice/crio-conmon-{WEB}.scope"),
            format!("0::/docker/{}", &WEB[1..]),
            format!("0::/docker/{}", WEB.to_uppercase()),
        ] {
            assert_eq!(innermost(&line), None, "{line}");
        }
    }

    /// A `/proc` with processes in these control groups; an empty name means no container.
    struct Folder(testkit::folder::Folder);

    impl Folder {
        fn new(processes: &[(u32, &str)]) -> Self {
            let folder = testkit::folder::Folder::new("lookup");
            for (number, group) in processes {
                let process = folder.join("proc").join(number.to_string());
                fs::create_dir_all(process.join("ns")).expect("a folder");
                fs::write(process.join("cgroup"), format!("0::{group}\n")).expect("a file");
                symlink("/proc/self/ns/net", process.join("ns/net")).expect("a link");
            }
            fs::create_dir_all(folder.join("netns")).expect("a folder");
            fs::write(folder.join("netns/web"), "").expect("a file");
            Self(folder)
        }

        fn find(&self, word: &str) -> Result<PathBuf, String> {
            let places = LookupPlaces {
                proc: self.0.join("proc"),
                names: vec![self.0.join("netns")],
                containers: Vec::new(),
            };
            let found = find(word, &places).map(|namespace| namespace.found).map_err(|lost| lost.to_string());
            found.map(|path| path.strip_prefix(&*self.0).map(Path::to_owned).unwrap_or(path))
        }
    }

    #[test]
    fn namespaces_are_found_by_each_kind_of_name() {
        let (web, db) = (format!("/docker/{WEB}"), format!("/docker/{DB}"));
        let folder = Folder::new(&[(7, &web), (8, &web), (9, &db), (10, "/")]);
        let found = |word: &str, path: &str| assert_eq!(folder.find(word), Ok(path.into()), "{word}");
        found("web", "netns/web");
        found("pid:10", "proc/10/ns/net");
        found(DB, "proc/9/ns/net");
        found("0123F6", "proc/9/ns/net");
        found(&format!("containerd://{DB}"), "proc/9/ns/net");
        found("/proc/self/ns/net", "/proc/self/ns/net");
        assert!(folder.find("01234").is_ok_and(|path| path.starts_with("proc")));
    }

    #[test]
    fn unknown_and_ambiguous_names_are_errors() {
        let (web, db) = (format!("/docker/{WEB}"), format!("/docker/{DB}"));
        let folder = Folder::new(&[(7, &web), (9, &db)]);
        let text = |word: &str, part: &str| {
            let error = folder.find(word).expect_err("it is not found");
            assert!(error.contains(part), "{word}: {error}");
        };
        text("0123", "matches 0123456789ab, 0123f6789abc; give more of the ID");
        text("012", "known names: web; containers: 0123456789ab, 0123f6789abc");
        text("wbe", "is not a network namespace (known names: web; containers: ");
        text("containerd://ffff", "is not a network namespace");
        text("pid:11", "no process has this number");
        text("pid:x", "is not a process");
        text("/no/such", "can't be entered: ");
    }
}
