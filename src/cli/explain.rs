//! `sidecar-init explain`: the verdict about a packet, with its reason.

use super::live::{KernelRoutes, from_kernel, from_save};
use super::manifest::{self, Subject, SubjectSection, Unread};
use super::report::{self, Encoding};
use super::run::{self, Run};
use super::{Exit, RunResult, host::System, logging::Stdout, render};
use command_line::columns;
use diagnose::explain::{PacketQuery, PacketReport, PodContext, QuestionContext, Routes, RuleView, packet};
use diagnose::picture::{self, Picture};
use diagnose::{Basis, SubjectPacket, live_proxy};
use mesh::sources::{SettingReader, Source};
use mesh::{Capture, Problems, Setting, settings::Topic};
use rules::{Family, simulate::Packet};
use std::error::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExplainFormat {
    /// True to show all rules that the packet meets.
    Text(bool),
    Data(Encoding),
    Picture,
    Svg,
}

struct ExplainRequest {
    run: Run,
    warnings: Vec<String>,
    basis: Basis,
    /// Configuration of the subject; `None` to explain existing rules.
    capture: Option<Capture>,
    file: Option<String>,
    form: ExplainFormat,
    /// Value of `--expect`: true if the packet should be captured.
    expected: Option<bool>,
    is_summary: bool,
    pod: PodContext,
    question: Option<Box<PacketQuery>>,
}

/// Explains the packets to these destinations, or the packet that settings describe.
pub(super) fn run(subjects: &[Subject], destinations: &[String]) -> RunResult {
    let requested: Vec<SubjectPacket> =
        subjects.iter().flat_map(|subject| SubjectPacket::all(subject, destinations)).collect();
    let requests = manifest::each(&requested, read_request)?;
    let requested: Vec<(SubjectPacket, ExplainRequest)> = requested.into_iter().zip(requests).collect();
    let requested = SubjectPacket::distinct(requested, ExplainRequest::packet);
    let Some((_, first)) = requested.first() else { return Ok(Exit::Done) };
    let of_each = requested.iter().filter(|(requested, _)| requested.is_first);
    let warnings = of_each.map(|(_, request)| &request.warnings);
    manifest::begin(subjects, &first.run, warnings, Stdout::Answer)?;
    subjects.iter().for_each(manifest::note_assumption);
    let form = first.form;
    let is_shared = subjects.len() == 1
        && requested.len() > 1
        && matches!(form, ExplainFormat::Text(_) | ExplainFormat::Picture);
    let head = if is_shared { first.basis.line(report::line_width()) } else { String::new() };
    let (mut sections, mut as_expected) = (Vec::new(), true);
    for (SubjectPacket { subject, title, user, .. }, request) in requested {
        let subject = &subject;
        let rule_views = rule_views(subject, &request)?;
        let request = request.of(&rule_views, subject)?;
        let (body, captured) = answer(&rule_views, subject, &request, subjects.len() == 1 && !is_shared);
        as_expected &= request.expected.is_none_or(|expected| captured == Some(expected));
        let user = user.filter(|_| request.question.is_none());
        let app = user.map(|user| format!("app is {user}\n")).unwrap_or_default();
        sections.push(SubjectSection { title, body: body + &app });
    }
    match form {
        ExplainFormat::Text(_) | ExplainFormat::Picture => {
            report::text(&head)?;
            manifest::print(&sections, |title| format!("== {title}"))?
        }
        ExplainFormat::Svg => manifest::print(&sections, render::as_comment)?,
        ExplainFormat::Data(encoding) => manifest::print_data(encoding, &sections)?,
    };
    Ok(if as_expected { Exit::Done } else { Exit::Drift })
}

fn read_request(requested: &SubjectPacket) -> Result<ExplainRequest, Problems> {
    let SubjectPacket { subject, user, .. } = requested;
    let raw = &subject.raw;
    let mut reader = SettingReader::new(raw, subject.before.clone());
    let run = run::read(&mut reader);
    let live = reader.switch(Setting::Live);
    let file = raw.get(Setting::FromSave).map(|given| given.value.clone());
    let text = ExplainFormat::Text(reader.switch(Setting::ExplainVerbose));
    let (json, yaml) = (ExplainFormat::Data(Encoding::Json), ExplainFormat::Data(Encoding::Yaml));
    let forms = [text, json, yaml, ExplainFormat::Picture, ExplainFormat::Svg];
    let form = run::one_of(&mut reader, Setting::ExplainFormat, &forms).unwrap_or(text);
    let expected = run::one_of(&mut reader, Setting::Expect, &[true, false]);
    let is_summary = run::one_of(&mut reader, Setting::PictureOf, &[false, true]) == Some(true);
    let contradictions = [
        (live, file.is_some(), Setting::Live, "--from-save"),
        (live, subject.title.is_some(), Setting::Live, "--filename"),
        (file.is_some(), subject.title.is_some(), Setting::FromSave, "--filename"),
    ];
    for (_, _, setting, other) in contradictions.into_iter().filter(|(one, other, ..)| *one && *other) {
        let text = format!("contradicts {other}; give one of them");
        reader.whole(&Source::Flag(setting.row().long), text);
    }
    // Without a description of rules, existing rules are explained.
    let described = subject.described().filter(|_| !live && file.is_none());
    let of_words = described.is_some();
    let of_file = || file.clone().map(Basis::Listing);
    let basis = described.or_else(of_file).unwrap_or_else(|| Basis::Rules { namespace: subject.namespace() });
    let host = subject.host();
    let capture = of_words.then(|| mesh::configure(&mut reader, &*host, run.cni));
    let policy = capture.as_deref();
    let pod = PodContext::from_settings(raw, policy, file.is_none().then_some(&*host));
    let pod = user.iter().fold(pod, PodContext::with_application);
    let kernel = KernelRoutes::of(&[]);
    let is_live = !of_words && file.is_none();
    let routes: &dyn Routes = if is_live { &kernel } else { &pod };
    let question = question(&mut reader, &pod, routes);
    let warnings = reader.finish()?;
    // Warnings about a configuration matter only if its rules are walked.
    let warnings = if of_words { warnings } else { Vec::new() };
    Ok(ExplainRequest { run, warnings, basis, capture, file, form, expected, is_summary, pod, question })
}

