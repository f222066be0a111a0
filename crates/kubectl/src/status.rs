//! `kubectl capture status`: what the kernel of a pod captures, from the document of `sidecar-init status`.

use crate::arguments::PodArguments;
use crate::error::CaptureFailure;
use crate::failure::visible;
use crate::kernel::{PodKernel, RemoteDocument};
use crate::kubectl::Kubectl;
use crate::outcome::CommandOutcome;
use crate::pod::TargetPod;
use crate::print::{print_answer, remark};
use diagnose::lint::{Code, Level};
use diagnose::{Style, fold};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
struct StatusDocument {
    capturing: Option<bool>,
    summary: String,
    held_by: Vec<HeldInDocument>,
    captured: Vec<PartInDocument>,
    left_alone: Vec<PartInDocument>,
    dropped: Vec<PartInDocument>,
    listeners: Vec<ListenerInDocument>,
    findings: Vec<FindingInDocument>,
}

#[derive(Debug, Deserialize)]
struct HeldInDocument {
    backend: String,
    families: Vec<String>,
    rule_count: u64,
    program: String,
}

#[derive(Debug, Deserialize)]
struct PartInDocument {
    direction: String,
    text: String,
    option: Option<String>,
}

#[derive(Debug, Deserialize)]
struct ListenerInDocument {
    port: u16,
    protocol: String,
    text: String,
}

#[derive(Debug, Deserialize)]
struct FindingInDocument {
    level: String,
    code: String,
    subject: Option<String>,
    text: String,
    remedy: Option<String>,
}

pub(crate) fn run(arguments: &PodArguments) -> Result<CommandOutcome, CaptureFailure> {
    let PodArguments { connection, kernel, output, .. } = arguments;
    let kubectl = Kubectl::new(connection);
    let pod = TargetPod::find(&kubectl, &arguments.pod, connection.namespace.as_deref())?;
    let kernel = PodKernel::required(&kubectl, kernel, &pod)?;
    let RemoteDocument::<StatusDocument> { document, answer: read, remarks } =
        kernel.document(&kubectl, "status", &[], None)?;
    remarks.iter().for_each(|text| remark(text));
    print_answer(&kernel.basis(), &pod, &document, *output, |width| read.text(width))?;
    let has = |is: fn(&FindingInDocument) -> bool| read.findings.iter().any(is);
    Ok(match read.capturing {
        _ if has(|one| one.level == Level::Failure.name()) => CommandOutcome::Failing,
        Some(true) if !has(|one| one.code == Code::Changed.name()) => CommandOutcome::Done,
        _ => CommandOutcome::Different,
    })
}

/// Where a line's text begins.
const COLUMN: usize = 12;

impl StatusDocument {
    fn text(&self, width: usize) -> String {
        let style = if self.capturing == Some(true) { Style::Captured } else { Style::Passing };
        let mut text = fold(&format!("{}\n", style.paint(visible(&self.summary))), 2, width);
        let mut section = |title: &str, lines: &[(String, String)]| {
            if !lines.is_empty() {
                text.push_str(&format!("\n{}\n", Style::Strong.paint(title)));
            }
            for (word, line) in lines {
                let line = format!("  {:<1$} {2}\n", visible(word), COLUMN - 3, visible(line));
                text.push_str(&fold(&line, COLUMN, width));
            }
        };
        let findings: Vec<(String, String)> = self.findings.iter().map(FindingInDocument::line).collect();
        section("Findings", &findings);
        for (title, parts) in
            [("Captured", &self.captured), ("Excluded", &self.left_alone), ("Dropped", &self.dropped)]
        {
            section(title, &parts.iter().map(PartInDocument::line).collect::<Vec<_>>());
        }
        let listeners =
            self.listeners.iter().map(|one| (format!("{}/{}", one.port, one.protocol), one.text.clone()));
        section("Listeners", &listeners.collect::<Vec<_>>());
        let held = self.held_by.iter().map(|held| {
            let HeldInDocument { backend, families, rule_count, program } = held;
            (backend.clone(), format!("{rule_count} rules, {}, by {program}", families.join(" and ")))
        });
        section("Made", &held.collect::<Vec<_>>());
        text
    }
}

impl PartInDocument {
    fn line(&self) -> (String, String) {
        let option = self.option.as_ref().map(|option| format!(" ({option})")).unwrap_or_default();
        (self.direction.clone(), format!("{}{option}", self.text))
    }
}

impl FindingInDocument {
    fn line(&self) -> (String, String) {
        let Self { level, code, subject, text, remedy } = self;
        let subject = subject.as_ref().map(|subject| format!("{subject}: ")).unwrap_or_default();
        let remedy = remedy.as_ref().map(|remedy| format!(" -> {remedy}")).unwrap_or_default();
        (level.clone(), format!("{code} {subject}{text}{remedy}"))
    }
}
