//! Objects as the API server tells them, without what nobody reads: who has set which field below the spec's own, and what a
//! workload's pods consist of. That is most of a Deployment, so it is passed over while it is read, not taken away afterwards.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, api::ApiResource, core::DynamicResourceScope};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Map, Value, json};
use std::{borrow::Cow, collections::BTreeMap, fmt};

/// An object whose spec is read in this form.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Told<S> {
    #[serde(deserialize_with = "metadata")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: S,
    #[serde(default)]
    status: Value,
}

/// The spec of a Deployment or StatefulSet, as far as it decides about routes.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct Workload {
    replicas: Value,
    template: Template,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct Template {
    metadata: Labelled,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct Labelled {
    labels: Value,
}

impl<S: Serialize> Told<S> {
    /// The object as data. Items of lists don't say what they are.
    pub(super) fn value(self, resource: &ApiResource) -> Value {
        json!({
            "apiVersion": resource.api_version, "kind": resource.kind,
            "metadata": self.metadata, "spec": self.spec, "status": self.status,
        })
    }
}

/// Metadata, and of `managedFields` who has set which field of the spec.
fn metadata<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectMeta, D::Error> {
    struct Fields;

    impl<'de> Visitor<'de> for Fields {
        type Value = Map<String, Value>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the metadata of an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut fields = Map::new();
            while let Some(name) = map.next_key::<String>()? {
                let value = match &*name {
                    "managedFields" => {
                        let managers: Vec<Manager> = map.next_value::<Option<_>>()?.unwrap_or_default();
                        managers
                            .into_iter()
                            .filter(|one| !one.fields.spec.is_empty())
                            .map(Manager::value)
                            .collect()
                    }
                    _ => map.next_value()?,
                };
                fields.insert(name, value);
            }
            Ok(fields)
        }
    }

    let fields = from.deserialize_map(Fields)?;
    ObjectMeta::deserialize(Value::Object(fields)).map_err(D::Error::custom)
}

/// Who has set which fields.
#[derive(Deserialize)]
struct Manager {
    #[serde(default)]
    manager: String,
    #[serde(default, rename = "fieldsV1")]
    fields: Managed,
}

#[derive(Default, Deserialize)]
struct Managed {
    #[serde(default, rename = "f:spec")]
    spec: BTreeMap<String, IgnoredAny>,
}

impl Manager {
    fn value(self) -> Value {
        let fields: Map<String, Value> =
            self.fields.spec.into_keys().map(|field| (field, json!({}))).collect();
        json!({"manager": self.manager, "fieldsV1": {"f:spec": fields}})
    }
}

impl<S> Resource for Told<S> {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&resource.kind)
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&resource.group)
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&resource.version)
    }

    fn api_version(resource: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&resource.api_version)
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&resource.plural)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use super::super::{store::Resource, watch::resource};
    use super::*;

    #[test]
    fn what_nobody_reads_is_passed_over() {
        let metadata =
            json!({"name": "cart", "namespace": "shop", "resourceVersion": "7", "annotations": {"a": "b"}});
        let mut managed = metadata.clone();
        managed["managedFields"] = json!([
            {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {"f:http": {"f:a": {}}, "f:hosts": {}}}},
            {"manager": "other", "operation": "Update", "fieldsV1": {"f:metadata": {"f:labels": {}}}},
            {"manager": "bare"},
        ]);
        let mut reduced = metadata.clone();
        reduced["managedFields"] =
            json!([{"manager": "kubectl", "fieldsV1": {"f:spec": {"f:hosts": {}, "f:http": {}}}}]);
        let text = json!({"metadata": managed, "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "cart"}},
            "template": {"metadata": {"labels": {"app": "cart"}, "annotations": {"c": "d"}}, "spec": {"containers": []}},
        }})
        .to_string();
        let told: Told<Workload> = serde_json::from_str(&text).expect("a Deployment");
        assert_eq!(
            told.value(&resource(Resource::Deployments, "v1")),
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": reduced, "status": null,
                "spec": {"replicas": 2, "template": {"metadata": {"labels": {"app": "cart"}}}}})
        );
        let told: Told<Value> = serde_json::from_str(&text).expect("any object");
        assert_eq!(
            told.value(&resource(Resource::Services, "v1"))["spec"]["template"]["spec"],
            json!({"containers": []})
        );
    }
}
