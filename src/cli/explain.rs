//! `sidecar-init explain`: what becomes of a packet, and why.

use super::run::{self, Call, Run};
use super::{Exit, begin, host::System, logging::Stdout, report, start_logging};
use policy::explain::{Case, Pod, Scene, explain, matrix, packet, usual_cases};
use policy::istio::{self, CaptureConfig, Reason};
use policy::lint::why_not_ipv6;
use policy::sources::{Host, Raw, Reader, Source};
use policy::{Problem, Problems, Setting};
use rules::routing::Object;
use rules::simulate::{Packet, Routing};
use rules::{Family, Mark, parse};
use sidecar_init::engine;
use std::{collections::BTreeSet, error::Error, fs, io, net::IpAddr};

/// How to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    Json,
    Mermaid,
}

/// What is asked.
enum Question {
    Packet(Packet),
    Matrix(Vec<Case>),
}

/// Runs the command.
pub(super) fn run(raw: &Raw, problems: Vec<Problem>) -> Result<Exit, Problems> {
    let mut reader = Reader::new(raw, problems);
    let (run, logging) = run::read(&mut reader);
    let live = reader.switch(Setting::Live);
    let file = raw.get(Setting::FromSave).map(|given| given.value.as_str());
    let form = form(&mut reader);
    if live && file.is_some() {
        let text = "contradicts --from-save; give one of them";
        reader.whole(&Source::Flag(Setting::Live.row().long), text);
    }
    let of_flags = !live && file.is_none();
    let capture = of_flags.then(|| istio::configure(&mut reader, &System, run.cni));
    let pod = pod(raw, capture.as_ref(), file.is_none());
    let question = question(&mut reader, &pod, capture.as_ref(), form);
    let warnings = reader.finish()?;
    let question = question.expect("what is not understood is a problem");
    let scenes = match (capture, file) {
        (Some(capture), _) => {
            begin(raw, &Call { capture: capture.clone(), run, logging, warnings }, Stdout::Answer)?;
            warn_of_ipv6(raw, &question, &capture);
            Ok(Family::BOTH.map(|family| Scene::of_config(&capture, family, &pod)).into())
        }
        (None, file) => {
            start_logging(raw, &logging, Stdout::Answer)?;
            match file {
                Some(file) => from_save(file, &pod),
                None => from_kernel(&run, &pod),
            }
        }
    };
    Ok(match scenes {
        Ok(scenes) => answer(&scenes, &question, form),
        Err(error) => report::failure(&*error, Exit::Failed),
    })
}

fn form(reader: &mut Reader<'_>) -> Form {
    let form = reader.one_of(Setting::ExplainFormat, "text, json or mermaid", |text| match text {
        "text" => Some(Form::Text),
        "json" => Some(Form::Json),
        "mermaid" => Some(Form::Mermaid),
        _ => None,
    });
    form.unwrap_or(Form::Text)
}

fn question(
    reader: &mut Reader<'_>,
    pod: &Pod,
    config: Option<&CaptureConfig>,
    form: Form,
) -> Option<Question> {
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

fn warn_of_ipv6(raw: &Raw, question: &Question, config: &CaptureConfig) {
    if question.families().any(|family| !config.families().any(|captured| captured == family)) {
        tracing::warn!(target: "config", "{}", why_not_ipv6(raw));
    }
}

fn answer(scenes: &[Scene], question: &Question, form: Form) -> Exit {
    let families: Vec<Family> = question.families().collect();
    let scenes: Vec<&Scene> = scenes.iter().filter(|scene| families.contains(&scene.family)).collect();
    let mut text = String::new();
    let mut reports = Vec::new();
    for scene in &scenes {
        if scenes.len() > 1 && form == Form::Mermaid {
            text.push_str(&format!("%% {}\n", scene.title));
        } else if scenes.len() > 1 {
            text.push_str(&format!("== {}\n", scene.title));
        }
        match question {
            Question::Packet(packet) => {
                let explained = explain(&scene.view, &scene.routing, packet);
                match form {
                    Form::Mermaid => text.push_str(&explained.mermaid()),
                    Form::Text | Form::Json => text.push_str(&explained.to_string()),
                }
                reports.push(explained.report());
            }
            Question::Matrix(cases) => {
                let own = cases.iter().filter(|case| case.family == scene.family);
                let cases: Vec<Case> = own.cloned().collect();
                text.push_str(&matrix(&scene.view, &scene.routing, &cases));
            }
        }
    }
    match (form, reports.as_slice()) {
        (Form::Text | Form::Mermaid, _) | (Form::Json, []) => report::text(&text),
        (Form::Json, [report]) => report::json(report),
        (Form::Json, reports) => report::json(&reports),
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

fn from_kernel(run: &Run, pod: &Pod) -> Result<Vec<Scene>, Box<dyn Error>> {
    let mut kernel = run.open()?;
    let routes = kernel.routing()?;
    let scene = |family: Family| {
        let view = engine::live(&mut kernel, family, &Reason::origin_of)?;
        for text in engine::kin(&view, &istio::OWNERSHIP) {
            tracing::info!(target: "backend", %family, "{text}");
        }
        let routing = live_routing(&routes, family, pod);
        Ok(Scene { title: family.to_string(), family, view, routing })
    };
    Family::BOTH.into_iter().map(scene).collect()
}

/// The policy rules that are there.
fn live_routing(routes: &BTreeSet<Object>, of_family: Family, pod: &Pod) -> Routing {
    let marks = routes.iter().filter_map(|object| match object {
        Object::Rule { family, mark, .. } if *family == of_family => Some(Mark::whole(*mark)),
        Object::Rule { .. } | Object::Route { .. } | Object::Address(_) => None,
    });
    Routing { local_marks: marks.collect(), addresses: pod.addresses.clone() }
}

/// The pod's addresses, declared or asked for, and its proxy.
fn pod(raw: &Raw, config: Option<&CaptureConfig>, ask: bool) -> Pod {
    let declared = raw.get(Setting::PodIps).map(|given| {
        given.value.split(',').filter_map(|item| item.trim().parse().ok()).collect::<Vec<IpAddr>>()
    });
    let asked = || if ask { System.addresses().unwrap_or_default() } else { Vec::new() };
    Pod::new(declared.unwrap_or_else(asked), config)
}
