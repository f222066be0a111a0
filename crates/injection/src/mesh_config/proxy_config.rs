//! A ProxyConfig as users write it: the mesh in `defaultConfig`, a pod in its annotation `proxy.istio.io/config`.
//!
//! Read as Protocol Buffers reads JSON (`mesh/v1alpha1/proxy.proto`, `protomarshal.ApplyYAML`): fields of a wrong type are
//! refused, unknown ones are left out, with a warning. Of messages within it, only null fields and the spelling of the
//! fields' names are changed.

use super::defaults::without_nulls;
use super::mesh::{camel, written_twice};
use crate::reader::{noun, scalar};
use mesh::InputProblem;
use mesh::settings::nearest;
use mesh::sources::duration;
use serde_json::{Map, Value};

#[derive(Clone, Copy, Debug)]
enum ProxyFieldKind {
    Text,
    Bool,
    /// A whole number of 32 bits, from 0.
    Whole,
    /// A port from 1.
    Port,
    /// As Go writes it.
    Duration,
    /// The same, in whole seconds from one.
    Seconds,
    OneOf(&'static [&'static str]),
    Texts,
    NamedTexts,
    Message,
    /// A host, or an address, and a port.
    Address,
    /// The same, or nothing.
    AddressOrNone,
}

/// The fields by their names in JSON, in the order in which Go writes them (`mesh/v1alpha1/proxy.proto`).
const FIELDS: &[(&str, ProxyFieldKind)] = &[
    ("configPath", ProxyFieldKind::Text),
    ("binaryPath", ProxyFieldKind::Text),
    ("serviceCluster", ProxyFieldKind::Text),
    (
        "tracingServiceName",
        ProxyFieldKind::OneOf(&[
            "APP_LABEL_AND_NAMESPACE",
            "CANONICAL_NAME_ONLY",
            "CANONICAL_NAME_AND_NAMESPACE",
        ]),
    ),
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

/// The names of the fields, in their order.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FIELDS.iter().map(|(name, _)| *name)
}

/// Fields of `proxyHeaders` that a pod which sets other headers takes from the mesh (`mesh.MergeProxyConfig`). All other
/// fields of the mesh's `proxyHeaders` are replaced by the pod's.
const INHERITED_HEADERS: [&str; 5] =
    ["attemptCount", "envoyDebugHeaders", "forwardedClientCert", "requestId", "server"];

#[derive(Clone, Debug, Default)]
pub(crate) struct Parsed {
    /// The fields that are known, by their names in JSON.
    pub(crate) fields: Map<String, Value>,
    pub(crate) problems: Vec<InputProblem>,
    pub(crate) warnings: Vec<String>,
}

/// Reads one; `name` says whose it is.
pub(crate) fn read(name: &str, written: &Value) -> Parsed {
    let mut read = Parsed::default();
    let Value::Object(map) = camel(written) else {
        let text = format!("is {}; expected a mapping with fields of a ProxyConfig", noun(written));
        read.problems.push(InputProblem::of(name, text));
        return read;
    };
    read.problems.extend(written_twice(name, written));
    for (key, value) in map.into_iter().filter(|(_, value)| !value.is_null()) {
        let Some((_, kind)) = FIELDS.iter().find(|(known, _)| *known == key) else {
            read.warnings.push(unknown(name, &key));
            continue;
        };
        match kind.read(&value) {
            Ok(value) => {
                read.fields.insert(key, value);
            }
            Err((path, item, text)) => {
                let name = format!("{name}: {key}{path}");
                read.problems.push(InputProblem { name, item, text });
            }
        }
    }
    read
}

