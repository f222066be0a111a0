//! Pods' captures and findings. Most pods in a cluster have the same settings, so each distinct capture is linted once.

use super::{findings::FindingGroups, injected::Membership, inventory::DescribedPod};
use diagnose::explain::{PodContext, RuleView};
use diagnose::lint::{lint, of_pod};
use mesh::pod::{Application, EXCLUDED_NAMESPACES, GivenSettings, Reading, read};
use mesh::sources::{Dialect, Given, Raw, RemoteHost, STAND_IN, Source};
use mesh::{Capture, InputProblem, Mesh, Problems, Resolved, Selector, Setting};
use rules::finding::{Code, Finding, Level};
use rules::simulate::{Direction, Packet, Verdict, walk};
use rules::{ConnState, Family, Protocol};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;

#[derive(Default)]
pub(super) struct Captures {
    known: BTreeMap<String, Rc<LintedCapture>>,
}

struct LintedCapture {
    findings: Vec<Finding>,
    valid: Option<Rc<ValidCapture>>,
}

struct ValidCapture {
    capture: Capture,
    raw: Raw,
    view: RuleView,
}

pub(super) struct PodCapture {
    of: Rc<ValidCapture>,
    pub(super) applications: Vec<Application>,
}

impl Captures {
    /// Reports findings on a pod's settings and returns its capture; `None` if the pod is never captured, or that is unknown.
    pub(super) fn judge(
        &mut self,
        pod: &DescribedPod<'_>,
        membership: &Membership,
        groups: &mut FindingGroups,
    ) -> Option<PodCapture> {
        let reading = read(&pod.read, EXCLUDED_NAMESPACES);
        if !pod.is_running {
            return None;
        }
        let is_never = reading.skip.as_ref().is_some_and(|skip| !skip.is_before_injection());
        let name = |(_, given): (_, &'_ Given)| match &given.source {
            Source::Annotation(name) => Some(name.clone()),
            _ => None,
        };
        let annotated: BTreeSet<String> = reading.settings.raw.iter().filter_map(name).collect();
        let of_mesh = reading.settings.raw.mesh();
        let is_captured = membership.has(of_mesh) || (!membership.is_known && !annotated.is_empty());
        for remark in &reading.warnings {
            // Capture warnings matter only for captured pods.
            let is_about_capture = remark.level == Level::Warning && !is_never && is_captured;
            let is_of_form =
                [Code::UnknownAnnotation, Code::Misplaced, Code::DroppedField].contains(&remark.code);
            if is_of_form || is_about_capture {
                groups.about(remark.clone(), pod);
            }
        }
        if !is_captured && membership.signs.is_empty() {
            let names = annotated.iter().filter(|name| pod.read.pod.annotations.contains_key(*name));
            names.for_each(|name| groups.about(without_effect(name), pod));
        }
        if !is_captured || is_never {
            return None;
        }
        let linted = self.linted(&reading);
        linted.findings.iter().for_each(|finding| groups.about(finding.clone(), pod));
        let of = linted.valid.clone()?;
        let of_pod = of_pod(&of.raw, &reading, &of.capture);
        of_pod.into_iter().for_each(|finding| groups.about(finding, pod));
        Some(PodCapture { of, applications: reading.applications })
    }

    fn linted(&mut self, reading: &Reading) -> Rc<LintedCapture> {
        let settings = anonymous(reading.settings.clone());
        let key = format!("{settings:?}");
        self.known.entry(key).or_insert_with(|| Rc::new(LintedCapture::of(&settings))).clone()
    }
}

/// The settings without the pod's name and addresses, so that equal captures are linted once.
fn anonymous(mut settings: GivenSettings) -> GivenSettings {
    let given = settings.raw.iter().map(|(setting, given)| {
        let given = match setting {
            Setting::PodIps => Given { value: stand_ins(&given.value), source: given.source.clone() },
            _ => given.clone(),
        };
        (setting, given)
    });
    settings.raw = Raw::of(given);
    settings
}

