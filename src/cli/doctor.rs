//! `sidecar-init doctor`: what this namespace and kernel can do.

use super::run::{Format, ResolvedCall, Run};
use super::{Exit, ipv6, report, rule_views, tree};
use diagnose::{Style, fold};
use mesh::{
    Capture, CapturePolicy, Mesh, Problems, Setting,
    sources::{Given, Raw, RemoteHost, Source},
};
use rules::PortRange;
use rules::finding::{FindingLevel, NamespaceFinding};
use serde::Serialize;
use sidecar_init::engine::{ProxyProfile, examine};
use std::fmt::Write;

/// Runs the command. What is wrong with the capture flags is a finding like any other.
pub(super) fn run(raw: &Raw, run: &Run, call: &Result<ResolvedCall, Problems>, is_unicode: bool) -> Exit {
    let owner = run.every_owner();
    let mut kernel = match run.open_for(owner) {
        Ok(kernel) => kernel,
        Err(error) => return report::failure(&error, Exit::Failed),
    };
    let proxy = proxy(run.mesh, call.as_ref().ok().map(|call| &*call.capture));
    let mut findings = examine(&mut kernel, &owner, &proxy);
    match call {
        Ok(call) => {
            findings.extend(
                ipv6::uncaptured(raw, &call.capture)
                    .map(|found| NamespaceFinding::warn("ipv6", found.text, found.remedy)),
            );
            findings.extend(decided_by_others(run, &call.capture));
        }
        Err(Problems(problems)) => findings.extend(problems.iter().map(|problem| {
            NamespaceFinding::fail(
                "input",
                problem.to_string(),
                "apply and check with these flags would refuse",
            )
        })),
    }
    let printed = match run.format {
        Format::Text => report::text(&text(&findings, is_unicode)),
        Format::Data(encoding) => report::data(encoding, &DoctorReport::of(&findings)),
    };
    match printed {
        Exit::Done if findings.iter().any(|finding| finding.level == FindingLevel::Fail) => Exit::Failed,
        exit => exit,
    }
}

/// Effects of other programs' rules on the mesh's usual packets. They can be distinguished only where our rules do not differ.
fn decided_by_others(run: &Run, capture: &Capture) -> Vec<NamespaceFinding> {
    let session = run.session(capture.owner());
    let compared = session.ok().and_then(|mut session| session.check(&capture.desired()).ok());
    if compared.is_none_or(|compared| !compared.differences.is_empty()) {
        return Vec::new();
    }
    let texts = rule_views::decided_by_others(run, capture).unwrap_or_default();
    let finding = |text| {
        NamespaceFinding::warn(
            "foreign",
            text,
            "see all rules that it meets with sidecar-init explain --live",
        )
    };
    texts.into_iter().map(finding).collect()
}

/// The ports and users of the proxy: by the flags, and by default those of the mesh's pods.
fn proxy(mesh: Mesh, given: Option<&dyn CapturePolicy>) -> ProxyProfile {
    let usual = usual(mesh);
    let keys = given.or(usual.as_deref()).map(|capture| capture.keys());
    let named_by = keys.and_then(|keys| keys.proxy).map(|setting| setting.row().option());
    let usual = usual.map(|capture| capture.proxy()).unwrap_or_default();
    let given = given.map(|capture| capture.proxy());
    let listeners = given.as_ref().map(|proxy| proxy.listeners.clone()).unwrap_or_default();
    let who = given.as_ref().unwrap_or(&usual);
    let ports = [
        ("outbound", listeners.outbound.or(usual.listeners.outbound)),
        ("inbound", listeners.inbound.or(usual.listeners.inbound)),
        ("DNS", listeners.dns.or(usual.listeners.dns).map(PortRange::from)),
    ];
    let range = |ports: PortRange| ports.first().number()..=ports.last().number();
    ProxyProfile {
        uids: who.uids.iter().map(|uid| uid.number()).collect(),
        gids: who.gids.iter().map(|gid| gid.number()).collect(),
        ports: ports.into_iter().filter_map(|(role, ports)| Some((role, range(ports?)))).collect(),
        named_by,
    }
}

/// The settings that a pod of the mesh has by default.
fn usual(mesh: Mesh) -> Option<Capture> {
    let given = |setting: Setting, value: &str| {
        (setting, Given { value: value.to_owned(), source: Source::Flag(setting.row().long) })
    };
    let words = mesh.injector_defaults().iter().map(|(setting, value, _)| given(*setting, value));
    let raw = Raw::of(words.chain([given(Setting::Mesh, mesh.name())]));
    mesh::resolve(&raw, &RemoteHost::Open, Vec::new()).ok().map(|resolved| resolved.capture)
}

/// A section of the answer: the topics of its findings, its heading, and the topic of `sidecar-init help`.
struct DoctorSection {
    topics: &'static [&'static str],
    heading: &'static str,
    help: &'static str,
}

const SECTIONS: [DoctorSection; 10] = [
    DoctorSection { topics: &["namespace"], heading: "Namespace", help: "hostnetwork" },
    DoctorSection { topics: &["rights"], heading: "Rights", help: "net_admin-is-refused" },
    DoctorSection { topics: &["programs"], heading: "Programs", help: "nft-and-legacy-side-by-side" },
    DoctorSection { topics: &["kernel"], heading: "Kernel", help: "kernel-modules-are-missing" },
    DoctorSection { topics: &["rules", "routing"], heading: "Rules", help: "rules-are-there-already" },
    DoctorSection { topics: &["foreign"], heading: "Rules of others", help: "rules-of-others-decide-first" },
    DoctorSection {
        topics: &["listeners"],
        heading: "Listeners",
        help: "connection-refused-while-the-pod-starts",
    },
    DoctorSection {
        topics: &["processes"],
        heading: "Processes",
        help: "the-application-runs-as-the-proxys-user",
    },
    DoctorSection { topics: &["ipv6"], heading: "IPv6", help: "ipv6-is-not-captured" },
    DoctorSection { topics: &["input"], heading: "Flags", help: "the-flags-are-refused" },
];

