//! What is done for a broken pod: its rules are set, or it is labelled, or deleted.

use crate::arguments::{Action, Label, Repair};
use crate::incident::Incident;
use crate::mend::{self, Mended, mend};
use crate::sandbox::{self, Lost};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use serde_json::json;
use std::{net::IpAddr, time::Duration};
use tokio::{task, time};

/// What this program calls itself where others see it.
pub(crate) const NAME: &str = "sidecar-node";

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was done; what.
    Done(String),
    /// There is nothing to do; why.
    LeftAlone(String),
    /// There is no such pod any more.
    Gone,
}

/// Why it was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("the pod's network namespace is not known: {0}")]
    Lost(#[from] Lost),
    #[error(transparent)]
    Mend(#[from] Box<mend::Failure>),
    #[error("the API server can't be asked")]
    Api(#[source] Box<kube::Error>),
    #[error("the API server gave no answer within {0:?}")]
    Silence(Duration),
    #[error("the work on the namespace has ended without an outcome")]
    Panic,
}

impl Failure {
    /// Whether another pod may have got the name: a uid that is not the pod's conflicts with a deletion (409) and makes a
    /// patch invalid (422).
    fn is_of_another(&self) -> bool {
        matches!(self.code(), Some(409 | 422))
    }

    /// What the API server has answered, as a status of HTTP.
    pub(crate) fn code(&self) -> Option<u16> {
        match self {
            Self::Api(error) => code(error),
            _ => None,
        }
    }
}

/// What the API server has answered, as a status of HTTP.
pub(crate) fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// Who treats.
pub(crate) struct Treatment {
    client: Client,
    recorder: Recorder,
    settings: Repair,
}

impl Treatment {
    pub(crate) fn new(client: Client, settings: Repair) -> Self {
        let reporter = Reporter { controller: NAME.to_owned(), instance: Some(settings.node.clone()) };
        let recorder = Recorder::new(client.clone(), reporter);
        Self { client, recorder, settings }
    }

    /// Does it. Idempotent: what is done already is left alone.
    ///
    /// # Errors
    /// When it could not be done.
    pub(crate) async fn treat(&self, pod: &Pod, incident: &Incident) -> Result<Outcome, Failure> {
        let outcome = match &self.settings.action {
            Action::Repair => self.repair(pod).await,
            Action::Label(label) => self.label(pod, label).await,
            Action::Delete => self.delete(pod).await,
        };
        match &outcome {
            Ok(Outcome::Done(what)) => self.tell(pod, EventType::Normal, "Done", incident, what).await,
            Ok(Outcome::LeftAlone(_) | Outcome::Gone) => {}
            Err(failure) if failure.is_of_another() => {}
            Err(failure) => {
                self.tell(pod, EventType::Warning, "Failed", incident, &failure.to_string()).await;
            }
        }
        outcome
    }

    async fn repair(&self, pod: &Pod) -> Result<Outcome, Failure> {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if let Some(phase @ ("Failed" | "Succeeded")) = phase {
            return Ok(Outcome::LeftAlone(format!("its phase is {phase}, so nothing of it starts again")));
        }
        let manifest = manifest(pod);
        let (places, uid, addresses) =
            (self.settings.places.clone(), pod.uid().unwrap_or_default(), addresses(pod));
        let (choice, excluded) = (self.settings.backend, self.settings.excluded_namespaces.clone());
        let work = move || -> Result<Mended, Failure> {
            let sandbox = sandbox::find(&places, &uid, &addresses)?;
            Ok(mend(&manifest, &sandbox, choice, &excluded).map_err(Box::new)?)
        };
        match task::spawn_blocking(work).await.map_err(|_| Failure::Panic)?? {
            Mended::LeftAlone(why) => Ok(Outcome::LeftAlone(why)),
            Mended::Captured { backend, rules, changed, warnings } => {
                for warning in warnings {
                    tracing::warn!(pod = %named(pod), "{warning}");
                }
                let how =
                    if changed { "set in its namespace, and verified" } else { "in its namespace already" };
                Ok(Outcome::Done(format!("{rules} rules ({backend}) are {how}")))
            }
        }
    }

    async fn label(&self, pod: &Pod, Label { key, value }: &Label) -> Result<Outcome, Failure> {
        if pod.labels().get(key) == Some(value) {
            return Ok(Outcome::LeftAlone(format!("it has the label {key}={value} already")));
        }
        // The uid makes the API server refuse where another pod has got the name.
        let patch = json!({ "metadata": { "uid": pod.uid(), "labels": { key: value } } });
        let params = PatchParams { field_manager: Some(NAME.to_owned()), ..PatchParams::default() };
        let patch = Patch::Merge(&patch);
        let (api, name) = (self.pods(pod), pod.name_any());
        gone_or(self.call(api.patch_metadata(&name, &params, &patch)).await, || {
            format!("it is labelled {key}={value}")
        })
    }

    async fn delete(&self, pod: &Pod) -> Result<Outcome, Failure> {
        let preconditions = Preconditions { uid: pod.uid(), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let (api, name) = (self.pods(pod), pod.name_any());
        gone_or(self.call(api.delete(&name, &params)).await, || {
            "it is deleted, so that another one takes its place".to_owned()
        })
    }

    async fn call<T>(&self, call: impl Future<Output = kube::Result<T>>) -> Result<T, Failure> {
        let most = self.settings.call_timeout;
        let answer = time::timeout(most, call).await.map_err(|_| Failure::Silence(most))?;
        answer.map_err(|error| Failure::Api(Box::new(error)))
    }

    fn pods(&self, pod: &Pod) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default())
    }

    /// Leaves an event, which `kubectl describe` shows. Without it the work is done all the same.
    async fn tell(&self, pod: &Pod, type_: EventType, outcome: &str, incident: &Incident, note: &str) {
        let action = self.settings.action.name();
        let start = format!("{} exited with {}: ", incident.container, self.settings.signs.exit_code);
        let note = shortened(start + note);
        let event = Event {
            type_,
            reason: format!("Sidecar{}{outcome}", capitalised(action)),
            note: Some(note),
            action: capitalised(action),
            secondary: None,
        };
        let told =
            time::timeout(self.settings.call_timeout, self.recorder.publish(&event, &pod.object_ref(&())))
                .await;
        if let Ok(Err(error)) = told {
            tracing::warn!(pod = %named(pod), error = %chain(&error), "no event can be left");
        }
    }
}

/// A pod as people name it.
pub(crate) fn named(pod: &Pod) -> String {
    format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any())
}

