//! Reviews give the same result as injecting the whole pod, although the server skips long variable lists if possible.

use super::cases::Case;
use super::laws::entangled;
use crate::support::{read, rfc6902::apply};
use data_encoding::BASE64;
use injection::review::{
    Answer, Cancellation, ReviewOutcome as Answered, UnknownCluster, WebhookCall, answer,
};
use injection::{AdmissionContext, Configuration, InjectionOutcome, Namespace, inject};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::LazyLock;
use testkit::scope;

/// More variables than a review always reads.
const MANY: usize = 40;

/// Templates that read the application's variables, print whole containers, and change them.
const CURIOUS: [&str; 7] = [
    "metadata: {annotations: {count: '{{ range .Spec.Containers }}{{ len .Env }},{{ end }}'}}",
    "metadata: {annotations: {first: '{{ range .Spec.Containers }}{{ range .Env }}{{ .Name }}{{ end }}{{ end }}'}}",
    "metadata: {annotations: {is: '{{ range .Spec.Containers }}{{ if .Env }}some{{ else }}none{{ end }}{{ end }}'}}",
    "metadata: {annotations: {all: {{ toJSON .Spec.Containers | quote }}}}",
    "metadata: {annotations: {all: {{ printf \"%v\" (index .Spec.Containers 0) | b64enc | quote }}}}",
    "spec: {containers: [{name: app, env: [{name: V1, value: mine}, {name: NEW, value: x}]}]}",
    "spec: {containers: [{name: app, image: other}, {$patch: delete, name: a}]}",
];

static CONFIGURATIONS: LazyLock<Vec<Configuration>> = LazyLock::new(|| {
    let of_template = |template: &str| {
        let config = json!({ "policy": "enabled", "defaultTemplates": ["curious"], "templates": { "curious": template } });
        read(&config.to_string(), "", "").unwrap_or_else(|problems| panic!("{template}: {problems}"))
    };
    let of_cases = Case::all().iter().map(|case| case.setup().configuration.clone());
    CURIOUS.into_iter().map(of_template).chain(of_cases).collect()
});

fn stretch(pod: &mut Value, stretched: &[bool]) {
    let lists = ["containers", "initContainers"].map(|list| pod["spec"][list].as_array().map_or(0, Vec::len));
    let places =
        (0..lists[0]).map(|at| ("containers", at)).chain((0..lists[1]).map(|at| ("initContainers", at)));
    for ((list, at), _) in places.zip(stretched.iter().cycle()).filter(|(_, stretched)| **stretched) {
        let variables = &mut pod["spec"][list][at]["env"];
        if !variables.is_array() {
            *variables = json!([]);
        }
        let more = (0..MANY).map(|number| json!({ "name": format!("V{number}"), "value": "a: b" }));
        variables.as_array_mut().expect("a list").extend(more);
    }
}

fn answered(pod: &Value, configuration: &Configuration) -> Answer {
    let review = json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": { "uid": "u", "namespace": "shop", "object": pod } });
    let body = review.to_string();
    let call = WebhookCall {
        method: "POST",
        path: "/inject",
        content_type: Some("application/json"),
        body: body.as_bytes(),
        cancellation: Cancellation::default(),
    };
    answer(&call, configuration, &UnknownCluster)
}

fn check(pod: &Value, configuration: &Configuration) {
    let namespace = Namespace { name: "shop".to_owned(), ..Namespace::default() };
    let whole = inject(pod, &AdmissionContext { namespace, ..AdmissionContext::default() }, configuration);
    let answer = answered(pod, configuration);
    let given: Value = serde_json::from_slice(&answer.body).expect("JSON");
    match whole {
        Ok(InjectionOutcome::Injected(injected)) => {
            let patch = given["response"]["patch"].as_str().unwrap_or_else(|| panic!("{pod}: {given}"));
            let patch =
                serde_json::from_slice(&BASE64.decode(patch.as_bytes()).expect("base64")).expect("JSON");
            assert_eq!(apply(pod, &patch), Ok(injected.pod), "{pod}");
            assert_eq!(answer.report.warnings, injected.warnings, "{pod}");
        }
        Ok(InjectionOutcome::Skipped(_)) => assert_eq!(answer.report.outcome, Answered::Skipped, "{pod}"),
        Err(problems) => {
            assert_eq!(answer.report.outcome, Answered::Refused, "{pod}");
            let shown = problems.joined();
            assert!(answer.report.reason.ends_with(&shown), "{pod}: {} {shown}", answer.report.reason);
        }
    }
}

#[test]
fn templates_can_read_and_change_unread_variables() {
    let mut pod = json!({ "metadata": { "name": "web" }, "spec": { "containers": [
        { "name": "app", "image": "example/app:1" }, { "name": "a" }] } });
    stretch(&mut pod, &[true]);
    for configuration in CONFIGURATIONS.iter() {
        check(&pod, configuration);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scope::runs(400, 64), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn answers_do_not_depend_on_unread_variables(
        pod in entangled(),
        stretched in prop::collection::vec(any::<bool>(), 1..4),
        at in any::<prop::sample::Index>(),
    ) {
        let mut pod = pod;
        stretch(&mut pod, &stretched);
        check(&pod, at.get(&CONFIGURATIONS));
    }
}
