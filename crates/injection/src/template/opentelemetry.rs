//! OpenTelemetry resource attributes for a pod's service, which a proxy adds to its spans if the mesh enables them
//! (`serviceAttributeEnrichment`). The control plane itself sets the service's name.

use serde_json::Value;

/// The value of `OTEL_RESOURCE_ATTRIBUTES`: from annotations `resource.opentelemetry.io/`, else from the pod's other fields.
/// Attributes without a value are left out. `None` if no provider of the MeshConfig enables them.
pub(super) fn attributes(
    mesh: &Value,
    [annotations, labels]: [&Value; 2],
    namespace: &str,
    containers: &Value,
) -> Option<String> {
    let mut providers = mesh["extensionProviders"].as_array().into_iter().flatten();
    let asks = |provider: &&Value| {
        provider["opentelemetry"]["serviceAttributeEnrichment"] == "OTEL_SEMANTIC_CONVENTIONS"
    };
    providers.find(asks)?;
    // As in Istio, the pod's own `istio-proxy` counts as a container. Among several, the span's container is unknown.
    let image = if containers[1].is_null() { &containers[0]["image"] } else { &Value::Null };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let set = |text: &String| !text.is_empty();
    let version = Some(text(&labels["app.kubernetes.io/version"])).filter(set);
    let by_pod = [
        ("service.namespace", namespace.to_owned()),
        ("service.version", version.unwrap_or_else(|| version_of(&text(image)))),
        ("service.instance.id", format!("{namespace}.$(POD_NAME).{}", text(&containers[0]["name"]))),
    ];
    let known = by_pod.into_iter().filter_map(|(name, otherwise)| {
        let annotated = text(&annotations[&format!("resource.opentelemetry.io/{name}")]);
        [annotated, otherwise].into_iter().find(set).map(|value| format!("{name}={value}"))
    });
    Some(known.collect::<Vec<_>>().join(","))
}

/// An image's `TAG@DIGEST`, or whichever part exists; empty without either.
fn version_of(image: &str) -> String {
    let (name, digest) = image.split_once('@').unwrap_or((image, ""));
    let last = name.rsplit_once('/').map_or(name, |(_, last)| last);
    let tag = last.split_once(':').map_or("", |(_, tag)| tag);
    [tag, digest].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("@")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(
        annotations: &[(&str, &str)],
        labels: &[(&str, &str)],
        namespace: &str,
        containers: &[(&str, &str)],
        expected: &str,
    ) {
        let mesh = json!({"extensionProviders": [
            {"opentelemetry": {"serviceAttributeEnrichment": "OTEL_SEMANTIC_CONVENTIONS"}},
        ]});
        let of = |pairs: &[(&str, &str)]| -> Value {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect()
        };
        let all: Vec<Value> =
            containers.iter().map(|(name, image)| json!({"name": name, "image": image})).collect();
        let found = attributes(&mesh, [&of(annotations), &of(labels)], namespace, &all.into());
        let expected = Some(expected.to_owned());
        assert_eq!(found, expected, "{annotations:?} {labels:?} {containers:?}");
    }

    #[test]
    fn annotations_override_the_pods_fields() {
        const VERSION: (&str, &str) = ("app.kubernetes.io/version", "1.2");
        let web = [("web", "host:5000/shop/web")];
        let all = "service.namespace=shop,service.version=1.2,service.instance.id=shop.$(POD_NAME).web";
        check(&[], &[], "", &web, "service.instance.id=.$(POD_NAME).web");
        check(&[], &[VERSION], "shop", &web, all);
        check(&[], &[VERSION], "shop", &[web[0], ("istio-proxy", "auto")], all);
        let proxy = "service.namespace=shop,service.instance.id=shop.$(POD_NAME).istio-proxy";
        check(&[], &[], "shop", &[("istio-proxy", "auto"), ("web", "web:1")], proxy);
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
    fn the_version_is_that_of_a_single_containers_image() {
        let rows = [
            ("web:1.0", "service.version=1.0,"),
            ("host:5000/web:1.0@sha256:ab", "service.version=1.0@sha256:ab,"),
            ("host:5000/web@sha256:ab", "service.version=sha256:ab,"),
            ("host:5000/web", ""),
        ];
        for (image, version) in rows {
            let expected = format!("{version}service.instance.id=.$(POD_NAME).web");
            check(&[], &[], "", &[("web", image)], &expected);
        }
        check(&[], &[], "", &[("web", "web:1"), ("log", "log:2")], "service.instance.id=.$(POD_NAME).web");
    }
}