/// An error with its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

/// The pod as the policy reads it. What the API server hands out has no kind where it comes from a list.
fn manifest(pod: &Pod) -> String {
    let mut value = serde_json::to_value(pod).unwrap_or_default();
    value["apiVersion"] = "v1".into();
    value["kind"] = "Pod".into();
    value.to_string()
}

fn addresses(pod: &Pod) -> Vec<IpAddr> {
    let Some(status) = &pod.status else { return Vec::new() };
    let many = status.pod_ips.iter().flatten().map(|address| address.ip.as_str());
    many.chain(status.pod_ip.as_deref()).filter_map(|address| address.parse().ok()).collect()
}

/// A pod that is gone needs nothing. Whether another one has got its name, the watch tells before the next try.
fn gone_or<T>(answer: Result<T, Failure>, done: impl FnOnce() -> String) -> Result<Outcome, Failure> {
    match answer {
        Ok(_) => Ok(Outcome::Done(done())),
        Err(failure) if failure.code() == Some(404) => Ok(Outcome::Gone),
        Err(failure) => Err(failure),
    }
}

/// As much of a note as the API server takes, which counts bytes (`noteLengthLimit`, 1,024).
fn shortened(mut note: String) -> String {
    const MOST: usize = 1_000;
    let end = (0..=MOST.min(note.len())).rev().find(|at| note.is_char_boundary(*at)).unwrap_or_default();
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
