//! Mesh-wide settings: Istio's `MeshConfig` with its `ProxyConfig`, over Istio's defaults from `defaults.yaml`, which also has
//! the chart values that templates use. One deviation: probe rewriting and metrics merging, which need Istio's agent, are off by
//! default.

use super::proxy_config;
use mesh::istio::defaults::{INBOUND_LISTENER, OUTBOUND_LISTENER};
use mesh::{InputProblem, data::document::DocumentReader};
use serde_json::{Map, Value};
use std::sync::LazyLock;

pub(crate) const STATUS_PORT: u16 = 15020;

/// Settings merged over Istio's defaults.
#[derive(Clone, Debug)]
pub struct MeshConfig {
    /// All settings by their JSON names (`defaultConfig.interceptionMode`).
    pub raw: Value,
    pub outbound_port: u16,
    pub inbound_port: u16,
    /// `defaultConfig.statusPort`: the port on which Istio's agent answers probes and Prometheus for the application.
    pub status_port: u16,
    /// `enablePrometheusMerge`. Only Istio's agent merges metrics, so the default is off.
    pub merges_metrics: bool,
    /// True if `inboundTrafficPolicy.mode` is `LOCALHOST`: the proxy forwards connections to localhost, not the pod's address.
    pub is_inbound_local: bool,
    pub trust_domain: String,
}

impl Default for MeshConfig {
    fn default() -> Self {
        Self::read("mesh", &Value::Object(Map::new())).0
    }
}

impl MeshConfig {
    pub(crate) fn read(name: &str, given: &Value) -> (Self, Vec<InputProblem>, Vec<String>) {
        let mut before = written_twice(name, given);
        let mut given = camel(given);
        let written = given.as_object_mut().and_then(|map| map.remove("defaultConfig"));
        let (mut raw, wrong) = over_defaults(&given, default_mesh());
        let mut warnings = Vec::new();
        if let Some(written) = written.filter(|written| !written.is_null()) {
            let read = proxy_config::read(&format!("{name}: defaultConfig"), &written);
            raw["defaultConfig"] = proxy_config::over(&read.fields, &raw["defaultConfig"]);
            before.extend(read.problems);
            warnings = read.warnings;
        }
        let mut fields = DocumentReader::of(name, &raw);
        wrong.iter().for_each(|path| fields.problem(path, None, "is not a mapping; expected one"));
        for (at, provider) in given["extensionProviders"].as_array().into_iter().flatten().enumerate() {
            // A provider replaces the default with its name.
            if provider["name"].as_str().is_none_or(str::is_empty) {
                let path = format!("extensionProviders[{at}].name");
                fields.problem(&path, None, "is missing; expected the provider's name");
            }
        }
        let is_local =
            fields.one_of("inboundTrafficPolicy.mode", &[("PASSTHROUGH", false), ("LOCALHOST", true)]);
        let mesh = Self {
            outbound_port: fields.port("proxyListenPort", OUTBOUND_LISTENER.number()),
            inbound_port: fields.port("proxyInboundListenPort", INBOUND_LISTENER.number()),
            status_port: fields.port("defaultConfig.statusPort", STATUS_PORT),
            merges_metrics: fields.flag("enablePrometheusMerge"),
            is_inbound_local: is_local.unwrap_or(false),
            trust_domain: fields.text("trustDomain"),
            raw: Value::Null,
        };
        let problems = before.into_iter().chain(fields.finish()).collect();
        (Self { raw, ..mesh }, problems, warnings)
    }

    /// Drops Istio's defaults, which the agent also has, to keep pods small.
    pub fn beyond_defaults(proxy_config: &Value) -> Value {
        static DEFAULTS: LazyLock<Value> = LazyLock::new(|| MeshConfig::default().proxy_config().clone());
        let fields = proxy_config.as_object().into_iter().flatten();
        let stated = fields.filter(|(name, value)| DEFAULTS.get(name.as_str()) != Some(value));
        stated.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    pub fn proxy_config(&self) -> &Value {
        &self.raw["defaultConfig"]
    }
}

/// Renames top-level fields to JSON names, one of Protocol Buffers' two spellings; deeper keys may be the user's.
pub(crate) fn camel(message: &Value) -> Value {
    let Value::Object(map) = message else { return message.clone() };
    map.iter().map(|(key, value)| (camel_case(key), value.clone())).collect()
}

/// Fields given in both spellings, which Protocol Buffers refuses and [`camel`] would merge.
pub(crate) fn written_twice(name: &str, message: &Value) -> Vec<InputProblem> {
    let fields = message.as_object().into_iter().flat_map(Map::keys);
    let named = fields.map(|key| (key, camel_case(key)));
    let twice = named.filter(|(key, in_json)| *key != in_json && message.get(in_json).is_some());
    let problem = |(key, in_json): (&String, String)| {
        InputProblem::of(&format!("{name}: {key}"), format!("is also given as {in_json}; give one of them"))
    };
    twice.map(problem).collect()
}

fn camel_case(key: &str) -> String {
    let mut parts = key.split('_');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |mut name, part| {
        let mut letters = part.chars();
        name.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        name.push_str(letters.as_str());
        name
    })
}

