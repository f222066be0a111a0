//! `kubectl capture explain`: what becomes of packets, by the kernel and by the manifest.

use crate::arguments::{ExpectedVerdict, ExplainArguments, OutputForm};
use crate::error::CaptureFailure;
use crate::explanation::{ExplainedPacket, PacketVerdict};
use crate::failure::{CallCause, visible, visible_lines};
use crate::kernel::{PodKernel, Reached, RemoteDocument, versioned};
use crate::kubectl::Kubectl;
use crate::pod::TargetPod;
use crate::print::{basis_line, print, remark};
use crate::service::{self, PacketTarget};
use crate::{CommandOutcome, manifest};
use command_line::columns;
use diagnose::{Style, fold};
use mesh::Problems;
use serde_json::{Value, json};

pub(crate) fn run(arguments: &ExplainArguments) -> Result<CommandOutcome, CaptureFailure> {
    let ExplainArguments { packet, connection, kernel, output, .. } = arguments;
    let kubectl = Kubectl::new(connection);
    let pod = TargetPod::find(&kubectl, &arguments.pod, connection.namespace.as_deref())?;
    let targets = targets(&kubectl, &pod, arguments)?;
    let addresses: Vec<String> = targets.iter().map(|target| target.address.clone()).collect();
    let width = columns::of_terminal();
    let reached = match arguments.manifest {
        true => Err("--manifest is given".to_owned()),
        false => PodKernel::find(&kubectl, kernel, &pod)?,
    };
    let by_kernel = match &reached {
        Ok(kernel) => {
            let words = [vec!["--live".to_owned()], packet.words(), addresses.clone()].concat();
            Some(answers(&kubectl, kernel, &words, addresses.len(), width)?)
        }
        Err(_) => None,
    };
    let by_manifest = match manifest::explained(&pod, packet, &addresses, width) {
        Err(problems) if by_kernel.is_none() => return Err(problems.into()),
        by_manifest => by_manifest,
    };
    let answer = PodAnswer { pod: &pod, targets: &targets, reached: &reached, by_kernel, by_manifest };
    match output {
        OutputForm::Text => print(&answer.text(width))?,
        OutputForm::Json => print(&format!("{:#}\n", answer.document()))?,
    }
    Ok(match arguments.expect {
        Some(expected) if !answer.is_as(expected) => CommandOutcome::Different,
        Some(_) | None => CommandOutcome::Done,
    })
}

/// The packets in question, with every problem at once.
fn targets(
    kubectl: &Kubectl,
    pod: &TargetPod,
    arguments: &ExplainArguments,
) -> Result<Vec<PacketTarget>, CaptureFailure> {
    let ExplainArguments { destination, packet, .. } = arguments;
    let given = match &destination[..] {
        [] => pod.declared_ports().iter().map(u16::to_string).collect(),
        given => given.to_vec(),
    };
    if given.is_empty() {
        let text = "is needed, because the pod declares no port: give where packets go, such as 10.0.0.5:443";
        return Err(CaptureFailure::input("DESTINATION", None, text));
    }
    let (found, mut problems) = match service::targets(kubectl, pod, &given)? {
        Ok(found) => (found, Vec::new()),
        Err(problems) => (Vec::new(), problems),
    };
    // What is wrong with names is known; the others are read as packets.
    let others =
        given.iter().filter(|given| !problems.iter().any(|problem| problem.item.as_ref() == Some(given)));
    let addresses: Vec<String> = match found.is_empty() {
        true => others.filter(|given| !given.contains(|c: char| c.is_ascii_alphabetic())).cloned().collect(),
        false => found.iter().map(|target| target.address.clone()).collect(),
    };
    problems.extend(addresses.iter().flat_map(|address| packet.problems(address)));
    Problems::check(problems)?;
    Ok(found)
}

/// The kernel's answers, one for each destination.
fn answers(
    kubectl: &Kubectl,
    kernel: &PodKernel,
    words: &[String],
    count: usize,
    width: usize,
) -> Result<Vec<ExplainedPacket>, CaptureFailure> {
    let RemoteDocument { document, remarks } = kernel.document(kubectl, "explain", words, None)?;
    remarks.iter().for_each(|text| remark(text));
    let failed = |cause| CaptureFailure::from(kubectl.failure(&kernel.call("explain", words, None), cause));
    let documents: Vec<Value> = match document["answers"].as_array() {
        Some(answers) => answers.iter().map(|one| one["answer"].clone()).collect(),
        None => vec![document],
    };
    if documents.len() != count {
        let why = format!("printed {} answers to {count} questions", documents.len());
        return Err(failed(CallCause::unread(why)));
    }
    let read = |document| ExplainedPacket::read_for(versioned(document)?, width).map_err(CallCause::unread);
    documents.into_iter().map(|document| read(document).map_err(failed)).collect()
}

