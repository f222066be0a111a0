//! A request of the page, and all that it shows of it.

use crate::fields::{Field, Told};
use crate::styles::{Span, spans};
use crate::words::Input;
use diagnose::Subject;
use diagnose::explain::{Explanation, PacketQuery, Place, Pod, Scene, explain, matrix, packet, usual_cases};
use diagnose::lint::{Item, Level, items, lint, runs_as_proxy, text};
use diagnose::subject::each;
use mesh::Capture;
use mesh::Problems;
use mesh::preview::{self, Preview};
use mesh::sources::RemoteHost;
use mesh::sources::{Dialect, Reader};
use serde::{Deserialize, Serialize};

/// The content of the fields.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Request {
    pub flags: String,
    pub manifest: String,
    pub packet: String,
}

/// What the page shows.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Answer {
    /// What is wrong with the input.
    pub problems: Told,
    /// What is worth knowing of the input.
    pub notes: Vec<String>,
    /// A part for each pod. None where the input is not understood, the packet aside.
    pub parts: Option<Vec<Part>>,
}

/// The answer about one pod.
#[derive(Clone, Debug, Serialize)]
pub struct Part {
    /// Its kind, namespace and name, where a manifest has them.
    pub title: Option<String>,
    pub notes: Vec<String>,
    /// What becomes of the packet; `None` where there is none, or it is not understood.
    pub verdict: Option<Verdict>,
    /// What is captured and what is not, drawn as SVG, with the packet's way.
    pub picture: String,
    /// All usual packets at a glance, family by family.
    pub usual: Vec<Span>,
    /// The warnings of lint, a line or two each, or that there is none.
    pub lint: Vec<Span>,
    /// The text for iptables-restore and ip6tables-restore.
    pub iptables: String,
    pub nft: String,
}

/// What becomes of a packet.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// Whether a listener gets it; `None` if it is dropped, or its verdict is unknown.
    pub captured: Option<bool>,
    /// The verdict and its reason.
    pub sentence: Vec<Span>,
    /// The packet, and each rule that it meets.
    pub way: Vec<Span>,
}

/// The name of a manifest in messages.
const MANIFEST: &str = "manifest";

pub fn answer(request: &Request) -> Answer {
    let input = Input::read(&[(Field::Flags, &request.flags), (Field::Packet, &request.packet)]);
    let has_manifest = !request.manifest.trim().is_empty();
    let mut answer = Answer { notes: notes(&input, has_manifest), ..Answer::default() };
    for (field, problem) in &input.problems {
        answer.problems.add(*field, problem);
    }
    let raw = input.raw(has_manifest);
    let subjects = match has_manifest {
        true => Subject::of_manifest(&raw, &[], MANIFEST, &request.manifest, RemoteHost::host),
        false => Ok(vec![Subject::of_flags(raw, Vec::new(), RemoteHost::host)]),
    };
    let subjects = match subjects {
        Ok(subjects) => subjects,
        Err(problems) => {
            answer.problems.extend(&problems, has_manifest);
            return answer;
        }
    };
    let prepared = each(&subjects, |subject| prepare(subject, input.has_packet()));
    if let Err(problems) = &prepared {
        answer.problems.extend(problems, has_manifest);
    }
    if !answer.problems.is_of_packet_alone() {
        return answer;
    }
    // A problem with a question is not a reason to show nothing else.
    let prepared = match prepared {
        Ok(prepared) if answer.problems.packet.is_empty() => Ok(prepared),
        Ok(_) | Err(_) => each(&subjects, |subject| prepare(subject, false)),
    };
    let parts = |prepared: Vec<Prepared>| {
        subjects.iter().zip(&prepared).map(|(subject, prepared)| part(subject, prepared)).collect()
    };
    answer.parts = prepared.ok().map(parts);
    answer
}

fn notes(input: &Input, has_manifest: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if !input.without_effect.is_empty() {
        notes.push(format!("without effect here: {}", input.without_effect.join(", ")));
    }
    if has_manifest && input.has_variables() {
        notes.push("variables say nothing of a manifest's pods; use flags".to_owned());
    }
    notes
}

/// A subject that is understood.
struct Prepared {
    capture: Capture,
    pod: Pod,
    packet: Option<PacketQuery>,
    warnings: Vec<String>,
}

fn prepare(subject: &Subject, asks: bool) -> Result<Prepared, Problems> {
    let mut reader = Reader::new(&subject.raw, subject.before.clone());
    let host = subject.host();
    let capture = mesh::configure(&mut reader, &*host, false);
    let pod = Pod::from_settings(&subject.raw, Some(&*capture), Some(&*host));
    let place = Place { pod: &pod, ways: &pod, names: &|_| None };
    let packet = if asks { packet(&mut reader, &place) } else { None };
    let warnings = reader.finish()?;
    Ok(Prepared { capture, pod, packet, warnings })
}

