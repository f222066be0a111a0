//! A page's request and its answer.

use crate::compared::{PodChanges, compared};
use crate::fields::{FieldProblems, PageField, PageRequest, prepare, subjects};
use crate::findings::{self, PageFinding};
use crate::link::{Link, link};
use crate::words::FieldSettings;
use diagnose::explain::{
    ApplicationUser, ExplanationReport, PacketQuery, PodContext, RuleView, VerdictKind, explain, written,
};
use diagnose::lint::{Level, all, lint, of_subject};
use diagnose::picture::{DrawnRows, Picture};
use diagnose::{Prepared, Subject, TextLine, subject::each};
use mesh::preview::{self, Preview};
use mesh::{Capture, sources::RemoteHost};
use rules::Family;
use rules::simulate::{At, Packet};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, Default, Serialize)]
pub struct PageAnswer {
    pub problems: FieldProblems,
    pub notes: Vec<String>,
    pub link: Link,
    /// Changes between two configurations, pod by pod; empty with a single configuration.
    pub compared: Vec<PodChanges>,
    /// A part for each pod. `None` if the flags or the manifest are invalid.
    pub parts: Option<Vec<PodSection>>,
}

#[derive(Clone, Debug, Serialize)]
pub struct PodSection {
    /// Kind, namespace and name, if a manifest has them.
    pub title: Option<String>,
    pub mesh: &'static str,
    pub notes: Vec<String>,
    /// `None` without a packet or with an invalid one.
    pub verdict: Option<PageVerdict>,
    /// True if injection is pending.
    pub awaits_injection: bool,
    pub picture: String,
    pub picture_notes: Vec<String>,
    pub arrows: DrawnRows,
    pub packets: Vec<PagePacket>,
    pub findings: Vec<PageFinding>,
    pub iptables: String,
    pub nft: String,
}

#[derive(Clone, Debug, Serialize)]
pub struct PageVerdict {
    pub kind: VerdictKind,
    pub word: &'static str,
    /// The packet's path and the reason; for the verdict `depends`, the properties that decide it.
    pub sentence: String,
    /// The rule that decides; `None` if no rule does.
    pub decided: Option<String>,
    /// The cases of the verdict `depends`, the packet, and each rule that it meets.
    pub way: Vec<TextLine>,
}

pub fn answer(request: &PageRequest) -> PageAnswer {
    let input =
        FieldSettings::read(&[(PageField::Flags, &request.flags), (PageField::Packet, &request.packet)]);
    let has_manifest = !request.manifest.trim().is_empty();
    let notes = input.notes(has_manifest);
    let mut answer = PageAnswer { notes, link: link(request), ..PageAnswer::default() };
    input.problems.iter().for_each(|(field, problem)| answer.problems.add(*field, problem));
    let raw = input.raw(has_manifest);
    let subjects = match subjects(&raw, &request.manifest) {
        Ok(subjects) => subjects,
        Err(problems) => {
            answer.problems.extend(&problems, has_manifest, false);
            // The manifest is invalid: the other fields are checked without it.
            let flags = Subject::of_flags(raw, Vec::new(), RemoteHost::host);
            if let Err(problems) = prepare(&flags, input.has_packet()) {
                answer.problems.extend(&problems, false, false);
            }
            return answer;
        }
    };
    let prepared = each(&subjects, |subject| prepare(subject, input.has_packet()));
    if let Err(problems) = &prepared {
        answer.problems.extend(problems, has_manifest, false);
    }
    if !answer.problems.has_valid_settings() {
        return answer;
    }
    // An invalid packet does not hide the configuration.
    let prepared = match prepared {
        Ok(prepared) if answer.problems.of(PageField::Packet).is_empty() => Ok(prepared),
        Ok(_) | Err(_) => each(&subjects, |subject| prepare(subject, false)),
    };
    let Ok(prepared) = prepared else { return answer };
    let after: Vec<_> = subjects.iter().zip(&prepared).collect();
    match compared(request, &after) {
        Ok(compared) => answer.compared = compared,
        Err(problems) => {
            answer.problems.extend(&problems, !request.manifest_before.trim().is_empty(), true);
        }
    }
    let parts = after.into_iter().map(|(subject, prepared)| part(request, subject, prepared));
    answer.parts = Some(parts.collect());
    answer
}

