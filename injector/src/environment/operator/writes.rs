//! The writes: each step by one call, as long as we lead.

use super::core::{Core, Work};
use super::numbers::Numbers;
use super::store::Resource;
use super::{time, watch};
use injection::environment::changes::Step;
use kube::{
    Api, Client, Error,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::{Value, json};
use std::{
    cell::RefCell,
    collections::BTreeSet,
    rc::Rc,
    time::{Duration, Instant},
};
use tokio::sync::watch::Receiver;

/// By what name the API server knows what we have set.
pub(super) const MANAGER: &str = "sidecar-injector-environment";

/// How things are written.
pub(super) struct Writer {
    pub(super) client: Client,
    pub(super) istio: &'static str,
    /// How long a call may take.
    pub(super) patience: Duration,
    /// Until when we lead.
    pub(super) until: Receiver<Option<Instant>>,
    pub(super) numbers: Rc<Numbers>,
}

impl Writer {
    /// Does the work, and tells the VirtualEnvironments. Whether all of it was done.
    pub(super) async fn work(self, work: Work, core: Rc<RefCell<Core>>) -> bool {
        let mut failed = Vec::new();
        // What follows for the same Service may rest on what failed. Other Services don't suffer for it.
        let mut broken: BTreeSet<&str> = BTreeSet::new();
        for step in &work.steps {
            if !self.leads() {
                return false;
            }
            let (kind, name) = step.about();
            if broken.contains(name) {
                continue;
            }
            let (verb, done) = self.step(&work.namespace, step).await;
            self.numbers.wrote(kind, verb, done.is_ok());
            match done {
                Ok(()) => tracing::info!(namespace = work.namespace, kind, name, verb, "written"),
                Err(error) => {
                    tracing::warn!(namespace = work.namespace, kind, name, verb, error, "not written");
                    failed.push(format!("{kind} {}/{name}: {error}", work.namespace));
                    broken.insert(name);
                }
            }
        }
        let statuses = core.borrow().statuses(&work, &failed, &time::second());
        let mut well = failed.is_empty();
        for (name, status) in statuses {
            if !self.leads() {
                return false;
            }
            if let Err(error) = self.status(&work.namespace, &name, &status).await {
                tracing::warn!(namespace = work.namespace, name, error, "its status is not written");
                well = false;
            }
        }
        well
    }

    fn leads(&self) -> bool {
        self.until.borrow().is_some_and(|until| Instant::now() < until)
    }

    fn api(&self, namespace: &str, of: Resource) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &watch::resource(of, self.istio))
    }

    async fn step(&self, namespace: &str, step: &Step) -> (&'static str, Result<(), String>) {
        let (kind, name) = step.about();
        let of = match kind {
            "VirtualService" => Resource::VirtualServices,
            "DestinationRule" => Resource::DestinationRules,
            _ => Resource::EnvoyFilters,
        };
        let api = self.api(namespace, of);
        match step {
            Step::Create(object) => {
                let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
                let created = match serde_json::from_value(object.clone()) {
                    Ok(object) => self.call(api.create(&params, &object)).await.map(drop),
                    Err(error) => Err(error.to_string()),
                };
                ("create", created)
            }
            Step::Apply { object, uid, version } => {
                // Preconditions: whatever is there by now under this name is not taken over by force.
                let mut object = object.clone();
                object["metadata"]["uid"] = json!(uid);
                if let Some(version) = version {
                    object["metadata"]["resourceVersion"] = json!(version);
                }
                let params = PatchParams::apply(MANAGER).force();
                ("apply", self.call(api.patch(name, &params, &Patch::Apply(&object))).await.map(drop))
            }
            Step::Adopt { version, owners, .. } => {
                let patch = json!({"metadata": {"resourceVersion": version, "ownerReferences": owners}});
                let params =
                    PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
                ("adopt", self.call(api.patch(name, &params, &Patch::Merge(&patch))).await.map(drop))
            }
            Step::Delete { uid, version, .. } => {
                let only = Preconditions { uid: Some(uid.clone()), resource_version: Some(version.clone()) };
                let params = DeleteParams::background().preconditions(only);
                let deleted = self.timed(api.delete(name, &params)).await;
                let deleted = match deleted {
                    // It is gone, as is wanted.
                    Ok(Err(Error::Api(status))) if status.code == 404 => Ok(()),
                    Ok(done) => done.map(drop).map_err(|error| told(&error)),
                    Err(silence) => Err(silence),
                };
                ("delete", deleted)
            }
        }
    }

    async fn status(&self, namespace: &str, name: &str, status: &Value) -> Result<(), String> {
        let resource = watch::resource(Resource::Environments, self.istio);
        let api = self.api(namespace, Resource::Environments);
        let object = json!({
            "apiVersion": resource.api_version, "kind": resource.kind,
            "metadata": {"name": name, "namespace": namespace}, "status": status,
        });
        let params = PatchParams::apply(MANAGER).force();
        match self.timed(api.patch_status(name, &params, &Patch::Apply(&object))).await {
            // It is gone, or its definition is an older one that has no status.
            Ok(Err(Error::Api(status))) if status.code == 404 => Ok(()),
            Ok(done) => done.map(drop).map_err(|error| told(&error)),
            Err(silence) => Err(silence),
        }
    }

    async fn call<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, String> {
        self.timed(call).await?.map_err(|error| told(&error))
    }

    async fn timed<T>(&self, call: impl Future<Output = T>) -> Result<T, String> {
        let timed = tokio::time::timeout(self.patience, call).await;
        timed.map_err(|_| format!("the API server does not answer within {:?}", self.patience))
    }
}

/// What the API server says, or why nobody knows.
pub(super) fn told(error: &(dyn std::error::Error + 'static)) -> String {
    if let Some(Error::Api(status)) = error.downcast_ref::<Error>() {
        return format!("{} ({})", status.message, status.code);
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