impl ExplainRequest {
    /// Completes a request about existing rules with their proxy and the kernel's routes. Fails if a name no longer resolves.
    fn of(self, rule_views: &[RuleView], subject: &Subject) -> Result<Self, Problems> {
        if self.capture.is_some() {
            return Ok(self);
        }
        let pod = self.pod.with_proxy(&live_proxy(rule_views.iter().map(|rule_view| &rule_view.view)));
        let kernel = KernelRoutes::of(rule_views);
        let routes: &dyn Routes = if self.file.is_some() { &pod } else { &kernel };
        let mut reader = SettingReader::new(&subject.raw, Vec::new());
        let question = question(&mut reader, &pod, routes);
        reader.finish()?;
        Ok(Self { pod, question, ..self })
    }

    fn packet(&self) -> Option<&Packet> {
        Some(&self.question.as_ref()?.packet)
    }
}

fn rule_views(subject: &Subject, request: &ExplainRequest) -> Result<Vec<RuleView>, Box<dyn Error>> {
    let ExplainRequest { run, capture, file, pod, .. } = request;
    match (capture, file) {
        (Some(capture), _) => {
            let family = request.packet().map(Packet::family);
            if family.is_some_and(|family| !capture.families().any(|captured| captured == family)) {
                tracing::warn!(target: "config", "{}", capture.without_ipv6(&subject.raw, false).why);
            }
            Ok(Family::BOTH.map(|family| RuleView::of_config(&**capture, family, pod)).into())
        }
        (None, Some(file)) => from_save(file, pod),
        (None, None) => from_kernel(run, pod).map_err(|error| Unread(error).into()),
    }
}

fn question(
    reader: &mut SettingReader<'_>,
    pod: &PodContext,
    routes: &dyn Routes,
) -> Option<Box<PacketQuery>> {
    let raw = reader.raw;
    if raw.iter().any(|(setting, _)| setting.row().topic == Topic::Packet) {
        let names = |name: &str| Some(System::of(raw).resolve(name));
        return packet(reader, &QuestionContext { pod, routes, names: &names }).map(Box::new);
    }
    if let Some(given) = raw.get(Setting::Expect) {
        let text = "applies to a packet; give its destination, such as 8080 or 10.0.0.5:443";
        reader.whole(&given.source, text);
    }
    None
}

/// The explanation, and true if a listener gets the packet; `None` if unknown or not a single packet.
fn answer(
    all: &[RuleView],
    subject: &Subject,
    request: &ExplainRequest,
    is_alone: bool,
) -> (String, Option<bool>) {
    let ExplainRequest { question, form, basis, capture, file, .. } = request;
    let is_live = capture.is_none() && file.is_none();
    let is_empty =
        is_live && all.iter().all(|rule_view| rule_view.view.chains().iter().all(|c| c.rules.is_empty()));
    let head = match form {
        _ if !is_alone => String::new(),
        ExplainFormat::Text(_) | ExplainFormat::Picture => basis.line(report::line_width()),
        ExplainFormat::Svg => format!("{}\n", render::as_comment(&basis.to_string())),
        ExplainFormat::Data(_) => String::new(),
    };
    let Some(question) = question else {
        let traffic = traffic(all, subject, request);
        return match form {
            ExplainFormat::Svg => (head + &traffic.svg(), None),
            ExplainFormat::Data(_) => (report::document(Encoding::Json, &traffic.report(basis)), None),
            _ => (head + &traffic.text(columns::of_terminal()), None),
        };
    };
    let family = question.packet.family();
    let rule_view = all.iter().find(|rule_view| rule_view.family == family);
    let rule_view = rule_view.expect("every source of rules has a view of each family");
    let explained = subject.explain(rule_view, question).of_empty(is_empty);
    // NAT in PREROUTING may give the packet another destination and route.
    let kernel = KernelRoutes::of(if question.no_route.is_some() && is_live { all } else { &[] });
    let no_route = question.no_route_by(explained.outcome(), &kernel);
    let is_captured = explained.is_captured().filter(|_| no_route.is_none());
    let report = PacketReport::new(basis, question, no_route, explained.report());
    let note = |form: fn(&str) -> String| report.note().map(|note| form(&note) + "\n").unwrap_or_default();
    let picture = || traffic(all, subject, request).with_path(&explained);
    let body = match form {
        ExplainFormat::Text(is_verbose) => report.text(report::line_width(), *is_verbose),
        ExplainFormat::Picture => note(str::to_owned) + &picture().text(columns::of_terminal()),
        ExplainFormat::Svg => note(render::as_comment) + &picture().svg(),
        ExplainFormat::Data(_) => report::document(Encoding::Json, &report),
    };
    (head + &body, is_captured)
}

fn traffic(all: &[RuleView], subject: &Subject, request: &ExplainRequest) -> Picture {
    let traffic = match &request.capture {
        Some(capture) => subject.traffic(capture, &request.pod),
        None => picture::of_rules(&all.iter().collect::<Vec<_>>(), &request.pod),
    };
    if request.is_summary { traffic.summary() } else { traffic }
}
