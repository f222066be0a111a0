//! Chains of equal priority, or of conntrack's: the kernel calls first what was registered last, which can't be read.

use super::packet::{Packet, Routing};
use super::trace::{Observer, Outcome, Verdict};
use super::view::View;
use super::walk::walk_in;

/// Walks a packet through the rules. Where chains of equal priority decide differently in another order, or where rules may be
/// missing, the verdict is unknown.
pub fn walk(view: &View, routing: &Routing, packet: &Packet, observer: &mut impl Observer) -> Outcome {
    let outcome = walk_in(view, view.order(), routing, packet, observer);
    if view.gap().is_some() {
        return Outcome { verdict: Verdict::Unknown, decided_by: None, translated: None, ..outcome };
    }
    let tie = Outcome { verdict: Verdict::Unknown, translated: None, is_tie: true, ..outcome };
    let Some(orders) = view.other_orders() else { return tie };
    let other = |order| walk_in(view, order, routing, packet, &mut ());
    let ends = |outcome: &Outcome| (outcome.verdict, outcome.translated, outcome.stays);
    match orders.iter().map(other).find(|other| ends(other) != ends(&outcome)) {
        Some(other) => Outcome { decided_by: other.decided_by.or(outcome.decided_by), ..tie },
        None => outcome,
    }
}