/// The answers about a pod.
struct PodAnswer<'a> {
    pod: &'a TargetPod,
    targets: &'a [PacketTarget],
    reached: &'a Reached,
    by_kernel: Option<Vec<ExplainedPacket>>,
    by_manifest: Result<Vec<ExplainedPacket>, Problems>,
}

impl PodAnswer<'_> {
    /// Each destination with the answers of the kernel and of the manifest.
    fn pairs(
        &self,
    ) -> impl Iterator<Item = (&PacketTarget, Option<&ExplainedPacket>, Option<&ExplainedPacket>)> {
        self.targets.iter().enumerate().map(|(at, target)| {
            let kernel = self.by_kernel.as_ref().and_then(|answers| answers.get(at));
            let manifest = self.by_manifest.as_ref().ok().and_then(|answers| answers.get(at));
            (target, kernel, manifest)
        })
    }

    fn is_as(&self, expected: ExpectedVerdict) -> bool {
        let expected = match expected {
            ExpectedVerdict::Captured => Some(true),
            ExpectedVerdict::NotCaptured => Some(false),
        };
        self.pairs().all(|(_, kernel, manifest)| {
            kernel.or(manifest).is_some_and(|answer| answer.is_captured() == expected)
        })
    }

    fn basis(&self) -> String {
        match self.reached {
            Ok(kernel) => kernel.basis(),
            Err(reason) => format!("by the manifest of pod {} alone, because {reason}", self.pod.title()),
        }
    }

    fn text(&self, width: usize) -> String {
        let mut text = basis_line(&self.basis(), self.pod, width);
        let is_several = self.targets.len() > 1;
        for (at, (target, kernel, manifest)) in self.pairs().enumerate() {
            if is_several {
                let gap = if at > 0 { "\n" } else { "" };
                text.push_str(&format!("{gap}== {}\n", target.given));
            }
            if let Some(note) = &target.note {
                text.push_str(&fold(&format!("{}\n", Style::Quiet.paint(visible(note))), 2, width));
            }
            let (first, rest) = kernel.or(manifest).map_or(("", ""), |answer| {
                // The verdict may be several lines long; the rules follow an empty one.
                answer.text.split_once("\n\n").unwrap_or((answer.text.trim_end(), ""))
            });
            text.push_str(&format!("{first}\n"));
            if let (Some(kernel), Some(manifest)) = (kernel, manifest) {
                text.push_str(&compared(kernel, manifest, width));
            }
            if !rest.is_empty() {
                text.push_str(&format!("\n{rest}"));
            }
        }
        if let (Some(_), Err(problems)) = (&self.by_kernel, &self.by_manifest) {
            let problems = visible_lines(&problems.to_string());
            text.push_str(&format!("\nThe manifest can't be compared: {problems}\n"));
        }
        text
    }

    fn document(&self) -> Value {
        let answers = self.pairs().map(|(target, kernel, manifest)| {
            json!({
                "object": target.given,
                "address": target.address,
                "agree": kernel.zip(manifest).map(|(kernel, manifest)| agree(kernel, manifest)),
                "kernel": kernel.map(|answer| &answer.document),
                "manifest": manifest.map(|answer| &answer.document),
            })
        });
        let problems = self
            .by_manifest
            .as_ref()
            .err()
            .map(|problems| problems.0.iter().map(ToString::to_string).collect::<Vec<_>>());
        json!({
            "version": 1,
            "pod": self.pod.title(),
            "node": self.pod.node,
            "basis": self.basis(),
            "kernel_unknown": self.reached.as_ref().err(),
            "manifest_problems": problems.unwrap_or_default(),
            "answers": answers.collect::<Vec<_>>(),
        })
    }
}

/// Whether two answers are the same for the traffic. An unknown verdict contradicts nothing.
fn agree(kernel: &ExplainedPacket, manifest: &ExplainedPacket) -> bool {
    let is_unknown = |answer: &ExplainedPacket| answer.verdict == PacketVerdict::Unknown;
    is_unknown(kernel) || is_unknown(manifest) || kernel.verdict == manifest.verdict
}

fn compared(kernel: &ExplainedPacket, manifest: &ExplainedPacket, width: usize) -> String {
    let quiet = |text: &str| fold(&format!("{}\n", Style::Quiet.paint(text)), 2, width);
    if kernel.verdict == manifest.verdict {
        return quiet("The manifest agrees.");
    }
    if agree(kernel, manifest) {
        return quiet(&format!("by the manifest: {}", manifest.sentence));
    }
    let line = format!("{}: {}\n", Style::Dropped.paint("the manifest disagrees"), manifest.sentence);
    fold(&line, 2, width) + &fold("kubectl capture diff shows the rules that differ\n", 2, width)
}
