//! `sidecar-init explain`: what becomes of a packet, and why.

use super::data::{self, Encoding};
use super::manifest::{self, Section, Subject};
use super::run::{self, Logging, Run};
use super::{Exit, logging::Stdout, render, report};
use policy::explain::{Case, Explanation, Pod, Scene, explain, matrix, packet, usual_cases};
use policy::mesh::{self, Capture, Policy};
use policy::picture::{self, Picture};
use policy::sources::{Raw, Reader, Source};
use policy::{Problems, Reason, Setting, status};
use rules::routing::Object;
use rules::simulate::{Packet, Routing};
use rules::{Family, parse};
use sidecar_init::engine;
use std::{collections::BTreeSet, error::Error, fs, io};

/// How to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    Data(Encoding),
    Mermaid,
    Picture,
    Svg,
}

/// What is asked.
enum Question {
    Packet(Packet),
    Matrix(Vec<Case>),
}

/// What `--expect` says.
type Expected = Option<bool>;

/// A question that is understood.
struct Asked {
    run: Run,
    logging: Logging,
    warnings: Vec<String>,
    /// What is described; `None` where the rules are others that are there.
    capture: Option<Capture>,
    file: Option<String>,
    form: Form,
    expected: Expected,
    pod: Pod,
    question: Question,
}

/// Runs the command.
pub(super) fn run(subjects: &[Subject]) -> Result<Exit, Problems> {
    let asked = manifest::each(subjects, understand)?;
    let Some(first) = asked.first() else { return Ok(Exit::Done) };
    manifest::begin(subjects, &first.logging, asked.iter().map(|asked| &asked.warnings), Stdout::Answer)?;
    let form = first.form;
    let (mut sections, mut as_expected) = (Vec::new(), true);
    for (subject, asked) in subjects.iter().zip(asked) {
        let scenes = match scenes(subject, &asked) {
            Ok(scenes) => scenes,
            Err(error) => return Ok(report::failure(&*error, Exit::Failed)),
        };
        let asked = asked.of(&scenes, subject);
        let answer = answer(&scenes, subject, &asked);
        as_expected &=
            asked.expected.is_none_or(|expected| answer.captured.iter().all(|is| *is == Some(expected)));
        sections.push(Section { title: subject.title.clone(), body: answer.body });
    }
    let printed = match form {
        Form::Text | Form::Picture => manifest::print(&sections, |title| format!("== {title}")),
        Form::Svg => manifest::print(&sections, render::as_comment),
        Form::Data(encoding) => manifest::print_data(encoding, &sections),
        Form::Mermaid => manifest::print(&sections, |title| format!("%% {title}")),
    };
    Ok(match printed {
        Exit::Done if !as_expected => Exit::Drift,
        exit => exit,
    })
}

fn understand(subject: &Subject) -> Result<Asked, Problems> {
    let raw = &subject.raw;
    let mut reader = Reader::new(raw, subject.before.clone());
    let (run, logging) = run::read(&mut reader);
    let live = reader.switch(Setting::Live);
    let file = raw.get(Setting::FromSave).map(|given| given.value.clone());
    let form = form(&mut reader);
    let expected = expected(&mut reader);
    let contradictions = [
        (live, file.is_some(), Setting::Live, "--from-save"),
        (live, subject.title.is_some(), Setting::Live, "--filename"),
        (file.is_some(), subject.title.is_some(), Setting::FromSave, "--filename"),
    ];
    for (_, _, setting, other) in contradictions.into_iter().filter(|(one, other, ..)| *one && *other) {
        let text = format!("contradicts {other}; give one of them");
        reader.whole(&Source::Flag(setting.row().long), text);
    }
    let of_words = !live && file.is_none();
    let host = subject.host();
    let capture = of_words.then(|| mesh::configure(&mut reader, &*host, run.cni));
    let policy = capture.as_deref();
    let pod = Pod::told(raw, policy, file.is_none().then_some(&*host));
    let question = question(&mut reader, &pod, policy, form);
    let warnings = reader.finish()?;
    let question = question.expect("what is not understood is a problem");
    // What is said of the packet's rules matters only where they are those.
    let warnings = if of_words { warnings } else { Vec::new() };
    Ok(Asked { run, logging, warnings, capture, file, form, expected, pod, question })
}

impl Asked {
    /// The same, where the rules that are there say who the proxy is and no configuration does.
    fn of(self, scenes: &[Scene], subject: &Subject) -> Self {
        if self.capture.is_some() {
            return self;
        }
        let pod = scenes.iter().fold(self.pod, |pod, scene| pod.with_proxy(&status::proxy(&scene.view)));
        // It has been understood before, and is no other question now.
        let mut reader = Reader::new(&subject.raw, Vec::new());
        let question = question(&mut reader, &pod, None, self.form).unwrap_or(self.question);
        Self { pod, question, ..self }
    }
}

fn expected(reader: &mut Reader<'_>) -> Expected {
    let expected = reader.one_of(Setting::Expect, "captured or not-captured", |text| match text {
        "captured" => Some(true),
        "not-captured" => Some(false),
        _ => None,
    });
    if expected.is_some() && reader.raw.is_on(Setting::Matrix) {
        reader.whole(&Source::Flag(Setting::Expect.row().long), "is about one packet; leave --matrix out");
    }
    expected
}

fn scenes(subject: &Subject, asked: &Asked) -> Result<Vec<Scene>, Box<dyn Error>> {
    let Asked { run, capture, file, pod, question, .. } = asked;
    match (capture, file) {
        (Some(capture), _) => {
            warn_of_ipv6(&subject.raw, question, &**capture);
            Ok(Family::BOTH.map(|family| Scene::of_config(&**capture, family, pod)).into())
        }
        (None, Some(file)) => from_save(file, pod),
        (None, None) => from_kernel(run, pod),
    }
}

