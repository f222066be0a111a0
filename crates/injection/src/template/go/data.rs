//! Template data under Istio's names, filled from a pod and its context: the structures that templates expect, with Go's field
//! names and order, and zeros for unset fields.

use crate::{mesh_config::proxy_config, pipeline::unread, template::TemplateContext};
use gtmpl_ng::{Func, FuncError, Value};
use mesh::istio::annotations::{PROXY_CONFIG, PROXY_IMAGE, PROXY_IMAGE_TYPE};
use serde_json::Value as Json;
use std::{collections::HashMap, sync::LazyLock};

pub(crate) fn plain(value: &Json) -> Value {
    with(value, str::to_owned)
}

fn with(value: &Json, text: fn(&str) -> String) -> Value {
    match value {
        Json::Null => Value::Nil,
        Json::Bool(is) => (*is).into(),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => number.into(),
            (None, Some(number)) => number.into(),
            (None, None) => number.as_f64().unwrap_or(f64::NAN).into(),
        },
        Json::String(of) => text(of).into(),
        Json::Array(items) => Value::Array(items.iter().map(|item| with(item, text)).collect()),
        Json::Object(fields) => {
            Value::Map(fields.iter().map(|(key, value)| (text(key), with(value, text))).collect())
        }
    }
}

/// `text` maps the pod's strings and derived strings; the cluster owner's configuration stays unchanged.
pub(super) fn root(context: &TemplateContext<'_>, text: fn(&str) -> String) -> Value {
    let TemplateContext { pod, sidecar, values, mesh, .. } = *context;
    // Without these annotations, the configuration and the images are the owner's.
    let annotations = &pod["metadata"]["annotations"];
    let is_annotated = |names: &[&str]| names.iter().any(|name| annotations.get(name).is_some());
    let of_config = if is_annotated(&[PROXY_CONFIG]) { text } else { str::to_owned };
    let of_images =
        if is_annotated(&[PROXY_CONFIG, PROXY_IMAGE, PROXY_IMAGE_TYPE]) { text } else { str::to_owned };
    let workload = context.admission.workload.clone().unwrap_or_default();
    let texts = |fields: &[(&str, &str)]| -> Value {
        Value::Object(fields.iter().map(|(name, value)| ((*name).to_owned(), text(value).into())).collect())
    };
    let mut proxy_config = structure(&sidecar.proxy_config, GoStructure::ProxyConfig, of_config);
    // Protobuf prints this default.
    proxy_config.entry("InterceptionMode".to_owned()).or_insert_with(|| "REDIRECT".into());
    let inbound = if mesh.is_inbound_local { "localhost" } else { "passthrough" };
    let compliance = values.environment().remove("COMPLIANCE_POLICY").unwrap_or_default();
    let fields: [(&str, Value); 15] = [
        ("TypeMeta", texts(&[("Kind", &workload.kind), ("APIVersion", &workload.api_version)])),
        ("DeploymentMeta", texts(&[("Name", &workload.name), ("Namespace", &workload.namespace)])),
        ("ObjectMeta", Value::Map(structure(&pod["metadata"], GoStructure::Metadata, text))),
        ("Spec", Value::Map(structure(&pod["spec"], GoStructure::Spec, text))),
        ("ProxyConfig", Value::Map(proxy_config)),
        ("MeshConfig", field_value(&mesh.raw, GoStructure::MeshConfig, str::to_owned)),
        ("Values", plain(&values.raw)),
        ("Revision", values.revision.as_str().into()),
        ("NativeSidecars", sidecar.native.into()),
        ("ProxyImage", of_images(&sidecar.proxy_image).into()),
        ("ProxyInitImage", of_images(&sidecar.init_image).into()),
        ("ProxyUID", sidecar.identities.of_namespace.user.into()),
        ("ProxyGID", sidecar.identities.of_namespace.group.into()),
        ("InboundTrafficPolicyMode", inbound.into()),
        ("CompliancePolicy", compliance.into()),
    ];
    // Istio has only these fields, so another name is an error.
    Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum GoStructure {
    Metadata,
    Spec,
    Container,
    Port,
    Resources,
    ProxyConfig,
    MeshConfig,
    /// Structures without relevant unset fields.
    Other,
    /// A map with the owner's keys instead of field names.
    Words,
}

impl GoStructure {
    const ALL: [Self; 7] = [
        Self::Metadata,
        Self::Spec,
        Self::Container,
        Self::Port,
        Self::Resources,
        Self::ProxyConfig,
        Self::MeshConfig,
    ];

    fn of(self, field: &str) -> Self {
        match (self, field) {
            (Self::Spec, "containers" | "initContainers") => Self::Container,
            (Self::Container, "ports") => Self::Port,
            (Self::Container, "resources") => Self::Resources,
            (Self::MeshConfig, "defaultConfig") => Self::ProxyConfig,
            (
                _,
                "annotations" | "customTags" | "labels" | "limits" | "matchLabels" | "nodeSelector"
                | "options" | "overhead" | "proxyMetadata" | "requests" | "runtimeValues"
                | "volumeAttributes",
            ) => Self::Words,
            _ => Self::Other,
        }
    }

    /// Sorts fields that templates print as JSON into Go's order; other fields follow.
    fn sort(self, named: &mut [(String, &Value)]) {
        const OF_PORT: [&str; 5] = ["name", "hostPort", "containerPort", "protocol", "hostIP"];
        let place = |name: &str| match self {
            Self::Port => OF_PORT.iter().position(|known| *known == name),
            Self::ProxyConfig => proxy_config::names().position(|known| known == name),
            _ => None,
        };
        named.sort_by_key(|(name, _)| place(name).unwrap_or(usize::MAX));
    }
}

/// Each structure's fields that JSON omits if empty, but that templates see as zeros.
static UNSET: LazyLock<[HashMap<String, Value>; 7]> = LazyLock::new(|| {
    let all = mesh::pod::values("structures.yaml", include_str!("structures.yaml"));
    let all = all.unwrap_or_else(|problems| panic!("{problems}")).remove(0);
    GoStructure::ALL.map(|shape| {
        let zeros = all[format!("{shape:?}")].as_object().into_iter().flatten();
        zeros.map(|(name, zero)| (name.clone(), plain(zero))).collect()
    })
});

/// Key that marks a map as a structure of the kind in its value, so that it can be written as JSON again. No field has this name.
pub(super) const STRUCT: &str = "\0";

/// Go names that differ from the capitalized JSON name (k8s.io/api/core/v1, k8s.io/apimachinery/pkg/apis/meta/v1); names in rare
/// volumes and security contexts, which no template uses, are omitted.
const NAMES: [(&str, &str); 14] = [
    ("apiVersion", "APIVersion"),
    ("csi", "CSI"),
    ("dnsConfig", "DNSConfig"),
    ("dnsPolicy", "DNSPolicy"),
    ("fsGroup", "FSGroup"),
    ("grpc", "GRPC"),
    ("httpGet", "HTTPGet"),
    ("httpHeaders", "HTTPHeaders"),
    ("ip", "IP"),
    ("nfs", "NFS"),
    ("os", "OS"),
    ("tcpSocket", "TCPSocket"),
    ("tty", "TTY"),
    ("uid", "UID"),
];

fn go_name(name: &str) -> String {
    if let Some((_, go)) = NAMES.iter().find(|(json, _)| *json == name) {
        return (*go).to_owned();
    }
    let mut chars = name.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

pub(super) fn json_name(name: &str) -> String {
    if let Some((json, _)) = NAMES.iter().find(|(_, go)| *go == name) {
        return (*json).to_owned();
    }
    let mut chars = name.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

/// A JSON object as the templates' structure: Go's names, and zeros for unset fields.
fn structure(object: &Json, shape: GoStructure, text: fn(&str) -> String) -> HashMap<String, Value> {
    let mut fields = UNSET.get(shape as usize).cloned().unwrap_or_default();
    fields.insert(STRUCT.to_owned(), (shape as u8).into());
    if shape == GoStructure::Container {
        let resources = structure(&Json::Null, GoStructure::Resources, text);
        fields.insert("Resources".to_owned(), Value::Map(resources));
    }
    let given = object.as_object().into_iter().flatten();
    for (name, value) in given.filter(|(_, value)| !value.is_null()) {
        let value = if shape == GoStructure::Container && unread::is_mark(value) {
            // Unread variables fail when used.
            Value::from(refuse_unread as Func)
        } else {
            field_value(value, shape.of(name), text)
        };
        fields.insert(text(&go_name(name)), value);
    }
    fields
}

fn field_value(value: &Json, shape: GoStructure, text: fn(&str) -> String) -> Value {
    match (value, shape) {
        (Json::Object(_), GoStructure::Words) => with(value, text),
        (Json::Object(_), _) => Value::Map(structure(value, shape, text)),
        (Json::Array(items), _) => {
            // Items such as DNS options are structures.
            let shape = if shape == GoStructure::Words { GoStructure::Other } else { shape };
            Value::Array(items.iter().map(|item| field_value(item, shape, text)).collect())
        }
        (scalar, _) => with(scalar, text),
    }
}

/// The error of a function that receives unread variables (`pipeline::unread`).
pub(super) fn refuse_unread(_: &[Value]) -> Result<Value, FuncError> {
    Err(FuncError::Generic("variables of the pod were not read".to_owned()))
}

/// A map's fields by JSON name, sorted; for a structure, except fields that Go's `omitempty` omits.
pub(super) fn json_fields(fields: &HashMap<String, Value>) -> Vec<(String, &Value)> {
    let is_structure = fields.contains_key(STRUCT);
    let is_written = |key: &str, value: &Value| !is_structure || (key != STRUCT && !is_left_out(key, value));
    let name = |key: &String| if is_structure { json_name(key) } else { key.clone() };
    let written = fields.iter().filter(|(key, value)| is_written(key, value));
    let mut named: Vec<(String, &Value)> = written.map(|(key, value)| (name(key), value)).collect();
    named.sort_by(|one, other| one.0.cmp(&other.0));
    named
}

/// [`json_fields`] in Go's order.
pub(super) fn fields_in_order(fields: &HashMap<String, Value>) -> Vec<(String, &Value)> {
    let mut named = json_fields(fields);
    if let Some(mark) = fields.get(STRUCT)
        && let Some(shape) = GoStructure::ALL.into_iter().find(|shape| *mark == (*shape as u8).into())
    {
        shape.sort(&mut named);
    }
    named
}

fn is_left_out(key: &str, value: &Value) -> bool {
    match value {
        Value::NoValue | Value::Nil => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Map(fields) => match fields.get(STRUCT) {
            // Unset and empty differ only for pointers, such as `emptyDir: {}`.
            Some(_) => key == "Resources" && json_fields(fields).is_empty(),
            None => fields.is_empty(),
        },
        // Other fields are pointers, omitted only if unset.
        Value::Bool(_) | Value::Number(_) => UNSET.iter().any(|zeros| zeros.get(key) == Some(value)),
        Value::Object(_) | Value::Function(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_go_both_ways() {
        for name in
            ["containers", "serviceAccountName", "dnsPolicy", "uid", "hostIP", "tty", "livenessProbe", "nfs"]
        {
            assert_eq!(json_name(&go_name(name)), name);
        }
        for (json, go) in NAMES {
            assert_eq!((go_name(json).as_str(), json_name(go).as_str()), (go, json));
        }
    }

    #[test]
    fn a_structure_is_written_unchanged() {
        let pod = json!({
            "serviceAccountName": "web",
            "containers": [{
                "name": "web",
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "securityContext": {"runAsUser": 0, "privileged": false, "seLinuxOptions": {"level": "s0"}},
                "resources": {"limits": {"example.com/GPU": "1"}},
                "livenessProbe": {"httpGet": {"port": 80, "httpHeaders": [{"name": "X", "value": "y"}]}},
            }, {"name": "bare"}],
            "volumes": [{"name": "cache", "emptyDir": {}}],
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "dnsConfig": {"options": [{"name": "ndots", "value": "1"}]},
        });
        let seen = field_value(&pod, GoStructure::Spec, str::to_owned);
        let Value::Map(fields) = &seen else { panic!("{seen}") };
        assert_eq!(fields["RestartPolicy"], "".into());
        assert_eq!(fields["HostNetwork"], false.into());
        let back: Json = serde_json::from_str(&super::super::functions::codings::json(&seen)).expect("JSON");
        assert_eq!(back, pod);
    }
}
