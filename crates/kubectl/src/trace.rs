//! `kubectl capture trace`: packets of a pod as they meet rules, each as soon as it is reported.

use crate::arguments::{OutputForm, TraceArguments};
use crate::failure::{CallCause, CommandOutcome};
use crate::kernel::{PodKernel, parsed, read};
use crate::kubectl::CallOutput;
use command_line::columns;
use command_line::output::{print_part, print_styled};
use diagnose::{painted, trace::Block};
use std::{io, process::ExitCode};

pub(crate) fn run(arguments: &TraceArguments) -> CommandOutcome {
    let output = arguments.pod.output;
    let (kubectl, pod, kernel) = PodKernel::of(&arguments.pod)?;
    let width = columns::of_terminal();
    if output == OutputForm::Text {
        print_styled(&painted(&[pod.basis_line(&kernel.basis())], width))?;
    }
    let call = kernel.call("trace", &words(arguments), None);
    let mut failed = None;
    let longer = kernel.longer().saturating_add(arguments.time);
    let ended = kubectl.each_line(&call, longer, |line| {
        let line = line.trim();
        if line.is_empty() {
            return Ok(());
        }
        let document = parsed(line)?;
        let packet: Block = read(&document)?;
        let text = match output {
            OutputForm::Text => packet.text(width),
            OutputForm::Json => format!("{document}\n"),
        };
        print_part(&text).map_err(|error| {
            failed = Some(error);
            CallCause::unread("its output can't be printed".to_owned())
        })
    });
    match failed {
        // As `head` does.
        Some(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
        Some(error) => return Err(error.into()),
        None => {}
    }
    let (status, stderr) = ended?;
    if !status.success() {
        let output = CallOutput { status, stdout: String::new(), stderr };
        return Err(kernel.refusal(&kubectl, &call, &output));
    }
    Ok(ExitCode::SUCCESS)
}

/// The words of `sidecar-init trace`. It always has an end, which a lost connection would not bring.
fn words(arguments: &TraceArguments) -> Vec<String> {
    let TraceArguments { time, count, enable, proto, destination, verdict, .. } = arguments;
    let mut words = vec![format!("--for={}ms", time.as_millis().max(1))];
    words.extend(count.map(|count| format!("--count={count}")));
    words.extend(enable.then(|| "--enable".to_owned()));
    for (flag, value) in [("proto", proto), ("destination", destination), ("verdict", verdict)] {
        words.extend(value.iter().map(|value| format!("--{flag}={value}")));
    }
    words
}
