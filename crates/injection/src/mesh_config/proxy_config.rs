//! ProxyConfig of the mesh (`defaultConfig`) and of a pod (annotation `proxy.istio.io/config`), parsed by Protocol Buffers' rules
//! for JSON (`mesh/v1alpha1/proxy.proto`, `protomarshal.ApplyYAML`): fields of a wrong type are refused, unknown ones ignored
//! with a warning. In nested messages, only nulls are removed and names respelled.

use super::mesh::{camel, written_twice};
use crate::mesh_config::without;
use mesh::data::document::{DocumentReader, noun};
use mesh::{InputProblem, settings::nearest, sources::duration};
use serde_json::{Map, Value};
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
enum ProxyFieldKind {
    Text,
    Bool,
    /// Nonnegative 32-bit integer.
    Whole,
    Port,
    /// Go's format.
    Duration,
    /// Duration in whole seconds, at least 1.
    Seconds,
    OneOf(&'static [&'static str]),
    Texts,
    NamedTexts,
    Message,
    Address,
    AddressOrNone,
}

/// The fields by their JSON names, in the order of Go's output (`mesh/v1alpha1/proxy.proto`).
const FIELDS: &[(&str, ProxyFieldKind)] = &[
    ("configPath", ProxyFieldKind::Text),
    ("binaryPath", ProxyFieldKind::Text),
    ("serviceCluster", ProxyFieldKind::Text),
    ("tracingServiceName", ProxyFieldKind::OneOf(TRACED_NAMES)),
    ("drainDuration", ProxyFieldKind::Seconds),
    ("parentShutdownDuration", ProxyFieldKind::Seconds),
    ("discoveryAddress", ProxyFieldKind::Address),
    ("discoveryRefreshDelay", ProxyFieldKind::Duration),
    ("zipkinAddress", ProxyFieldKind::Text),
    ("statsdUdpAddress", ProxyFieldKind::AddressOrNone),
    ("envoyMetricsServiceAddress", ProxyFieldKind::AddressOrNone),
    ("proxyAdminPort", ProxyFieldKind::Port),
    ("availabilityZone", ProxyFieldKind::Text),
    ("controlPlaneAuthPolicy", ProxyFieldKind::OneOf(&["NONE", "MUTUAL_TLS"])),
    ("customConfigFile", ProxyFieldKind::Text),
    ("statNameLength", ProxyFieldKind::Whole),
    ("concurrency", ProxyFieldKind::Whole),
    ("proxyBootstrapTemplatePath", ProxyFieldKind::Text),
    ("interceptionMode", ProxyFieldKind::OneOf(&["REDIRECT", "TPROXY", "NONE"])),
    ("tracing", ProxyFieldKind::Message),
    ("sds", ProxyFieldKind::Message),
    ("envoyAccessLogService", ProxyFieldKind::Message),
    ("envoyMetricsService", ProxyFieldKind::Message),
    ("proxyMetadata", ProxyFieldKind::NamedTexts),
    ("runtimeValues", ProxyFieldKind::NamedTexts),
    ("statusPort", ProxyFieldKind::Port),
    ("extraStatTags", ProxyFieldKind::Texts),
    ("gatewayTopology", ProxyFieldKind::Message),
    ("terminationDrainDuration", ProxyFieldKind::Duration),
    ("meshId", ProxyFieldKind::Text),
    ("readinessProbe", ProxyFieldKind::Message),
    ("proxyStatsMatcher", ProxyFieldKind::Message),
    ("holdApplicationUntilProxyStarts", ProxyFieldKind::Bool),
    ("caCertificatesPem", ProxyFieldKind::Texts),
    ("image", ProxyFieldKind::Message),
    ("privateKeyProvider", ProxyFieldKind::Message),
    ("proxyHeaders", ProxyFieldKind::Message),
    ("fileFlushInterval", ProxyFieldKind::Duration),
    ("fileFlushMinSizeKb", ProxyFieldKind::Whole),
    ("statsCompression", ProxyFieldKind::Bool),
    ("statsEvictionInterval", ProxyFieldKind::Duration),
];

