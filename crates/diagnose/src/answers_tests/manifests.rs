//! Answers about the pods of a manifest, with flags that override their settings.

use super::{WIDTH, check, raw};
use crate::explain::PodContext;
use crate::finding::reports;
use crate::lint::annotate::{FindingLocation, github, sarif, sarif_results};
use crate::lint::{self, of_subject};
use crate::subject::each;
use crate::{Subject, compare, painted, plain};
use mesh::settings::Setting;
use mesh::sources::{NullHost, Raw};
use std::fmt::Write;

const MANIFEST: &str = r#"apiVersion: v1
kind: Pod
metadata:
  name: web
  namespace: shop
  annotations:
    traffic.sidecar.istio.io/includeInboundPorts: "80,8080"
    traffic.sidecar.istio.io/excludeInboundPorts: "9090"
spec:
  securityContext: { runAsUser: 1337 }
  containers:
  - name: app
    image: app
  - name: other
    image: other
    securityContext: { runAsUser: 1000, runAsGroup: 1337 }
---
apiVersion: v1
kind: Pod
metadata: { name: node, namespace: shop }
spec:
  hostNetwork: true
  containers:
  - name: app
    image: app
    securityContext: { runAsUser: 1337 }
---
apiVersion: apps/v1
kind: Deployment
metadata: { name: cart, namespace: shop }
spec:
  template:
    metadata:
      annotations:
        traffic.sidecar.istio.io/excludeOutboundIPRanges: 10.0.0.0/8,10.1.0.0/16
        traffic.sidecar.istio.io/includeOutboundIPRange: 10.0.0.0/8
    spec:
      containers:
      - name: app
        image: app
---
apiVersion: v1
kind: Pod
metadata:
  name: linked
  namespace: shop
  annotations:
    linkerd.io/inject: enabled
    config.linkerd.io/skip-inbound-ports: "22"
spec:
  containers:
  - name: app
    image: app
    securityContext: { runAsUser: 2102, runAsGroup: 2102 }
  - name: other
    image: other
    securityContext: { runAsUser: 1337 }
---
apiVersion: v1
kind: Pod
metadata:
  name: wrong
  namespace: shop
  annotations:
    traffic.sidecar.istio.io/includeInboundPorts: "80,http"
    traffic.sidecar.istio.io/interceptionMode: SOMETIMES
spec:
  containers:
  - name: app
    image: app
"#;

const FLAGS: &[&[(Setting, &str)]] = &[
    &[],
    &[(Setting::PodIps, "10.1.0.9"), (Setting::OutboundPortsExclude, "22")],
    &[(Setting::NetworkNamespace, "web"), (Setting::InterceptionMode, "NONE")],
    &[(Setting::ServiceCidr, "")],
];

fn subjects(flags: &[(Setting, &str)], manifest: &str) -> Vec<Subject> {
    let raw = raw(flags);
    Subject::of_manifest(&raw, &[], "shop.yaml", manifest, |_| Box::new(NullHost)).expect("a manifest")
}

fn answer(subject: &Subject) -> String {
    let mut text = String::new();
    let basis = subject.described().expect("a pod");
    let report = serde_json::to_string(&basis.report()).expect("JSON");
    let _ = writeln!(text, "{}{} {report}", plain(&basis.line(WIDTH)), basis.name());
    let _ = writeln!(text, "namespace: {:?}", subject.namespace());
    let _ = writeln!(text, "assumed: {:?}", subject.assumption());
    let _ = writeln!(text, "skipped: {:?}", subject.skip().map(ToString::to_string));
    let applications = subject.applications().iter().map(|one| &one.container).collect::<Vec<_>>();
    let _ = writeln!(text, "applications: {applications:?}");
    let resolved = match mesh::resolve(&subject.raw, &*subject.host(), subject.before.clone()) {
        Ok(resolved) => resolved,
        Err(problems) => return text + &problems.to_string() + "\n",
    };
    let pod = PodContext::from_settings(&subject.raw, Some(&*resolved.capture), Some(&*subject.host()));
    text += &plain(&subject.traffic(&resolved.capture, &pod).summary().text(WIDTH));
    let mut findings = lint::lint(&subject.raw, &resolved.capture, &[]);
    findings.extend(of_subject(subject, &resolved.capture));
    let findings: Vec<_> = findings.into_iter().map(|finding| subject.dialect().name_in(finding)).collect();
    let items = reports(&lint::all(subject, &resolved.warnings, findings));
    text += &plain(&lint::text(&items, WIDTH));
    let (place, title) = (subject.place.as_ref(), subject.title.as_deref());
    let place = FindingLocation { file: Some("a b/shop.yaml"), place, title };
    text += &github(&items, &place);
    text += &sarif(&sarif_results(&items, &place), "0.1.0");
    text += "\n";
    let place = FindingLocation::default();
    text += &github(&items[..items.len().min(1)], &place);
    text += &sarif(&sarif_results(&items[..items.len().min(1)], &place), "0.1.0");
    text + "\n"
}

