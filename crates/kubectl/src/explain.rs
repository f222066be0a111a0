//! `kubectl capture explain`: verdicts for packets, from the kernel and the manifest.

use crate::arguments::{ExplainArguments, PacketArguments};
use crate::failure::{CallCause, CaptureFailure, CommandOutcome, DIFFERENT};
use crate::kernel::{PodKernel, Reached, read, remark};
use crate::service::{self, PacketTarget};
use crate::{kubectl::Kubectl, pod::TargetPod};
use diagnose::explain::{ApplicationUser, PacketQuery, PacketReport, PodContext, QuestionContext, RuleView};
use diagnose::explain::{VerdictKind, packet};
use diagnose::{Basis, Prepared, Style, Subject, SubjectPacket, TextLine, painted, subject};
use mesh::sources::{Given, Raw, RemoteHost, SettingReader, Source};
use mesh::{InputProblem, Problems, Setting, pod::KubernetesObject, visible_lines};
use serde_json::{Value, json};
use std::{collections::BTreeMap, process::ExitCode};

pub(crate) fn run(arguments: &ExplainArguments) -> CommandOutcome {
    let packet = &arguments.packet;
    let (kubectl, pod) = TargetPod::of(&arguments.pod)?;
    let targets = targets(&kubectl, &pod, arguments)?;
    let addresses: Vec<String> = targets.iter().map(|target| target.address.clone()).collect();
    let reached = match arguments.manifest {
        true => Err("--manifest is given".to_owned()),
        false => PodKernel::find(&kubectl, &arguments.pod.kernel, &pod)?,
    };
    let (answers, problems) = match by_manifest(&pod, packet, &addresses) {
        Ok(answers) => (answers, Vec::new()),
        Err(problems) if reached.is_err() => return Err(problems.into()),
        Err(problems) => ((0..targets.len()).map(|at| (at, None)).collect(), problems.0),
    };
    let of = |(at, manifest): (usize, _)| AnsweredPacket { target: &targets[at], kernel: None, manifest };
    let mut packets: Vec<AnsweredPacket<'_>> = answers.into_iter().map(of).collect();
    if let Ok(kernel) = &reached {
        // Packets with the same arguments share one call.
        let mut by_words: BTreeMap<Vec<String>, Vec<&mut AnsweredPacket<'_>>> = BTreeMap::new();
        for one in &mut packets {
            by_words.entry(packet.words(one.user())).or_default().push(one);
        }
        for (words, of) in by_words {
            let to = of.iter().map(|one| one.target.address.clone()).collect();
            let words = [vec!["--live".to_owned()], words, to].concat();
            let found = by_kernel(kernel, &words, of.len())?;
            of.into_iter().zip(found).for_each(|(one, found)| one.kernel = Some(found));
        }
    }
    let answer = PodAnswer { pod: &pod, reached: &reached, packets, problems };
    arguments.pod.output.print(|width| answer.text(width, arguments.verbose), &answer.document())?;
    Ok(match &arguments.expect {
        Some(expected) if !answer.is_as(expected) => DIFFERENT.into(),
        Some(_) | None => ExitCode::SUCCESS,
    })
}

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
        let text = "is required: the pod declares no port; give a destination such as 10.0.0.5:443";
        return Err(CaptureFailure::input("DESTINATION", None, text));
    }
    let (found, mut problems) = service::targets(kubectl, pod, &given)?;
    problems.extend(found.iter().flat_map(|target| packet.problems(&target.address)));
    Problems::check(problems)?;
    Ok(found)
}

fn by_kernel(
    kernel: &PodKernel,
    words: &[String],
    count: usize,
) -> Result<Vec<KernelAnswer>, CaptureFailure> {
    let (document, _) = kernel.document::<Value>("explain", words, None)?;
    let failed =
        |cause| CaptureFailure::from(kernel.kubectl.failure(&kernel.call("explain", words, None), cause));
    let documents: Vec<Value> = match document["answers"].as_array() {
        Some(answers) => answers.iter().map(|one| one["answer"].clone()).collect(),
        None => vec![document],
    };
    if documents.len() != count {
        let why = format!("printed {} answers for {count} packets", documents.len());
        return Err(failed(CallCause::Unread(why)));
    }
    let answer = |document| Ok(KernelAnswer { report: read(&document).map_err(failed)?, document });
    documents.into_iter().map(answer).collect()
}

struct KernelAnswer {
    document: Value,
    report: PacketReport,
}

struct AnsweredPacket<'a> {
    target: &'a PacketTarget,
    kernel: Option<KernelAnswer>,
    manifest: Option<ManifestAnswer>,
}

