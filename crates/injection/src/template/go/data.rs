//! What a template sees: Istio's names, filled from what is known of a pod.

use super::fields::{field_value, structure};
use super::shapes::GoStructure;
use crate::template::context::TemplateContext;
use gtmpl_ng::Value;
use serde_json::Map;

/// A value of JSON as it is.
pub(super) fn plain(value: &serde_json::Value) -> Value {
    with(value, &str::to_owned)
}

/// The same with each text changed.
pub(super) fn with(value: &serde_json::Value, text: &dyn Fn(&str) -> String) -> Value {
    match value {
        serde_json::Value::Null => Value::Nil,
        serde_json::Value::Bool(is) => (*is).into(),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => number.into(),
            (None, Some(number)) => number.into(),
            (None, None) => number.as_f64().unwrap_or(f64::NAN).into(),
        },
        serde_json::Value::String(of) => text(of).into(),
        serde_json::Value::Array(items) => Value::Array(items.iter().map(|item| with(item, text)).collect()),
        serde_json::Value::Object(fields) => {
            Value::Map(fields.iter().map(|(key, value)| (text(key), with(value, text))).collect())
        }
    }
}

/// The root of all data. What the pod says, or what follows from it, goes through `text`; what the cluster's owner has
/// configured does not.
pub(super) fn root(context: &TemplateContext<'_>, text: &dyn Fn(&str) -> String) -> Value {
    let TemplateContext { sidecar, values, mesh, .. } = *context;
    let empty = Map::new();
    let of_pod = |name: &str, shape| {
        let object = context.pod.get(name).and_then(serde_json::Value::as_object).unwrap_or(&empty);
        Value::Map(structure(object, shape, text))
    };
    let workload = context.admission.workload.clone().unwrap_or_default();
    let texts = |fields: &[(&str, &str)]| -> Value {
        Value::Object(fields.iter().map(|(name, value)| ((*name).to_owned(), text(value).into())).collect())
    };
    let mut metadata = of_pod("metadata", GoStructure::Metadata);
    if let Value::Map(fields) = &mut metadata
        && fields.get("Namespace").is_none_or(|namespace| *namespace == "".into())
    {
        fields.insert("Namespace".to_owned(), text(&context.admission.namespace.name).into());
    }
    let compliance = values.environment().remove("COMPLIANCE_POLICY").unwrap_or_default();
    let fields: [(&str, Value); 15] = [
        ("TypeMeta", texts(&[("Kind", &workload.kind), ("APIVersion", &workload.api_version)])),
        ("DeploymentMeta", texts(&[("Name", &workload.name), ("Namespace", &workload.namespace)])),
        ("ObjectMeta", metadata),
        ("Spec", of_pod("spec", GoStructure::Spec)),
        ("ProxyConfig", proxy_config(&sidecar.proxy_config, text)),
        ("MeshConfig", field_value(&mesh.raw, GoStructure::MeshConfig, &str::to_owned)),
        ("Values", plain(&values.raw)),
        ("Revision", values.revision.as_str().into()),
        ("NativeSidecars", sidecar.native.into()),
        ("ProxyImage", text(&sidecar.proxy_image).into()),
        ("ProxyInitImage", text(&sidecar.init_image).into()),
        ("ProxyUID", sidecar.proxy_uid.into()),
        ("ProxyGID", sidecar.proxy_gid.into()),
        ("InboundTrafficPolicyMode", mesh.inbound_policy.name().into()),
        ("CompliancePolicy", compliance.into()),
    ];
    // Istio's own has these fields and no others, so another name is an error.
    Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// A ProxyConfig, with the default that protobuf prints.
fn proxy_config(config: &serde_json::Value, text: &dyn Fn(&str) -> String) -> Value {
    let empty = Map::new();
    let mut fields = structure(config.as_object().unwrap_or(&empty), GoStructure::ProxyConfig, text);
    fields.entry("InterceptionMode".to_owned()).or_insert_with(|| "REDIRECT".into());
    Value::Map(fields)
}
