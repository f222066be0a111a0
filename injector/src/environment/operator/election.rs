//! Who leads: the rules by which a Lease is taken, held and given back. No clock, no network.
//!
//! As Kubernetes' own components do it (`coordination.k8s.io/v1`, leader election of client-go): who holds the Lease renews
//! it; who waits takes it when it has not been renewed for its whole time, as measured by the waiter's own clock since it
//! saw the last renewal, so that clocks need not agree. The holder counts its time from before it asked, and gives up
//! earlier than others may take over.

use std::time::{Duration, Instant};

/// What a Lease says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// Empty where nobody holds it.
    pub(super) holder: String,
    /// How long it counts after a renewal.
    pub(super) duration: Duration,
    /// As it is written; only compared.
    pub(super) renewed: String,
    pub(super) acquired: String,
    /// How often it went from hand to hand.
    pub(super) transitions: u64,
    /// The object's version.
    pub(super) version: String,
}

/// What to do with a Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// There is none.
    Create,
    /// It is free, or its holder is gone.
    Take,
    /// It is ours.
    Renew,
    /// It is somebody else's.
    Wait,
}

/// How long things take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    /// How long a Lease counts after a renewal; whole seconds, as a Lease can say nothing else.
    pub(super) duration: Duration,
    /// How long we count on it ourselves: two thirds of that.
    pub(super) trust: Duration,
    /// How often it is looked at.
    pub(super) retry: Duration,
}

impl Times {
    /// The proportions of Kubernetes' own components: 15, 10 and 2 seconds.
    pub(super) fn of(duration: Duration) -> Self {
        Self { duration, trust: duration * 2 / 3, retry: duration * 2 / 15 }
    }
}

/// One who wants to lead.
#[derive(Debug)]
pub(super) struct Election {
    identity: String,
    times: Times,
    /// The last record that was another, and when it was seen.
    seen: Option<(Record, Instant)>,
    /// Until when we lead.
    until: Option<Instant>,
}

impl Election {
    pub(super) fn new(identity: String, times: Times) -> Self {
        Self { identity, times, seen: None, until: None }
    }

    pub(super) fn identity(&self) -> &str {
        &self.identity
    }

    pub(super) fn times(&self) -> Times {
        self.times
    }

    /// What is to be done, seeing what the Lease says, if there is one.
    pub(super) fn next(&mut self, record: Option<&Record>, now: Instant) -> Move {
        let Some(record) = record else {
            self.seen = None;
            return Move::Create;
        };
        if record.holder == self.identity {
            return Move::Renew;
        }
        // Somebody else has it, whatever we thought.
        self.until = None;
        if record.holder.is_empty() {
            return Move::Take;
        }
        let is_same = |(seen, _): &&(Record, Instant)| {
            (&seen.holder, &seen.renewed, seen.transitions)
                == (&record.holder, &record.renewed, record.transitions)
        };
        match self.seen.as_ref().filter(is_same) {
            Some((_, since)) if now >= *since + record.duration => Move::Take,
            Some(_) => Move::Wait,
            None => {
                self.seen = Some((record.clone(), now));
                Move::Wait
            }
        }
    }

    /// The Lease as we write it. `now` is the time as a Lease writes it.
    pub(super) fn record(&self, before: Option<&Record>, now: &str) -> Record {
        let ours = before.filter(|before| before.holder == self.identity);
        Record {
            holder: self.identity.clone(),
            duration: self.times.duration,
            renewed: now.to_owned(),
            acquired: ours.map_or_else(|| now.to_owned(), |ours| ours.acquired.clone()),
            transitions: match (before, ours) {
                (None, _) => 0,
                (Some(_), Some(ours)) => ours.transitions,
                (Some(before), None) => before.transitions + 1,
            },
            version: before.map(|before| before.version.clone()).unwrap_or_default(),
        }
    }

    /// The API server has taken what we wrote. `asked` is when we began to ask.
    pub(super) fn won(&mut self, asked: Instant) {
        self.until = Some(asked + self.times.trust);
    }

    /// Until when we lead, unless we renew; `None` if we don't.
    pub(super) fn until(&self) -> Option<Instant> {
        self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn election(name: &str) -> Election {
        Election::new(name.to_owned(), Times::of(Duration::from_secs(15)))
    }

    fn held(by: &str, renewed: &str) -> Record {
        let duration = Duration::from_secs(15);
        Record { holder: by.to_owned(), renewed: renewed.to_owned(), duration, ..Record::default() }
    }

    #[test]
    fn a_lease_goes_to_one_and_stays() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let (mut a, mut b) = (election("a"), election("b"));
        assert_eq!(a.next(None, now), Move::Create);
        let record = a.record(None, "t0");
        a.won(now);
        assert_eq!((record.transitions, &*record.acquired), (0, "t0"));
        assert_eq!(a.until(), Some(now + 10 * second));
        // The other one waits as long as it sees renewals, whatever the clocks say.
        assert_eq!(b.next(Some(&record), now), Move::Wait);
        assert_eq!(a.next(Some(&record), now + 9 * second), Move::Renew);
        let record = a.record(Some(&record), "t9");
        assert_eq!((&*record.acquired, &*record.renewed), ("t0", "t9"));
        a.won(now + 9 * second);
        assert_eq!(b.next(Some(&record), now + 16 * second), Move::Wait);
        assert_eq!(b.next(Some(&record), now + 30 * second), Move::Wait);
        // The holder has stopped counting on it before.
        assert!(a.until().is_some_and(|until| until < now + 31 * second));
        assert_eq!(b.next(Some(&record), now + 31 * second), Move::Take);
        let taken = b.record(Some(&record), "t31");
        assert_eq!((&*taken.holder, taken.transitions, &*taken.acquired), ("b", 1, "t31"));
        // Who comes back sees that it has lost.
        assert_eq!(a.next(Some(&taken), now + 32 * second), Move::Wait);
        assert_eq!(a.until(), None);
    }

    #[test]
    fn a_lease_that_was_given_back_is_taken_at_once() {
        let now = Instant::now();
        assert_eq!(election("b").next(Some(&held("", "t")), now), Move::Take);
        // As is one that is ours, as after an answer that was lost.
        assert_eq!(election("b").next(Some(&held("b", "t")), now), Move::Renew);
    }
}