impl AnsweredPacket<'_> {
    fn user(&self) -> Option<&ApplicationUser> {
        self.manifest.as_ref()?.user.as_ref()
    }

    fn by_kernel(&self) -> Option<&PacketReport> {
        self.kernel.as_ref().map(|answer| &answer.report)
    }

    fn by_manifest(&self) -> Option<&PacketReport> {
        self.manifest.as_ref().map(|answer| &answer.report)
    }

    fn answer(&self) -> Option<&PacketReport> {
        self.by_kernel().or(self.by_manifest())
    }
}

struct PodAnswer<'a> {
    pod: &'a TargetPod,
    reached: &'a Reached,
    packets: Vec<AnsweredPacket<'a>>,
    /// Not empty if the manifest gives no verdict.
    problems: Vec<InputProblem>,
}

impl PodAnswer<'_> {
    fn is_as(&self, expected: &str) -> bool {
        let expected = Some(expected == "captured");
        self.packets.iter().all(|one| one.answer().is_some_and(|answer| answer.is_captured() == expected))
    }

    fn basis(&self) -> String {
        match self.reached {
            Ok(kernel) => kernel.basis(),
            Err(reason) => format!("from the manifest of pod {} only, because {reason}", self.pod.title()),
        }
    }

    fn text(&self, width: usize, is_verbose: bool) -> String {
        let mut lines = vec![self.pod.basis_line(&self.basis())];
        for (at, packet) in self.packets.iter().enumerate() {
            let target = packet.target;
            if self.packets.len() > 1 {
                lines.extend((at > 0).then(TextLine::default));
                lines.push(TextLine::default().plain(format!("== {}", target.given)));
            }
            let sender = packet.user().map(|user| format!("sent by {user}"));
            let notes = target.note.iter().chain(&sender);
            lines.extend(notes.map(|note| TextLine::hanging(2).styled(Style::Quiet, note)));
            lines.extend(packet.answer().into_iter().flat_map(PacketReport::head));
            if let (Some(kernel), Some(manifest)) = (packet.by_kernel(), packet.by_manifest()) {
                lines.extend(compared(kernel, manifest));
            }
            if let Some(PacketReport { explained, .. }) = packet.answer() {
                lines.push(TextLine::default());
                lines.extend(explained.way(is_verbose));
            }
        }
        let mut text = painted(&lines, width);
        if !self.problems.is_empty() {
            let problems = visible_lines(&Problems(self.problems.clone()).to_string());
            text.push_str(&format!("\nThe manifest can't be compared: {problems}\n"));
        }
        text
    }

    fn document(&self) -> Value {
        let answers = self.packets.iter().map(|packet| {
            let (target, kernel, manifest) = (packet.target, packet.by_kernel(), packet.by_manifest());
            let versioned = |report: &PacketReport| {
                let mut document = json!(report);
                document["version"] = json!(1);
                document
            };
            json!({
                "object": target.given,
                "address": target.address,
                "agree": kernel.zip(manifest).map(|(kernel, manifest)| agree(kernel, manifest)),
                "kernel": packet.kernel.as_ref().map(|answer| &answer.document),
                "manifest": manifest.map(versioned),
            })
        });
        json!({
            "version": 1,
            "pod": self.pod.title(),
            "node": self.pod.node,
            "basis": self.basis(),
            "kernel_unknown": self.reached.as_ref().err(),
            "manifest_problems": self.problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "answers": answers.collect::<Vec<_>>(),
        })
    }
}

/// Verdict to compare, and port; `None` if the packet can't be sent.
fn end(report: &PacketReport) -> Option<(VerdictKind, Option<u16>)> {
    let end = &report.explained.end;
    report.unsent.is_none().then_some((end.verdict, end.port))
}

/// True if verdicts agree or one is unknown.
fn agree(kernel: &PacketReport, manifest: &PacketReport) -> bool {
    let is_unknown = |report| matches!(end(report), Some((VerdictKind::Unknown, _)));
    is_unknown(kernel) || is_unknown(manifest) || end(kernel) == end(manifest)
}

fn compared(kernel: &PacketReport, manifest: &PacketReport) -> Vec<TextLine> {
    let (line, sentence) = (TextLine::hanging(2), manifest.explained.sentence());
    if end(kernel) == end(manifest) {
        return vec![line.styled(Style::Quiet, "The manifest agrees.")];
    }
    if agree(kernel, manifest) {
        return vec![line.styled(Style::Quiet, format!("from the manifest: {sentence}"))];
    }
    let line = line.styled(Style::Dropped, "the manifest disagrees").plain(format!(": {sentence}"));
    vec![line, TextLine::hanging(2).plain("kubectl capture diff shows the differing rules")]
}