fn form(reader: &mut Reader<'_>) -> Form {
    let form =
        reader.one_of(
            Setting::ExplainFormat,
            "text, json, yaml, picture, svg or mermaid",
            |text| match text {
                "text" => Some(Form::Text),
                "picture" => Some(Form::Picture),
                "svg" => Some(Form::Svg),
                "mermaid" => Some(Form::Mermaid),
                other => Encoding::named(other).map(Form::Data),
            },
        );
    form.unwrap_or(Form::Text)
}

fn question(reader: &mut Reader<'_>, pod: &Pod, config: Option<&dyn Policy>, form: Form) -> Option<Question> {
    if !reader.switch(Setting::Matrix) {
        return packet(reader, pod).map(Question::Packet);
    }
    if form != Form::Text {
        reader.whole(&Source::Flag(Setting::Matrix.row().long), "is text; leave --format out");
    }
    Some(Question::Matrix(usual_cases(pod, config)))
}

impl Question {
    fn families(&self) -> impl Iterator<Item = Family> {
        let packets: Vec<&Packet> = match self {
            Self::Packet(packet) => vec![packet],
            Self::Matrix(cases) => cases.iter().filter_map(|case| case.packet.as_ref()).collect(),
        };
        Family::BOTH.into_iter().filter(move |family| packets.iter().any(|p| p.family() == *family))
    }
}

fn warn_of_ipv6(raw: &Raw, question: &Question, config: &dyn Policy) {
    if question.families().any(|family| !config.families().any(|captured| captured == family)) {
        tracing::warn!(target: "config", "{}", config.without_ipv6(raw, false).why);
    }
}

/// What is said of a packet or of several.
struct Answer {
    body: String,
    /// Whether a listener gets the packet, in each family that it may have.
    captured: Vec<Option<bool>>,
}

fn answer(scenes: &[Scene], subject: &Subject, asked: &Asked) -> Answer {
    let Asked { question, form, .. } = asked;
    let dialect = subject.dialect();
    let families: Vec<Family> = question.families().collect();
    let scenes: Vec<&Scene> = scenes.iter().filter(|scene| families.contains(&scene.family)).collect();
    let packet = match question {
        Question::Packet(packet) => packet,
        Question::Matrix(cases) => {
            let body = matrix(&scenes, cases, &dialect, report::width());
            return Answer { body, captured: Vec::new() };
        }
    };
    let mut text = String::new();
    let (mut reports, mut captured) = (Vec::new(), Vec::new());
    for scene in &scenes {
        if scenes.len() > 1 && *form == Form::Mermaid {
            text.push_str(&format!("%% {}\n", scene.title));
        } else if scenes.len() > 1 {
            text.push_str(&format!("== {}\n", scene.title));
        }
        let explained = explain(&scene.view, &scene.routing, packet);
        let explained = explained.in_words_of(&dialect).of_skipped(subject.skip());
        match form {
            Form::Mermaid => text.push_str(&explained.mermaid()),
            Form::Picture => text.push_str(&way(subject, asked, &explained).text(report::width())),
            Form::Svg => text.push_str(&way(subject, asked, &explained).svg()),
            Form::Text | Form::Data(_) => text.push_str(&explained.text(report::line_width())),
        }
        captured.push(explained.is_captured());
        reports.push(explained.report());
    }
    // A packet has one family, so there is one report of it.
    let body = match (form, reports.first()) {
        (Form::Data(_), Some(report)) => data::document(Encoding::Json, report),
        (Form::Data(_), None) | (Form::Text | Form::Mermaid | Form::Picture | Form::Svg, _) => text,
    };
    Answer { body, captured }
}

/// The packet's way through all traffic that is described, or alone where the rules are others that are there.
fn way(subject: &Subject, asked: &Asked, explained: &Explanation<'_>) -> Picture {
    match &asked.capture {
        Some(capture) => subject.traffic(capture).with_way(explained),
        None => picture::of_way(explained),
    }
}

fn from_save(file: &str, pod: &Pod) -> Result<Vec<Scene>, Box<dyn Error>> {
    let text = match file {
        "-" => io::read_to_string(io::stdin())?,
        path => fs::read_to_string(path).map_err(|error| format!("{path} can't be read: {error}"))?,
    };
    let scene = |family| match parse::listing(&text, family) {
        Ok(listing) => Ok(Scene::of_listing(listing, pod)),
        Err(error) => Err(format!("{file} can't be read: {error}").into()),
    };
    Family::BOTH.into_iter().map(scene).collect()
}

/// The rules that are there.
///
/// # Errors
/// When they can't be read.
pub(super) fn from_kernel(run: &Run, pod: &Pod) -> Result<Vec<Scene>, Box<dyn Error>> {
    let owner = run.everyone();
    let mut kernel = run.open_for(owner)?;
    let routes = kernel.routing()?;
    let scene = |family: Family| {
        let view = engine::live(&mut kernel, family, &Reason::origin_of)?;
        for text in engine::kin(&view, &owner) {
            tracing::info!(target: "backend", %family, "{text}");
        }
        let routing = live_routing(&routes, family, pod);
        Ok(Scene { title: family.to_string(), family, view, routing })
    };
    Family::BOTH.into_iter().map(scene).collect()
}

/// The policy rules that are there.
pub(super) fn live_routing(routes: &BTreeSet<Object>, of_family: Family, pod: &Pod) -> Routing {
    let marks = routes.iter().filter_map(|object| match object {
        Object::Rule { family, mark, .. } if *family == of_family => Some(*mark),
        Object::Rule { .. } | Object::Route { .. } | Object::Address(_) => None,
    });
    Routing { local_marks: marks.collect(), addresses: pod.addresses.clone() }
}