const TRACED_NAMES: &[&str] =
    &["APP_LABEL_AND_NAMESPACE", "CANONICAL_NAME_ONLY", "CANONICAL_NAME_AND_NAMESPACE"];

pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FIELDS.iter().map(|(name, _)| *name)
}

/// Fields of `proxyHeaders` that a pod with other headers inherits from the mesh (`mesh.MergeProxyConfig`).
const INHERITED_HEADERS: [&str; 5] =
    ["attemptCount", "envoyDebugHeaders", "forwardedClientCert", "requestId", "server"];

#[derive(Clone, Debug, Default)]
pub(crate) struct Parsed {
    pub(crate) fields: Map<String, Value>,
    pub(crate) problems: Vec<InputProblem>,
    pub(crate) warnings: Vec<String>,
}

pub(crate) fn read(name: &str, written: &Value) -> Parsed {
    let mut read = Parsed::default();
    let given = camel(written);
    let Value::Object(map) = &given else {
        let text = format!("is {}; expected a mapping with fields of a ProxyConfig", noun(written));
        read.problems.push(InputProblem::of(name, text));
        return read;
    };
    read.problems.extend(written_twice(name, written));
    let mut fields = DocumentReader::of(name, &given);
    for (key, value) in map.iter().filter(|(_, value)| !value.is_null()) {
        match FIELDS.iter().find(|(known, _)| known == key) {
            Some((_, kind)) => {
                let value = kind.read(&mut fields, key, value);
                read.fields.extend(value.map(|value| (key.clone(), value)));
            }
            None => read.warnings.push(unknown(name, key)),
        }
    }
    read.problems.extend(fields.finish());
    read
}

/// Merges two configurations: `proxyMetadata` merges by name, some `proxyHeaders` are inherited, other fields are replaced.
pub(crate) fn over(written: &Map<String, Value>, under: &Value) -> Value {
    let mut merged = under.as_object().cloned().unwrap_or_default();
    // Alternatives (`oneof` in Protocol Buffers): setting one removes the other.
    for (one, other) in [("serviceCluster", "tracingServiceName"), ("tracingServiceName", "serviceCluster")] {
        if written.contains_key(one) {
            merged.remove(other);
        }
    }
    for (key, value) in written {
        match (value, merged.get_mut(key)) {
            (Value::Object(names), Some(Value::Object(before))) if key == "proxyMetadata" => {
                before.extend(names.clone());
            }
            (Value::Object(headers), Some(Value::Object(before))) if key == "proxyHeaders" => {
                before.retain(|name, _| INHERITED_HEADERS.contains(&name.as_str()));
                before.extend(headers.clone());
            }
            _ => {
                merged.insert(key.clone(), value.clone());
            }
        }
    }
    Value::Object(merged)
}

fn unknown(name: &str, key: &str) -> String {
    let near = nearest(key, names());
    let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    format!("{name}: {key} is not a field of a ProxyConfig and has no effect{near}")
}