/// Where a finding is explained, but for those that need no explanation.
fn explained(finding: &NamespaceFinding) -> Option<String> {
    let section = SECTIONS.iter().find(|section| section.topics.contains(&finding.topic))?;
    (finding.level != FindingLevel::Ok).then(|| tree::help_call(section.help))
}

/// The signs of the levels, for output without colours.
fn sign(level: FindingLevel, is_unicode: bool) -> &'static str {
    match (level, is_unicode) {
        (FindingLevel::Ok, true) => "✔",
        (FindingLevel::Warn, true) => "▲",
        (FindingLevel::Fail, true) => "✘",
        (FindingLevel::Ok, false) => "ok  ",
        (FindingLevel::Warn, false) => "warn",
        (FindingLevel::Fail, false) => "fail",
    }
}

fn style(level: FindingLevel) -> Style {
    match level {
        FindingLevel::Ok => Style::Captured,
        FindingLevel::Warn => Style::Passing,
        FindingLevel::Fail => Style::Dropped,
    }
}

fn text(findings: &[NamespaceFinding], is_unicode: bool) -> String {
    let mut out = String::new();
    let indent = 3 + sign(FindingLevel::Ok, is_unicode).chars().count();
    let margin = " ".repeat(indent);
    let width = report::line_width().max(60);
    for DoctorSection { topics, heading, .. } in &SECTIONS {
        let of: Vec<&NamespaceFinding> =
            findings.iter().filter(|finding| topics.contains(&finding.topic)).collect();
        if of.is_empty() {
            continue;
        }
        writeln!(out, "{}", Style::Strong.paint(heading)).expect("text takes all");
        for finding in of {
            let sign = style(finding.level).paint(sign(finding.level, is_unicode));
            let text = finding.text.replace('\n', &format!("\n{margin}"));
            out.push_str(&fold(&format!("  {sign} {text}\n"), indent, width));
            let remedy = finding.remedy.iter().map(|remedy| format!("-> {remedy}"));
            for quiet in remedy.chain(explained(finding).map(|call| format!("   see: {call}"))) {
                let quiet = quiet.replace('\n', &format!("\n{margin}"));
                out.push_str(&fold(&format!("{margin}{}\n", Style::Quiet.paint(quiet)), indent, width));
            }
        }
    }
    out + &summary(findings)
}

fn summary(findings: &[NamespaceFinding]) -> String {
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let counted = |count: usize, noun: &str| match count {
        0 => format!("no {noun}s"),
        1 => format!("1 {noun}"),
        more => format!("{more} {noun}s"),
    };
    let (warnings, failures) = (count(FindingLevel::Warn), count(FindingLevel::Fail));
    let style = match (failures, warnings) {
        (0, 0) => Style::Captured,
        (0, _) => Style::Passing,
        _ => Style::Dropped,
    };
    format!(
        "{}\n",
        style.paint(format!("{}, {}", counted(failures, "failure"), counted(warnings, "warning")))
    )
}

/// The findings as programs read them.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct DoctorReport<'a> {
    /// All results.
    findings: Vec<DoctorFinding<'a>>,
}

/// A finding.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DoctorFinding<'a> {
    /// The level: ok, warning or failure.
    level: &'static str,
    /// The topic.
    topic: &'static str,
    /// The text for people.
    text: &'a str,
    /// The remedy; null without a problem.
    remedy: Option<&'a str>,
    /// The command that explains it; null where nothing has to be explained.
    help: Option<String>,
}

impl<'a> DoctorReport<'a> {
    fn of(findings: &'a [NamespaceFinding]) -> Self {
        Self { findings: findings.iter().map(DoctorFinding::of).collect() }
    }
}

impl<'a> DoctorFinding<'a> {
    fn of(finding: &'a NamespaceFinding) -> Self {
        let NamespaceFinding { level, topic, text, remedy } = finding;
        let level = match level {
            FindingLevel::Ok => "ok",
            FindingLevel::Warn => "warning",
            FindingLevel::Fail => "failure",
        };
        Self { level, topic, text, remedy: remedy.as_deref(), help: explained(finding) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_section_is_explained_by_a_topic_of_help() {
        for section in &SECTIONS {
            assert!(crate::cli::help::has_topic(section.help), "{}", section.help);
        }
    }

    #[test]
    fn what_pods_of_a_mesh_usually_have_is_its_own() {
        for (mesh, ports, uids) in [
            (Mesh::Istio, &[15001, 15006][..], &[1337][..]),
            (Mesh::Linkerd, &[4140, 4143], &[2102]),
            (Mesh::Kuma, &[15001, 15006, 15053], &[5678]),
            (Mesh::Ambient, &[15001, 15006, 15053], &[]),
        ] {
            let found = proxy(mesh, None);
            let first: Vec<u16> = found.ports.iter().map(|(_, ports)| *ports.start()).collect();
            assert_eq!((&first[..], &found.uids[..]), (ports, uids), "{mesh}");
        }
    }
}