fn stand_ins(addresses: &str) -> String {
    let parsed = || addresses.split(',').filter_map(|address| address.trim().parse::<IpAddr>().ok());
    let of = [IpAddr::V4(STAND_IN.0), IpAddr::V6(STAND_IN.1)];
    let has = |one: &IpAddr| parsed().any(|address| address.is_ipv4() == one.is_ipv4());
    of.iter().filter(|one| has(one)).map(ToString::to_string).collect::<Vec<_>>().join(",")
}

impl LintedCapture {
    fn of(settings: &GivenSettings) -> Self {
        let host = RemoteHost::host(&settings.raw);
        match settings.resolve(&*host) {
            Ok(Resolved { capture, warnings }) => {
                let raw = settings.raw.clone();
                let warning = |text| Finding::plain(Level::Warning, Code::SurprisingValue, text);
                let mut findings: Vec<Finding> = warnings.iter().map(warning).collect();
                findings.extend(lint(&raw, &capture, &[]).into_iter().map(without_stand_ins));
                let own = PodContext::new([IpAddr::V4(STAND_IN.0)], Some(&*capture));
                let view = RuleView::of_config(&*capture, Family::V4, &own);
                Self { findings, valid: Some(Rc::new(ValidCapture { capture, raw, view })) }
            }
            Err(Problems(problems)) => Self { findings: problems.iter().map(invalid).collect(), valid: None },
        }
    }
}

impl PodCapture {
    /// True if the proxy captures outside connections to this port, or if that is unknown.
    pub(super) fn has_port(&self, port: u16) -> bool {
        let packet = Packet {
            direction: Direction::Inbound { interface: "eth0".to_owned(), local: true },
            protocol: Protocol::Tcp,
            source: SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 40_000),
            destination: SocketAddr::new(IpAddr::V4(STAND_IN.0), port),
            mark: 0,
            connmark: 0,
            state: ConnState::New,
        };
        match walk(&self.of.view.view, &self.of.view.routing, &packet).verdict {
            Verdict::Redirect(_) | Verdict::Tproxy(_) | Verdict::Unknown => true,
            Verdict::Pass | Verdict::Drop => false,
        }
    }

    pub(super) fn mesh(&self) -> Mesh {
        self.of.raw.mesh()
    }

    /// The setting that excludes this port from capture (empty if none), and its effect.
    pub(super) fn why_not(&self, port: u16) -> (String, &'static str) {
        let dialect = Dialect::of(&self.of.raw);
        let named =
            |setting: Setting| dialect.name(setting).map_or_else(|| setting.row().option(), str::to_owned);
        let lists = self.of.capture.lists();
        let inbound = |captured: bool| {
            lists.iter().filter_map(move |listed| match &listed.selector {
                Selector::InboundPort(ports) if listed.captured == captured => Some((listed.setting, *ports)),
                _ => None,
            })
        };
        if let Some((setting, _)) = inbound(false).find(|(_, ports)| ports.contains(port)) {
            return (named(setting), "excludes the port");
        }
        if let Some((setting, _)) = inbound(true).next() {
            return (named(setting), "does not include the port");
        }
        (String::new(), "no inbound port is captured")
    }
}

fn without_stand_ins(finding: Finding) -> Finding {
    let text = finding.text.replace(&STAND_IN.1.to_string(), "an IPv6 address");
    Finding { text, ..finding }
}

fn invalid(problem: &InputProblem) -> Finding {
    let item = problem.item.as_ref().map(|item| format!("{item:?} ")).unwrap_or_default();
    Finding::warning(Code::InvalidSetting, &problem.name, format!("{item}{}", problem.text), "")
}

fn without_effect(annotation: &str) -> Finding {
    let text = "has no effect: no webhook injects the pod, and it has no proxy";
    Finding::warning(Code::NoEffect, annotation, text, "remove the annotation, or have the pod injected")
}
