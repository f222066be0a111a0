//! Packets that the mesh's rules would capture but other rules decide; and chains and marks without effect.

use super::observation::Observation;
use crate::explain::{EndpointNames, PodContext, RuleView, VerdictKind, explain, tproxy_mark};
use crate::{compare, pod_packets::PodPackets};
use mesh::recognition::{RecognizedRule, Role, recognized};
use mesh::{RuleReason, reason::Meaning};
use rules::finding::{Code, Finding, Level};
use rules::simulate::{At, Atlas, Ending, Packet, Verdict, View, Work};
use rules::{ByFamily, Family};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::{cmp::Reverse, net::IpAddr};

/// Rule budget for a family's packets, exhausted in less than a tenth of a second.
const MAX_WORK: usize = 500_000;

const SEE_LIVE: &str = "sidecar-init explain --live shows all rules that it meets";

/// Packet that the mesh's rules alone capture, with another verdict under all rules.
struct Overruled {
    /// True for a known verdict, and the number of typical parts.
    rank: (bool, usize),
    packet: Packet,
    /// Outcomes under the mesh's rules and under all rules.
    ends: [Ending; 2],
}

pub(super) fn findings(seen: &Observation<'_>, of_mesh: &ByFamily<Vec<RecognizedRule<'_>>>) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    for (family, of_mesh) in of_mesh.iter() {
        let ours: BTreeSet<At> = of_mesh.iter().map(|recognized| recognized.at).collect();
        let alone = seen.rules.get(family).view.only(|at| ours.contains(&at));
        found.extend(overruled(seen, family, &alone));
        found.extend(unreached(family, &recognized(&alone)));
        found.extend(unrouted(seen, family, of_mesh));
    }
    found
}

/// Most typical packet per overruled mesh rule; one per overruling rule.
fn overruled(seen: &Observation<'_>, family: Family, alone: &View) -> Vec<Finding> {
    let RuleView { view, routing, .. } = seen.rules.get(family);
    let own = seen.addresses.iter().copied().filter(|own| Family::of(*own) == family);
    let pod = compare::pod(&[PodContext::new(own, None)]);
    let packets = PodPackets::of(&[alone], &pod, true);
    let new = packets.starts.iter().filter(|start| !start.is_forwarded()).map(|start| start.sets[0].clone());
    let mut work = Work::new(MAX_WORK);
    let mut overruled: BTreeMap<Option<At>, Overruled> = BTreeMap::new();
    let mut by_mesh = Atlas::of(alone, routing, new, &mut work).regions;
    by_mesh.retain(|region| region.ending.verdict.captures());
    for region in by_mesh {
        let to = |ending: &Ending| (ending.verdict, ending.keeps_port);
        let live = Atlas::of(view, routing, [region.packets], &mut work).regions;
        for other in live.iter().filter(|other| to(&other.ending) != to(&region.ending)) {
            let Some(packet) = packets.example(&other.packets) else { continue };
            let rank = (other.ending.verdict != Verdict::Unknown, packets.usual_parts(&packet));
            let by = region.ending.decided_by;
            if overruled.get(&by).is_none_or(|known| known.rank < rank) {
                let ends = [region.ending, other.ending];
                overruled.insert(by, Overruled { rank, packet, ends });
            }
        }
    }
    let finding = |Overruled { packet, ends: [ending, _], .. }: &Overruled| {
        let live = explain(view, routing, packet)
            .with_endpoint_names(&EndpointNames::of_example(packet, &packets, &pod));
        let (_, ports) = VerdictKind::of(ending.of(packet).verdict);
        let claimed = match ports.filter(|_| live.is_captured() == Some(true)) {
            Some(ports) => format!("should go to port {ports}"),
            None => "should be captured".to_owned(),
        };
        let setting = ending.decided_by.and_then(|by| RuleReason::setting_of(alone.rule(by)?.origin?));
        let option = setting.map(|setting| format!(" ({})", setting.row().short_option()));
        let option = option.unwrap_or_default();
        let text = format!("{} {claimed}{option} and is {}", live.packet_line(), live.sentence());
        let is_unknown = live.outcome().verdict == Verdict::Unknown;
        let level = if is_unknown { Level::Warning } else { Level::Failure };
        Finding { level, ..Finding::failure(Code::Overruled, "", text, SEE_LIVE) }
    };
    let mut overruled: Vec<Overruled> = overruled.into_values().collect();
    overruled.sort_by_key(|one| Reverse(one.rank));
    let mut others = HashSet::new();
    overruled.retain(|one| others.insert(one.ends[1].decided_by));
    let mut found: Vec<Finding> = overruled.iter().map(finding).collect();
    if found.is_empty() && work.is_spent() {
        let text = format!("too many rules to check whether others override {family} capture");
        found.push(Finding::warning(Code::Overruled, "", text, SEE_LIVE));
    }
    found
}

/// True if some TCP from or to this address of the pod is not captured; `None` if unknown rules may decide.
pub(super) fn passes(seen: &Observation<'_>, address: IpAddr) -> Option<bool> {
    let RuleView { view, routing, .. } = seen.rules.get(Family::of(address));
    let packets = PodPackets::of(&[view], &PodContext::new([address], None), true);
    let atlas = Atlas::of(view, routing, packets.usual_sets(), &mut Work::new(MAX_WORK));
    let has = |verdict| atlas.regions.iter().any(|region| region.ending.verdict == verdict);
    let passes = has(Verdict::Pass);
    (passes || atlas.is_complete() && !has(Verdict::Unknown)).then_some(passes)
}

/// iptables chains to which no rule jumps, as after a killed run or removed jumps.
fn unreached(family: Family, alone: &[RecognizedRule<'_>]) -> Vec<Finding> {
    let matters = |recognized: &&RecognizedRule<'_>| match recognized.role {
        Role::Outbound => true,
        Role::Inbound => recognized.reason.is_some_and(|reason| reason.meaning() == Meaning::InboundPort),
        _ => false,
    };
    let of_iptables = alone.iter().filter(|recognized| !recognized.chain.table.starts_with("inet "));
    let chains = of_iptables
        .filter(matters)
        .map(|recognized| ((&*recognized.chain.table, &*recognized.chain.chain), recognized.is_reached));
    let chains: BTreeMap<(&str, &str), bool> = chains.collect();
    let lost = chains.into_iter().filter(|(_, is_reached)| !is_reached);
    lost.map(|((table, chain), _)| {
        let text = format!("no rule jumps to {chain} in {family} table {table}: its traffic is not captured");
        let remedy = "the rules are incomplete: sidecar-init apply with the pod's flags completes them";
        Finding::failure(Code::IncompleteRules, "", text, remedy)
    })
    .collect()
}

fn unrouted(seen: &Observation<'_>, family: Family, recognized: &[RecognizedRule<'_>]) -> Option<Finding> {
    let marks = &seen.rules.get(family).routing.local_marks;
    let mut reached = recognized.iter().filter(|recognized| recognized.is_reached);
    let mark = reached.find_map(|recognized| tproxy_mark(&recognized.rule.action))?;
    (!marks.iter().any(|local| local.covers(mark.value))).then(|| {
        let text = format!(
            "TPROXY marks {family} packets with {}, but no policy rule routes that mark to this namespace: replies are lost",
            mark.value
        );
        let remedy = "sidecar-init apply with the pod's flags restores the policy rule and the route";
        Finding::failure(Code::MissingRouting, "", text, remedy)
    })
}
