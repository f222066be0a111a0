//! `kubectl capture diff`: differences between the rules in a pod and those that its manifest describes.
//!
//! The manifest goes to `sidecar-init diff` in the cluster, which knows the facts of the pod's network namespace.

use crate::arguments::PodArguments;
use crate::failure::{CaptureFailure, CommandOutcome};
use crate::kernel::PodKernel;
use crate::kubectl::Kubectl;
use crate::pod::TargetPod;
use crate::print::print_answer;
use diagnose::compare::DiffReport;
use serde_json::Value;

pub(crate) fn run(arguments: &PodArguments) -> Result<CommandOutcome, CaptureFailure> {
    let PodArguments { connection, kernel, output, .. } = arguments;
    let kubectl = Kubectl::new(connection);
    let pod = TargetPod::find(&kubectl, &arguments.pod, connection.namespace.as_deref())?;
    let kernel = PodKernel::required(&kubectl, kernel, &pod)?;
    let manifest = manifest(&pod);
    let (document, answer) = kernel.document::<DiffReport>(&kubectl, "diff", &[], Some(&manifest))?;
    let basis = format!("{}, against its manifest", kernel.basis());
    print_answer(&basis, &pod, &document, *output, |width| answer.text(width, true))?;
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
