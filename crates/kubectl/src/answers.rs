//! `kubectl capture status`, `diff` and `trace`: documents that `sidecar-init` makes in a pod's network namespace.

use crate::arguments::{OutputForm, PodArguments, TraceArguments};
use crate::failure::{CaptureFailure, CommandOutcome, DIFFERENT};
use crate::kernel::{PodKernel, parsed, read};
use crate::pod::TargetPod;
use command_line::columns;
use command_line::output::{print_part, print_styled};
use diagnose::{compare::DiffReport, painted, status::CaptureStatus, trace::Block};
use serde_json::{Value, json};
use std::{io, process::ExitCode};

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

/// Passes the manifest to `sidecar-init diff` in the cluster, which sees the pod's network namespace.
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
) -> io::Result<()> {
    let all =
        json!({ "version": 1, "pod": pod.title(), "node": pod.node, "basis": basis, "kernel": document });
    let text = |width| painted(&[pod.basis_line(basis)], width) + &text(width);
    arguments.output.print(text, &all)
}

/// Pod without fields irrelevant to its rules: field owners, the last applied manifest, and ephemeral containers, whose arguments
/// may each contain a manifest.
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

/// Prints each packet once reported.
pub(crate) fn trace(arguments: &TraceArguments) -> CommandOutcome {
    let output = arguments.pod.output;
    let (pod, kernel) = PodKernel::of(&arguments.pod)?;
    let width = columns::of_terminal();
    if output == OutputForm::Text {
        print_styled(&painted(&[pod.basis_line(&kernel.basis())], width))?;
    }
    let call = kernel.call("trace", &trace_words(arguments), None);
    let longer = kernel.longer().saturating_add(arguments.time);
    let ended = kernel.kubectl.each_line(&call, longer, |line| {
        let line = line.trim();
        if line.is_empty() {
            return Ok(());
        }
        let unread = |cause| kernel.kubectl.failure(&call, cause);
        let document = parsed(line).map_err(unread)?;
        let packet: Block = read(&document).map_err(unread)?;
        let text = match output {
            OutputForm::Text => packet.text(width),
            OutputForm::Json => format!("{document}\n"),
        };
        Ok(print_part(&text)?)
    });
    match ended {
        // A closed pipe, such as `head` leaves, is not an error.
        Err(CaptureFailure::Print(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            Ok(ExitCode::SUCCESS)
        }
        Ok(output) if !output.status.success() => Err(kernel.refusal(&call, output)),
        ended => ended.map(|_| ExitCode::SUCCESS),
    }
}

/// Arguments of `sidecar-init trace`, always with a time limit, since a lost connection would not end it.
fn trace_words(arguments: &TraceArguments) -> Vec<String> {
    let TraceArguments { time, count, enable, proto, destination, verdict, .. } = arguments;
    let mut words = vec![format!("--for={}ms", time.as_millis().max(1))];
    words.extend(count.map(|count| format!("--count={count}")));
    words.extend(enable.then(|| "--enable".to_owned()));
    for (flag, value) in [("proto", proto), ("destination", destination), ("verdict", verdict)] {
        words.extend(value.iter().map(|value| format!("--{flag}={value}")));
    }
    words
}