struct ManifestAnswer {
    question: PacketQuery,
    user: Option<ApplicationUser>,
    report: PacketReport,
    warnings: Vec<String>,
}

/// Each destination's verdicts from the manifest, with the destination's number: one, or one per container user.
///
/// # Errors
/// Problems in the pod's settings.
fn by_manifest(
    pod: &TargetPod,
    packet: &PacketArguments,
    destinations: &[String],
) -> Result<Vec<(usize, Option<ManifestAnswer>)>, Problems> {
    let Some(object) = KubernetesObject::of(pod.object.clone()).iter().find_map(KubernetesObject::pod) else {
        return Err(Problems(vec![InputProblem::of("POD", "is not one pod")]));
    };
    let subject = &Subject::of_object(&packet.settings(&destinations[0]), &[], &object, RemoteHost::host);
    let requested = SubjectPacket::all(subject, destinations);
    let answers = subject::each(&requested, by_manifest_of)?;
    let of_form = subject.warnings_of_form().iter().map(|warning| warning.text.as_str());
    let of_settings = answers[0].warnings.iter().map(String::as_str);
    of_form.chain(of_settings).for_each(|text| remark(&visible_lines(text)));
    let answers = requested.into_iter().zip(answers).collect();
    let distinct = SubjectPacket::distinct(answers, |answer| Some(&answer.question.packet)).into_iter();
    Ok(distinct.map(|(packet, answer)| (packet.destination, Some(answer))).collect())
}

fn by_manifest_of(SubjectPacket { subject, user, .. }: &SubjectPacket) -> Result<ManifestAnswer, Problems> {
    let Prepared { capture, pod, packet, warnings } = Prepared::of(subject, user.as_ref(), true)?;
    let question = packet.expect("a question that could not be read is a problem");
    let rule_view = RuleView::of_config(&*capture, question.packet.family(), &pod);
    let explained = subject.explain(&rule_view, &question).report();
    let basis = subject.described().unwrap_or(Basis::Flags);
    let report = PacketReport::new(&basis, &question, question.no_route.clone(), explained);
    let user = user.clone().filter(|_| question.is_apps);
    Ok(ManifestAnswer { question, user, report, warnings })
}

/// The packet, as settings for the manifest's rules and as arguments for `sidecar-init explain`.
impl PacketArguments {
    fn given(&self) -> impl Iterator<Item = (Setting, &'static str, &str)> {
        let Self { sender, direction, proto, source, uid, gid } = self;
        let all = [
            (Setting::Sender, "sender", sender),
            (Setting::Direction, "direction", direction),
            (Setting::Protocol, "proto", proto),
            (Setting::PacketSource, "source", source),
            (Setting::SenderUid, "uid", uid),
            (Setting::SenderGid, "gid", gid),
        ];
        all.into_iter().filter_map(|(setting, flag, value)| Some((setting, flag, value.as_deref()?)))
    }

    pub(crate) fn settings(&self, destination: &str) -> Raw {
        let given = self.given().map(|(setting, flag, value)| {
            (setting, Given { value: value.to_owned(), source: Source::Flag(flag) })
        });
        let to = Given { value: destination.to_owned(), source: Source::Key("DESTINATION".to_owned()) };
        Raw::of(given.chain([(Setting::Destination, to)]))
    }

    /// Arguments for the same packet in `sidecar-init explain`, sent by this user of the application.
    pub(crate) fn words(&self, user: Option<&ApplicationUser>) -> Vec<String> {
        let given = self.given().map(|(setting, _, value)| format!("--{}={value}", setting.row().long));
        let mut words: Vec<_> = given.collect();
        if let Some(user) = user.filter(|user| !user.is_default()) {
            words.extend(user.uid.map(|uid| format!("--uid={uid}")));
            words.extend(self.gid.is_none().then(|| format!("--gid={}", user.gid)));
        }
        words
    }

    pub(crate) fn problems(&self, destination: &str) -> Vec<InputProblem> {
        let subject = Subject::of_flags(self.settings(destination), Vec::new(), RemoteHost::host);
        let host = subject.host();
        let pod = PodContext::from_settings(&subject.raw, None, Some(&*host));
        let mut reader = SettingReader::new(&subject.raw, Vec::new());
        let place = QuestionContext { pod: &pod, routes: &pod, names: &|_| None };
        let _ = packet(&mut reader, &place);
        reader.finish().err().map(|problems| problems.0).unwrap_or_default()
    }
}
