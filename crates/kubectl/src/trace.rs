//! `kubectl capture trace`: packets of a pod as they meet rules, each as soon as it is reported.

use crate::arguments::{OutputForm, TraceArguments};
use crate::error::CaptureFailure;
use crate::failure::{CallCause, visible};
use crate::kernel::{PodKernel, versioned};
use crate::kubectl::{CallOutput, Kubectl};
use crate::outcome::CommandOutcome;
use crate::pod::TargetPod;
use crate::print::{basis_line, print, print_part};
use command_line::columns;
use diagnose::{Style, fold};
use serde::Deserialize;
use serde_json::Value;
use std::io;

#[derive(Debug, Deserialize)]
struct TraceDocument {
    time: String,
    in_interface: Option<String>,
    out_interface: Option<String>,
    protocol: Option<String>,
    source: Option<String>,
    source_port: Option<u16>,
    destination: Option<String>,
    destination_port: Option<u16>,
    uid: Option<u32>,
    rules: Vec<TracedRule>,
    sentence: String,
}

#[derive(Debug, Deserialize)]
struct TracedRule {
    table: Option<String>,
    chain: Option<String>,
    position: Option<usize>,
    text: Option<String>,
    rule: Option<String>,
    options: Vec<String>,
}

pub(crate) fn run(arguments: &TraceArguments) -> Result<CommandOutcome, CaptureFailure> {
    let TraceArguments { connection, kernel, output, time, .. } = arguments;
    let kubectl = Kubectl::new(connection);
    let pod = TargetPod::find(&kubectl, &arguments.pod, connection.namespace.as_deref())?;
    let kernel = PodKernel::required(&kubectl, kernel, &pod)?;
    let width = columns::of_terminal();
    if *output == OutputForm::Text {
        print(&basis_line(&kernel.basis(), &pod, width))?;
    }
    let call = kernel.call("trace", &words(arguments), None);
    let mut failed = None;
    let longer = kernel.longer().saturating_add(*time);
    let ended = kubectl.each_line(&call, longer, |line| {
        let unread = CallCause::unread;
        let line = line.trim();
        if line.is_empty() {
            return Ok(());
        }
        let document = serde_json::from_str::<Value>(line);
        let document =
            document.map_err(|error| unread(format!("printed a line that is not JSON ({error})")))?;
        let document = versioned(document)?;
        let read = TraceDocument::deserialize(&document)
            .map_err(|error| unread(format!("printed a packet of another form ({error})")))?;
        let text = match output {
            OutputForm::Text => read.text(width),
            OutputForm::Json => format!("{document}\n"),
        };
        print_part(&text).map_err(|error| {
            failed = Some(error);
            unread("its output can't be printed".to_owned())
        })
    });
    match failed {
        // As `head` does.
        Some(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(CommandOutcome::Done),
        Some(error) => return Err(error.into()),
        None => {}
    }
    let (status, stderr) = ended?;
    if !status.success() {
        let output = CallOutput { status, stdout: String::new(), stderr };
        return Err(kernel.refusal(&kubectl, &call, &output));
    }
    Ok(CommandOutcome::Done)
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

/// How far lines are indented that go on with one before.
const HANG: usize = 4;

impl TraceDocument {
    fn text(&self, width: usize) -> String {
        let end = |address: &Option<String>, port: Option<u16>| {
            let address = visible(address.as_deref().unwrap_or("?"));
            match port {
                Some(port) if address.contains(':') => format!("[{address}]:{port}"),
                Some(port) => format!("{address}:{port}"),
                None => address,
            }
        };
        let protocol = visible(self.protocol.as_deref().unwrap_or("no IP packet"));
        let ends = format!(
            "{protocol} {} -> {}",
            end(&self.source, self.source_port),
            end(&self.destination, self.destination_port)
        );
        let mut head = format!("{} {}", visible(&self.time), Style::Strong.paint(ends));
        for (word, interface) in [("in", &self.in_interface), ("out", &self.out_interface)] {
            head.push_str(
                &interface.as_ref().map(|name| format!(" {word} {}", visible(name))).unwrap_or_default(),
            );
        }
        head.push_str(&self.uid.map(|uid| format!(" uid {uid}")).unwrap_or_default());
        let mut text = fold(&format!("{head}\n"), HANG, width);
        let mut place = None;
        for rule in &self.rules {
            if let (Some(table), Some(chain)) = (&rule.table, &rule.chain) {
                if place != Some((table, chain)) {
                    let title = visible(&format!("{table} {chain}"));
                    text.push_str(&format!("  {}\n", Style::Strong.paint(title)));
                }
                place = Some((table, chain));
            }
            text.push_str(&fold(&rule.line(), HANG + 4, width));
        }
        text + &fold(&format!("  => {}\n", visible(&self.sentence)), HANG + 1, width)
    }
}

impl TracedRule {
    fn line(&self) -> String {
        let options =
            if self.options.is_empty() { String::new() } else { format!(" ({})", self.options.join(", ")) };
        let name = self.rule.as_ref().map(|name| format!("{name}{options}"));
        let line = match (&self.text, &name) {
            (Some(text), Some(name)) => format!("{text}   # {name}"),
            (Some(text), None) => text.clone(),
            (None, name) => name.clone().unwrap_or_default(),
        };
        let number = self.position.map_or_else(|| "   ".to_owned(), |number| format!("{number:>3}"));
        format!("  {number} {}\n", visible(&line))
    }
}
