//! Actions on a broken pod: set rules, label, or delete.

use crate::arguments::{PodAction, PodLabel, Repair};
use crate::repair::{PodActionFailure, PodActionOutcome, repair};
use crate::repair_queue::ValidationFailure;
use cluster::error::{describe, in_time, status};
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;
use std::time::Duration;
use tokio::task;

const NAME: &str = "sidecar-node";

/// Publisher of events, which `kubectl describe` shows. Repairs do not depend on them.
pub(crate) struct Publisher {
    recorder: Recorder,
    limit: Duration,
}

impl Publisher {
    pub(crate) fn new(client: Client, settings: &Repair) -> Self {
        let reporter = Reporter { controller: NAME.to_owned(), instance: Some(settings.node.clone()) };
        Self { recorder: Recorder::new(client, reporter), limit: settings.call_timeout }
    }

    pub(crate) async fn publish(
        &self,
        pod: &ObjectReference,
        type_: EventType,
        [reason, action]: [String; 2],
        note: String,
    ) -> bool {
        let event = Event { type_, reason, note: Some(shortened(note)), action, secondary: None };
        let published = in_time(self.limit, self.recorder.publish(&event, pod)).await;
        if let Err(error) = &published {
            tracing::warn!(pod = pod.name, error = describe(error), "cannot publish an event");
        }
        published.is_ok()
    }
}

pub(crate) struct Repairer {
    client: Client,
    publisher: Publisher,
    settings: Repair,
}

impl Repairer {
    pub(crate) fn new(client: Client, settings: Repair) -> Self {
        Self { publisher: Publisher::new(client.clone(), &settings), client, settings }
    }

    /// Handles a broken pod. Idempotent.
    pub(crate) async fn handle(
        &self,
        pod: &Pod,
        failure: &ValidationFailure,
    ) -> Result<PodActionOutcome, PodActionFailure> {
        let outcome = match self.settings.action {
            PodAction::Repair => self.repair(pod).await,
            PodAction::Label => self.label(pod).await,
            PodAction::Delete => self.delete(pod).await,
        };
        let (type_, end, note) = match &outcome {
            Ok(PodActionOutcome::Done(what)) => (EventType::Normal, "Done", what.clone()),
            Ok(PodActionOutcome::Skipped(_) | PodActionOutcome::Gone) => return outcome,
            // Another pod may have the name now: a wrong uid conflicts with a deletion and makes a patch invalid.
            Err(PodActionFailure::Api(error)) if matches!(status(&**error), Some(409 | 422)) => {
                return outcome;
            }
            Err(error) => (EventType::Warning, "Failed", describe(error)),
        };
        let action = capitalised(self.settings.action.name());
        let note = format!("{} exited with {}: {note}", failure.container, self.settings.signature.exit_code);
        let words = [format!("Sidecar{action}{end}"), action];
        self.publisher.publish(&pod.object_ref(&()), type_, words, note).await;
        outcome
    }

    async fn repair(&self, pod: &Pod) -> Result<PodActionOutcome, PodActionFailure> {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if let Some(phase @ ("Failed" | "Succeeded")) = phase {
            return Ok(PodActionOutcome::Skipped(format!(
                "its phase is {phase}, so none of its containers restarts"
            )));
        }
        let (pod, settings) = (pod.clone(), self.settings.clone());
        let work = task::spawn_blocking(move || repair(&pod, &settings));
        work.await.map_err(|_| PodActionFailure::Panic)?
    }

    async fn label(&self, pod: &Pod) -> Result<PodActionOutcome, PodActionFailure> {
        let PodLabel { key, value } = &self.settings.label;
        if pod.labels().get(key) == Some(value) {
            return Ok(PodActionOutcome::Skipped(format!("it already has the label {key}={value}")));
        }
        // With the uid, the API server refuses the patch if another pod has the name now.
        let patch = json!({ "metadata": { "uid": pod.uid(), "labels": { key: value } } });
        let params = PatchParams { field_manager: Some(NAME.to_owned()), ..PatchParams::default() };
        let patch = Patch::Merge(&patch);
        let (api, name) = (self.pods(pod), pod.name_any());
        let done = format!("it is labelled {key}={value}");
        self.call(api.patch_metadata(&name, &params, &patch), done).await
    }

    async fn delete(&self, pod: &Pod) -> Result<PodActionOutcome, PodActionFailure> {
        let preconditions = Preconditions { uid: pod.uid(), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let (api, name) = (self.pods(pod), pod.name_any());
        let done = "it is deleted, to be replaced by its controller".to_owned();
        self.call(api.delete(&name, &params), done).await
    }

    /// Runs a call; a missing pod is not a failure. If another pod has the name now, the watch reports that before the next try.
    async fn call<T>(
        &self,
        call: impl Future<Output = kube::Result<T>>,
        done: String,
    ) -> Result<PodActionOutcome, PodActionFailure> {
        match in_time(self.settings.call_timeout, call).await {
            Ok(_) => Ok(PodActionOutcome::Done(done)),
            Err(error) if status(&error) == Some(404) => Ok(PodActionOutcome::Gone),
            Err(error) => Err(PodActionFailure::Api(Box::new(error))),
        }
    }

    fn pods(&self, pod: &Pod) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default())
    }
}

/// A note within the API server's limit, which counts bytes (`noteLengthLimit`, 1,024).
fn shortened(mut note: String) -> String {
    const MAX_LENGTH: usize = 1_000;
    let end =
        (0..=MAX_LENGTH.min(note.len())).rev().find(|at| note.is_char_boundary(*at)).unwrap_or_default();
    note.truncate(end);
    note
}

fn capitalised(word: &str) -> String {
    let (first, rest) = word.split_at(1);
    first.to_uppercase() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_short_in_bytes() {
        assert_eq!(shortened("as it is".to_owned()), "as it is");
        let note = shortened("\u{e4}".repeat(999) + "x");
        assert_eq!(note, "\u{e4}".repeat(500));
        assert_eq!(shortened(format!("x{note}")).len(), 999, "no character is cut");
    }
}