#[test]
fn pods_of_a_manifest_are_answered_one_by_one() {
    let mut text = String::new();
    for flags in FLAGS {
        for subject in subjects(flags, MANIFEST) {
            let names: Vec<&str> = flags.iter().map(|(setting, _)| setting.row().name()).collect();
            let _ = writeln!(
                text,
                "==== {} {names:?}\n{}",
                subject.title.as_ref().expect("a name"),
                answer(&subject)
            );
        }
    }
    check("manifests.txt", &text);
}

#[test]
fn invalid_manifests_are_refused() {
    for text in ["- a", "kind: Service\napiVersion: v1\nmetadata: {name: web}\n", "a: [", ""] {
        let of_manifest =
            Subject::of_manifest(&Raw::default(), &[], "shop.yaml", text, |_| Box::new(NullHost));
        assert!(of_manifest.is_err(), "{text}");
    }
}

#[test]
fn problems_of_all_pods_are_reported_at_once_and_those_of_flags_once() {
    let subjects = subjects(&[(Setting::ProxyUid, "x")], MANIFEST);
    let resolved =
        |subject: &Subject| mesh::resolve(&subject.raw, &*subject.host(), subject.before.clone()).map(|_| ());
    let problems = each(&subjects[..3], resolved).expect_err("--proxy-uid is wrong");
    assert_eq!(problems.0.len(), 1, "{problems}");
    let all = each(&subjects, resolved).expect_err("the last pod is wrong, too");
    let names: Vec<&str> = all.0.iter().map(|problem| problem.name.as_str()).collect();
    let of_pod = "shop.yaml:65: Pod shop/wrong: traffic.sidecar.istio.io/includeInboundPorts";
    // Linkerd's rule for a user has another wording.
    assert_eq!(names, ["--proxy-uid", "--proxy-uid", of_pod]);
    let none = each(&subjects[..3], |subject| Ok(subject.title.clone())).expect("nothing is wrong");
    assert_eq!(none, subjects[..3].iter().map(|subject| subject.title.clone()).collect::<Vec<_>>());
}

#[test]
fn an_excluded_pod_is_compared_as_one_without_rules() {
    let subjects = subjects(&[], MANIFEST);
    let side = |subject: &Subject, pod: &crate::explain::PodContext| {
        let resolved = mesh::resolve(&subject.raw, &*subject.host(), subject.before.clone());
        let resolved = resolved.expect("valid");
        compare::ComparedSide::of_subject(subject, &resolved.capture, pod)
    };
    let pod = compare::pod(&[]);
    let [web, node] = [0, 1].map(|at| side(&subjects[at], &pod));
    let mut text = String::new();
    for (before, after) in [(&web, &node), (&node, &web), (&node, &node)] {
        let compared = compare::compare(before, after, &pod);
        text += &plain(&painted(&compared.lines(), WIDTH));
        for change in &compared.changes {
            let _ = writeln!(text, "{:?}\n{:?}", change.before, change.after);
        }
        text += "--\n";
    }
    check("never-captured.txt", &text);
}
