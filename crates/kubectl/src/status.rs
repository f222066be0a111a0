//! `kubectl capture status`: what the kernel of a pod captures, from the document of `sidecar-init status`.

use crate::arguments::PodArguments;
use crate::failure::{CaptureFailure, CommandOutcome};
use crate::kernel::PodKernel;
use crate::kubectl::Kubectl;
use crate::pod::TargetPod;
use crate::print::print_answer;
use diagnose::status::CaptureStatus;

pub(crate) fn run(arguments: &PodArguments) -> Result<CommandOutcome, CaptureFailure> {
    let PodArguments { connection, kernel, output, .. } = arguments;
    let kubectl = Kubectl::new(connection);
    let pod = TargetPod::find(&kubectl, &arguments.pod, connection.namespace.as_deref())?;
    let kernel = PodKernel::required(&kubectl, kernel, &pod)?;
    let (document, answer) = kernel.document::<CaptureStatus>(&kubectl, "status", &[], None)?;
    print_answer(&kernel.basis(), &pod, &document, *output, |width| answer.text(width, true))?;
    Ok(match answer.capturing {
        _ if answer.fails() => CommandOutcome::Failing,
        Some(true) if !answer.has_changed() => CommandOutcome::Done,
        _ => CommandOutcome::Different,
    })
}
