//! Trial injections with the templates of a loaded configuration.

use crate::support::read;
use injection::configuration::Configuration;
use injection::trial::{TemplateTrial, trial};
use injection::{AdmissionContext, inject};
use serde_json::json;

fn configured(config: &str) -> Result<Configuration, String> {
    read(config, "", "").map_err(|problems| problems.to_string())
}

fn tried(config: &str) -> Vec<TemplateTrial> {
    trial(&configured(config).expect("a configuration"))
}

fn shown(trials: &[TemplateTrial]) -> Vec<String> {
    let of_one = |trial: &TemplateTrial| {
        let who =
            if trial.is_default { format!("{} (default)", trial.template) } else { trial.template.clone() };
        let problems = trial.problems.iter().map(ToString::to_string);
        problems.chain(trial.warnings.clone()).map(|what| format!("{who}: {what}")).collect::<Vec<_>>()
    };
    trials.iter().flat_map(of_one).collect()
}

#[test]
fn templates_are_tried_with_plain_pods() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/go_template/trial.txt");
    testkit::sections::answers(file, ", tried", |config| {
        shown(&tried(config)).iter().map(|line| format!("{line}\n")).collect()
    });
}

/// A non-default template refuses only pods that name it.
#[test]
fn an_unused_invalid_template_has_no_effect() {
    let broken = "policy: enabled\ntemplates:\n  sidecar: '{}'\n  other: '{{ if }}'\n";
    let configuration = configured(broken).expect("a configuration");
    assert!(
        configuration.warnings[0].ends_with("; pods that name it are refused"),
        "{:?}",
        configuration.warnings
    );
    let pod = |templates: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "a", "annotations": {"inject.istio.io/templates": templates}},
            "spec": {"containers": [{"name": "a", "image": "a"}]},
        })
    };
    assert!(inject(&pod("sidecar"), &AdmissionContext::default(), &configuration).is_ok());
    let refused = inject(&pod("other"), &AdmissionContext::default(), &configuration)
        .expect_err("no template")
        .to_string();
    assert!(refused.contains("templates.other: line 1: "), "{refused}");
    let [other, sidecar] = trial(&configuration).try_into().expect("both");
    assert!(other.template == "other" && !other.is_default && other.problems.len() == 1, "{other:?}");
    assert_eq!(sidecar.problems, []);
    let shown = configured(&broken.replace("'{}'", "'{{ end }}'")).expect_err("the default one");
    assert!(shown.contains("templates.sidecar: line 1: "), "{shown}");
}

/// Istio's own templates write a volume's name, and then all fields of the annotation.
#[test]
fn duplicate_keys_of_a_template_are_warnings() {
    let template = "spec:\n  volumes:\n  {{ range $index, $value := fromJSON (index .ObjectMeta.Annotations `volumes`) }}\n  \
                    - name: \"{{ $index }}\"\n    {{ toYaml $value | indent 4 }}\n  {{ end }}";
    let config = format!("policy: enabled\ntemplates:\n  sidecar: {}\n", json!(template));
    let configuration = configured(&config).expect("a configuration");
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "a", "annotations": {"volumes": "[{\"name\": \"cache\", \"emptyDir\": {}}]"}},
        "spec": {"containers": [{"name": "a", "image": "a"}]},
    });
    let outcome = inject(&pod, &AdmissionContext::default(), &configuration).expect("injected");
    let injection::InjectionOutcome::Injected(injected) = outcome else { panic!("skipped") };
    assert_eq!(injected.pod["spec"]["volumes"], json!([{"name": "cache", "emptyDir": {}}]));
    let expected = "in its output, the key \"name\" appears at line 4, column 5 and at line 6, column 5; the later one wins";
    assert!(injected.warnings.iter().any(|warning| warning.ends_with(expected)), "{:?}", injected.warnings);
}