impl ProxyFieldKind {
    /// The field's normalized value; `None` if refused.
    fn read(self, fields: &mut DocumentReader<'_>, key: &str, value: &Value) -> Option<Value> {
        let time = |value: &Value| duration::parse(value.as_str()?);
        match self {
            Self::Text => fields.string(key).map(Value::from),
            Self::Bool => fields.boolean(key).map(Value::from),
            Self::Whole => fields.typed(key, "a number from 0 to 2147483647", whole).map(Value::from),
            Self::Port => {
                let port = |value: &Value| whole(value).filter(|port| (1..=65535).contains(port));
                fields.typed(key, "a port from 1 to 65535", port).map(Value::from)
            }
            Self::Duration => {
                let expected = "numbers with units, such as 5s or 1m30s, in quotes";
                fields.typed(key, expected, time).map(|_| value.clone())
            }
            Self::Seconds => {
                let expected = "whole seconds from 1s, such as 45s or 1m30s, in quotes";
                let is_whole = |time: &Duration| time.as_secs() > 0 && time.subsec_nanos() == 0;
                fields.typed(key, expected, |value| time(value).filter(is_whole)).map(|_| value.clone())
            }
            // Protocol Buffers also accepts enum numbers.
            Self::OneOf(names) => {
                let by_number = |value: &Value| names.get(usize::try_from(value.as_u64()?).ok()?);
                let by_name = |value: &Value| names.iter().find(|name| value == **name);
                let read = |value: &Value| by_name(value).or_else(|| by_number(value));
                fields.typed(key, &names.join(", "), read).map(|name| Value::from(*name))
            }
            Self::Texts => {
                fields.texts(key);
                Some(value.clone())
            }
            Self::NamedTexts => {
                for (name, value) in fields.mapping(key)?.iter().filter(|(_, value)| !value.is_string()) {
                    fields.refuse_as_string(&format!("{key}.{name}"), value);
                }
                Some(value.clone())
            }
            Self::Message => fields.mapping(key).map(|_| camel(&without(value, Value::is_null))),
            Self::AddressOrNone if value == "" => Some(value.clone()),
            Self::AddressOrNone | Self::Address => {
                let port = |value: &Value| {
                    let (host, port) = value.as_str()?.rsplit_once(':')?;
                    port.parse().ok().filter(|port: &u16| *port != 0 && !host.is_empty())
                };
                fields.typed(key, "a host and a port, such as istiod:15012", port).map(|_| value.clone())
            }
        }
    }
}

