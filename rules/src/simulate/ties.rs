//! Chains of equal priority: the kernel calls the one first that was registered last, which can't be read.

use super::packet::{Packet, Routing};
use super::trace::{Observer, Outcome, Verdict};
use super::view::{Order, View};
use super::walk::walk_in;

/// Walks a packet through the rules. Where chains of equal priority decide differently in another order, the verdict is unknown.
pub fn walk(view: &View, routing: &Routing, packet: &Packet, observer: &mut impl Observer) -> Outcome {
    let outcome = walk_in(view, view.order(), routing, packet, observer);
    let Some(orders) = view.other_orders() else {
        return Outcome { verdict: Verdict::Unknown, is_tie: true, ..outcome };
    };
    let other = |order| walk_in(view, order, routing, packet, &mut ());
    let ends = |outcome: &Outcome| (outcome.verdict, outcome.translated, outcome.stays);
    match orders.iter().map(other).find(|other| ends(other) != ends(&outcome)) {
        Some(other) => {
            let decided_by = other.decided_by.or(outcome.decided_by);
            Outcome { verdict: Verdict::Unknown, decided_by, is_tie: true, ..outcome }
        }
        None => outcome,
    }
}

/// Every order in which the kernel may call the chains, beside [`View::order`]; `None` if there are too many.
pub(super) fn other_orders(view: &View) -> Option<Vec<Order>> {
    let mut orders = vec![view.order().clone()];
    for (hook, chains) in view.order().iter().enumerate() {
        for group in chains.chunk_by(|a, b| view.rank_of(*a) == view.rank_of(*b)) {
            let start = chains.iter().position(|chain| *chain == group[0])?;
            let permutations = permutations(group, MAX_ORDERS / orders.len())?;
            orders = orders
                .iter()
                .flat_map(|order| {
                    permutations.iter().map(move |permutation| {
                        let mut order = order.clone();
                        order[hook][start..start + permutation.len()].copy_from_slice(permutation);
                        order
                    })
                })
                .collect();
        }
    }
    orders.retain(|order| order != view.order());
    Some(orders)
}

/// More orders than these are not tried.
const MAX_ORDERS: usize = 5_000;

/// All ways to order these, if there are not too many.
fn permutations(chains: &[usize], most: usize) -> Option<Vec<Vec<usize>>> {
    let mut found: Vec<Vec<usize>> = vec![Vec::new()];
    for &chain in chains {
        found = found
            .iter()
            .flat_map(|before| {
                (0..=before.len()).map(move |at| {
                    let mut with = before.clone();
                    with.insert(at, chain);
                    with
                })
            })
            .collect();
        if found.len() > most {
            return None;
        }
    }
    Some(found)
}
