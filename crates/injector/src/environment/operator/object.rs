//! Objects of the API server, without what does not decide about routes: of `managedFields`, the top-level fields of the
//! spec are kept, and of a workload's pod template the labels. The rest is most of a Deployment, so it is skipped while an
//! object is parsed, not removed afterwards.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, api::ApiResource, core::DynamicResourceScope};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, IgnoredAny},
};
use serde_json::{Map, Value, json};
use std::{borrow::Cow, collections::BTreeMap};

/// An object whose spec is read in this form.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Reduced<S> {
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
pub(super) struct WorkloadSpec {
    replicas: Value,
    template: WorkloadTemplate,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct WorkloadTemplate {
    metadata: Labelled,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct Labelled {
    labels: Value,
}

impl<S: Serialize> Reduced<S> {
    /// The object as data. Items of lists don't say what they are.
    pub(super) fn value(self, resource: &ApiResource) -> Value {
        json!({
            "apiVersion": resource.api_version, "kind": resource.kind,
            "metadata": self.metadata, "spec": self.spec, "status": self.status,
        })
    }
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(rename = "managedFields")]
    managers: Option<Vec<Manager>>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// Metadata, and of `managedFields` the managers that have set fields of the spec.
fn metadata<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectMeta, D::Error> {
    let Metadata { managers, mut others } = Metadata::deserialize(from)?;
    let managers = managers.into_iter().flatten().filter(|one| !one.fields.spec.is_empty());
    others.insert("managedFields".to_owned(), managers.map(Manager::value).collect());
    ObjectMeta::deserialize(Value::Object(others)).map_err(D::Error::custom)
}

/// A field manager, and the fields that it has set.
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

impl<S> Resource for Reduced<S> {
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
    fn parts_that_do_not_matter_are_skipped() {
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
        let parsed: Reduced<WorkloadSpec> = serde_json::from_str(&text).expect("a Deployment");
        assert_eq!(
            parsed.value(&resource(Resource::Deployments, "v1")),
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": reduced, "status": null,
                "spec": {"replicas": 2, "template": {"metadata": {"labels": {"app": "cart"}}}}})
        );
        let parsed: Reduced<Value> = serde_json::from_str(&text).expect("any object");
        assert_eq!(
            parsed.value(&resource(Resource::Services, "v1"))["spec"]["template"]["spec"],
            json!({"containers": []})
        );
    }
}