fn part(request: &PageRequest, subject: &Subject, prepared: &Prepared) -> PodSection {
    let Prepared { capture, pod, packet, warnings } = prepared;
    let mut notes: Vec<String> = subject.assumption().map(str::to_owned).into_iter().collect();
    let remarks = subject.warnings_of_form().iter().filter(|remark| remark.level == Level::Note);
    notes.extend(remarks.map(|remark| remark.text.clone()));
    let users = ApplicationUser::all(subject.applications());
    notes.extend(users.first().map(|user| format!("the application is {user}")));
    notes.extend(users.iter().skip(1).map(|user| format!("another application is {user}; ask with --uid")));
    let iptables = preview::print(&**capture, Preview::Restore);
    notes.extend(iptables.warning.map(str::to_owned));
    let is_captured =
        |requested: &PacketQuery| capture.families().any(|family| family == requested.packet.family());
    if packet.as_ref().is_some_and(|packet| !is_captured(packet)) {
        notes.push(capture.without_ipv6(&subject.raw, false).why.to_owned());
    }
    // A skipped pod is not captured under any settings; the reason is shown.
    let mut findings = if subject.skip().is_some() { Vec::new() } else { lint(&subject.raw, capture, &[]) };
    findings.extend(of_subject(subject, capture));
    let mut findings = all(subject, warnings, findings);
    findings.retain(|finding| finding.level <= Level::Warning);
    let rule_view =
        packet.as_ref().map(|requested| RuleView::of_config(&**capture, requested.packet.family(), pod));
    let explained = packet.as_ref().zip(rule_view.as_ref());
    let explained = explained.map(|(requested, rule_view)| subject.explain(rule_view, requested));
    let mut picture = subject.traffic(capture, pod);
    if let Some(explained) = &explained {
        picture = picture.with_path(explained);
    }
    PodSection {
        title: subject.title.clone(),
        mesh: subject.raw.mesh().name(),
        notes,
        verdict: explained.as_ref().map(|explained| verdict(&explained.report())),
        awaits_injection: subject.skip().is_none()
            && subject.reading().is_some_and(|read| read.skip.is_some()),
        picture: picture.svg(),
        picture_notes: picture.notes.clone(),
        packets: packets(capture, pod, &picture, &iptables.text),
        arrows: picture.rows(),
        findings: findings::shown(request, subject, &findings),
        iptables: iptables.text,
        nft: preview::print(&**capture, Preview::Nft).text,
    }
}

fn verdict(explained: &ExplanationReport) -> PageVerdict {
    let ExplanationReport { end, depends_on, .. } = explained;
    let sentence = match depends_on {
        Some(on) => format!("on {on}"),
        None => format!("{}, because {}", end.summary, end.reason),
    };
    let decided = explained.decided_by.as_ref().map(ToString::to_string);
    let cases = explained.head().into_iter().skip(1);
    let gap = depends_on.iter().map(|_| TextLine::default());
    let way = cases.chain(gap).chain(explained.way(true)).collect();
    PageVerdict { kind: end.verdict, word: end.verdict.word(), sentence, decided, way }
}

/// A packet offered by the page.
#[derive(Clone, Debug, Serialize)]
pub struct PagePacket {
    pub ask: String,
    pub kind: VerdictKind,
    /// Line numbers, from 0, of iptables-restore rules that it matches or may match.
    pub lines: Vec<usize>,
    pub arrow: Option<(usize, usize)>,
}

