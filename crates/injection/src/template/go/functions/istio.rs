//! Functions of Istio's own: annotations, ports, networks, and variables of the control plane (upstream:
//! `pkg/kube/inject/template.go`).

use super::call::VARIABLES;
use super::{FunctionResult, field, functions, is_nothing, json, list, printed, text};
use crate::mesh_config::MeshConfig;
use crate::template::go::{data, standin};
use crate::template::{multus, opentelemetry};
use gtmpl_ng::Value;

functions! {
    "annotation" passes 3..=3 annotation;
    "env" passes 2..=2 |args| Ok(env(&text(&args[0]), &args[1]));
    "directory" reads 1..=1 |args| Ok(directory(&text(&args[0])).into());
    "appendMultusNetwork" reads 2..=2 |args| Ok(multus::with(text(&args[0]), &text(&args[1])).into());
    "kubevirtInterfaces" passes 1..=1 |args| Ok(text(&args[0]).into());
    "excludeInterfaces" passes 1..=1 |args| Ok(text(&args[0]).into());
    "excludeInboundPort" reads 2..=2 |args| Ok(with_port(printed(&args[0]).trim(), &text(&args[1])).into());
    "includeInboundPorts" passes 1..=1 |args| of_containers(&args[0], |_| true);
    "applicationPorts" passes 1..=1 |args| of_containers(&args[0], |name| name != "istio-proxy");
    "otelResourceAttributes" reads 4..=5 |args| resource_attributes(args).map(Value::from);
    "protoToJSON" passes 1..=1 |args| Ok(message(&args[0]).into());
}

/// Of an object's metadata: what the annotation says, else the default as text.
fn annotation(args: &[Value]) -> FunctionResult {
    let annotations = field(&args[0], &"Annotations".into())?.unwrap_or(&Value::Nil);
    let given = field(annotations, &args[1])?.cloned();
    Ok(given.unwrap_or_else(|| printed(&args[2]).into()))
}

/// `OTEL_RESOURCE_ATTRIBUTES` of a pod: of a MeshConfig, its annotations, its labels, its namespace and its containers.
fn resource_attributes(args: &[Value]) -> Result<String, String> {
    let [mesh, annotations, labels, namespace, containers @ ..] = args else { return Ok(String::new()) };
    let mut enriches = false;
    for provider in list(field(mesh, &"ExtensionProviders".into())?.unwrap_or(&Value::Nil))? {
        let of_provider = field(provider, &"Opentelemetry".into())?.unwrap_or(&Value::Nil);
        let enrichment = field(of_provider, &"ServiceAttributeEnrichment".into())?;
        enriches |= enrichment.is_some_and(|value| text(value) == opentelemetry::CONVENTIONS);
    }
    if !enriches {
        return Ok(String::new());
    }
    let given = |texts: &Value, name: &str| field(texts, &name.into()).ok().flatten().map(text);
    let (annotation, label) = (|name: &str| given(annotations, name), |name: &str| given(labels, name));
    let mut known = Vec::new();
    for container in list(containers.first().unwrap_or(&Value::Nil))? {
        let given = |name: &str| given(container, name).unwrap_or_default();
        known.push((given("Name"), given("Image")));
    }
    Ok(opentelemetry::attributes(annotation, label, &text(namespace), &known))
}

/// A variable of the control plane. Istio asks its own process, whose variables are what the values hold as `pilot.env`; here
/// it is these, so that the same configuration makes the same pods wherever it is read.
fn env(name: &str, otherwise: &Value) -> Value {
    let known =
        VARIABLES.with_borrow(|variables| variables.get(name).filter(|value| !value.is_empty()).cloned());
    known.map_or_else(|| text(otherwise).into(), Value::from)
}

/// Up to the last slash.
fn directory(path: &str) -> &str {
    path.rfind('/').map_or("", |slash| &path[..=slash])
}

/// A message of protobuf as JSON; a ProxyConfig without its defaults, so that pods stay small.
fn message(value: &Value) -> String {
    match value {
        Value::Map(all) if all.contains_key("InterceptionMode") => {
            let plain = serde_json::from_str(&json(&standin::meaning(value))).unwrap_or_default();
            let beyond = MeshConfig::beyond_defaults(&plain);
            let mut kept = all.clone();
            kept.retain(|name, _| name == data::STRUCT || beyond.get(data::json_name(name)).is_some());
            json(&Value::Map(kept))
        }
        nothing if is_nothing(nothing) => "{}".to_owned(),
        other => json(other),
    }
}

/// A list of ports with one more, unless it is there; 0 and nothing add none.
fn with_port(port: &str, ports: &str) -> String {
    let listed = ports.split(',').map(str::trim).filter(|port| !port.is_empty());
    if ["", "0", "<nil>"].contains(&port) || listed.clone().any(|other| other == port) {
        return ports.to_owned();
    }
    let all: Vec<&str> = listed.chain([port]).collect();
    all.join(",")
}

/// The ports of containers that a stream can reach.
fn of_containers(containers: &Value, counts: fn(&str) -> bool) -> FunctionResult {
    let mut all = Vec::new();
    for container in list(containers)? {
        if !field(container, &"Name".into())?.is_none_or(|name| counts(&text(name))) {
            continue;
        }
        for port in list(field(container, &"Ports".into())?.unwrap_or(&Value::Nil))? {
            let protocol = field(port, &"Protocol".into())?.map(text).unwrap_or_default();
            if protocol != "UDP" && protocol != "SCTP" {
                all.push(field(port, &"ContainerPort".into())?.map(text).unwrap_or_default());
            }
        }
    }
    Ok(all.join(",").into())
}

#[cfg(test)]
mod tests {
    use super::super::call::is_of_istio;
    use super::*;

    #[test]
    fn calls_know_each_as_istios() {
        assert!(ALL.iter().all(|(name, _)| is_of_istio(name)));
    }

    #[test]
    fn a_port_is_added_once() {
        let rows = [
            ("15020", "", "15020"),
            ("15020", "80, 90", "80,90,15020"),
            ("15020", "80,15020", "80,15020"),
            ("15020", "80, 15020", "80, 15020"),
            ("0", "80", "80"),
            ("", "", ""),
            ("<nil>", "80", "80"),
        ];
        for (port, ports, expected) in rows {
            assert_eq!(with_port(port, ports), expected, "{port} {ports}");
        }
    }
}
