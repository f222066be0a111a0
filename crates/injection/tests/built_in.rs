//! Patches and errors of the built-in templates for the cases of `built_in.txt`, whose results `UPDATE_GOLDENS=1` writes.

use crate::support::{find, read};
use injection::configuration::Configuration;
use injection::sidecar::Sidecar;
use injection::template::{BuiltIn, InjectionTemplate, TemplateContext};
use injection::{AdmissionContext, InjectionOutcome, inject};
use mesh::Problems;
use mesh::pod::values;
use serde_json::{Value, json};

fn answered(case: &str) -> String {
    let case = values("case", case).expect("YAML").remove(0);
    match render(&case) {
        Ok(patch) => {
            let paths = case["show"].as_array().expect("paths").iter().filter_map(Value::as_str);
            paths.map(|path| format!("{path}: {}\n", find(&patch, path))).collect()
        }
        Err(problems) => format!("{problems}\n"),
    }
}

fn render(case: &Value) -> Result<Value, Problems> {
    let pod = json!({
        "metadata": {"annotations": case["annotations"]}, "spec": {"containers": [{"name": "web"}]},
    });
    let Configuration { values, mesh, .. } = &read("", &case["values"].to_string(), "")?;
    let admission = &AdmissionContext::default();
    let mut sidecar = Sidecar::of(&pod, admission, values, mesh)?;
    let known = BuiltIn::ALL.into_iter().find(|known| case["template"] == known.name());
    let template = InjectionTemplate::BuiltIn(known.expect("a template"));
    template.adapt(&mut sidecar);
    let context = TemplateContext { pod: &pod, admission, sidecar: &sidecar, values, mesh };
    template.render(&context, &mut Vec::new())
}

#[test]
fn built_in_templates_match_their_cases() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/built_in.txt");
    testkit::sections::answers(file, ", made", answered);
}

/// The complete injection, including the validation of the injected pod.
#[test]
fn each_built_in_template_injects_a_pod() {
    for name in BuiltIn::ALL.map(BuiltIn::name) {
        for cni in [false, true] {
            let values = json!({
                "linkerd": {"identityTrustAnchorsPEM": "PEM"}, "pilot": {"cni": {"enabled": cni}},
            });
            let configuration = read("", &values.to_string(), "").expect("a configuration");
            let pod = json!({
                "metadata": {"annotations": {
                    "inject.istio.io/templates": name, "sidecar.istio.io/inject": "true",
                }},
                "spec": {"containers": [{"name": "web"}, {"name": "helper"}]},
            });
            let outcome =
                inject(&pod, &AdmissionContext::default(), &configuration).unwrap_or_else(|problems| {
                    panic!("{name}, plugin {cni}: {problems}");
                });
            let InjectionOutcome::Injected(injected) = outcome else { panic!("{name} is skipped") };
            assert_eq!(injected.pod["spec"]["initContainers"].as_array().map(Vec::len), Some(1), "{name}");
            assert_eq!(injected.pod["spec"]["containers"].as_array().map(Vec::len), Some(3), "{name}");
        }
    }
}

#[test]
fn each_built_in_template_is_documented() {
    let document = include_str!("../../../docs/templates.md");
    for name in BuiltIn::ALL.map(BuiltIn::name) {
        assert!(document.contains(&format!("\n| `{name}` | ")), "{name}");
    }
}
