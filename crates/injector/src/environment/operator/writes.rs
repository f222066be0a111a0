//! The operator's metrics, and its writes, one call per step, while this process leads.

use super::core::{NamespaceWork, WorkOutcome};
use super::{EnvironmentOperator, store::Resource, watch};
use cluster::error::{describe, in_time};
use cluster::status::registered;
use environment::{changes::ChangeStep, existing::MANAGER};
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Error};
use prometheus_client::registry::Registry;
use prometheus_client::{metrics::counter::Counter, metrics::family::Family, metrics::gauge::Gauge};
use serde_json::{Value, json};
use std::{collections::BTreeSet, rc::Rc, time::Instant};

type Unwritten = (WorkOutcome, String);

impl EnvironmentOperator {
    pub(super) async fn work(self: Rc<Self>, work: NamespaceWork) -> WorkOutcome {
        let namespace = &*work.namespace;
        let (mut outcome, mut failed) = (WorkOutcome::Done, Vec::new());
        // After a failure, further steps for the same Service are skipped, since they may depend on it.
        let mut broken: BTreeSet<&str> = BTreeSet::new();
        for step in &work.changes.steps {
            if !self.leads() {
                return WorkOutcome::Failed;
            }
            let (kind, name) = step.about();
            if broken.contains(name) {
                continue;
            }
            let (verb, done) = (step.verb(), self.step(namespace, step).await);
            self.metrics.wrote(kind, verb, done.is_ok());
            match done {
                Ok(()) => tracing::info!(namespace, kind, name, verb, "written"),
                Err((why, error)) => {
                    if why == WorkOutcome::Outdated {
                        tracing::info!(namespace, kind, name, verb, error, "outdated");
                    } else {
                        tracing::warn!(namespace, kind, name, verb, error, "cannot write the object");
                    }
                    outcome = outcome.max(why);
                    failed.push(format!("{kind} {namespace}/{name}: {error}"));
                    broken.insert(name);
                }
            }
        }
        // To the second, like `metav1.Time`.
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let statuses = self.core.borrow().statuses(&work, &failed, &now);
        for (name, status) in statuses {
            if !self.leads() {
                return WorkOutcome::Failed;
            }
            if let Err((why, error)) = self.status(namespace, &name, &status).await {
                tracing::warn!(namespace, name, error, "cannot write the status");
                outcome = outcome.max(why);
            }
        }
        outcome
    }

    fn leads(&self) -> bool {
        self.leads_until.borrow().is_some_and(|until| Instant::now() < until)
    }

    fn api(&self, namespace: &str, of: Resource) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &watch::resource(of))
    }

    async fn step(&self, namespace: &str, step: &ChangeStep) -> Result<(), Unwritten> {
        let (kind, name) = step.about();
        let of = match kind {
            "VirtualService" => Resource::VirtualServices,
            "DestinationRule" => Resource::DestinationRules,
            _ => Resource::EnvoyFilters,
        };
        let api = self.api(namespace, of);
        match step {
            ChangeStep::Create(object) => {
                let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
                let object = serde_json::from_value(object.clone());
                let object = object.map_err(|error| (WorkOutcome::Failed, error.to_string()))?;
                self.call(api.create(&params, &object)).await.map(drop)
            }
            ChangeStep::Apply { object, uid, version } => {
                // Preconditions: force must not take over another object with this name.
                let mut object = object.clone();
                object["metadata"]["uid"] = json!(uid);
                if let Some(version) = version {
                    object["metadata"]["resourceVersion"] = json!(version);
                }
                let params = PatchParams::apply(MANAGER).force();
                self.call(api.patch(name, &params, &Patch::Apply(&object))).await.map(drop)
            }
            ChangeStep::Adopt { there, owners } => {
                let patch =
                    json!({"metadata": {"resourceVersion": there.version(), "ownerReferences": owners}});
                let params = PatchParams::apply(MANAGER);
                self.call(api.patch(name, &params, &Patch::Merge(&patch))).await.map(drop)
            }
            ChangeStep::Delete(there) => {
                let (uid, version) = (there.uid().to_owned(), there.version().to_owned());
                let only = Preconditions { uid: Some(uid), resource_version: Some(version) };
                let params = DeleteParams::background().preconditions(only);
                self.call(async { unless_gone(api.delete(name, &params).await) }).await
            }
        }
    }

    async fn status(&self, namespace: &str, name: &str, status: &Value) -> Result<(), Unwritten> {
        let resource = watch::resource(Resource::Environments);
        let api = self.api(namespace, Resource::Environments);
        let object = json!({
            "apiVersion": resource.api_version, "kind": resource.kind,
            "metadata": {"name": name, "namespace": namespace}, "status": status,
        });
        let params = PatchParams::apply(MANAGER).force();
        let patch = Patch::Apply(&object);
        // Older CRDs may have no status.
        self.call(async { unless_gone(api.patch_status(name, &params, &patch).await) }).await
    }

    async fn call<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, Unwritten> {
        in_time(self.scope.call_timeout, call).await.map_err(|error| {
            // The object was deleted or changed since it was read, or another program has created it.
            let is_outdated =
                matches!(&error, Error::Api(status) if matches!(&*status.reason, "NotFound" | "Conflict" | "AlreadyExists"));
            (if is_outdated { WorkOutcome::Outdated } else { WorkOutcome::Failed }, describe(&error))
        })
    }
}

/// A deleted object needs no write.
fn unless_gone<T>(done: kube::Result<T>) -> kube::Result<()> {
    match done {
        Err(Error::Api(status)) if status.code == 404 => Ok(()),
        done => done.map(drop),
    }
}

#[derive(Debug)]
pub(super) struct Metrics {
    writes: Family<[(&'static str, String); 3], Counter>,
    watch_errors: Family<[(&'static str, String); 2], Counter>,
    pub(super) rounds: Counter,
    pub(super) leading: Gauge,
}

impl Metrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("sidecar_environment");
        Self {
            writes: registered(registry, "writes", "Objects written"),
            watch_errors: registered(registry, "watch_errors", "Interruptions of watches"),
            rounds: registered(registry, "rounds", "Reconciliations of namespaces"),
            leading: registered(registry, "leading", "1 if this replica leads, else 0"),
        }
    }

    pub(super) fn wrote(&self, kind: &str, verb: &str, is_done: bool) {
        let outcome = if is_done { "done" } else { "failed" };
        let labels = [("kind", kind), ("verb", verb), ("outcome", outcome)];
        self.writes.get_or_create(&labels.map(|(name, value)| (name, value.to_owned()))).inc();
    }

    pub(super) fn watch_failed(&self, resource: String, kind: &str) {
        self.watch_errors.get_or_create(&[("resource", resource), ("kind", kind.to_owned())]).inc();
    }
}