/// A number or numeric string, as in Protocol Buffers.
fn whole(value: &Value) -> Option<i32> {
    let number = match value {
        Value::String(text) => text.parse().ok()?,
        _ => i32::try_from(value.as_i64()?).ok()?,
    };
    (number >= 0).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn field(field: &str, value: &Value) -> Result<Value, String> {
        let read = read("name", &json!({field: value}));
        let problems: Vec<String> = read.problems.iter().map(ToString::to_string).collect();
        if problems.is_empty() { Ok(read.fields[field].clone()) } else { Err(problems.join("\n")) }
    }

    #[test]
    fn each_field_takes_the_forms_of_protocol_buffers() {
        for (name, values) in [
            ("meshId", json!(["a", ""])),
            ("statsCompression", json!([false])),
            ("concurrency", json!([0, 2_147_483_647])),
            ("statusPort", json!([1])),
            ("fileFlushInterval", json!(["1.5s"])),
            ("drainDuration", json!(["1s", "1m30s"])),
            ("interceptionMode", json!(["NONE"])),
            ("extraStatTags", json!([["a", "b"]])),
            ("runtimeValues", json!([{"a.b": "c"}])),
            ("discoveryAddress", json!(["[::1]:1"])),
            ("statsdUdpAddress", json!(["", "a:65535"])),
        ] {
            for value in values.as_array().expect("values") {
                assert_eq!(field(name, value), Ok(value.clone()), "{name}");
            }
        }
        for (name, value, expected) in [
            ("concurrency", json!("2"), json!(2)),
            ("statusPort", json!("65535"), json!(65535)),
            ("interceptionMode", json!(1), json!("TPROXY")),
            (
                "image",
                json!({"imageType": "debug", "more": {"x": null}}),
                json!({"imageType": "debug", "more": {}}),
            ),
            ("image", json!({"image_type": "debug"}), json!({"imageType": "debug"})),
        ] {
            assert_eq!(field(name, &value), Ok(expected), "{name} {value}");
        }
    }

    #[test]
    fn each_field_refuses_other_forms() {
        const OTHER: &str = "a string";
        let number = "a number from 0 to 2147483647";
        let address = "a host and a port, such as istiod:15012";
        let seconds = "whole seconds from 1s, such as 45s or 1m30s, in quotes";
        let units = "numbers with units, such as 5s or 1m30s, in quotes";
        let modes = "REDIRECT, TPROXY, NONE";
        let string = "a string; quote it";
        for (name, values, fault, expected) in [
            ("meshId", json!([1]), "a number", string),
            ("meshId", json!([[]]), "a list", "a string"),
            ("statsCompression", json!(["true"]), OTHER, "true or false, without quotes"),
            ("concurrency", json!([2_147_483_648_u32, -1, 1.5]), "a number", number),
            ("concurrency", json!([""]), OTHER, number),
            ("concurrency", json!([{}]), "a mapping", number),
            ("statusPort", json!([65536, 0]), "a number", "a port from 1 to 65535"),
            ("fileFlushInterval", json!([5]), "a number", units),
            ("fileFlushInterval", json!(["5"]), OTHER, units),
            ("drainDuration", json!(["1500ms", "500ms", "0s"]), OTHER, seconds),
            ("drainDuration", json!([true]), "a boolean", seconds),
            ("interceptionMode", json!([3, -1]), "a number", modes),
            ("interceptionMode", json!(["none"]), OTHER, modes),
            ("extraStatTags", json!(["a"]), OTHER, "a list"),
            ("runtimeValues", json!([[]]), "a list", "a mapping"),
            ("image", json!(["debug"]), OTHER, "a mapping"),
            ("discoveryAddress", json!([1]), "a number", address),
            ("discoveryAddress", json!(["", "a", ":1", "a:0"]), OTHER, address),
            ("statsdUdpAddress", json!(["a:65536"]), OTHER, address),
        ] {
            for value in values.as_array().expect("values") {
                let item = match value {
                    Value::Array(_) | Value::Object(_) => String::new(),
                    Value::String(text) if text.is_empty() => String::new(),
                    Value::String(text) => format!("{text:?} "),
                    other => format!("\"{other}\" "),
                };
                let text = format!("name: {name}: {item}is {fault}; expected {expected}");
                assert_eq!(field(name, value), Err(text), "{value}");
            }
        }
        for (name, value, expected) in [
            ("extraStatTags", json!(["a", 1]), "name: extraStatTags[1]: \"1\" is a number"),
            ("runtimeValues", json!({"a.b": false}), "name: runtimeValues.a.b: \"false\" is a boolean"),
        ] {
            let text = format!("{expected}; expected a string; quote it");
            assert_eq!(field(name, &value), Err(text));
        }
    }

    #[test]
    fn unknown_fields_are_reported_and_ignored() {
        let found = read("name", &json!({"mesh_id": "a", "meshIdd": "b", "concurrency": null}));
        assert_eq!((json!(found.fields), found.problems), (json!({"meshId": "a"}), vec![]));
        let expected =
            "name: meshIdd is not a field of a ProxyConfig and has no effect; did you mean meshId?";
        assert_eq!(found.warnings, [expected]);
        let found = read("name", &json!(["a"]));
        let problems: Vec<String> = found.problems.iter().map(ToString::to_string).collect();
        assert_eq!(problems, ["name: is a list; expected a mapping with fields of a ProxyConfig"]);
    }

    #[test]
    fn fields_override_the_defaults() {
        let under =
            json!({"serviceCluster": "a", "proxyMetadata": {"A": "1", "B": "1"}, "image": {"x": "1"}});
        for (written, expected) in [
            (json!({}), under.clone()),
            (
                json!({"tracingServiceName": "CANONICAL_NAME_ONLY", "image": {"y": "2"}}),
                json!({
                    "tracingServiceName": "CANONICAL_NAME_ONLY", "proxyMetadata": {"A": "1", "B": "1"}, "image": {"y": "2"},
                }),
            ),
            (
                json!({"serviceCluster": "b", "proxyMetadata": {"B": "2", "C": "3"}}),
                json!({"serviceCluster": "b", "proxyMetadata": {"A": "1", "B": "2", "C": "3"}, "image": {"x": "1"}}),
            ),
        ] {
            let Value::Object(fields) = &written else { panic!("{written}") };
            assert_eq!(over(fields, &under), expected, "{written}");
        }
        assert_eq!(over(&Map::new(), &Value::Null), json!({}));
        let off = json!({"disabled": true});
        let under =
            json!({"proxyHeaders": {"server": off, "requestId": {}, "preserveHttp1HeaderCase": true}});
        let written = read("name", &json!({"proxyHeaders": {"request_id": off}})).fields;
        assert_eq!(over(&written, &under), json!({"proxyHeaders": {"server": off, "requestId": off}}));
    }
}
