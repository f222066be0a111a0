//! `kubectl capture trace`: packets of a pod as they meet rules, each printed when it is reported.

use crate::arguments::{OutputForm, TraceArguments};
use crate::failure::{CaptureFailure, CommandOutcome};
use crate::kernel::{PodKernel, parsed, read};
use command_line::columns;
use command_line::output::{print_part, print_styled};
use diagnose::{painted, trace::Block};
use std::{io, process::ExitCode};

pub(crate) fn run(arguments: &TraceArguments) -> CommandOutcome {
    let output = arguments.pod.output;
    let (pod, kernel) = PodKernel::of(&arguments.pod)?;
    let width = columns::of_terminal();
    if output == OutputForm::Text {
        print_styled(&painted(&[pod.basis_line(&kernel.basis())], width))?;
    }
    let call = kernel.call("trace", &words(arguments), None);
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

/// Words of `sidecar-init trace`. It always has a time limit, since a lost connection would not end it.
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
