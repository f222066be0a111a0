//! `kubectl capture status` and `kubectl capture diff`: documents that `sidecar-init` makes in the network namespace of a pod.

use crate::arguments::{OutputForm, PodArguments};
use crate::failure::{CaptureFailure, CommandOutcome};
use crate::kernel::PodKernel;
use crate::pod::TargetPod;
use command_line::{columns, output::print_styled};
use diagnose::{compare::DiffReport, painted, status::CaptureStatus};
use serde_json::{Value, json};

pub(crate) fn status(arguments: &PodArguments) -> Result<CommandOutcome, CaptureFailure> {
    let (kubectl, pod, kernel) = PodKernel::of(&arguments.connection, &arguments.kernel, &arguments.pod)?;
    let (document, answer) = kernel.document::<CaptureStatus>(&kubectl, "status", &[], None)?;
    print_answer(&kernel.basis(), &pod, &document, arguments.output, |width| answer.text(width, true))?;
    Ok(match answer.capturing {
        _ if answer.fails() => CommandOutcome::Failing,
        Some(true) if !answer.has_changed() => CommandOutcome::Done,
        _ => CommandOutcome::Different,
    })
}

/// The manifest goes to `sidecar-init diff` in the cluster, which knows the facts of the pod's network namespace.
pub(crate) fn diff(arguments: &PodArguments) -> Result<CommandOutcome, CaptureFailure> {
    let (kubectl, pod, kernel) = PodKernel::of(&arguments.connection, &arguments.kernel, &arguments.pod)?;
    let manifest = manifest(&pod);
    let (document, answer) = kernel.document::<DiffReport>(&kubectl, "diff", &[], Some(&manifest))?;
    let basis = format!("{}, against its manifest", kernel.basis());
    print_answer(&basis, &pod, &document, arguments.output, |width| answer.text(width, true))?;
    Ok(if answer.equal { CommandOutcome::Done } else { CommandOutcome::Different })
}

/// Prints `text`, in lines of so many columns after the basis, or the document.
fn print_answer(
    basis: &str,
    pod: &TargetPod,
    document: &Value,
    output: OutputForm,
    text: impl FnOnce(usize) -> String,
) -> std::io::Result<()> {
    let width = columns::of_terminal();
    let all =
        json!({ "version": 1, "pod": pod.title(), "node": pod.node, "basis": basis, "kernel": document });
    match output {
        OutputForm::Text => print_styled(&(painted(&[pod.basis_line(basis)], width) + &text(width))),
        OutputForm::Json => print_styled(&format!("{all:#}\n")),
    }
}

/// The pod without fields that do not concern its rules: who wrote which field, the last manifest that was applied, and
/// ephemeral containers, whose arguments may hold a manifest each.
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
