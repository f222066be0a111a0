//! `kubectl capture diff`: how the rules in a pod differ from those that its manifest describes.
//!
//! The manifest goes to `sidecar-init check` in the cluster, which knows the facts of the pod's network namespace.

use crate::arguments::{OutputForm, PodArguments};
use crate::error::CaptureFailure;
use crate::failure::visible;
use crate::kernel::{PodKernel, RemoteDocument};
use crate::kubectl::Kubectl;
use crate::outcome::CommandOutcome;
use crate::pod::TargetPod;
use crate::print::{print_answer, remark};
use diagnose::{Style, fold};
use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Deserialize)]
struct CheckDocument {
    equal: bool,
    backend: String,
    chains: Vec<ChainInDocument>,
    nftables: Vec<TablePart>,
    routes: Vec<RouteInDocument>,
    before: Vec<String>,
    others: Vec<OtherMesh>,
}

#[derive(Debug, Deserialize)]
struct ChainInDocument {
    backend: String,
    family: String,
    table: String,
    chain: String,
    rules: Vec<SidedRule>,
}

#[derive(Debug, Deserialize)]
struct TablePart {
    part: String,
    rules: Vec<SidedRule>,
}

#[derive(Debug, Deserialize)]
struct SidedRule {
    side: String,
    text: String,
    reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct RouteInDocument {
    text: String,
    reason: String,
}

#[derive(Debug, Deserialize)]
struct OtherMesh {
    text: String,
    remedy: String,
}

pub(crate) fn run(arguments: &PodArguments) -> Result<CommandOutcome, CaptureFailure> {
    let PodArguments { connection, kernel, output, .. } = arguments;
    let kubectl = Kubectl::new(connection);
    let pod = TargetPod::find(&kubectl, &arguments.pod, connection.namespace.as_deref())?;
    let kernel = PodKernel::required(&kubectl, kernel, &pod)?;
    let manifest = manifest(&pod);
    let RemoteDocument { document, remarks } = kernel.document(&kubectl, "check", &[], Some(&manifest))?;
    let read = CheckDocument::deserialize(&document).map_err(|error| {
        let why = format!("printed a comparison of another form ({error})");
        kubectl.unread(&kernel.call("check", &[], Some(&manifest)), why)
    })?;
    let is_new = |text: &&String| *output == OutputForm::Json || !read.says(text);
    remarks.iter().filter(is_new).for_each(|text| remark(text));
    let basis = format!("{}, against its manifest", kernel.basis());
    print_answer(&basis, &pod, &document, *output, |width| read.text(width))?;
    Ok(if read.equal { CommandOutcome::Done } else { CommandOutcome::Different })
}

/// The pod without fields that do not concern its rules: who wrote which field, the last manifest that was applied, and
/// ephemeral containers, whose arguments may hold a manifest each.
fn manifest(pod: &TargetPod) -> Value {
    let mut object = pod.object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        }
    }
    for (part, list) in [("spec", "ephemeralContainers"), ("status", "ephemeralContainerStatuses")] {
        if let Some(fields) = object[part].as_object_mut() {
            fields.remove(list);
        }
    }
    object
}

impl CheckDocument {
    /// Whether the text for people has what a remark says: `sidecar-init check` warns of most of it, too.
    fn says(&self, remark: &str) -> bool {
        let others = self.others.iter().map(|other| &other.text);
        let has = |text: &String| remark.contains(&visible(text));
        remark.contains("the rules differ from the desired ones") || self.before.iter().chain(others).any(has)
    }

    fn text(&self, width: usize) -> String {
        let has_none = self.chains.is_empty() && self.nftables.is_empty() && self.routes.is_empty();
        let head = match (self.equal, has_none) {
            (true, _) => {
                format!("The rules are as the manifest describes them ({}).", visible(&self.backend))
            }
            (false, true) => "No rule differs, but other rules decide:".to_owned(),
            (false, false) => {
                "The rules differ: - is in the pod, + is what the manifest describes.".to_owned()
            }
        };
        let style = if self.equal { Style::Captured } else { Style::Dropped };
        let mut text = fold(&format!("{}\n", style.paint(head)), 2, width);
        for ChainInDocument { backend, family, table, chain, rules } in &self.chains {
            text.push_str(&titled(&format!("{backend} {family} {table} {chain}"), rules, width));
        }
        for TablePart { part, rules } in &self.nftables {
            text.push_str(&titled(part, rules, width));
        }
        for RouteInDocument { text: route, reason } in &self.routes {
            text.push_str(&fold(&format!("{}   # {}\n", visible(route), visible(reason)), 2, width));
        }
        for line in &self.before {
            text.push_str(&fold(&format!("before: {}\n", visible(line)), 2, width));
        }
        for OtherMesh { text: other, remedy } in &self.others {
            text.push_str(&fold(&format!("{}; {}\n", visible(other), visible(remedy)), 2, width));
        }
        text
    }
}

/// The rules of a chain that differ; equal ones are left out.
fn titled(title: &str, rules: &[SidedRule], width: usize) -> String {
    let mut text = format!("\n{}\n", Style::Strong.paint(visible(title)));
    for SidedRule { side, text: rule, reason } in rules {
        let (mark, style) = match &**side {
            "there" => ("-", Style::Dropped),
            "wanted" => ("+", Style::Captured),
            _ if reason.is_some() => (" ", Style::Strong),
            _ => continue,
        };
        let reason = reason.as_ref().map(|reason| format!("   # {}", visible(reason))).unwrap_or_default();
        let line = format!("{}{reason}\n", style.paint(format!("{mark} {}", visible(rule))));
        text.push_str(&fold(&line, 2, width));
    }
    text
}
