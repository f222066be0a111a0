//! Equal arrows become one: neighbours that differ in one list, and those of both families.

use super::flow::Is;
use super::walk::Arrow;
use rules::{Cidr, Family, port::merge};

/// The same in as few arrows as it takes.
pub(super) fn joined(arrows: Vec<Arrow>) -> Vec<Arrow> {
    let mut joined: Vec<Arrow> = Vec::new();
    for mut arrow in arrows {
        while let Some(last) = joined.last_mut() {
            if (last.disposition, last.origin) != (arrow.disposition, arrow.origin) {
                break;
            }
            if all_of(&arrow.needs, &last.needs) {
                // This one takes all packets of the one before, to the same end.
                joined.pop();
                continue;
            }
            match either(&mut last.needs, arrow.needs) {
                Ok(()) => arrow.needs = joined.pop().expect("there is one").needs,
                Err(needs) => {
                    arrow.needs = needs;
                    break;
                }
            }
        }
        joined.push(arrow);
    }
    let mut kept: Vec<Arrow> = Vec::new();
    for mut arrow in joined {
        if kept.iter().any(|before| all_of(&before.needs, &arrow.needs)) {
            continue;
        }
        // An exception is dropped where an earlier arrow takes all of its packets anyway.
        for need in arrow.needs.clone() {
            let Is::Not(taken) = &need else { continue };
            let rest = arrow.needs.iter().filter(|other| **other != need);
            let with: Vec<Is> = rest.chain([&**taken]).cloned().collect();
            if kept.iter().any(|before| all_of(&before.needs, &with)) {
                arrow.needs.retain(|other| *other != need);
            }
        }
        for need in &mut arrow.needs {
            tidy(need);
        }
        kept.push(arrow);
    }
    kept
}

/// Whether all of these conditions are among the others.
fn all_of(needs: &[Is], others: &[Is]) -> bool {
    needs.iter().all(|need| others.contains(need))
}

/// Widens `needs` to packets that fulfil `needs` or `others`, where the two differ in one list or in the protocol alone;
/// else returns `others`.
fn either(needs: &mut Vec<Is>, others: Vec<Is>) -> Result<(), Vec<Is>> {
    let differ: Vec<usize> =
        (0..needs.len().min(others.len())).filter(|at| needs[*at] != others[*at]).take(2).collect();
    let [at] = differ[..] else { return Err(others) };
    if needs.len() != others.len() {
        return Err(others);
    }
    match (&mut needs[at], &others[at]) {
        (Is::Ports(ports), Is::Ports(more)) | (Is::FromPorts(ports), Is::FromPorts(more)) => {
            ports.extend(more);
        }
        (Is::To(networks), Is::To(more)) | (Is::From(networks), Is::From(more)) => networks.extend(more),
        (Is::Over(names), Is::Over(more)) => names.extend(more.iter().cloned()),
        (Is::Of(users, groups), Is::Of(more_users, more_groups)) => {
            users.extend(more_users);
            groups.extend(more_groups);
        }
        // Rules know no third protocol.
        (Is::Tcp, Is::Udp) | (Is::Udp, Is::Tcp) => drop(needs.remove(at)),
        _ => return Err(others),
    }
    Ok(())
}

/// Brings joined lists into their form.
fn tidy(need: &mut Is) {
    match need {
        Is::Ports(ports) | Is::FromPorts(ports) => *ports = merge(ports.iter().copied()),
        Is::Not(other) => tidy(other),
        Is::To(networks) | Is::From(networks) => once(networks),
        Is::Over(names) => once(names),
        Is::Of(users, groups) => {
            once(users);
            once(groups);
        }
        Is::Tcp | Is::Udp | Is::Family(_) | Is::Marked(_) | Is::Invalid => {}
    }
}

/// Drops repeated items.
fn once<T: Ord + Clone>(items: &mut Vec<T>) {
    let mut seen = std::collections::BTreeSet::new();
    items.retain(|item| seen.insert(item.clone()));
}

/// The arrows of both families in one list, in which each family's keep their order. What both have is one arrow.
pub(super) fn both(v4: &[Arrow], v6: &[Arrow]) -> Vec<Arrow> {
    let shapes = |arrows: &[Arrow]| arrows.iter().map(shape).collect::<Vec<_>>();
    let (left, right) = (shapes(v4), shapes(v6));
    // How many pairs are left to be found from here on.
    let mut pairs = vec![vec![0_usize; right.len() + 1]; left.len() + 1];
    for (i, a) in left.iter().enumerate().rev() {
        for (j, b) in right.iter().enumerate().rev() {
            pairs[i][j] = if a == b { pairs[i + 1][j + 1] + 1 } else { pairs[i + 1][j].max(pairs[i][j + 1]) };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut found = Vec::new();
    loop {
        match (v4.get(i), v6.get(j)) {
            (Some(a), Some(b)) if left[i] == right[j] => {
                found.push(together(a, b));
                (i, j) = (i + 1, j + 1);
            }
            (Some(a), b) if b.is_none() || pairs[i + 1][j] >= pairs[i][j + 1] => {
                found.push(alone(a, Family::V4));
                i += 1;
            }
            (_, Some(b)) => {
                found.push(alone(b, Family::V6));
                j += 1;
            }
            (_, None) => return found,
        }
    }
}

/// An arrow without the addresses in it.
fn shape(arrow: &Arrow) -> Arrow {
    let needs = arrow.needs.iter().map(without_addresses).collect();
    Arrow { needs, ..arrow.clone() }
}

fn without_addresses(need: &Is) -> Is {
    match need {
        Is::To(_) => Is::To(Vec::new()),
        Is::From(_) => Is::From(Vec::new()),
        Is::Not(other) => Is::Not(Box::new(without_addresses(other))),
        other => other.clone(),
    }
}

/// No packet of a family is in a network of the other, so one list can hold the addresses of both.
fn together(v4: &Arrow, v6: &Arrow) -> Arrow {
    let mut arrow = v4.clone();
    arrow.needs.iter_mut().zip(&v6.needs).for_each(|(need, other)| take_in(need, other));
    arrow
}

fn take_in(need: &mut Is, other: &Is) {
    let add = |networks: &mut Vec<Cidr>, others: &[Cidr]| {
        networks.extend(others);
        once(networks);
    };
    match (need, other) {
        (Is::To(networks), Is::To(others)) | (Is::From(networks), Is::From(others)) => add(networks, others),
        (Is::Not(need), Is::Not(other)) => take_in(need, other),
        _ => {}
    }
}

fn alone(arrow: &Arrow, family: Family) -> Arrow {
    let states_it = arrow.needs.iter().any(|need| matches!(need, Is::To(_) | Is::From(_)));
    let mut arrow = arrow.clone();
    if !states_it {
        arrow.needs.insert(0, Is::Family(family));
    }
    arrow
}
