//! Compares the outcome of a call with the verdict of the rules.

use diagnose::probe::Call;
use rules::simulate::Verdict;
use sidecar_init::{
    engine::{ConnectionOutcome, NoResult, ProbeEvidence, ProbeObservation},
    sys::namespace,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    Right(ProbeObservation),
    Wrong(ProbeObservation),
    /// Not tried, for this reason.
    NoResult(String),
}

impl Judgement {
    pub(super) fn is_right(&self) -> bool {
        matches!(self, Self::Right(_))
    }

    pub(super) fn is_wrong(&self) -> bool {
        matches!(self, Self::Wrong(_))
    }
}

/// Compares the outcome with the expectation. `has_conntrack` is whether conntrack could be read.
pub(super) fn judge(
    call: &Call,
    outcome: Result<ProbeObservation, NoResult>,
    has_conntrack: bool,
) -> Judgement {
    let seen = match outcome {
        Ok(_) if call.expected == Verdict::Unknown => {
            return Judgement::NoResult(format!("what is to become of it is unknown: {}", call.because));
        }
        Ok(seen) => seen,
        Err(NoResult::NoRoute(_)) if call.is_within_pod() => {
            if call.to.is_ipv6() && namespace::lacks_ipv6("lo") {
                return Judgement::NoResult("IPv6 is switched off here".to_owned());
            }
            let end = ConnectionOutcome::NoAddress(call.to.ip());
            ProbeObservation { end, proof: ProbeEvidence::Answer, original: None }
        }
        Err(untried) => return Judgement::NoResult(untried.to_string()),
    };
    let seen = match (call.expected, seen.end) {
        // Where a listener for what is handed over has the destination's own port, what passes arrives there too.
        (Verdict::Pass, ConnectionOutcome::Handed(Some(port))) if port == call.to.port() => {
            ProbeObservation { end: ConnectionOutcome::Passed, ..seen }
        }
        _ => seen,
    };
    let unknown = |what: &str| Judgement::NoResult(what.to_owned());
    let right = match (call.expected, seen.end) {
        (Verdict::Redirect(ports), ConnectionOutcome::Redirected(there)) => {
            ports.contains(there.port()) && seen.original.is_none_or(|original| original == call.to)
        }
        (Verdict::Tproxy(port), ConnectionOutcome::Handed(there)) => {
            there.is_none_or(|there| there == port.number())
        }
        (Verdict::Redirect(_) | Verdict::Tproxy(_), ConnectionOutcome::Accepted) => true,
        (Verdict::Tproxy(_), ConnectionOutcome::Silent | ConnectionOutcome::Nowhere) if !has_conntrack => {
            return unknown("a transparent listener is needed: needs CAP_NET_ADMIN or CAP_NET_RAW");
        }
        (Verdict::Pass, ConnectionOutcome::Passed) => true,
        // No rule has rewritten it, or the listener there would have heard of it.
        (Verdict::Pass, ConnectionOutcome::Silent) => true,
        (Verdict::Pass, ConnectionOutcome::Refused) if !has_conntrack => {
            return unknown(
                "it was refused, and only conntrack knows by which listener: needs CAP_NET_ADMIN",
            );
        }
        (Verdict::Drop, ConnectionOutcome::Nowhere | ConnectionOutcome::Refused) => true,
        _ => false,
    };
    if right { Judgement::Right(seen) } else { Judgement::Wrong(seen) }
}

/// The proof in words, unless it is the usual one.
pub(super) fn known(proof: ProbeEvidence) -> Option<&'static str> {
    match proof {
        ProbeEvidence::Token => None,
        ProbeEvidence::Conntrack => Some("conntrack"),
        ProbeEvidence::Answer => Some("an unknown listener answered"),
        ProbeEvidence::Silence => Some("no listener heard of it"),
    }
}
