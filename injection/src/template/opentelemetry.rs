//! What OpenTelemetry calls a pod's service: the resource attributes that a proxy adds to its spans where the mesh asks for
//! them (`serviceAttributeEnrichment`). The name of the service is not among them; the control plane tells that itself.

use crate::configuration::Mesh;

/// The value of `serviceAttributeEnrichment` that asks for them.
pub(super) const CONVENTIONS: &str = "OTEL_SEMANTIC_CONVENTIONS";
/// The variable that holds the pod's own id: what tells instances apart where no annotation does.
const POD_UID: &str = "$(POD_UID)";

/// Whether one of the mesh's tracing providers asks for them.
pub(super) fn asked(mesh: &Mesh) -> bool {
    let providers = mesh.raw.get("extensionProviders").and_then(|providers| providers.as_array());
    let mut providers = providers.into_iter().flatten();
    providers.any(|provider| {
        provider
            .pointer("/opentelemetry/serviceAttributeEnrichment")
            .is_some_and(|value| value == CONVENTIONS)
    })
}

/// The text of `OTEL_RESOURCE_ATTRIBUTES`: by annotations `resource.opentelemetry.io/`, else by what Kubernetes knows. What is
/// empty says nothing.
pub(super) fn attributes(
    annotation: impl Fn(&str) -> Option<String>,
    label: impl Fn(&str) -> Option<String>,
    namespace: &str,
) -> String {
    let by_pod = [
        ("service.namespace", Some(namespace.to_owned())),
        ("service.version", label("app.kubernetes.io/version")),
        ("service.instance.id", Some(POD_UID.to_owned())),
    ];
    let set = |text: &String| !text.is_empty();
    let known = by_pod.into_iter().filter_map(|(name, otherwise)| {
        let said = annotation(&format!("resource.opentelemetry.io/{name}")).filter(set);
        said.or(otherwise.filter(set)).map(|value| format!("{name}={value}"))
    });
    known.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(annotations: &[(&str, &str)], labels: &[(&str, &str)], namespace: &str, expected: &str) {
        let said = |pairs: &[(&str, &str)], name: &str| {
            pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let found = attributes(|name| said(annotations, name), |name| said(labels, name), namespace);
        assert_eq!(found, expected, "{annotations:?} {labels:?}");
    }

    #[test]
    fn annotations_win_over_what_kubernetes_knows() {
        const VERSION: (&str, &str) = ("app.kubernetes.io/version", "1.2");
        let instance = "service.instance.id=$(POD_UID)";
        check(&[], &[], "", instance);
        check(&[], &[], "shop", &format!("service.namespace=shop,{instance}"));
        check(&[], &[VERSION], "shop", &format!("service.namespace=shop,service.version=1.2,{instance}"));
        let said = [
            ("resource.opentelemetry.io/service.namespace", "all"),
            ("resource.opentelemetry.io/service.version", "2"),
            ("resource.opentelemetry.io/service.instance.id", "one"),
        ];
        let expected = "service.namespace=all,service.version=2,service.instance.id=one";
        check(&said, &[VERSION], "shop", expected);
        check(&[(said[1].0, "")], &[VERSION], "", &format!("service.version=1.2,{instance}"));
    }
}
