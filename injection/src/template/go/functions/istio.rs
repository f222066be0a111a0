//! Functions of Istio's own: annotations, ports, networks, durations, and variables of the control plane (upstream:
//! `pkg/kube/inject/template.go`).

use super::{Answer, VARIABLES, field, functions, is_nothing, json, list, printed, text};
use crate::configuration::Mesh;
use crate::template::go::{fields, standin};
use crate::template::{multus, opentelemetry};
use gtmpl_ng::Value;

functions! {
    "annotation" passes 3..=3 annotation;
    "env" passes 2..=2 |args| Ok(env(&text(&args[0]), &args[1]));
    "directory" reads 1..=1 |args| Ok(directory(&text(&args[0])).into());
    "formatDuration" reads 1..=1 |args| duration(&text(&args[0])).map(Value::from);
    "appendMultusNetwork" reads 2..=2 |args| Ok(multus::with(text(&args[0]), &text(&args[1])).into());
    "kubevirtInterfaces" passes 1..=1 |args| Ok(text(&args[0]).into());
    "excludeInterfaces" passes 1..=1 |args| Ok(text(&args[0]).into());
    "excludeInboundPort" reads 2..=2 |args| Ok(with_port(printed(&args[0]).trim(), &text(&args[1])).into());
    "includeInboundPorts" passes 1..=1 |args| of_containers(&args[0], |_| true);
    "applicationPorts" passes 1..=1 |args| of_containers(&args[0], |name| name != "istio-proxy");
    "otelResourceAttributes" reads 4..=4 |args| resource_attributes(args).map(Value::from);
    "protoToJSON" passes 1..=1 |args| Ok(message(&args[0]).into());
}

/// Of an object's metadata: what the annotation says, else the default as text.
fn annotation(args: &[Value]) -> Answer {
    let annotations = field(&args[0], &"Annotations".into())?.unwrap_or(&Value::Nil);
    let said = field(annotations, &args[1])?.cloned();
    Ok(said.unwrap_or_else(|| printed(&args[2]).into()))
}

/// `OTEL_RESOURCE_ATTRIBUTES` of a pod: of a MeshConfig, its annotations, its labels and its namespace.
fn resource_attributes(args: &[Value]) -> Result<String, String> {
    let [mesh, annotations, labels, namespace] = args else { return Ok(String::new()) };
    let mut enriches = false;
    for provider in list(field(mesh, &"ExtensionProviders".into())?.unwrap_or(&Value::Nil))? {
        let of_provider = field(provider, &"Opentelemetry".into())?.unwrap_or(&Value::Nil);
        let enrichment = field(of_provider, &"ServiceAttributeEnrichment".into())?;
        enriches |= enrichment.is_some_and(|value| text(value) == opentelemetry::CONVENTIONS);
    }
    if !enriches {
        return Ok(String::new());
    }
    let said = |texts: &Value, name: &str| field(texts, &name.into()).ok().flatten().map(text);
    let (annotation, label) = (|name: &str| said(annotations, name), |name: &str| said(labels, name));
    Ok(opentelemetry::attributes(annotation, label, &text(namespace)))
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

/// A duration of protobuf's JSON (`60s`, `0.5s`) as Go writes it (`1m0s`, `500ms`).
fn duration(text: &str) -> Result<String, String> {
    let wrong = || format!("takes a duration in seconds, such as 45s or 0.5s, not {text:?}");
    let number = text.strip_suffix('s').ok_or_else(wrong)?;
    let (sign, number) = number.strip_prefix('-').map_or(("", number), |number| ("-", number));
    let (seconds, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if seconds.is_empty() || part.len() > 9 || !digits(seconds) || !digits(part) {
        return Err(wrong());
    }
    let seconds: u64 = seconds.parse().map_err(|_| wrong())?;
    let nanos: u64 = format!("{part:0<9}").parse().map_err(|_| wrong())?;
    if seconds == 0 {
        let (unit, scale) = match nanos {
            0 => return Ok("0s".to_owned()),
            1..1_000 => ("ns", 1),
            1_000..1_000_000 => ("µs", 1_000),
            _ => ("ms", 1_000_000),
        };
        return Ok(format!("{sign}{}{unit}", decimal(nanos / scale, nanos % scale, scale)));
    }
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let mut out = sign.to_owned();
    if hours > 0 {
        out += &format!("{hours}h");
    }
    if seconds >= 60 {
        out += &format!("{minutes}m");
    }
    Ok(format!("{out}{}s", decimal(seconds % 60, nanos, 1_000_000_000)))
}

/// A number and its part of `scale`, a power of ten, without zeros at the end.
fn decimal(whole: u64, part: u64, scale: u64) -> String {
    if part == 0 {
        return whole.to_string();
    }
    let width = scale.ilog10() as usize;
    format!("{whole}.{}", format!("{part:0width$}").trim_end_matches('0'))
}

/// A message of protobuf as JSON; a ProxyConfig without its defaults, so that pods stay small.
fn message(value: &Value) -> String {
    match value {
        Value::Map(all) if all.contains_key("InterceptionMode") => {
            let meant = serde_json::from_str(&json(&standin::meaning(value))).unwrap_or_default();
            let beyond = Mesh::beyond_defaults(&meant);
            let mut kept = all.clone();
            kept.retain(|name, _| name == fields::STRUCT || beyond.get(fields::json_name(name)).is_some());
            json(&Value::Map(kept))
        }
        nothing if is_nothing(nothing) => "{}".to_owned(),
        other => json(other),
    }
}

/// A list of ports with one more, unless it is there; 0 and nothing add none.
fn with_port(port: &str, ports: &str) -> String {
    let mut listed = ports.split(',').map(str::trim).filter(|port| !port.is_empty());
    if ["", "0", "<nil>"].contains(&port) || listed.clone().any(|other| other == port) {
        return ports.to_owned();
    }
    let all: Vec<&str> = listed.by_ref().chain([port]).collect();
    all.join(",")
}

/// The ports of containers that a stream can reach.
fn of_containers(containers: &Value, counts: fn(&str) -> bool) -> Answer {
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
    use super::*;

    #[test]
    fn durations_are_written_as_go_writes_them() {
        let rows = [
            ("45s", "45s"),
            ("60s", "1m0s"),
            ("3661.5s", "1h1m1.5s"),
            ("7200s", "2h0m0s"),
            ("0.5s", "500ms"),
            ("0.0000015s", "1.5µs"),
            ("0.000000007s", "7ns"),
            ("0s", "0s"),
            ("-90s", "-1m30s"),
        ];
        for (given, expected) in rows {
            assert_eq!(duration(given).as_deref(), Ok(expected), "{given}");
        }
        for wrong in ["", "5", "s", "1m", "1.s5s", "--1s", "1.0000000001s", "99999999999999999999s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
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