fn part(subject: &Subject, prepared: &Prepared) -> Part {
    let Prepared { capture, pod, packet, warnings } = prepared;
    let mut notes: Vec<String> = subject.assumption().map(str::to_owned).into_iter().collect();
    let remarks = subject.warnings_of_form().iter().filter(|remark| remark.level == Level::Note);
    notes.extend(remarks.map(|remark| remark.text.clone()));
    let iptables = preview::print(&**capture, Preview::Restore);
    notes.extend(iptables.warning.map(str::to_owned));
    let is_captured = |asked: &PacketQuery| capture.families().any(|family| family == asked.packet.family());
    if packet.as_ref().is_some_and(|packet| !is_captured(packet)) {
        notes.push(capture.without_ipv6(&subject.raw, false).why.to_owned());
    }
    // Nothing is captured whatever the settings, and the reason is shown.
    let mut findings = if subject.skip().is_some() { Vec::new() } else { lint(&subject.raw, capture, &[]) };
    findings.extend(runs_as_proxy(subject, capture));
    let mut items = items(subject, warnings, &findings);
    items.retain(Item::is_warning);
    let scene = packet.as_ref().map(|asked| Scene::of_config(&**capture, asked.packet.family(), pod));
    let explained = packet.as_ref().zip(scene.as_ref()).map(|(asked, scene)| {
        let explained = explain(&scene.view, &scene.routing, &asked.packet).calling(&asked.called);
        explained.in_words_of(&subject.dialect()).of_skipped(subject.skip())
    });
    let picture = subject.traffic(capture);
    let picture = match &explained {
        Some(explained) => picture.with_way(explained),
        None => picture,
    };
    Part {
        title: subject.title.clone(),
        notes,
        verdict: explained.as_ref().map(verdict),
        picture: picture.svg(),
        usual: spans(&usual(capture, pod, &subject.dialect())),
        lint: spans(&text(&items, usize::MAX)),
        iptables: iptables.text,
        nft: preview::print(&**capture, Preview::Nft).text,
    }
}

fn verdict(explained: &Explanation<'_>) -> Verdict {
    let text = explained.to_string();
    let (sentence, way) = text.split_once('\n').unwrap_or((&text, ""));
    Verdict { captured: explained.is_captured(), sentence: spans(sentence), way: spans(way.trim_start()) }
}

/// The columns of the table of usual packets: what fits everywhere, as without a terminal.
const COLUMNS: usize = 80;

/// The usual packets of each family that the pod has.
fn usual(capture: &Capture, pod: &Pod, dialect: &Dialect) -> String {
    let cases = usual_cases(pod, pod, Some(&**capture));
    let mut families: Vec<_> = cases.iter().map(|case| case.family).collect();
    families.dedup();
    let scenes: Vec<Scene> =
        families.iter().map(|family| Scene::of_config(&**capture, *family, pod)).collect();
    matrix(&scenes.iter().collect::<Vec<_>>(), &cases, dialect, COLUMNS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(flags: &str, packet: &str) -> Answer {
        let flags = format!("{flags} --pod-ips 10.1.2.3,fd00::3");
        answer(&Request { flags, packet: packet.to_owned(), ..Request::default() })
    }

    /// What becomes of a packet, in a pod of a mesh that is named in one of the fields.
    fn sentence(flags: &str, packet: &str) -> String {
        let answer = asked(flags, packet);
        let parts = answer.parts.unwrap_or_else(|| panic!("{flags}, {packet}: {:?}", answer.problems));
        let verdict = parts[0].verdict.as_ref().expect("it is asked about");
        verdict.sentence.iter().map(|span| span.text.as_str()).collect()
    }

    #[test]
    fn every_mesh_is_asked_in_its_own_words() {
        for (flags, packet, expected) in [
            ("-b 80", "8080", "not captured: "),
            ("--mesh linkerd", "8080", "captured: goes to the proxy's inbound port 4143"),
            ("--mesh linkerd --inbound-ports-to-ignore 4190", "4190", "not captured: "),
            (
                "sidecar-init explain --mesh=kuma",
                "10.0.0.5:443",
                "captured: goes to the proxy's outbound port 15001",
            ),
            ("--exclude-outbound-ports 443", "10.0.0.5:443 --mesh kuma", "not captured: "),
            (
                "AMBIENT_DNS_CAPTURE=false sidecar-init apply --mesh ambient",
                "10.0.0.5:53",
                "captured: goes to the proxy's outbound",
            ),
            ("--mesh ambient", "10.0.0.5:443 --as proxy", "not captured: "),
        ] {
            let text = sentence(flags, packet);
            assert!(text.starts_with(expected), "{flags}, {packet}: {text}");
        }
    }

    #[test]
    fn what_another_mesh_says_is_told_as_such() {
        let faults = |flags| asked(flags, "8080").problems.flags;
        assert_eq!(
            faults("--mesh linkerd -b 80"),
            ["-b: is a flag of istio; for linkerd use --ports-to-redirect"]
        );
        assert_eq!(
            faults("--inbound-ports-to-ignore 80"),
            ["--inbound-ports-to-ignore: is a flag of linkerd; add --mesh linkerd"]
        );
        let misspelt = "--mesh: \"ambiant\" is not a mesh; did you mean ambient? expected istio, linkerd, kuma or ambient";
        assert_eq!(faults("--mesh ambiant --ingress"), [misspelt]);
    }

    #[test]
    fn findings_are_warnings_and_without_any_a_line_says_so() {
        let shown = |manifest: &str| {
            let request =
                Request { manifest: manifest.to_owned(), flags: String::new(), packet: String::new() };
            let part = answer(&request).parts.expect("it is understood").remove(0);
            (part.lint.iter().map(|span| span.text.as_str()).collect::<String>(), part.notes)
        };
        let pod = |container: &str| {
            format!(
                "apiVersion: v1\nkind: Pod\nmetadata: {{name: web}}\nspec: {{containers: [{{name: web, {container}}}]}}\n"
            )
        };
        let (lint, notes) = shown(&pod("image: web"));
        assert_eq!(lint, "No findings\n");
        assert!(notes.iter().any(|note| note.starts_with("nothing of it is captured yet")), "{notes:?}");
        let (lint, _) = shown(&pod("securityContext: {runAsUser: 1337}"));
        assert!(lint.starts_with("warning  SI028 runAsUser: container web runs as user 1337"), "{lint}");
        assert_eq!(lint.lines().count(), 2, "{lint}");
    }
}
