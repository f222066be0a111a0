//! Watched resources, in one stream of events.
//!
//! Lists come in pages, each of which is reduced to the relevant parts before the next is requested. In a workload's pod
//! template, only the labels are relevant. Parsing skips everything else, which is most of a Deployment.

use super::store::Resource;
use cluster::watch::{self, WatchFailure};
use environment::resource::{GROUP, KIND, VERSION};
use environment::routes;
use futures::stream::{LocalBoxStream, select_all};
use futures::{Stream, StreamExt};
use kube::api::{ApiResource, GroupVersionKind, TypeMeta};
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client, core::Object};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{fmt::Debug, time::Duration};

const ISTIO: &str = "networking.istio.io";

/// Page size of lists. A Deployment may be a hundred kilobytes.
const PAGE: u32 = 200;

#[derive(Clone, Debug)]
pub(super) struct WatchScope {
    /// `None` for all namespaces.
    pub(super) namespace: Option<String>,
    pub(super) timeout: Duration,
    /// Time limit of other calls; for lists, per page.
    pub(super) call_timeout: Duration,
}

pub(super) fn resource(of: Resource) -> ApiResource {
    let (group, version, kind) = match of {
        Resource::Environments => (GROUP, VERSION, KIND),
        Resource::Services => ("", "v1", "Service"),
        Resource::Deployments => ("apps", "v1", "Deployment"),
        Resource::StatefulSets => ("apps", "v1", "StatefulSet"),
        Resource::VirtualServices => (ISTIO, routes::ISTIO, "VirtualService"),
        Resource::DestinationRules => (ISTIO, routes::ISTIO, "DestinationRule"),
        // EnvoyFilter's only version.
        Resource::EnvoyFilters => (ISTIO, "v1alpha3", "EnvoyFilter"),
    };
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

pub(super) type WatchEvent = (Resource, Result<Event<Value>, WatchFailure>);

pub(super) fn events(client: &Client, scope: &WatchScope) -> impl Stream<Item = WatchEvent> + use<> {
    select_all(Resource::ALL.map(|of| match of {
        Resource::Deployments | Resource::StatefulSets => of_one::<WorkloadSpec>(client, scope, of),
        Resource::Environments
        | Resource::Services
        | Resource::VirtualServices
        | Resource::DestinationRules
        | Resource::EnvoyFilters => of_one::<Value>(client, scope, of),
    }))
}

fn of_one<S>(client: &Client, scope: &WatchScope, of: Resource) -> LocalBoxStream<'static, WatchEvent>
where
    S: Clone + Debug + DeserializeOwned + Serialize + Send + 'static,
{
    let resource = resource(of);
    let api: Api<Reduced<S>> = match &scope.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let seconds = u32::try_from(scope.timeout.as_secs()).unwrap_or(u32::MAX).max(1);
    // Bypasses the API server's cache, which does not paginate.
    let config = Config::default().page_size(PAGE).timeout(seconds);
    let events = watch::events(api, config, &*resource.plural, scope.call_timeout).map(move |event| {
        let event = event.map(|event| match event {
            Event::Init => Event::Init,
            Event::InitApply(object) => Event::InitApply(value(object, &resource)),
            Event::InitDone => Event::InitDone,
            Event::Apply(object) => Event::Apply(value(object, &resource)),
            Event::Delete(object) => Event::Delete(value(object, &resource)),
        });
        (of, event)
    });
    events.boxed_local()
}

/// Parts of a Deployment's or StatefulSet's spec that determine routes.
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

type Reduced<S> = Object<Option<S>, Value>;

fn value<S: Clone + Serialize>(mut object: Reduced<S>, resource: &ApiResource) -> Value {
    // List items have no type.
    object.types = Some(TypeMeta { api_version: resource.api_version.clone(), kind: resource.kind.clone() });
    serde_json::to_value(object).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn irrelevant_parts_are_skipped() {
        let metadata =
            json!({"name": "cart", "namespace": "shop", "resourceVersion": "7", "annotations": {"a": "b"}});
        let text = json!({"metadata": metadata, "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "cart"}},
            "template": {"metadata": {"labels": {"app": "cart"}, "annotations": {"c": "d"}}, "spec": {"containers": []}},
        }})
        .to_string();
        let parsed: Reduced<WorkloadSpec> = serde_json::from_str(&text).expect("a Deployment");
        assert_eq!(
            value(parsed, &resource(Resource::Deployments)),
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
                "spec": {"replicas": 2, "template": {"metadata": {"labels": {"app": "cart"}}}}})
        );
        let parsed: Reduced<Value> =
            serde_json::from_str(r#"{"metadata": {}}"#).expect("an object without spec");
        assert_eq!(value(parsed, &resource(Resource::Services))["spec"], Value::Null);
    }
}
