//! `kubectl capture status` and `kubectl capture diff`: documents that `sidecar-init` makes in the network namespace of a pod.

use crate::arguments::PodArguments;
use crate::failure::{CommandOutcome, DIFFERENT};
use crate::kernel::PodKernel;
use crate::pod::TargetPod;
use diagnose::{compare::DiffReport, painted, status::CaptureStatus};
use serde_json::{Value, json};
use std::process::ExitCode;

pub(crate) fn status(arguments: &PodArguments) -> CommandOutcome {
    let (pod, kernel) = PodKernel::of(arguments)?;
    let (document, answer) = kernel.document::<CaptureStatus>("status", &[], None)?;
    print(arguments, &kernel.basis(), &pod, &document, |width| answer.text(width, true))?;
    Ok(match answer.capturing {
        _ if answer.fails() => ExitCode::FAILURE,
        Some(true) if !answer.has_changed() => ExitCode::SUCCESS,
        _ => DIFFERENT.into(),
    })
}

/// The manifest is passed to `sidecar-init diff` in the cluster, which has the facts of the pod's network namespace.
pub(crate) fn diff(arguments: &PodArguments) -> CommandOutcome {
    let (pod, kernel) = PodKernel::of(arguments)?;
    let manifest = manifest(&pod);
    let (document, answer) = kernel.document::<DiffReport>("diff", &[], Some(&manifest))?;
    let basis = format!("{}, against its manifest", kernel.basis());
    print(arguments, &basis, &pod, &document, |width| answer.text(width, true))?;
    Ok(if answer.equal { ExitCode::SUCCESS } else { DIFFERENT.into() })
}

fn print(
    arguments: &PodArguments,
    basis: &str,
    pod: &TargetPod,
    document: &Value,
    text: impl FnOnce(usize) -> String,
) -> std::io::Result<()> {
    let all =
        json!({ "version": 1, "pod": pod.title(), "node": pod.node, "basis": basis, "kernel": document });
    let text = |width| painted(&[pod.basis_line(basis)], width) + &text(width);
    arguments.output.print(text, &all)
}

/// Pod without fields that do not concern its rules: field owners, the last applied manifest, and ephemeral containers, whose
/// arguments may contain a manifest each.
fn manifest(pod: &TargetPod) -> Value {
    let mut object = pod.object.clone();
    for (place, field) in [
        ("/metadata", "managedFields"),
        ("/metadata/annotations", "kubectl.kubernetes.io/last-applied-configuration"),
        ("/spec", "ephemeralContainers"),
        ("/status", "ephemeralContainerStatuses"),
    ] {
        if let Some(fields) = object.pointer_mut(place).and_then(Value::as_object_mut) {
            fields.remove(field);
        }
    }
    object
}
