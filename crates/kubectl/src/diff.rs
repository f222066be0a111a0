//! `kubectl capture diff`: how the rules in a pod differ from those that its manifest describes.
//!
//! The manifest goes to `sidecar-init diff` in the cluster, which knows the facts of the pod's network namespace.

use crate::arguments::{OutputForm, PodArguments};
use crate::error::CaptureFailure;
use crate::failure::visible;
use crate::kernel::{PodKernel, RemoteDocument};
use crate::kubectl::Kubectl;
use crate::outcome::CommandOutcome;
use crate::pod::TargetPod;
use crate::print::{print_answer, remark};
use diagnose::explain::PacketEnd;
use diagnose::{Style, TextLine, fold, painted};
use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Deserialize)]
struct DiffDocument {
    equal: bool,
    changes: Vec<ChangedPackets>,
    backend: Option<String>,
    parts: Vec<ChangedPart>,
    before: Vec<String>,
    others: Vec<OtherMesh>,
}

/// Packets that end otherwise by the manifest (`new`) than in the pod (`old`).
#[derive(Debug, Deserialize)]
struct ChangedPackets {
    text: String,
    old: PacketEnd,
    new: PacketEnd,
}

#[derive(Debug, Deserialize)]
struct ChangedPart {
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
    let RemoteDocument::<DiffDocument> { document, answer, remarks } =
        kernel.document(&kubectl, "diff", &[], Some(&manifest))?;
    let is_new = |text: &&String| *output == OutputForm::Json || !answer.says(text);
    remarks.iter().filter(is_new).for_each(|text| remark(text));
    let basis = format!("{}, against its manifest", kernel.basis());
    print_answer(&basis, &pod, &document, *output, |width| answer.text(width))?;
    Ok(if answer.equal { CommandOutcome::Done } else { CommandOutcome::Different })
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

impl DiffDocument {
    /// Whether the text for people has what a remark says: `sidecar-init diff` warns of most of it, too.
    fn says(&self, remark: &str) -> bool {
        let others = self.others.iter().map(|other| &other.text);
        self.before.iter().chain(others).any(|text| remark.contains(&visible(text)))
    }

    fn text(&self, width: usize) -> String {
        let head = match (self.equal, self.changes.is_empty(), self.parts.is_empty()) {
            (true, ..) => {
                let backend = visible(self.backend.as_deref().unwrap_or("no rules"));
                format!("The rules are as the manifest describes them ({backend}).")
            }
            (false, false, _) => "From the pod to its manifest, verdicts change:".to_owned(),
            (false, true, false) => "Rules differ, and no verdict changes.".to_owned(),
            (false, true, true) => "No rule differs, but other rules decide:".to_owned(),
        };
        let style = if self.equal { Style::Captured } else { Style::Dropped };
        let mut text = fold(&format!("{}\n", style.paint(head)), 2, width);
        for ChangedPackets { text: packets, old, new } in &self.changes {
            text.push_str(&fold(&format!("{}\n", Style::Strong.paint(visible(packets))), 2, width));
            for (name, end) in [("before", old), ("after", new)] {
                let line = TextLine::hanging(9).plain(format!("  {name:<7}{}", end.sentence()));
                text.push_str(&painted(&[line], width));
            }
        }
        for ChangedPart { part, rules } in &self.parts {
            text.push_str(&titled(part, rules, width));
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

/// The rules of a part that differ; equal ones are left out.
fn titled(title: &str, rules: &[SidedRule], width: usize) -> String {
    let mut text = format!("\n{}\n", Style::Strong.paint(visible(title)));
    for SidedRule { side, text: rule, reason } in rules {
        let (mark, style) = match &**side {
            "from" => ("-", Style::Dropped),
            "to" => ("+", Style::Captured),
            _ if reason.is_some() => (" ", Style::Strong),
            _ => continue,
        };
        let reason = reason.as_ref().map(|reason| format!("   # {}", visible(reason))).unwrap_or_default();
        let line = format!("{}{reason}\n", style.paint(format!("{mark} {}", visible(rule))));
        text.push_str(&fold(&line, 2, width));
    }
    text
}