/// A ProxyConfig over another one, field by field. `proxyMetadata` is merged name by name, and some of `proxyHeaders` are
/// inherited.
pub(crate) fn over(written: &Map<String, Value>, under: &Value) -> Value {
    let mut merged = under.as_object().cloned().unwrap_or_default();
    // The two are alternatives (`oneof` in Protocol Buffers): setting one removes the other.
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

/// Where in the field, the item, what is wrong.
type ProxyFieldFault = (String, Option<String>, String);

impl ProxyFieldKind {
    /// The field's value in its usual form.
    fn read(self, value: &Value) -> Result<Value, ProxyFieldFault> {
        let item = scalar(value).filter(|item| !item.is_empty());
        let fault = |expected: &str| {
            let found = match (value, self) {
                (Value::String(_), _) => "is not what is expected",
                _ => &format!("is {}", noun(value)),
            };
            (String::new(), item.clone(), format!("{found}; expected {expected}"))
        };
        match self {
            Self::Text => expect_string(value).map(|()| value.clone()),
            Self::Bool => match value {
                Value::Bool(_) => Ok(value.clone()),
                _ => Err(fault("true or false, without quotes")),
            },
            Self::Whole => {
                whole(value).map(Value::from).ok_or_else(|| fault("a number from 0 to 2147483647"))
            }
            Self::Port => whole(value)
                .filter(|port| (1..=65535).contains(port))
                .map(Value::from)
                .ok_or_else(|| fault("a port from 1 to 65535")),
            Self::Duration => match value.as_str().and_then(duration::parse) {
                Some(_) => Ok(value.clone()),
                None => Err(fault("numbers with units, such as 5s or 1m30s, in quotes")),
            },
            Self::Seconds => match value.as_str().and_then(duration::parse) {
                Some(time) if time.as_secs() > 0 && time.subsec_nanos() == 0 => Ok(value.clone()),
                Some(_) | None => Err(fault("whole seconds from 1s, such as 45s or 1m30s, in quotes")),
            },
            // Protocol Buffers takes the numbers of the names too.
            Self::OneOf(names) => {
                let by_number = value.as_u64().and_then(|at| names.get(usize::try_from(at).ok()?));
                let by_name = names.iter().find(|name| value.as_str() == Some(name));
                let name = by_name.or(by_number).map(|name| Value::from(*name));
                name.ok_or_else(|| fault(&names.join(", ")))
            }
            Self::Texts => {
                let items = value.as_array().ok_or_else(|| fault("a list of strings"))?;
                for (at, item) in items.iter().enumerate() {
                    expect_string(item).map_err(|(_, item, text)| (format!("[{at}]"), item, text))?;
                }
                Ok(value.clone())
            }
            Self::NamedTexts => {
                let map = value.as_object().ok_or_else(|| fault("a mapping of strings"))?;
                for (key, value) in map {
                    expect_string(value).map_err(|(_, item, text)| (format!(".{key}"), item, text))?;
                }
                Ok(value.clone())
            }
            Self::Message => match value {
                Value::Object(_) => Ok(camel(&without_nulls(value))),
                _ => Err(fault("a mapping")),
            },
            Self::AddressOrNone if value == "" => Ok(value.clone()),
            Self::AddressOrNone => Self::Address.read(value),
            Self::Address => {
                let text = value.as_str().ok_or_else(|| fault("a host and a port, such as istiod:15012"))?;
                let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty());
                let fits = port.is_some_and(|(_, port)| port.parse::<u16>().is_ok_and(|port| port != 0));
                if fits { Ok(value.clone()) } else { Err(fault("a host and a port, such as istiod:15012")) }
            }
        }
    }
}

fn expect_string(value: &Value) -> Result<(), ProxyFieldFault> {
    if value.is_string() {
        return Ok(());
    }
    let item = scalar(value).filter(|item| !item.is_empty());
    let remedy = if item.is_some() { "; write it in quotes" } else { "" };
    Err((String::new(), item, format!("is {}; expected a string{remedy}", noun(value))))
}

