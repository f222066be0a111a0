//! The watched resources: one stream of events for all of them.
//!
//! Lists come in pages, each of which is reduced to what matters before the next is requested: of `managedFields`, the top-level fields
//! of the spec are kept, and of a workload's pod template the labels. The rest is most of a Deployment, so it is skipped while an
//! object is parsed, not removed afterwards.

use super::store::Resource;
use cluster::watch::{self, Failure};
use futures::stream::{LocalBoxStream, select_all};
use futures::{Stream, StreamExt};
use injection::environment::resource::{GROUP, KIND, VERSION};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ApiResource, GroupVersionKind};
use kube::core::DynamicResourceScope;
use kube::runtime::watcher::{Config, Error, Event};
use kube::{Api, Client, Resource as KubeResource};
use serde::de::{DeserializeOwned, Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

/// Versions of Istio's objects, the preferred one first: all since Istio 1.5 have it.
pub(super) const VERSIONS: [&str; 3] = [injection::environment::routes::ISTIO, "v1", "v1alpha3"];

const ISTIO: &str = "networking.istio.io";

/// The page size of lists. A Deployment may have a hundred kilobytes.
pub(super) const PAGE: u32 = 200;

#[derive(Clone, Debug)]
pub(super) struct WatchScope {
    /// `None` for all namespaces.
    pub(super) namespace: Option<String>,
    /// The time that the API server is asked to keep a watch open.
    pub(super) timeout: Duration,
    /// The longest time of any other call; of a list, of each page.
    pub(super) call_timeout: Duration,
}

/// The resource as the API server knows it.
pub(super) fn resource(of: Resource, istio: &str) -> ApiResource {
    let (group, version, kind) = match of {
        Resource::Environments => (GROUP, VERSION, KIND),
        Resource::Services => ("", "v1", "Service"),
        Resource::Deployments => ("apps", "v1", "Deployment"),
        Resource::StatefulSets => ("apps", "v1", "StatefulSet"),
        Resource::VirtualServices => (ISTIO, istio, "VirtualService"),
        Resource::DestinationRules => (ISTIO, istio, "DestinationRule"),
        // There is no other version of it.
        Resource::EnvoyFilters => (ISTIO, "v1alpha3", "EnvoyFilter"),
    };
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), of.plural())
}

/// The version of Istio's objects that the API server has; the usual one where it says nothing of Istio.
pub(super) async fn istio(client: &Client) -> Result<&'static str, kube::Error> {
    let groups = client.list_api_groups().await?.groups;
    let served =
        groups.into_iter().find(|group| group.name == ISTIO).map(|group| group.versions).unwrap_or_default();
    let is_served = |version: &&&str| served.iter().any(|there| there.version == **version);
    Ok(VERSIONS.iter().find(is_served).copied().unwrap_or(VERSIONS[0]))
}

pub(super) type WatchEvent = (Resource, Result<Event<Value>, Failure>);

/// Never ends.
pub(super) fn events(
    client: &Client,
    scope: &WatchScope,
    istio: &str,
) -> impl Stream<Item = WatchEvent> + use<> {
    select_all(Resource::ALL.map(|of| match of {
        Resource::Deployments | Resource::StatefulSets => of_one::<WorkloadSpec>(client, scope, of, istio),
        Resource::Environments
        | Resource::Services
        | Resource::VirtualServices
        | Resource::DestinationRules
        | Resource::EnvoyFilters => of_one::<Value>(client, scope, of, istio),
    }))
}

/// Specs are read as `S`.
fn of_one<S>(
    client: &Client,
    scope: &WatchScope,
    of: Resource,
    istio: &str,
) -> LocalBoxStream<'static, WatchEvent>
where
    S: Clone + Debug + Default + DeserializeOwned + Serialize + Send + 'static,
{
    let resource = resource(of, istio);
    let api: Api<Reduced<S>> = match &scope.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let seconds = u32::try_from(scope.timeout.as_secs()).unwrap_or(u32::MAX).max(1);
    // Not from the API server's cache, which has no pages.
    let config = Config::default().page_size(PAGE).timeout(seconds);
    let events = watch::events(api, config, of.plural(), scope.call_timeout).map(move |event| {
        let event = event.map(|event| match event {
            Event::Init => Event::Init,
            Event::InitApply(object) => Event::InitApply(object.value(&resource)),
            Event::InitDone => Event::InitDone,
            Event::Apply(object) => Event::Apply(object.value(&resource)),
            Event::Delete(object) => Event::Delete(object.value(&resource)),
        });
        (of, event)
    });
    events.boxed_local()
}

/// Nothing of this name and version is served. Istio's objects may be served in another one.
pub(super) fn is_missing(of: Resource, failure: &Failure) -> bool {
    let is_istio = matches!(of, Resource::VirtualServices | Resource::DestinationRules);
    let is_list = matches!(failure, Failure::Watch(error) if matches!(**error, Error::InitialListFailed(_)));
    is_istio && is_list && failure.status() == Some(404)
}

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
    /// Items of lists don't say what they are.
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

impl<S> KubeResource for Reduced<S> {
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
    use super::super::store::Resource;
    use super::super::watch::resource;
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
