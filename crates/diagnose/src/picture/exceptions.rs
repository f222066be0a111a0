//! Exceptions become arrows: "all TCP but that of the proxy" is first the proxy's TCP, and then all other TCP. So
//! each arrow names what it takes, and what a rule excepts is seen where it goes.

use super::flow::{FlowDisposition, Is};
use super::walk::Arrow;
use rules::Origin;
use std::collections::VecDeque;

/// The same, where each exception that ends in one way whatever else is true of a packet precedes the arrow that had it.
pub(super) fn resolved(arrows: Vec<Arrow>) -> Vec<Arrow> {
    let mut rest = VecDeque::from(arrows);
    let mut resolved = Vec::new();
    while let Some(mut arrow) = rest.pop_front() {
        for need in arrow.needs.clone() {
            let Is::Not(excepted) = &need else { continue };
            let found = candidates(&arrow.needs, excepted).into_iter().find_map(|needs| {
                end_of(&needs, &rest).map(|(disposition, origin)| (needs, disposition, origin))
            });
            let Some((needs, disposition, origin)) = found else { continue };
            arrow.needs.retain(|other| *other != need);
            if disposition != arrow.disposition {
                resolved.push(Arrow { needs, disposition, origin });
            } else if origin != arrow.origin {
                // Two rules do the same, so no single one decides.
                arrow.origin = None;
            }
        }
        resolved.push(arrow);
    }
    resolved
}

/// The conditions by which an exception may be its own arrow, preferred ones first: a sender by itself, all others
/// with the protocol, and last with all that the arrow takes.
fn candidates(needs: &[Is], excepted: &Is) -> Vec<Vec<Is>> {
    let with = |kept: &dyn Fn(&Is) -> bool| -> Vec<Is> {
        needs.iter().filter(|need| kept(need)).chain([excepted]).cloned().collect()
    };
    let is_protocol = |need: &Is| matches!(need, Is::Tcp | Is::Udp);
    let of_protocol = with(&is_protocol);
    let of_all = with(&|need| !matches!(need, Is::Not(_)));
    match excepted {
        Is::Of(..) | Is::Marked(_) => vec![with(&|_| false), of_protocol, of_all],
        _ => vec![of_protocol, of_all],
    }
}

/// How packets end that fulfil these conditions and come to the first of these arrows; `None` if that depends on more.
fn end_of(needs: &[Is], arrows: &VecDeque<Arrow>) -> Option<(FlowDisposition, Option<Origin>)> {
    let mut end: Option<(FlowDisposition, Option<Origin>)> = None;
    for arrow in arrows {
        if arrow.needs.iter().any(|need| excludes(needs, need)) {
            continue;
        }
        match &mut end {
            None => end = Some((arrow.disposition, arrow.origin)),
            Some((disposition, _)) if *disposition != arrow.disposition => return None,
            Some((_, origin)) if *origin != arrow.origin => *origin = None,
            Some(_) => {}
        }
        if arrow.needs.iter().all(|need| implies(needs, need)) {
            return end;
        }
    }
    None
}

/// Whether packets that fulfil the conditions never fulfil this one.
fn excludes(needs: &[Is], other: &Is) -> bool {
    needs.iter().any(|need| match (need, other) {
        (Is::Tcp, Is::Udp) | (Is::Udp, Is::Tcp) => true,
        (Is::Ports(ports), Is::Ports(others)) => none_meet(ports, others, |range, other| {
            range.first() <= other.last() && other.first() <= range.last()
        }),
        (Is::To(networks), Is::To(others)) | (Is::From(networks), Is::From(others)) => {
            none_meet(networks, others, |network, other| {
                network.contains(other.address()) || other.contains(network.address())
            })
        }
        (need, Is::Not(other)) => need == &**other,
        (Is::Not(need), other) => &**need == other,
        _ => false,
    })
}

/// Whether all packets that fulfil the conditions fulfil this one.
fn implies(needs: &[Is], other: &Is) -> bool {
    needs.contains(other) || matches!(other, Is::Not(other) if excludes(needs, other))
}

fn none_meet<T>(ones: &[T], others: &[T], meet: impl Fn(&T, &T) -> bool) -> bool {
    !ones.iter().any(|one| others.iter().any(|other| meet(one, other)))
}
