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

#[cfg(test)]
mod tests {
    use super::super::flow::FlowDisposition;
    use super::*;

    fn arrow(disposition: FlowDisposition, needs: impl IntoIterator<Item = Is>) -> Arrow {
        Arrow { needs: needs.into_iter().collect(), disposition, origin: None }
    }

    fn to(network: &str) -> Is {
        Is::To(vec![network.parse().expect("a network")])
    }

    fn port(number: &str) -> Is {
        Is::Ports(vec![number.parse().expect("a port")])
    }

    const PASS: FlowDisposition = FlowDisposition::Passing;
    const DROP: FlowDisposition = FlowDisposition::Dropped;

    #[test]
    fn neighbours_that_differ_in_one_list_are_one_arrow() {
        let ports = |texts: &[&str]| Is::Ports(texts.iter().map(|t| t.parse().expect("a port")).collect());
        let cases = [
            (
                vec![arrow(PASS, [Is::Tcp, port("82")]), arrow(PASS, [Is::Tcp, port("80-81")])],
                vec![arrow(PASS, [Is::Tcp, ports(&["80-82"])])],
            ),
            (
                vec![
                    arrow(PASS, [Is::Tcp, port("80")]),
                    arrow(PASS, [Is::Udp, port("80")]),
                    arrow(PASS, [Is::Tcp, port("90")]),
                    arrow(PASS, [Is::Udp, port("90")]),
                ],
                vec![arrow(PASS, [ports(&["80", "90"])])],
            ),
            // Two lists differ, or there is something between them.
            (
                vec![
                    arrow(PASS, [to("10.0.0.0/8"), port("80")]),
                    arrow(PASS, [to("11.0.0.0/8"), port("81")]),
                ],
                vec![
                    arrow(PASS, [to("10.0.0.0/8"), port("80")]),
                    arrow(PASS, [to("11.0.0.0/8"), port("81")]),
                ],
            ),
            (
                vec![arrow(PASS, [port("80")]), arrow(DROP, [port("81")]), arrow(PASS, [port("82")])],
                vec![arrow(PASS, [port("80")]), arrow(DROP, [port("81")]), arrow(PASS, [port("82")])],
            ),
            // The wider one replaces what precedes it.
            (vec![arrow(PASS, [Is::Tcp, port("80")]), arrow(PASS, [Is::Tcp])], vec![arrow(PASS, [Is::Tcp])]),
            // Nothing is left for the second; what was taken need not be taken out.
            (
                vec![
                    arrow(PASS, [Is::Tcp]),
                    arrow(DROP, [Is::Tcp, port("80")]),
                    arrow(DROP, [Is::Tcp.not(), to("10.0.0.0/8")]),
                ],
                vec![arrow(PASS, [Is::Tcp]), arrow(DROP, [to("10.0.0.0/8")])],
            ),
            (
                vec![arrow(PASS, [to("10.0.0.0/8").not()]), arrow(PASS, [to("11.0.0.0/8").not()])],
                vec![arrow(PASS, [to("10.0.0.0/8").not()]), arrow(PASS, [to("11.0.0.0/8").not()])],
            ),
        ];
        for (arrows, expected) in cases {
            assert_eq!(joined(arrows), expected);
        }
    }

    #[test]
    fn what_both_families_have_is_one_arrow() {
        let v4 = [arrow(PASS, [to("127.0.0.1/32")]), arrow(DROP, [port("80")]), arrow(PASS, [])];
        let v6 = [arrow(PASS, [to("::1/128")]), arrow(DROP, [to("fd00::/8")]), arrow(PASS, [])];
        let loopback = Is::To(["127.0.0.1/32", "::1/128"].map(|text| text.parse().expect("valid")).to_vec());
        let expected = [
            arrow(PASS, [loopback]),
            arrow(DROP, [Is::Family(Family::V4), port("80")]),
            arrow(DROP, [to("fd00::/8")]),
            arrow(PASS, []),
        ];
        assert_eq!(both(&v4, &v6), expected);
    }
}
