//! Answers about packets by the pod's manifest.

use crate::arguments::PacketArguments;
use crate::explanation::ExplainedPacket;
use crate::pod::TargetPod;
use diagnose::Subject;
use diagnose::explain::{self, PodContext, QuestionContext, RuleView, explain};
use mesh::sources::{RemoteHost, SettingReader};
use mesh::{InputProblem, Problems};
use serde_json::{Value, json};

/// The answers by the manifest, one for each destination.
///
/// # Errors
/// What is wrong with the settings of the pod.
pub(crate) fn explained(
    pod: &TargetPod,
    packet: &PacketArguments,
    destinations: &[String],
    width: usize,
) -> Result<Vec<ExplainedPacket>, Problems> {
    let text = pod.object.to_string();
    let answer = |destination: &String| {
        let raw = packet.settings(destination);
        let subjects =
            Subject::of_manifest(&raw, &[], &format!("pod/{}", pod.name), &text, RemoteHost::host)?;
        match &subjects[..] {
            [subject] => one(subject, width),
            // A pod is one.
            _ => Err(Problems(vec![InputProblem::of("POD", "is not one pod")])),
        }
    };
    diagnose::subject::each(destinations, answer)
}

fn one(subject: &Subject, width: usize) -> Result<ExplainedPacket, Problems> {
    let mut reader = SettingReader::new(&subject.raw, subject.before.clone());
    let host = subject.host();
    let capture = mesh::configure(&mut reader, &*host, false);
    let pod = PodContext::from_settings(&subject.raw, Some(&*capture), Some(&*host));
    let place = QuestionContext { pod: &pod, routes: &pod, names: &|_| None };
    let question = explain::packet(&mut reader, &place);
    reader.finish()?;
    let question = question.expect("a question that could not be read is a problem");
    let rule_view = RuleView::of_config(&*capture, question.packet.family(), &pod);
    let explained = explain(&rule_view.view, &rule_view.routing, &question.packet)
        .with_endpoint_names(&question.endpoint_names);
    let explained = explained.in_words_of(&subject.dialect()).of_skipped(subject.skip());
    let report = serde_json::to_value(explained.report()).expect("our own data has text keys");
    let (source, destination) = question.endpoint_names.addresses(&question.packet);
    let mut document = json!({
        "version": 1,
        "basis": subject.described().map(|basis| basis.report()),
        "source": source,
        "destination": destination,
        "destination_port": question.packet.destination.port(),
        "unsent": question.no_route,
    });
    if let (Value::Object(document), Value::Object(report)) = (&mut document, report) {
        document.extend(report);
    }
    let no_route = question
        .no_route
        .as_ref()
        .map(|no_route| format!("{no_route}; by the rules alone:\n"))
        .unwrap_or_default();
    let mut found = ExplainedPacket::read(document).expect("our own report has the form that is read");
    found.sentence = explained.sentence();
    found.text = no_route + &explained.text(width);
    Ok(found)
}
