//! Resource attributes of OpenTelemetry for a pod's service, which a proxy adds to its spans where the mesh asks for them
//! (`serviceAttributeEnrichment`). The name of the service is not among them; the control plane sets that itself.

use crate::mesh_config::MeshConfig;
use crate::sidecar::PROXY;

/// The value of `serviceAttributeEnrichment` that asks for them.
pub(super) const CONVENTIONS: &str = "OTEL_SEMANTIC_CONVENTIONS";
const POD_NAME: &str = "$(POD_NAME)";

pub(super) fn is_requested(mesh: &MeshConfig) -> bool {
    let providers = mesh.raw.get("extensionProviders").and_then(|providers| providers.as_array());
    let mut providers = providers.into_iter().flatten();
    providers.any(|provider| {
        provider
            .pointer("/opentelemetry/serviceAttributeEnrichment")
            .is_some_and(|value| value == CONVENTIONS)
    })
}

/// The text of `OTEL_RESOURCE_ATTRIBUTES`: by annotations `resource.opentelemetry.io/`, else by what Kubernetes knows. An
/// attribute without a value is left out. `containers` are names and images; the proxy's own does not count.
pub(super) fn attributes(
    annotation: impl Fn(&str) -> Option<String>,
    label: impl Fn(&str) -> Option<String>,
    namespace: &str,
    containers: &[(String, String)],
) -> String {
    let mut own = containers.iter().filter(|(name, _)| name != PROXY);
    // Of several, it is unknown which one a span is about.
    let single = own.next().filter(|_| own.next().is_none());
    let set = |text: &String| !text.is_empty();
    let version = label("app.kubernetes.io/version").filter(set);
    let parts = [Some(namespace), Some(POD_NAME), single.map(|(name, _)| name.as_str())];
    let parts: Vec<&str> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    let by_pod = [
        ("service.namespace", Some(namespace.to_owned())),
        ("service.version", version.or_else(|| Some(version_of(&single?.1).to_owned()))),
        ("service.instance.id", Some(parts.join("."))),
    ];
    let known = by_pod.into_iter().filter_map(|(name, otherwise)| {
        let annotated = annotation(&format!("resource.opentelemetry.io/{name}")).filter(set);
        annotated.or(otherwise.filter(set)).map(|value| format!("{name}={value}"))
    });
    known.collect::<Vec<_>>().join(",")
}

/// The tag of an image, else its digest; empty where it has neither.
fn version_of(image: &str) -> &str {
    let (name, digest) = image.split_once('@').unwrap_or((image, ""));
    let last = name.rsplit_once('/').map_or(name, |(_, last)| last);
    last.split_once(':').map_or(digest, |(_, tag)| tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(
        annotations: &[(&str, &str)],
        labels: &[(&str, &str)],
        namespace: &str,
        containers: &[(&str, &str)],
        expected: &str,
    ) {
        let given = |pairs: &[(&str, &str)], name: &str| {
            pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let containers: Vec<(String, String)> =
            containers.iter().map(|(name, image)| ((*name).to_owned(), (*image).to_owned())).collect();
        let found =
            attributes(|name| given(annotations, name), |name| given(labels, name), namespace, &containers);
        assert_eq!(found, expected, "{annotations:?} {labels:?} {containers:?}");
    }

    #[test]
    fn annotations_win_over_what_kubernetes_knows() {
        const VERSION: (&str, &str) = ("app.kubernetes.io/version", "1.2");
        let web = [("web", "host:5000/shop/web")];
        let all = "service.namespace=shop,service.version=1.2,service.instance.id=shop.$(POD_NAME).web";
        check(&[], &[], "", &web, "service.instance.id=$(POD_NAME).web");
        check(&[], &[], "shop", &web, "service.namespace=shop,service.instance.id=shop.$(POD_NAME).web");
        check(&[], &[VERSION], "shop", &web, all);
        check(&[], &[VERSION], "shop", &[web[0], ("istio-proxy", "auto")], all);
        let given = [
            ("resource.opentelemetry.io/service.namespace", "all"),
            ("resource.opentelemetry.io/service.version", "2"),
            ("resource.opentelemetry.io/service.instance.id", "one"),
        ];
        let expected = "service.namespace=all,service.version=2,service.instance.id=one";
        check(&given, &[VERSION], "shop", &web, expected);
        check(&[(given[1].0, "")], &[VERSION], "shop", &web, all);
    }

    #[test]
    fn the_image_of_a_single_container_tells_the_version() {
        let rows = [
            ("web:1.0", "service.version=1.0,"),
            ("host:5000/web:1.0@sha256:ab", "service.version=1.0,"),
            ("host:5000/web@sha256:ab", "service.version=sha256:ab,"),
            ("host:5000/web", ""),
            ("", ""),
        ];
        for (image, version) in rows {
            let expected = format!("{version}service.instance.id=$(POD_NAME).web");
            check(&[], &[], "", &[("web", image)], &expected);
        }
        check(&[], &[], "", &[("web", "web:1"), ("log", "log:2")], "service.instance.id=$(POD_NAME)");
        check(&[], &[], "shop", &[], "service.namespace=shop,service.instance.id=shop.$(POD_NAME)");
    }
}
