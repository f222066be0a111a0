//! Istio's own functions: annotations, ports, networks, and variables of the control plane (upstream:
//! `pkg/kube/inject/template.go`).

use super::codings::{from_json, json, yaml};
use super::texts::indented;
use super::{
    Fields, FunctionResult, RENDERING, durations, field, functions, is_nothing, list, printed, text,
};
use crate::mesh_config::MeshConfig;
use crate::template::go::{data, standin};
use crate::template::{context::with_network, opentelemetry};
use gtmpl_ng::Value;
use mesh::sources::duration::nanoseconds;
use serde_json::Value as Json;

functions! {
    of Istio;
    "annotation" passes 3..=3, annotation;
    "env" passes 2..=2, |args| Ok(env(&text(&args[0]), &args[1]));
    "directory" reads 1..=1, |args| Ok(directory(&text(&args[0])).into());
    "appendMultusNetwork" reads 2..=2, |args| Ok(with_network(text(&args[0]), &text(&args[1])).into());
    "kubevirtInterfaces" passes 1..=1, |args| Ok(text(&args[0]).into());
    "excludeInterfaces" passes 1..=1, |args| Ok(text(&args[0]).into());
    "excludeInboundPort" reads 2..=2, |args| Ok(with_port(printed(&args[0]).trim(), &text(&args[1])).into());
    "includeInboundPorts" passes 1..=1, |args| of_containers(&args[0], |_| true);
    "applicationPorts" passes 1..=1, |args| of_containers(&args[0], |name| name != "istio-proxy");
    "otelResourceAttributes" reads 4..=5, resource_attributes;
    "protoToJSON" passes 1..=1, |args| Ok(message(&args[0]).into());
    "contains" reads 2..=2, |args| Ok(text(&args[1]).contains(&text(&args[0])).into());
    "formatDuration" reads 1..=1, duration;
    "fromJSON" reads 1..=1, |args| Ok(from_json(&text(&args[0])).unwrap_or_else(|_| "{}".into()));
    "indent" passes 2..=2, |args| Ok(indented(args, false)?.into());
    "isset" passes 2..=2, |args| Ok(field(&args[0], &args[1])?.is_some().into());
    "omitNil" passes 1..=1, |args| Ok(without_nil(&args[0]).unwrap_or(Value::Nil));
    "toJSON" | "structToJSON" passes 1..=1, |args| Ok(if is_nothing(&args[0]) { "{}".into() } else { json(&args[0]).into() });
    "toYaml" passes 1..=1, |args| Ok(yaml(&args[0]).into());
    "valueOrDefault" passes 2..=2, |args| Ok(args[usize::from(is_unset(&args[0]))].clone());
}

/// Unset as in Istio's `valueOrDefault`: 0 and false are values.
fn is_unset(value: &Value) -> bool {
    is_nothing(value) || matches!(value, Value::String(text) if text.is_empty())
}

fn duration(args: &[Value]) -> FunctionResult {
    let text = text(&args[0]);
    let nanos =
        nanoseconds(&text).ok_or_else(|| format!("takes a duration such as 45s or 0.5s, not {text:?}"))?;
    Ok(durations::written(nanos).into())
}

/// Removes nil on every level, and collections that become empty.
fn without_nil(value: &Value) -> Option<Value> {
    match value {
        Value::NoValue | Value::Nil => None,
        Value::Map(fields) => {
            let kept: Fields =
                fields.iter().filter_map(|(key, value)| Some((key.clone(), without_nil(value)?))).collect();
            (fields.is_empty() || !kept.is_empty()).then_some(Value::Map(kept))
        }
        Value::Array(items) => {
            let kept: Vec<Value> = items.iter().filter_map(without_nil).collect();
            (items.is_empty() || !kept.is_empty()).then_some(Value::Array(kept))
        }
        other => Some(other.clone()),
    }
}

fn annotation(args: &[Value]) -> FunctionResult {
    let annotations = field(&args[0], &"Annotations".into())?.unwrap_or(&Value::Nil);
    let given = field(annotations, &args[1])?.cloned();
    Ok(given.unwrap_or_else(|| printed(&args[2]).into()))
}

/// Arguments: a MeshConfig, a pod's annotations, labels, namespace and containers.
fn resource_attributes(args: &[Value]) -> FunctionResult {
    let plain =
        |at: usize| args.get(at).and_then(|arg| serde_json::from_str(&json(arg)).ok()).unwrap_or_default();
    let [mesh, annotations, labels, containers]: [Json; 4] = [0, 1, 2, 4].map(plain);
    let found = opentelemetry::attributes(&mesh, [&annotations, &labels], &text(&args[3]), &containers);
    Ok(found.unwrap_or_default().into())
}

/// Istio reads its own environment; this reads `pilot.env` of the values, so that a configuration makes the same pods everywhere.
fn env(name: &str, otherwise: &Value) -> Value {
    let known = RENDERING.with_borrow(|rendering| rendering.variables.get(name).cloned());
    known.filter(|value| !value.is_empty()).unwrap_or_else(|| text(otherwise)).into()
}

fn directory(path: &str) -> &str {
    path.rfind('/').map_or("", |slash| &path[..=slash])
}

/// A protobuf message as JSON; a ProxyConfig without its defaults, to keep pods small.
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

fn with_port(port: &str, ports: &str) -> String {
    let listed = ports.split(',').map(str::trim).filter(|port| !port.is_empty());
    if ["", "0", "<nil>"].contains(&port) || listed.clone().any(|other| other == port) {
        return ports.to_owned();
    }
    let all: Vec<&str> = listed.chain([port]).collect();
    all.join(",")
}

/// The containers' ports, except UDP and SCTP ports.
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
