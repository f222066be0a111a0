//! Leader election by a Lease (`coordination.k8s.io/v1`), by client-go's rules: a candidate takes the Lease if it sees no renewal
//! for a whole duration by its own clock, so clocks need not agree. The holder counts the duration from before it sends a
//! renewal, and stops leading before another candidate can take over.

use crate::error::{describe, in_time};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::MicroTime, jiff::Timestamp};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use std::time::{Duration, Instant};
use tokio::{sync::watch, time};

#[derive(Debug)]
pub struct LeaseCandidate {
    api: Api<Lease>,
    name: String,
    state: LeaseState,
    until: watch::Sender<Option<Instant>>,
}

/// The election's rules, without clock or network.
#[derive(Debug)]
struct LeaseState {
    identity: String,
    /// Validity of the Lease after a renewal, in whole seconds, the resolution of a Lease.
    duration: Duration,
    /// Another holder's Lease, and the time of its last change.
    observed: Option<(LeaseSpec, Instant)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    /// The Lease does not exist, has no holder, or has expired.
    Take,
    Renew,
    Wait,
}

impl LeaseState {
    fn next(&mut self, lease: Option<&LeaseSpec>, now: Instant) -> Move {
        let Some(lease) = lease else { return Move::Take };
        match lease.holder_identity.as_deref() {
            None | Some("") => return Move::Take,
            Some(holder) if holder == self.identity => return Move::Renew,
            Some(_) => {}
        }
        match &self.observed {
            Some((observed, since)) if observed == lease => {
                let seconds = lease.lease_duration_seconds.unwrap_or_default();
                let expires = *since + Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
                if now >= expires { Move::Take } else { Move::Wait }
            }
            _ => {
                self.observed = Some((lease.clone(), now));
                Move::Wait
            }
        }
    }

    fn renewed(&self, before: Option<&LeaseSpec>, now: Timestamp) -> LeaseSpec {
        let is_ours = |lease: &&LeaseSpec| lease.holder_identity.as_deref() == Some(&*self.identity);
        let transitions = |lease: &LeaseSpec| lease.lease_transitions.unwrap_or_default();
        let ours = before.filter(is_ours);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(i32::try_from(self.duration.as_secs()).unwrap_or(i32::MAX)),
            renew_time: Some(MicroTime(now)),
            acquire_time: ours.map_or(Some(MicroTime(now)), |ours| ours.acquire_time.clone()),
            lease_transitions: Some(match (before, ours) {
                (None, _) => 0,
                (Some(_), Some(ours)) => transitions(ours),
                (Some(before), None) => transitions(before).saturating_add(1),
            }),
            ..LeaseSpec::default()
        }
    }

    /// How long this process leads after a renewal: two thirds of the duration.
    fn trust(&self) -> Duration {
        self.duration * 2 / 3
    }
}

impl LeaseCandidate {
    pub fn new(client: Client, namespace: &str, name: String, identity: String, duration: Duration) -> Self {
        let state = LeaseState { identity, duration, observed: None };
        Self { api: Api::namespaced(client, namespace), name, state, until: watch::Sender::new(None) }
    }

    /// Watches the end of this process's leadership; `None` while it does not lead.
    pub fn until(&self) -> watch::Receiver<Option<Instant>> {
        self.until.subscribe()
    }

    pub async fn run(&mut self) {
        let mut is_failing = false;
        loop {
            let turn = in_time(self.state.trust() / 2, self.turn()).await;
            let error = turn.err().map(|error| describe(&error));
            if let Some(error) = error.as_ref().filter(|_| !is_failing) {
                tracing::warn!(lease = self.name, error, "the Lease can't be acquired or renewed");
            }
            is_failing = error.is_some();
            // client-go's proportions of retry period, renew deadline and lease duration: 2:10:15.
            time::sleep(self.state.duration * 2 / 15).await;
        }
    }

