//! The Lease at the API server: looked at again and again, as long as we run.

use super::election::{Election, Move, Record};
use super::time;
use crate::refusal::told;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, api::PostParams};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::{sync::watch, time as clock};

/// Why a Lease could not be looked at or written.
type Failure = Box<dyn std::error::Error>;

/// Somebody who holds a Lease, or waits for it.
pub(super) struct Candidate {
    pub(super) api: Api<Lease>,
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) election: Election,
    /// Until when we lead, for those who act.
    pub(super) until: watch::Sender<Option<Instant>>,
}

impl Candidate {
    pub(super) fn new(client: Client, namespace: String, name: String, election: Election) -> Self {
        let api = Api::namespaced(client, &namespace);
        Self { api, name, namespace, election, until: watch::Sender::new(None) }
    }

    /// Tries to lead, for ever.
    pub(super) async fn run(&mut self) {
        let mut trouble = false;
        loop {
            let retry = self.election.times().retry;
            let turn = clock::timeout(self.election.times().trust / 2, self.turn());
            match turn.await {
                Ok(Ok(())) => trouble = false,
                failed => {
                    let error = match failed {
                        Ok(Err(error)) => told(&*error),
                        _ => "the API server does not answer in time".to_owned(),
                    };
                    // Once for each trouble, not for each try.
                    if !trouble {
                        tracing::warn!(lease = self.name, error, "the Lease can't be had");
                    }
                    trouble = true;
                }
            }
            self.tell();
            clock::sleep(retry).await;
        }
    }

    fn tell(&self) {
        let until = self.election.until();
        self.until.send_if_modified(|there| {
            let is_new = *there != until;
            *there = until;
            is_new
        });
    }

    /// Looks at the Lease, and does what is to be done.
    async fn turn(&mut self) -> Result<(), Failure> {
        let lease = self.api.get_opt(&self.name).await?;
        let record = lease.as_ref().map(record);
        let asked = Instant::now();
        let wanted = self.election.record(record.as_ref(), &time::micro());
        let lease: Lease = serde_json::from_value(object(&self.namespace, &self.name, &wanted))?;
        let next = self.election.next(record.as_ref(), asked);
        self.tell();
        let written = match next {
            Move::Wait => return Ok(()),
            Move::Create => self.api.create(&PostParams::default(), &lease).await,
            Move::Take | Move::Renew => self.api.replace(&self.name, &PostParams::default(), &lease).await,
        };
        match written {
            Ok(_) => {
                self.election.won(asked);
                Ok(())
            }
            // Another one was quicker; the next look shows who.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives the Lease back, so that another one can take it at once.
    pub(super) async fn release(&self) -> Result<(), Failure> {
        let Some(lease) = self.api.get_opt(&self.name).await? else { return Ok(()) };
        let mut record = record(&lease);
        if record.holder != self.election.identity() {
            return Ok(());
        }
        record.holder.clear();
        record.duration = Duration::from_secs(1);
        record.renewed = time::micro();
        let lease = serde_json::from_value(object(&self.namespace, &self.name, &record))?;
        self.api.replace(&self.name, &PostParams::default(), &lease).await?;
        Ok(())
    }
}

fn record(lease: &Lease) -> Record {
    let spec = serde_json::to_value(&lease.spec).unwrap_or_default();
    let text = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
    let seconds = spec["leaseDurationSeconds"].as_u64().unwrap_or_default();
    Record {
        holder: text("holderIdentity"),
        duration: Duration::from_secs(seconds),
        renewed: text("renewTime"),
        acquired: text("acquireTime"),
        transitions: spec["leaseTransitions"].as_u64().unwrap_or_default(),
        version: lease.metadata.resource_version.clone().unwrap_or_default(),
    }
}

fn object(namespace: &str, name: &str, record: &Record) -> Value {
    let mut metadata = json!({"name": name, "namespace": namespace});
    // Whoever has written it meanwhile is not overwritten.
    if !record.version.is_empty() {
        metadata["resourceVersion"] = json!(record.version);
    }
    let mut spec = json!({
        "leaseDurationSeconds": record.duration.as_secs().max(1),
        "leaseTransitions": record.transitions,
        "renewTime": record.renewed,
    });
    for (field, text) in [("holderIdentity", &record.holder), ("acquireTime", &record.acquired)] {
        if !text.is_empty() {
            spec[field] = json!(text);
        }
    }
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec})
}
