//! Outcome for a packet, from the matching rules in the kernel's report.

use super::trace::{At, NatTarget, Outcome, Step, Verdict};
use super::view::View;
use crate::{Action, Hook, Port, PortRange, Target, nft::Kind};
use std::net::SocketAddr;

/// Outcome of a packet's reported walk to `destination`. `steps` are the matching rules in order; `dropped` is the rule or chain
/// policy that dropped the packet, if any. No condition is evaluated.
pub fn replay(view: &View, destination: SocketAddr, steps: &[Step], dropped: Option<At>) -> Outcome {
    let mut captured: Option<(Verdict, At)> = None;
    let mut passed: Option<(bool, At)> = None;
    let mut translated: Option<(NatTarget, At)> = None;
    for (index, step) in steps.iter().enumerate() {
        let Some(rule) = view.rule(step.at) else { continue };
        let in_nat = is_in_nat(view, &steps[..=index]);
        let is_source_nat = in_nat && matches!(step.hook, Hook::Input | Hook::Postrouting);
        let caller = caller(view, &steps[..=index]).map(|caller| steps[caller].at);
        let decider = view.decider(step.at, caller);
        for action in rule.first.iter().chain([&rule.action]) {
            match action {
                // The socket that TPROXY assigned gets the packet, even if rules rewrite it afterwards.
                Action::Target(Target::Redirect(ports))
                    if !matches!(captured, Some((Verdict::Tproxy(_), _))) =>
                {
                    captured = Some((Verdict::Redirect(*ports), decider));
                }
                Action::Target(Target::Tproxy { port, .. }) => {
                    captured = Some((Verdict::Tproxy(*port), decider));
                }
                Action::Target(Target::Accept | Target::Return) => {
                    let nat_has_spoken = matches!(passed, Some((true, _)));
                    if !is_source_nat && (in_nat || !nat_has_spoken) {
                        passed = Some((in_nat, decider));
                    }
                }
                Action::Destination { ports: Some(ports), .. }
                    if step.hook == Hook::Output && action.redirects_to().is_some() =>
                {
                    captured = captured.or(Some((Verdict::Redirect(*ports), decider)));
                }
                Action::Destination { address, ports } => {
                    let ports = ports.or_else(|| Port::new(destination.port()).map(PortRange::from));
                    let address = address.unwrap_or(destination.ip());
                    translated = ports.map(|ports| (NatTarget { address, ports }, step.at));
                }
                _ => {}
            }
        }
    }
    let (verdict, decided_by) = match (dropped, captured) {
        (Some(at), _) => (Verdict::Drop, Some(at)),
        (None, Some((verdict, at))) => (verdict, Some(at)),
        (None, None) => (Verdict::Pass, translated.map(|(_, at)| at).or(passed.map(|(_, at)| at))),
    };
    let translated = translated.map(|(to, _)| to).filter(|_| verdict == Verdict::Pass);
    Outcome { verdict, decided_by, translated, stays: captured.is_some(), is_tie: false }
}

/// True if a packet that met these rules reached NAT.
pub fn has_met_nat(view: &View, steps: &[Step]) -> bool {
    (1..=steps.len()).any(|end| is_in_nat(view, &steps[..end]))
}

pub fn is_untracked(view: &View, steps: &[Step]) -> bool {
    let met = steps.iter().filter_map(|step| view.rule(step.at));
    met.flat_map(|rule| rule.first.iter().chain([&rule.action]))
        .any(|action| matches!(action, Action::Notrack))
}

fn caller(view: &View, steps: &[Step]) -> Option<usize> {
    let (last, before) = steps.split_last()?;
    let leads_there = |step: &Step| view.rule(step.at)?.leads_to.filter(|chain| *chain == last.at.chain);
    before.iter().rposition(|step| leads_there(step).is_some())
}

fn is_in_nat(view: &View, steps: &[Step]) -> bool {
    let Some(last) = steps.last() else { return false };
    match view.chains()[last.at.chain].base {
        Some(base) => base.kind == Kind::Nat,
        None => caller(view, steps).is_some_and(|caller| is_in_nat(view, &steps[..=caller])),
    }
}
