//! Names of fields: of JSON, and of the Go structures that templates are written for.

use super::shapes::{GoStructure, ORDERED, Unset};
use crate::pipeline::unread;
use gtmpl_ng::{Func, FuncError, Value};
use std::collections::HashMap;

/// The key that marks a map as a structure, so that it can be written as JSON again; it holds which one, where the order of its
/// fields counts. No field has this name.
pub(super) const STRUCT: &str = "\0";

/// Names that are no JSON names with a capital letter (k8s.io/api/core/v1, k8s.io/apimachinery/pkg/apis/meta/v1).
const NAMES: [(&str, &str); 31] = [
    ("apiVersion", "APIVersion"),
    ("awsElasticBlockStore", "AWSElasticBlockStore"),
    ("cephfs", "CephFS"),
    ("chapAuthDiscovery", "DiscoveryCHAPAuth"),
    ("chapAuthSession", "SessionCHAPAuth"),
    ("csi", "CSI"),
    ("dnsConfig", "DNSConfig"),
    ("dnsPolicy", "DNSPolicy"),
    ("fc", "FC"),
    ("fsGroup", "FSGroup"),
    ("fsGroupChangePolicy", "FSGroupChangePolicy"),
    ("fsType", "FSType"),
    ("gcePersistentDisk", "GCEPersistentDisk"),
    ("gmsaCredentialSpec", "GMSACredentialSpec"),
    ("gmsaCredentialSpecName", "GMSACredentialSpecName"),
    ("grpc", "GRPC"),
    ("httpGet", "HTTPGet"),
    ("httpHeaders", "HTTPHeaders"),
    ("ip", "IP"),
    ("iscsi", "ISCSI"),
    ("nfs", "NFS"),
    ("os", "OS"),
    ("pdName", "PDName"),
    ("rbd", "RBD"),
    ("seLinuxOptions", "SELinuxOptions"),
    ("serviceAccount", "DeprecatedServiceAccount"),
    ("storageos", "StorageOS"),
    ("tcpSocket", "TCPSocket"),
    ("tty", "TTY"),
    ("uid", "UID"),
    ("wwids", "WWIDs"),
];

/// Fields whose keys are words of the owner's and no names of fields.
const OF_WORDS: [&str; 12] = [
    "annotations",
    "customTags",
    "labels",
    "limits",
    "matchLabels",
    "nodeSelector",
    "options",
    "overhead",
    "proxyMetadata",
    "requests",
    "runtimeValues",
    "volumeAttributes",
];

/// The Go name of a field of JSON.
fn go_name(name: &str) -> String {
    if let Ok(at) = NAMES.binary_search_by_key(&name, |(json, _)| json) {
        return NAMES[at].1.to_owned();
    }
    let mut chars = name.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// The JSON name of a field of Go.
pub(super) fn json_name(name: &str) -> String {
    if let Some((json, _)) = NAMES.iter().find(|(_, go)| *go == name) {
        return (*json).to_owned();
    }
    let mut chars = name.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

/// An object of JSON as the structure that templates see: Go's names, and unset fields with their zero.
pub(super) fn structure(
    object: &serde_json::Map<String, serde_json::Value>,
    shape: GoStructure,
    text: &dyn Fn(&str) -> String,
) -> HashMap<String, Value> {
    let mut fields: HashMap<String, Value> = HashMap::with_capacity(object.len() + shape.unset().len() + 1);
    let ordered = ORDERED.iter().position(|known| *known == shape);
    fields.insert(STRUCT.to_owned(), ordered.map_or(Value::Nil, Value::from));
    for (name, zero) in shape.unset() {
        fields.insert((*name).to_owned(), zero.value());
    }
    if shape == GoStructure::Container {
        fields.insert(
            "Resources".to_owned(),
            Value::Map(structure(&serde_json::Map::new(), GoStructure::Resources, text)),
        );
    }
    for (name, value) in object {
        if !value.is_null() {
            let value = if shape == GoStructure::Container && unread::is_mark(value) {
                unread_variables()
            } else if OF_WORDS.contains(&name.as_str()) && value.is_object() {
                super::data::with(value, text)
            } else {
                field_value(value, shape.of(name), text)
            };
            fields.insert(text(&go_name(name)), value);
        }
    }
    fields
}

pub(super) fn field_value(
    value: &serde_json::Value,
    shape: GoStructure,
    text: &dyn Fn(&str) -> String,
) -> Value {
    match value {
        serde_json::Value::Object(object) => Value::Map(structure(object, shape, text)),
        serde_json::Value::Array(items) => {
            Value::Array(items.iter().map(|item| field_value(item, shape, text)).collect())
        }
        scalar => super::data::with(scalar, text),
    }
}

/// The fields of a map by their names in JSON, sorted: those of a structure without what Go's `omitempty` leaves out.
pub(super) fn json_fields(fields: &HashMap<String, Value>) -> Vec<(String, &Value)> {
    let mut named: Vec<(String, &Value)> = if fields.contains_key(STRUCT) {
        let is_set = |(key, value): &(&String, &Value)| key.as_str() != STRUCT && !is_left_out(key, value);
        fields.iter().filter(is_set).map(|(key, value)| (json_name(key), value)).collect()
    } else {
        fields.iter().map(|(key, value)| (key.clone(), value)).collect()
    };
    named.sort_by(|one, other| one.0.cmp(&other.0));
    named
}

/// The same in the order in which Go writes them.
pub(super) fn fields_in_order(fields: &HashMap<String, Value>) -> Vec<(String, &Value)> {
    let mut named = json_fields(fields);
    let shape =
        ORDERED.iter().enumerate().find(|(index, _)| fields.get(STRUCT) == Some(&Value::from(*index)));
    if let Some((_, shape)) = shape {
        named.sort_by_key(|(name, _)| shape.place(name));
    }
    named
}

fn is_left_out(key: &str, value: &Value) -> bool {
    match value {
        Value::NoValue | Value::Nil => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Map(fields) => match fields.get(STRUCT) {
            // One that is not set and one that holds nothing differ for pointers only, such as `emptyDir: {}`.
            Some(_) => key == "Resources" && json_fields(fields).is_empty(),
            None => fields.is_empty(),
        },
        // Others of these are pointers, which JSON leaves out only where they are not set.
        Value::Bool(is) => !is && Unset::Bool.is_of(key),
        Value::Number(_) => Unset::Number.is_of(key) && *value == Value::from(0_u8),
        Value::Object(_) | Value::Function(_) => false,
    }
}

/// Takes the place of variables that were not read (`pipeline::unread`): asking for them is an error.
fn unread_variables() -> Value {
    let refuse: Func = refuse_unread;
    refuse.into()
}

/// The error of a function that is given such variables.
pub(super) fn refuse_unread(_: &[Value]) -> Result<Value, FuncError> {
    Err(FuncError::Generic("variables of the pod were not read".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_go_both_ways() {
        assert!(NAMES.is_sorted_by_key(|(json, _)| *json), "searched by halves");
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
    fn a_structure_is_written_as_it_was() {
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
        let seen = field_value(&pod, GoStructure::Spec, &str::to_owned);
        let Value::Map(fields) = &seen else { panic!("{seen}") };
        assert_eq!(fields["RestartPolicy"], "".into());
        assert_eq!(fields["HostNetwork"], false.into());
        let back: serde_json::Value =
            serde_json::from_str(&super::super::functions::json(&seen)).expect("JSON");
        assert_eq!(back, pod);
    }
}
