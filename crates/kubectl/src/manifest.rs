//! Answers about packets by the pod's manifest.

use crate::arguments::PacketArguments;
use crate::failure::visible_lines;
use crate::pod::TargetPod;
use crate::print::remark;
use diagnose::explain::{ApplicationUser, PacketQuery, PacketReport, RuleView};
use diagnose::{Basis, Prepared, Subject, SubjectPacket, subject};
use mesh::sources::RemoteHost;
use mesh::{InputProblem, Problems};

/// The answer by the manifest about a packet.
pub(crate) struct ManifestAnswer {
    question: PacketQuery,
    /// The application's user, if it sends the packet.
    pub(crate) user: Option<ApplicationUser>,
    pub(crate) report: PacketReport,
    warnings: Vec<String>,
}

/// The answers by the manifest: for each destination one, or one for each user of the pod's containers.
///
/// # Errors
/// What is wrong with the settings of the pod.
pub(crate) fn explained(
    pod: &TargetPod,
    packet: &PacketArguments,
    destinations: &[String],
) -> Result<Vec<(SubjectPacket, ManifestAnswer)>, Problems> {
    let (text, name) = (pod.object.to_string(), format!("pod/{}", pod.name));
    let raw = packet.settings(&destinations[0]);
    let subjects = Subject::of_manifest(&raw, &[], &name, &text, RemoteHost::host)?;
    let [subject] = &subjects[..] else {
        // A pod is one.
        return Err(Problems(vec![InputProblem::of("POD", "is not one pod")]));
    };
    let requested = SubjectPacket::all(subject, destinations);
    let answers = subject::each(&requested, one)?;
    let of_form = subject.warnings_of_form().iter().map(|warning| warning.text.as_str());
    let of_settings = answers[0].warnings.iter().map(String::as_str);
    of_form.chain(of_settings).for_each(|text| remark(&visible_lines(text)));
    Ok(SubjectPacket::distinct(requested.into_iter().zip(answers).collect(), |answer| {
        Some(&answer.question.packet)
    }))
}

fn one(SubjectPacket { subject, user, .. }: &SubjectPacket) -> Result<ManifestAnswer, Problems> {
    let Prepared { capture, pod, packet, warnings } = Prepared::of(subject, user.as_ref(), true)?;
    let question = packet.expect("a question that could not be read is a problem");
    let rule_view = RuleView::of_config(&*capture, question.packet.family(), &pod);
    let explained = subject.explain(&rule_view, &question).report();
    let basis = subject.described().unwrap_or(Basis::Flags);
    let report = PacketReport::new(&basis, &question, question.no_route.clone(), explained);
    let user = user.clone().filter(|_| question.is_apps);
    Ok(ManifestAnswer { question, user, report, warnings })
}
