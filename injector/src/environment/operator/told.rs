//! Objects as the API server tells them, without what nobody reads: who has set which field, and what a workload's pods
//! consist of. That is most of a Deployment, so it is passed over while it is read, not taken away afterwards.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, api::ApiResource, core::DynamicResourceScope};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Map, Value, json};
use std::{borrow::Cow, fmt};

/// An object whose spec is read in this form.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Told<S> {
    #[serde(deserialize_with = "unmanaged")]
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

/// Metadata without `managedFields`.
fn unmanaged<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectMeta, D::Error> {
    struct Fields;

    impl<'de> Visitor<'de> for Fields {
        type Value = Map<String, Value>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the metadata of an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut fields = Map::new();
            while let Some(name) = map.next_key::<String>()? {
                if name == "managedFields" {
                    map.next_value::<IgnoredAny>()?;
                } else {
                    fields.insert(name, map.next_value()?);
                }
            }
            Ok(fields)
        }
    }

    let fields = from.deserialize_map(Fields)?;
    ObjectMeta::deserialize(Value::Object(fields)).map_err(D::Error::custom)
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
        managed["managedFields"] =
            json!([{"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {}}}]);
        let text = json!({"metadata": managed, "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "cart"}},
            "template": {"metadata": {"labels": {"app": "cart"}, "annotations": {"c": "d"}}, "spec": {"containers": []}},
        }})
        .to_string();
        let told: Told<Workload> = serde_json::from_str(&text).expect("a Deployment");
        assert_eq!(
            told.value(&resource(Resource::Deployments, "v1")),
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "status": null,
                "spec": {"replicas": 2, "template": {"metadata": {"labels": {"app": "cart"}}}}})
        );
        let told: Told<Value> = serde_json::from_str(&text).expect("any object");
        assert_eq!(
            told.value(&resource(Resource::Services, "v1"))["spec"]["template"]["spec"],
            json!({"containers": []})
        );
    }
}
