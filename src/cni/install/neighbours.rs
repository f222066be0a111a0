//! Programs that decide whether the entry takes effect: Multus, plugins of other meshes, and programs that remove the entry.

use super::conflist::{FileKind, NetworkConfiguration, word};
use crate::cni::PLUGIN;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub(super) const CAUSES: [&str; 4] = [UNUSABLE_FILE, DELEGATION, SECOND_MESH, REMOVAL];
pub(super) const UNUSABLE_FILE: &str = "unusable_file";
const DELEGATION: &str = "delegation";
const SECOND_MESH: &str = "second_mesh";
const REMOVAL: &str = "removal";

/// A warning, logged once while it lasts, and shown at `/readyz`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InstallWarning {
    pub(super) cause: &'static str,
    pub(super) text: String,
    pub(super) is_blocking: bool,
}

const MULTUS: [&str; 2] = ["multus", "multus-shim"];

/// The network that Multus attaches first. Multus rewrites its own file when it starts or the delegate's file changes, and passes
/// on a fixed list of the runtime's capabilities, without annotations (`CreateCNIRuntimeConf` of multus-cni).
#[derive(Debug)]
pub(super) struct Delegation {
    /// A network, or a file path in Multus' container.
    name: String,
    /// True if the copy of the configuration in the key `delegates` has our entry; `None` without a copy.
    copy_has_entry: Option<bool>,
}

impl Delegation {
    /// Delegation in Multus' configuration; `None` for any other configuration.
    pub(super) fn of(network: &NetworkConfiguration) -> Option<Self> {
        let fields = network.plugin(&MULTUS)?;
        let name = fields.value("clusterNetwork").and_then(word).filter(|name| !name.is_empty());
        if let Some(name) = name {
            return Some(Self { name, copy_has_entry: None });
        }
        let copies =
            fields.value("delegates").and_then(|list| serde_json::from_str::<Value>(list.get()).ok());
        let copy = &copies.unwrap_or_default()[0];
        let mut plugins = copy["plugins"].as_array().into_iter().flatten();
        let has_entry = plugins.any(|plugin| plugin["type"] == PLUGIN);
        let name = copy["name"].as_str().unwrap_or_default().to_owned();
        Some(Self { name, copy_has_entry: Some(has_entry) })
    }

    pub(super) fn leads_to(&self, file: &str, network: &NetworkConfiguration) -> bool {
        let is_named = self.name == network.name || self.name.rsplit('/').next() == Some(file);
        is_named && Self::of(network).is_none() && network.serves(file).is_ok()
    }

    /// Warning about Multus' file, unless the delegate's configuration has an entry that works without annotations.
    pub(super) fn warning(&self, own: &Path, list: Option<&Path>, is_usable: bool) -> Option<InstallWarning> {
        let remedy = match list.map(Path::display) {
            Some(_) if is_usable && self.copy_has_entry != Some(false) => return None,
            Some(to) if is_usable => format!("restart Multus, which copies the entry from {to}"),
            Some(to) => format!(
                "set kubeconfig in the entry; the installer adds it to {to}, to which Multus passes no annotations"
            ),
            None => format!(
                "make the configuration of its delegate {:?} a plugin list that includes the entry, with kubeconfig",
                self.name
            ),
        };
        let text = format!("{} is written by Multus, which removes the entry; {remedy}", own.display());
        let is_blocking = is_usable && list.is_some();
        Some(InstallWarning { cause: DELEGATION, text, is_blocking })
    }
}

/// Meshes' plugins, and how to remove them while their pods keep omitting the init container.
const MESHES: [(&str, &str); 3] = [
    ("istio-cni", "uninstall Istio's chart cni, and keep pilot.cni.enabled: true"),
    ("linkerd-cni", "uninstall the chart linkerd2-cni, and keep cniEnabled: true"),
    (
        "kuma-cni",
        "set cni.enabled: false in Kuma's chart, and KUMA_RUNTIME_KUBERNETES_INJECTOR_CNI_ENABLED=true in its control plane",
    ),
];

pub(super) fn second_meshes(path: &Path, network: &NetworkConfiguration) -> Vec<InstallWarning> {
    let found = MESHES.iter().filter(|(plugin, _)| network.types().any(|kind| kind == *plugin));
    let warning = |(plugin, remedy): &(&str, &str)| {
        let text = format!("{} also calls {plugin}, so two plugins capture a pod; {remedy}", path.display());
        InstallWarning { cause: SECOND_MESH, text, is_blocking: false }
    };
    found.map(warning).collect()
}

pub(super) type Replaced = (PathBuf, String);

/// Successive removals of the entry that restore the same earlier text.
#[derive(Debug, Default)]
pub(super) struct Removals {
    last: Option<(Replaced, Instant)>,
    count: u32,
}

impl Removals {
    /// Minimum number that excludes coincidence, such as the restart of a network agent.
    const LIMIT: u32 = 3;
    const WINDOW: Duration = Duration::from_secs(120);

    pub(super) fn inserted(&mut self, replaced: Replaced) {
        let is_same = |(last, at): &(Replaced, Instant)| *last == replaced && at.elapsed() < Self::WINDOW;
        self.count = if self.last.as_ref().is_some_and(is_same) { self.count + 1 } else { 0 };
        self.last = Some((replaced, Instant::now()));
    }

    pub(super) fn warning(&self) -> Option<InstallWarning> {
        let ((path, text), at) = self.last.as_ref()?;
        if self.count < Self::LIMIT || at.elapsed() >= Self::WINDOW {
            return None;
        }
        let network = NetworkConfiguration::read(text, FileKind::of(path)?).ok()?;
        let types: Vec<&str> = network.types().collect();
        let text = format!(
            "the entry is repeatedly removed from {}, by the program that writes its plugins {}; \
             configure it to keep other plugins (Cilium: cni.exclusive: false)",
            path.display(),
            types.join(", ")
        );
        Some(InstallWarning { cause: REMOVAL, text, is_blocking: true })
    }
}