/// A number, or the text of one, as Protocol Buffers takes it.
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

    #[test]
    fn each_field_has_the_forms_that_protocol_buffers_take() {
        let kept = |value: Value| Ok(value);
        let wrong = |text: &str| Err(text.to_owned());
        let number = "expected a number from 0 to 2147483647";
        let address = "expected a host and a port, such as istiod:15012";
        let seconds = "expected whole seconds from 1s, such as 45s or 1m30s, in quotes";
        let modes = "expected REDIRECT, TPROXY, NONE";
        for (field, value, expected) in [
            ("meshId", json!("a"), kept(json!("a"))),
            (
                "meshId",
                json!(1),
                wrong("name: meshId: \"1\" is a number; expected a string; write it in quotes"),
            ),
            ("meshId", json!([]), wrong("name: meshId: is a list; expected a string")),
            ("meshId", json!(""), kept(json!(""))),
            ("statsCompression", json!(false), kept(json!(false))),
            (
                "statsCompression",
                json!("true"),
                wrong(
                    "name: statsCompression: \"true\" is not what is expected; expected true or false, without quotes",
                ),
            ),
            ("concurrency", json!(0), kept(json!(0))),
            ("concurrency", json!("2"), kept(json!(2))),
            ("concurrency", json!(2_147_483_647), kept(json!(2_147_483_647))),
            (
                "concurrency",
                json!(2_147_483_648_u32),
                Err(format!("name: concurrency: \"2147483648\" is a number; {number}")),
            ),
            ("concurrency", json!(-1), Err(format!("name: concurrency: \"-1\" is a number; {number}"))),
            ("concurrency", json!(1.5), Err(format!("name: concurrency: \"1.5\" is a number; {number}"))),
            ("concurrency", json!(""), Err(format!("name: concurrency: is not what is expected; {number}"))),
            ("concurrency", json!({}), Err(format!("name: concurrency: is a mapping; {number}"))),
            ("statusPort", json!(1), kept(json!(1))),
            ("statusPort", json!("65535"), kept(json!(65535))),
            (
                "statusPort",
                json!(65536),
                wrong("name: statusPort: \"65536\" is a number; expected a port from 1 to 65535"),
            ),
            (
                "statusPort",
                json!(0),
                wrong("name: statusPort: \"0\" is a number; expected a port from 1 to 65535"),
            ),
            ("fileFlushInterval", json!("1.5s"), kept(json!("1.5s"))),
            (
                "fileFlushInterval",
                json!(5),
                wrong(
                    "name: fileFlushInterval: \"5\" is a number; expected numbers with units, such as 5s or 1m30s, in quotes",
                ),
            ),
            (
                "fileFlushInterval",
                json!("5"),
                wrong(
                    "name: fileFlushInterval: \"5\" is not what is expected; expected numbers with units, such as 5s or 1m30s, \
                     in quotes",
                ),
            ),
            ("drainDuration", json!("1s"), kept(json!("1s"))),
            ("drainDuration", json!("1m30s"), kept(json!("1m30s"))),
            (
                "drainDuration",
                json!("1500ms"),
                Err(format!("name: drainDuration: \"1500ms\" is not what is expected; {seconds}")),
            ),
            (
                "drainDuration",
                json!("500ms"),
                Err(format!("name: drainDuration: \"500ms\" is not what is expected; {seconds}")),
            ),
            (
                "drainDuration",
                json!("0s"),
                Err(format!("name: drainDuration: \"0s\" is not what is expected; {seconds}")),
            ),
            (
                "drainDuration",
                json!(true),
                Err(format!("name: drainDuration: \"true\" is a boolean; {seconds}")),
            ),
            ("interceptionMode", json!("NONE"), kept(json!("NONE"))),
            ("interceptionMode", json!(1), kept(json!("TPROXY"))),
            (
                "interceptionMode",
                json!(3),
                Err(format!("name: interceptionMode: \"3\" is a number; {modes}")),
            ),
            (
                "interceptionMode",
                json!(-1),
                Err(format!("name: interceptionMode: \"-1\" is a number; {modes}")),
            ),
            (
                "interceptionMode",
                json!("none"),
                Err(format!("name: interceptionMode: \"none\" is not what is expected; {modes}")),
            ),
            ("extraStatTags", json!(["a", "b"]), kept(json!(["a", "b"]))),
            (
                "extraStatTags",
                json!("a"),
                wrong("name: extraStatTags: \"a\" is not what is expected; expected a list of strings"),
            ),
            (
                "extraStatTags",
                json!(["a", 1]),
                wrong("name: extraStatTags[1]: \"1\" is a number; expected a string; write it in quotes"),
            ),
            ("runtimeValues", json!({"a.b": "c"}), kept(json!({"a.b": "c"}))),
            (
                "runtimeValues",
                json!([]),
                wrong("name: runtimeValues: is a list; expected a mapping of strings"),
            ),
            (
                "runtimeValues",
                json!({"a.b": false}),
                wrong(
                    "name: runtimeValues.a.b: \"false\" is a boolean; expected a string; write it in quotes",
                ),
            ),
            (
                "image",
                json!({"imageType": "debug", "more": {"x": null}}),
                kept(json!({"imageType": "debug", "more": {}})),
            ),
            ("image", json!({"image_type": "debug"}), kept(json!({"imageType": "debug"}))),
            (
                "image",
                json!("debug"),
                wrong("name: image: \"debug\" is not what is expected; expected a mapping"),
            ),
            ("discoveryAddress", json!("[::1]:1"), kept(json!("[::1]:1"))),
            (
                "discoveryAddress",
                json!(1),
                Err(format!("name: discoveryAddress: \"1\" is a number; {address}")),
            ),
            (
                "discoveryAddress",
                json!(""),
                Err(format!("name: discoveryAddress: is not what is expected; {address}")),
            ),
            (
                "discoveryAddress",
                json!("a"),
                Err(format!("name: discoveryAddress: \"a\" is not what is expected; {address}")),
            ),
            (
                "discoveryAddress",
                json!(":1"),
                Err(format!("name: discoveryAddress: \":1\" is not what is expected; {address}")),
            ),
            (
                "discoveryAddress",
                json!("a:0"),
                Err(format!("name: discoveryAddress: \"a:0\" is not what is expected; {address}")),
            ),
            ("statsdUdpAddress", json!(""), kept(json!(""))),
            ("statsdUdpAddress", json!("a:65535"), kept(json!("a:65535"))),
            (
                "statsdUdpAddress",
                json!("a:65536"),
                Err(format!("name: statsdUdpAddress: \"a:65536\" is not what is expected; {address}")),
            ),
        ] {
            let read = read("name", &json!({field: value}));
            let problems = read.problems.iter().map(ToString::to_string).collect::<Vec<_>>();
            let found = match &problems[..] {
                [] => Ok(read.fields[field].clone()),
                problems => Err(problems.join("\n")),
            };
            assert_eq!(found, expected, "{field} {value}");
        }
    }

    #[test]
    fn what_is_no_field_is_told_and_left_out() {
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
    fn fields_are_put_over_what_counts_without_them() {
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