/// Mappings of this name replace their default instead of merging with it.
const WHOLE: &str = "resources";

/// MeshConfig's list with named items: a given item replaces only the default with its name.
const NAMED: &str = "extensionProviders";

static DEFAULTS: LazyLock<[Value; 2]> = LazyLock::new(|| {
    let documents = mesh::pod::values("defaults.yaml", include_str!("defaults.yaml"));
    documents.ok().and_then(|documents| documents.try_into().ok()).expect("two documents of YAML")
});

pub(crate) fn default_values() -> &'static Value {
    &DEFAULTS[0]
}

pub(crate) fn default_mesh() -> &'static Value {
    &DEFAULTS[1]
}

/// Merges given values over defaults; also returns the paths of values that are not a mapping although their default is. A null
/// counts as an absent key, but unsets `WHOLE`.
pub(crate) fn over_defaults(given: &Value, defaults: &Value) -> (Value, Vec<String>) {
    let mut wrong = Vec::new();
    let merged = merged(given, defaults.clone(), "", &mut wrong);
    (merged, wrong)
}

fn merged(given: &Value, default: Value, path: &str, wrong: &mut Vec<String>) -> Value {
    let mut under = match (default, given) {
        (Value::Object(under), _) => under,
        (Value::Array(under), Value::Array(given)) if path == NAMED => return by_name(under, given),
        // A null printed by a template would delete the field, or be invalid YAML.
        _ => return without(given, Value::is_null),
    };
    let Value::Object(given) = given else {
        wrong.push(path.to_owned());
        return Value::Object(under);
    };
    for (key, value) in given {
        let is_whole = key == WHOLE;
        if value.is_null() {
            if is_whole {
                under.remove(key);
            }
            continue;
        }
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let merged = match under.remove(key) {
            Some(default) if !is_whole => merged(value, default, &path, wrong),
            Some(_) | None => without(value, Value::is_null),
        };
        under.insert(key.clone(), merged);
    }
    Value::Object(under)
}

pub(crate) fn without(value: &Value, is_out: fn(&Value) -> bool) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| !is_out(value));
            Value::Object(kept.map(|(key, value)| (key.clone(), without(value, is_out))).collect())
        }
        Value::Array(items) => items.iter().map(|item| without(item, is_out)).collect(),
        scalar => scalar.clone(),
    }
}

fn by_name(mut under: Vec<Value>, given: &[Value]) -> Value {
    for item in given.iter().map(|item| without(item, Value::is_null)) {
        match under.iter_mut().find(|known| known["name"] == item["name"]) {
            Some(known) => *known = item,
            None => under.push(item),
        }
    }
    Value::Array(under)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(given: &Value, expected: &[&str]) {
        let (_, problems, _) = MeshConfig::read("mesh", given);
        assert_eq!(problems.iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "{given}");
    }

    #[test]
    fn a_field_by_both_of_its_names_is_refused() {
        check(&json!({"proxy_listen_port": 1, "proxyInboundListenPort": 2}), &[]);
        check(
            &json!({"proxy_listen_port": 1, "proxyListenPort": 2, "defaultConfig": {"statusPort": 1, "status_port": 1}}),
            &[
                "mesh: proxy_listen_port: is also given as proxyListenPort; give one of them",
                "mesh: defaultConfig: status_port: is also given as statusPort; give one of them",
            ],
        );
    }

    #[test]
    fn an_extension_provider_without_a_name_is_refused() {
        check(&json!({"extensionProviders": [{"name": "a", "prometheus": {}}, {"name": "envoy"}]}), &[]);
        check(
            &json!({"extensionProviders": [{"prometheus": {}}, {"name": "a"}, {"name": "", "zipkin": {}}]}),
            &[
                "mesh: extensionProviders[0].name: is missing; expected the provider's name",
                "mesh: extensionProviders[2].name: is missing; expected the provider's name",
            ],
        );
    }
}
