//! `kubectl capture status`: what the kernel of a pod captures, from the document of `sidecar-init status`.

use crate::arguments::PodArguments;
use crate::error::CaptureFailure;
use crate::kernel::{PodKernel, RemoteDocument};
use crate::kubectl::Kubectl;
use crate::outcome::CommandOutcome;
use crate::pod::TargetPod;
use crate::print::{print_answer, remark};
use diagnose::status::CaptureStatus;

pub(crate) fn run(arguments: &PodArguments) -> Result<CommandOutcome, CaptureFailure> {
    let PodArguments { connection, kernel, output, .. } = arguments;
    let kubectl = Kubectl::new(connection);
    let pod = TargetPod::find(&kubectl, &arguments.pod, connection.namespace.as_deref())?;
    let kernel = PodKernel::required(&kubectl, kernel, &pod)?;
    let RemoteDocument::<CaptureStatus> { document, answer, remarks } =
        kernel.document(&kubectl, "status", &[], None)?;
    remarks.iter().for_each(|text| remark(text));
    print_answer(&kernel.basis(), &pod, &document, *output, |width| answer.text(width, true))?;
    Ok(match answer.capturing {
        _ if answer.fails() => CommandOutcome::Failing,
        Some(true) if !answer.has_changed() => CommandOutcome::Done,
        _ => CommandOutcome::Different,
    })
}
