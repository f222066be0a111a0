//! The built-in templates, the whole way.

use injection::configuration::{Configuration, Text, Texts};
use injection::template::Template;
use injection::{Around, Outcome, inject};
use serde_json::json;

/// The whole way, where the injected pod is read once more as everybody reads it.
#[test]
fn each_built_in_template_injects_a_pod() {
    for (name, _) in Template::built_in() {
        for cni in [false, true] {
            let values = json!({
                "linkerd": {"identityTrustAnchorsPEM": "PEM"}, "pilot": {"cni": {"enabled": cni}},
            })
            .to_string();
            let texts = Texts { values: Some(Text { name: "values", text: &values }), ..Texts::default() };
            let configuration = Configuration::read(&texts).expect("a configuration");
            let pod = json!({
                "metadata": {"annotations": {
                    "inject.istio.io/templates": name, "sidecar.istio.io/inject": "true",
                }},
                "spec": {"containers": [{"name": "web"}, {"name": "helper"}]},
            });
            let outcome = inject(&pod, &Around::default(), &configuration).unwrap_or_else(|problems| {
                panic!("{name}, plugin {cni}: {problems}");
            });
            let Outcome::Injected(injected) = outcome else { panic!("{name} is skipped") };
            assert_eq!(injected.pod["spec"]["initContainers"].as_array().map(Vec::len), Some(1), "{name}");
            assert_eq!(injected.pod["spec"]["containers"].as_array().map(Vec::len), Some(3), "{name}");
        }
    }
}