    async fn turn(&mut self) -> Result<(), kube::Error> {
        let found = self.api.get_opt(&self.name).await?;
        let spec = found.as_ref().map(|lease| lease.spec.clone().unwrap_or_default());
        let sent = Instant::now();
        let next = self.state.next(spec.as_ref(), sent);
        if matches!(next, Move::Take | Move::Wait) {
            // This process does not hold the Lease, even if it assumed otherwise.
            self.until.send_if_modified(|until| until.take().is_some());
        }
        if next == Move::Wait {
            return Ok(());
        }
        let renewed = self.state.renewed(spec.as_ref(), Timestamp::now());
        match self.write(found.as_ref(), renewed).await {
            Ok(()) => drop(self.until.send_replace(Some(sent + self.state.trust()))),
            // Another candidate was faster; the next attempt reads its Lease.
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Releases the Lease, so another process can take it at once. Error: the API server's refusal; the Lease then expires.
    pub async fn release(&self) -> Result<(), kube::Error> {
        let Some(found) = self.api.get_opt(&self.name).await? else { return Ok(()) };
        let spec = found.spec.clone().unwrap_or_default();
        if spec.holder_identity.as_deref() != Some(&*self.state.identity) {
            return Ok(());
        }
        let released = LeaseSpec {
            holder_identity: None,
            lease_duration_seconds: Some(1),
            renew_time: Some(MicroTime(Timestamp::now())),
            ..spec
        };
        self.write(Some(&found), released).await
    }

    async fn write(&self, found: Option<&Lease>, spec: LeaseSpec) -> Result<(), kube::Error> {
        let named = || ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
        // The metadata has the replaced version, and other programs' labels.
        let metadata = found.map_or_else(named, |found| found.metadata.clone());
        let (lease, params) = (Lease { metadata, spec: Some(spec) }, PostParams::default());
        match found {
            Some(_) => self.api.replace(&self.name, &params, &lease).await.map(drop),
            None => self.api.create(&params, &lease).await.map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn state(identity: &str) -> LeaseState {
        LeaseState { identity: identity.to_owned(), duration: 15 * SECOND, observed: None }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_795_305_600 + second).expect("a time")
    }

    #[test]
    fn a_lease_has_one_holder() {
        let now = Instant::now();
        let (mut a, mut b) = (state("a"), state("b"));
        assert_eq!(a.next(None, now), Move::Take);
        let lease = a.renewed(None, at(0));
        assert_eq!((lease.lease_transitions, &lease.acquire_time), (Some(0), &Some(MicroTime(at(0)))));
        assert_eq!(a.trust(), 10 * SECOND);
        // The other candidate waits as long as it sees renewals, regardless of the clocks.
        assert_eq!(b.next(Some(&lease), now), Move::Wait);
        assert_eq!(a.next(Some(&lease), now + 9 * SECOND), Move::Renew);
        let lease = a.renewed(Some(&lease), at(9));
        assert_eq!(
            [lease.acquire_time.clone(), lease.renew_time.clone()],
            [0, 9].map(|s| Some(MicroTime(at(s))))
        );
        assert_eq!(b.next(Some(&lease), now + 16 * SECOND), Move::Wait);
        assert_eq!(b.next(Some(&lease), now + 30 * SECOND), Move::Wait);
        // Leading ended at second 19.
        assert_eq!(b.next(Some(&lease), now + 31 * SECOND), Move::Take);
        let taken = b.renewed(Some(&lease), at(31));
        assert_eq!((taken.holder_identity.as_deref(), taken.lease_transitions), (Some("b"), Some(1)));
        assert_eq!(taken.acquire_time, Some(MicroTime(at(31))));
        // A returning holder sees that it has lost the Lease.
        assert_eq!(a.next(Some(&taken), now + 32 * SECOND), Move::Wait);
        assert_eq!(
            a.next(Some(&LeaseSpec::default()), now + 32 * SECOND),
            Move::Take,
            "the Lease was released"
        );
    }
}
