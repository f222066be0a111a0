//! The watched resources: one stream of events for all of them.
//!
//! Lists come in pages, each of which is reduced to what matters before the next is requested.

use super::object::{Reduced, WorkloadSpec};
use super::store::Resource;
use cluster::watch::{self, Failure};
use futures::{
    Stream, StreamExt,
    stream::{LocalBoxStream, select_all},
};
use injection::environment::resource::{GROUP, KIND, VERSION};
use kube::{
    Api, Client,
    api::{ApiResource, GroupVersionKind},
    runtime::watcher::{Config, Error, Event},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{fmt::Debug, time::Duration};

/// Versions of Istio's objects, the preferred one first: all since Istio 1.5 have it.
pub(super) const VERSIONS: [&str; 3] = [injection::environment::routes::ISTIO, "v1", "v1alpha3"];

const ISTIO: &str = "networking.istio.io";

/// The page size of lists. A Deployment may have a hundred kilobytes.
pub(super) const PAGE: u32 = 200;

/// What is watched of each resource, and how.
#[derive(Clone, Debug)]
pub(super) struct WatchScope {
    /// `None` for all namespaces.
    pub(super) namespace: Option<String>,
    /// How long the API server is asked to keep a watch open.
    pub(super) timeout: Duration,
    /// How long any other call may take, of a list each page.
    pub(super) call_timeout: Duration,
}

/// A resource as the API server knows it.
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

/// An event of one resource, or what went wrong with it.
pub(super) type WatchEvent = (Resource, Result<Event<Value>, Failure>);

/// The events of all resources, without end.
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

/// The events of one resource, whose specs are read as `S`.
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