/// At least one packet for each rule and each arrow.
fn packets(capture: &Capture, pod: &PodContext, picture: &Picture, iptables: &str) -> Vec<PagePacket> {
    let rule_views: Vec<RuleView> =
        capture.families().map(|family| RuleView::of_config(&**capture, family, pod)).collect();
    let lines = lines(iptables);
    let mut asks = BTreeSet::new();
    let of_packet = |packet: &Packet| {
        let rule_view = rule_views.iter().find(|rule_view| rule_view.family == packet.family())?;
        let explained = explain(&rule_view.view, &rule_view.routing, packet);
        let of_chain = |at: At| {
            let chain = &rule_view.view.chains()[at.chain];
            lines.get(&(rule_view.family, &*chain.table, &*chain.chain))?.get(at.rule).copied()
        };
        Some(PagePacket {
            ask: written(packet, pod, true).filter(|ask| asks.insert(ask.clone()))?,
            kind: VerdictKind::of(explained.outcome().verdict).0,
            lines: explained.rules_met().filter_map(of_chain).collect(),
            arrow: picture.at(packet),
        })
    };
    picture.panels.iter().flat_map(|panel| &panel.examples).filter_map(of_packet).collect()
}

/// Line numbers of each chain's rules, in the chain's order, in input for iptables-restore and ip6tables-restore.
fn lines(text: &str) -> BTreeMap<(Family, &str, &str), Vec<usize>> {
    let mut found: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    let (mut family, mut table) = (Family::V4, "");
    for (number, line) in text.lines().enumerate() {
        match line.split_once(' ') {
            Some((verb @ ("-A" | "-I"), rule)) => {
                let mut words = rule.split(' ');
                let of_chain = found.entry((family, table, words.next().unwrap_or_default())).or_default();
                let place =
                    words.next().filter(|_| verb == "-I").and_then(|place| place.parse::<usize>().ok());
                // Positions start at 1.
                let index = place.map_or(of_chain.len(), |place| place.saturating_sub(1).min(of_chain.len()));
                of_chain.insert(index, number);
            }
            Some(("*", name)) => table = name,
            Some(("#", program)) => {
                family = if program.starts_with("ip6") { Family::V6 } else { Family::V4 };
            }
            Some(_) | None => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer_to(flags: &str, packet: &str) -> PageAnswer {
        let flags = format!("{flags} --pod-ips 10.1.2.3,fd00::3");
        answer(&PageRequest { flags, packet: packet.to_owned(), ..PageRequest::default() })
    }

    fn sentence(flags: &str, packet: &str) -> String {
        let answer = answer_to(flags, packet);
        let parts = answer.parts.unwrap_or_else(|| panic!("{flags}, {packet}: {:?}", answer.problems));
        let verdict = parts[0].verdict.as_ref().expect("a packet is given");
        format!("{}: {}", verdict.word, verdict.sentence)
    }

    #[test]
    fn every_mesh_takes_its_own_flags() {
        for (flags, packet, expected) in [
            ("-b 80", "8080", "not captured: "),
            ("--mesh linkerd", "8080", "captured: goes to the proxy's inbound port 4143"),
            ("--mesh linkerd --inbound-ports-to-ignore 4190", "4190", "not captured: "),
            (
                "sudo docker run --rm mesh/image /usr/local/bin/sidecar-init explain --mesh=kuma",
                "10.0.0.5:443",
                "captured: goes to the proxy's outbound port 15001",
            ),
            ("--exclude-outbound-ports 443", "10.0.0.5:443 --mesh kuma", "not captured: "),
            (
                "AMBIENT_DNS_CAPTURE=false sidecar-init apply --mesh ambient",
                "10.0.0.5:53",
                "captured: goes to the proxy's outbound",
            ),
            ("--mesh ambient", "10.0.0.5:443 --sender proxy", "not captured: "),
        ] {
            let text = sentence(flags, packet);
            assert!(text.starts_with(expected), "{flags}, {packet}: {text}");
        }
    }

    #[test]
    fn problems_of_all_fields_are_shown_at_once() {
        let request = PageRequest {
            flags: "-b 80,http --bogus".to_owned(),
            manifest: "kind: [".to_owned(),
            packet: "hello:99".to_owned(),
            ..PageRequest::default()
        };
        let problems = answer(&request).problems;
        let counts =
            [PageField::Flags, PageField::Manifest, PageField::Packet].map(|field| problems.of(field).len());
        assert_eq!(counts, [2, 1, 1], "{problems:?}");
    }

    #[test]
    fn findings_are_warnings_and_notes() {
        let shown = |manifest: &str| {
            let request = PageRequest { manifest: manifest.to_owned(), ..PageRequest::default() };
            let part = answer(&request).parts.expect("valid input").remove(0);
            (part.findings, part.notes)
        };
        let pod = |container: &str| {
            format!(
                "apiVersion: v1\nkind: Pod\nmetadata: {{name: web}}\nspec: {{containers: [{{name: web, {container}}}]}}\n"
            )
        };
        let (findings, notes) = shown(&pod("image: web"));
        assert!(findings.is_empty(), "{findings:?}");
        assert!(notes.iter().any(|note| note.starts_with("not captured yet")), "{notes:?}");
        assert!(notes.iter().any(|note| note.contains("user 1000 (assumed: ")), "{notes:?}");
        let (_, notes) =
            shown(&pod("securityContext: {runAsUser: 5}}, {name: b, securityContext: {runAsUser: 6}"));
        for note in [
            "the application is user 5, group 0 (web)",
            "another application is user 6, group 0 (b); ask with --uid",
        ] {
            assert!(notes.iter().any(|shown| shown == note), "{notes:?}");
        }
        let (findings, _) = shown(&pod("securityContext: {runAsUser: 1337}"));
        let [PageFinding { report, fix: None }] = &findings[..] else { panic!("{findings:?}") };
        assert_eq!(report.code, "SI028");
    }

    #[test]
    fn remedies_are_followed() {
        let annotated = |annotation: &str| {
            format!(
                "kind: Pod\nmetadata:\n  name: web\n  annotations:\n    sidecar.istio.io/status: '{{}}'\n    {annotation}\n\
                 spec:\n  containers: [{{name: web}}]\n"
            )
        };
        for (flags, annotation, code, label) in [
            ("-b '*' -d 15020,15020", "", "SI008", "Set -d to 15020"),
            ("-b 8080 -d 15020", "", "SI007", "Drop -d"),
            ("ISTIO_LOCAL_EXCLUDE_PORTS=1,1 istio-iptables -b '*'", "", "SI008", "Set -d to 1"),
            ("-i '*' -x 10.0.0.0/8,10.1.0.0/16", "", "SI008", "Set -x to 10.0.0.0/8"),
            ("-i '*' --capture-all-dns --redirect-dns -o 53,80", "", "SI010", "Set -o to 80"),
            (
                "",
                "traffic.sidecar.istio.io/excludeOutboundPort: '5432'",
                "SI027",
                "Rename to traffic.sidecar.istio.io/excludeOutboundPorts",
            ),
            (
                "",
                "traffic.sidecar.istio.io/excludeOutboundPorts: '80,80'",
                "SI008",
                "Set traffic.sidecar.istio.io/excludeOutboundPorts to 80",
            ),
        ] {
            let manifest = if annotation.is_empty() { String::new() } else { annotated(annotation) };
            let mut request = PageRequest { flags: flags.to_owned(), manifest, ..PageRequest::default() };
            let findings = |request: &PageRequest| {
                let answer = answer(request);
                let parts = answer.parts.unwrap_or_else(|| panic!("{request:?}: {:?}", answer.problems));
                parts.into_iter().flat_map(|part| part.findings).collect::<Vec<_>>()
            };
            let before = findings(&request);
            let found = before.iter().find(|finding| finding.report.code == code);
            let fix =
                found.and_then(|found| found.fix.clone()).unwrap_or_else(|| panic!("{flags}: {before:?}"));
            assert_eq!(fix.label, label);
            match fix.field {
                "flags" => request.flags = fix.value,
                _ => request.manifest = fix.value,
            }
            let after = findings(&request);
            assert!(
                after.len() == before.len() - 1 && after.iter().all(|one| one.report.code != code),
                "{request:?}: {after:?}"
            );
        }
    }

    #[test]
    fn flags_over_a_manifest_are_named() {
        let manifest = "kind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: web}]}\n".to_owned();
        let flags = "-b 80 --pod-ips 10.1.2.3 --proxy-uid 5".to_owned();
        let answer = answer(&PageRequest { flags, manifest, ..PageRequest::default() });
        assert_eq!(answer.notes, ["flags override settings of the manifest: -b, -u"]);
    }

    /// Each offered packet is valid and has the verdict shown; its line numbers are rules.
    #[test]
    fn offered_packets_have_the_verdict_shown() {
        let mut requested = 0;
        for flags in [
            "-b '*' -d 15090 -i '*' -x 10.96.0.0/16 --pod-ips 10.1.2.3,fd00::3 --dual-stack",
            "-m TPROXY -b '*' -i 10.0.0.0/8 -c eth1 -k vnet0",
            "--mesh linkerd --inbound-ports-to-ignore 4190 --pod-ips 10.1.2.3",
            "--mesh kuma --redirect-all-dns-traffic",
            "--mesh ambient --pod-ips 10.1.2.3,fd00::3",
        ] {
            let of = |packet: &str| {
                let request = PageRequest {
                    flags: flags.to_owned(),
                    packet: packet.to_owned(),
                    ..PageRequest::default()
                };
                let answer = answer(&request);
                answer.parts.unwrap_or_else(|| panic!("{flags} {packet}: {:?}", answer.problems)).remove(0)
            };
            let part = of("");
            let lines: Vec<&str> = part.iptables.lines().collect();
            let arrows: Vec<(usize, usize)> = part.arrows.rows.iter().map(|row| row.at).collect();
            assert!(!part.packets.is_empty() && !arrows.is_empty(), "{flags}");
            for packet in &part.packets {
                let again = of(&packet.ask).verdict.unwrap_or_else(|| panic!("{flags} {}", packet.ask));
                // Some entries cover more packets; the offered one is the typical case.
                let is_same = [packet.kind, VerdictKind::Depends].contains(&again.kind);
                assert!(is_same, "{flags} {}: {again:?}", packet.ask);
                assert!(
                    packet.lines.iter().all(|line| matches!(lines[*line].get(..3), Some("-A " | "-I "))),
                    "{flags} {packet:?}"
                );
                assert!(packet.arrow.is_none_or(|at| arrows.contains(&at)), "{flags} {packet:?}");
                requested += packet.lines.len();
            }
        }
        assert!(requested > 50, "{requested} rules are met");
    }

    #[test]
    fn inserted_rules_are_at_their_position_in_the_chain() {
        let text = "# iptables-restore\n* nat\n-N A\n-A OUTPUT -j A\n-I OUTPUT 1 -p udp -j RETURN\n\
                    -I OUTPUT 2 -o lo -j RETURN\n-A A -j RETURN\nCOMMIT\n\
                    # ip6tables-restore\n* nat\n-A OUTPUT -j RETURN\nCOMMIT\n";
        let expected = [
            ((Family::V4, "nat", "A"), vec![6]),
            ((Family::V4, "nat", "OUTPUT"), vec![4, 5, 3]),
            ((Family::V6, "nat", "OUTPUT"), vec![10]),
        ];
        assert_eq!(lines(text), BTreeMap::from(expected));
    }
}
