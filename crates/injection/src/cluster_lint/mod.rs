//! Lints all pods of a cluster: missing sidecars, ports that no proxy captures, webhooks that can't work.
//!
//! The input is any set of objects. Checks that lack objects are reported beside the findings; nothing is guessed.
//!
//! ```text
//! objects            inventory             pods and templates with their workloads, namespaces, Services
//! webhooks           injectors             injectors and their rules; findings on their webhooks
//!                    injected              pods without a sidecar or with two
//!                    capture, ports        lint of each distinct capture's settings and inbound ports, once
//! findings           findings              grouped, worst first
//! ```

mod capture;
mod findings;
mod injected;
mod injectors;
mod inventory;
mod ports;

pub use findings::{ClusterItem, ClusterLintReport, ItemObject, sarif, text};
pub use injectors::config_maps;
pub use inventory::{ClusterQuestion, NeededResource, ObjectName, RESOURCES, objects_of_file};

use capture::Captures;
use findings::FindingGroups;
use inventory::Inventory;

pub fn lint_cluster(question: &ClusterQuestion<'_>) -> ClusterLintReport {
    let mut groups = FindingGroups::default();
    let inventory = Inventory::of(question);
    let injectors = injectors::read(&inventory, &mut groups);
    let mut captures = Captures::default();
    for pod in &inventory.pods {
        let membership = injected::judge(pod, &inventory, injectors.as_deref(), &mut groups);
        injected::judge_meshes(pod, &membership, &mut groups);
        let capture = captures.judge(pod, &membership, &mut groups);
        if let Some(capture) = capture {
            ports::judge(pod, &capture, &inventory, &mut groups);
        }
    }
    groups.finish(&inventory)
}
