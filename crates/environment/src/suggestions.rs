//! Near misses: labels, annotations and kinds that would be ignored silently. Findings are only warnings: a word that resembles a
//! known one may be intended.

use crate::inventory::{GATEWAYS, HOSTS, Labels};
use crate::resource::{GROUP, KIND, VERSION};
use crate::rule::RULE;
use mesh::settings::nearest_value;
use serde_json::Value;

const ANNOTATIONS: [&str; 3] = [GATEWAYS, HOSTS, RULE];
const PREFIX: &str = "kt-virtual-environment/";

const KINDS: [(&str, &str); 4] =
    [(KIND, GROUP), ("Service", ""), ("Deployment", "apps"), ("StatefulSet", "apps")];

fn closest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    nearest_value(word, known).filter(|known| *known != word)
}

pub(crate) fn label<'a>(labels: &'a Labels, target: &str) -> Option<&'a str> {
    labels.keys().map(String::as_str).find(|label| closest(label, &[target]).is_some())
}

pub(crate) fn annotations(title: &str, object: &Value) -> Vec<String> {
    let fields = object.pointer("/metadata/annotations").and_then(Value::as_object).into_iter().flatten();
    let unknown = fields.map(|(name, _)| name.as_str()).filter(|name| !ANNOTATIONS.contains(name));
    let notes = unknown.filter_map(|name| {
        let remedy = match closest(name, &ANNOTATIONS) {
            Some(known) => format!("did you mean {known}?"),
            None if name.starts_with(PREFIX) => format!("expected one of {}", ANNOTATIONS.join(", ")),
            None => return None,
        };
        Some(format!("{title}, annotation {name}: it is unknown and has no effect; {remedy}"))
    });
    notes.collect()
}

pub fn passed_over(object: &Value) -> Option<String> {
    let (kind, version) = (object["kind"].as_str()?, object["apiVersion"].as_str().unwrap_or_default());
    if let Some(known) = closest(kind, &KINDS.map(|(known, _)| known)) {
        return Some(format!("the kind {kind} is unknown and ignored; did you mean {known}?"));
    }
    let (_, group) = KINDS.into_iter().find(|(known, _)| *known == kind)?;
    let expected = match group {
        // Other groups, such as Knative's, also have a kind Service.
        "" if version.contains('/') => return None,
        "" => "v1".to_owned(),
        GROUP => format!("{GROUP}/{VERSION}"),
        _ => format!("{group}/v1"),
    };
    let is_read = version == expected || (!group.is_empty() && version.starts_with(&format!("{group}/")));
    (!is_read).then(|| format!("a {kind} of apiVersion {version:?} is ignored; expected {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn labels_that_are_nearly_the_requested_one() {
        let found = |name: &str, target: &str| {
            let labels =
                Labels::from([("app".to_owned(), "cart".to_owned()), (name.to_owned(), "dev".to_owned())]);
            label(&labels, target).map(str::to_owned)
        };
        for name in ["virtual-evn", "virtual_env", "Virtual-Env", "virtualenv", "virtual-envs"] {
            assert_eq!(found(name, "virtual-env").as_deref(), Some(name));
        }
        for (name, target) in [
            ("version", "virtual-env"),
            ("team-env", "virtual-env"),
            ("app", "env"),
            ("dev", "env"),
            ("tier", "team"),
        ] {
            assert_eq!(found(name, target), None, "{name} {target}");
        }
    }

    #[test]
    fn annotations_without_effect() {
        let shown = |name: &str| {
            annotations("Service a/b", &json!({"metadata": {"annotations": {name: "x"}}})).join("\n")
        };
        assert_eq!(
            shown("kt-virtual-environment/gatewayz"),
            "Service a/b, annotation kt-virtual-environment/gatewayz: it is unknown and has no effect; did you mean kt-virtual-environment/gateways?"
        );
        assert!(shown("kt-virtual-enviroment/rule").ends_with("did you mean kt-virtual-environment/rule?"));
        assert!(
            shown("kt-virtual-environment/timeout")
                .contains("expected one of kt-virtual-environment/gateways, ")
        );
        for name in ANNOTATIONS.into_iter().chain(["example.com/rule", "rule"]) {
            assert_eq!(shown(name), "");
        }
    }

    #[test]
    fn kinds_that_are_passed_over() {
        let shown = |version: &str, kind: &str| passed_over(&json!({"apiVersion": version, "kind": kind}));
        for (version, kind, expected) in [
            ("apps/v1", "Deploymnet", "did you mean Deployment?"),
            ("apps/v1", "Statefulset", "did you mean StatefulSet?"),
            ("v1", "Services", "did you mean Service?"),
            ("env.alibaba.com/v1alpha2", "VirtualEnviroment", "did you mean VirtualEnvironment?"),
            ("v1", "Deployment", "expected apps/v1"),
            ("extensions/v1beta1", "Deployment", "expected apps/v1"),
            ("v2", "Service", "expected v1"),
            ("env.example.com/v1", "VirtualEnvironment", "expected env.alibaba.com/v1alpha2"),
        ] {
            assert!(shown(version, kind).is_some_and(|text| text.ends_with(expected)), "{version} {kind}");
        }
        for (version, kind) in [
            ("apps/v1", "DaemonSet"),
            ("apps/v1", "ReplicaSet"),
            ("apps/v1beta2", "Deployment"),
            ("v1", "ServiceAccount"),
            ("v1", "Secret"),
            ("v1", "Service"),
            ("serving.knative.dev/v1", "Service"),
            ("networking.istio.io/v1", "VirtualService"),
            ("networking.istio.io/v1", "ServiceEntry"),
        ] {
            assert_eq!(shown(version, kind), None, "{version} {kind}");
        }
    }
}
