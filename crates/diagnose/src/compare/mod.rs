//! Effects of a changed configuration: packets whose verdict differs. All packets that a pod may send or get are walked
//! through the first rule set, and each region through the second. New connections are compared
//! first; beyond the budget, the answer is marked incomplete.

mod report;
#[cfg(test)]
mod tests;

pub use crate::packets::Packets;
pub use report::{DiffReport, OtherMesh, PartReport, RuleReport};

use crate::explain::{EndpointNames, PacketEnd, PodContext, RuleView, explain};
use crate::groups::{GroupEnd, PacketGroup, group_end, joined, widened};
use crate::pod_packets::PodPackets;
use crate::{Subject, live_proxy};
use mesh::sources::Dialect;
use mesh::{Capture, Proxy};
use rules::Family;
use rules::nft::Field;
use rules::simulate::{Atlas, Packet, Routing, View, Work};
use serde::{Deserialize, Serialize};

/// Rule budget for all packets, exhausted in a few tenths of a second.
const MAX_WORK: usize = 5_000_000;

/// One of two configurations, or the existing rules.
#[derive(Debug)]
pub struct ComparedSide {
    /// Both families, IPv4 first.
    rule_views: [RuleView; 2],
    dialect: Dialect,
    skip_reason: Option<String>,
    proxy: Proxy,
}

impl ComparedSide {
    /// `pod` is the result of [`pod`] for both sides.
    pub fn of_subject(subject: &Subject, capture: &Capture, pod: &PodContext) -> Self {
        let side = Self::of_capture(capture, subject.dialect(), pod);
        match subject.skip() {
            Some(reason) => {
                let rule_views = Family::BOTH.map(|family| RuleView::without_rules(family, pod));
                Self { rule_views, skip_reason: Some(reason.to_string()), ..side }
            }
            None => side,
        }
    }

    pub fn of_capture(capture: &Capture, dialect: Dialect, pod: &PodContext) -> Self {
        let rule_views = Family::BOTH.map(|family| RuleView::of_config(&**capture, family, pod));
        Self { rule_views, dialect, skip_reason: None, proxy: capture.proxy() }
    }

    /// Live rules of all programs; a missing family has no rules.
    pub fn of_rules(mut rule_views: Vec<RuleView>, pod: &PodContext) -> Self {
        let rule_views = Family::BOTH.map(|family| {
            let mut found = rule_views.extract_if(.., |rule_view| rule_view.family == family);
            let mut found = found.next().unwrap_or_else(|| RuleView::without_rules(family, pod));
            // The packets belong to a pod with both sides' addresses.
            found.routing.addresses.clone_from(&pod.addresses);
            found
        });
        let proxy = live_proxy(rule_views.iter().map(|rule_view| &rule_view.view));
        Self { rule_views, dialect: Dialect::default(), skip_reason: None, proxy }
    }

    fn rule_view(&self, family: Family) -> &RuleView {
        let [v4, v6] = &self.rule_views;
        if v4.family == family { v4 } else { v6 }
    }

    fn has_rules(&self, family: Family) -> bool {
        self.rule_view(family).view.chains().iter().any(|chain| !chain.rules.is_empty())
    }

    fn outcome(&self, packet: &Packet, endpoint_names: &EndpointNames) -> PacketEnd {
        let rule_view = self.rule_view(packet.family());
        let explained =
            explain(&rule_view.view, &rule_view.routing, packet).with_endpoint_names(endpoint_names);
        explained.in_words_of(&self.dialect).of_skipped(self.skip_reason.as_ref()).end()
    }
}

/// Pod with all addresses of these pods, or placeholders, so that both sides are compared with the same packets.
pub fn pod(of: &[PodContext]) -> PodContext {
    let mut addresses = Vec::new();
    let known = of.iter().filter(|pod| pod.is_known).flat_map(|pod| &pod.addresses);
    for address in known {
        if !addresses.contains(address) {
            addresses.push(*address);
        }
    }
    let is_known = !addresses.is_empty();
    PodContext { is_known, ..PodContext::with_placeholders(addresses, None) }
}

/// The differences between two configurations.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Comparison {
    /// The packets whose verdict differs, in groups; empty if the verdicts are equal.
    pub changes: Vec<Change>,
    /// True if all packets were compared; otherwise the listed changes are right, but others may be missing.
    pub complete: bool,
}

/// Packets whose verdict changes in the same way.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Change {
    /// The packets in words, such as `outbound TCP to port 5432`.
    pub text: String,
    /// The packets as data.
    #[serde(rename = "traffic")]
    pub packets: Packets,
    /// An example, in one line.
    pub example: String,
    /// The same packet; `None` in a parsed document.
    #[serde(skip)]
    pub packet: Option<Packet>,
    /// The verdict of the example in the first configuration.
    #[serde(rename = "old")]
    pub before: PacketEnd,
    /// The verdict of the example in the second configuration.
    #[serde(rename = "new")]
    pub after: PacketEnd,
}

pub fn compare(before: &ComparedSide, after: &ComparedSide, pod: &PodContext) -> Comparison {
    compare_within(Work::new(MAX_WORK), before, after, pod)
}

fn compare_within(
    mut work: Work,
    before: &ComparedSide,
    after: &ComparedSide,
    pod: &PodContext,
) -> Comparison {
    let mut found: Vec<Change> = Vec::new();
    let mut complete = true;
    let mut captured: Vec<Family> = Vec::new();
    for family in Family::BOTH {
        let rule_views = [before.rule_view(family), after.rule_view(family)];
        if rule_views[0].view == rule_views[1].view && rule_views[0].routing == rule_views[1].routing {
            captured.extend(before.has_rules(family).then_some(family));
            continue;
        }
        let packets = PodPackets::of(&rule_views.map(|one| &one.view), pod, true);
        let changed = changed(&packets, rule_views, &mut work);
        complete &= changed.is_complete;
        captured.extend(changed.any_captured.then_some(family));
        for group in &changed.groups {
            let Some(change) = described(&packets, group, [before, after], pod) else { continue };
            match found.iter_mut().find(|known| known.is_same_but_for_family(&change)) {
                Some(known) => known.packets.families.extend(change.packets.families),
                None => found.push(change),
            }
        }
    }
    // If only one family is captured, a sentence does not name it.
    let both = Family::BOTH.into_iter().all(|family| captured.contains(&family));
    for change in &mut found {
        change.text = change.packets.sentence(both, &[&before.proxy, &after.proxy]);
    }
    Comparison { changes: found, complete }
}

impl Change {
    /// True if the changes differ only in their family, so one sentence covers both.
    fn is_same_but_for_family(&self, other: &Self) -> bool {
        let ends = |one: &Self| {
            [&one.before, &one.after].map(|end| (end.verdict, end.transparent, end.port, end.last_port))
        };
        ends(self) == ends(other) && self.packets.is_same_but_for_family(&other.packets)
    }
}

/// Describes a group of packets, with an example's outcome before and after; `None` if no interface name fits.
fn described(
    packets: &PodPackets,
    group: &PacketGroup<[GroupEnd; 2]>,
    sides: [&ComparedSide; 2],
    pod: &PodContext,
) -> Option<Change> {
    let start = &packets.starts[group.start];
    let packet = group.sets(start).find_map(|set| packets.example(&set))?;
    let names = EndpointNames::of_example(&packet, packets, pod);
    let [before, after] = sides.map(|side| side.outcome(&packet, &names));
    let view = View::empty(packets.family);
    let example = explain(&view, &Routing::default(), &packet).with_endpoint_names(&names).packet_line();
    let packets = Packets::of(packets, group);
    Some(Change { text: String::new(), packets, example, packet: Some(packet), before, after })
}

pub(crate) struct Changed {
    pub(crate) groups: Vec<PacketGroup<[GroupEnd; 2]>>,
    pub(crate) is_complete: bool,
    pub(crate) any_captured: bool,
}

pub(crate) fn changed(packets: &PodPackets, [before, after]: [&RuleView; 2], work: &mut Work) -> Changed {
    let mut found = Changed { groups: Vec::new(), is_complete: true, any_captured: false };
    for (index, start) in packets.starts.iter().enumerate() {
        let mut groups = Vec::new();
        for set in &start.sets {
            let first = Atlas::of(&before.view, &before.routing, [set.clone()], work);
            found.is_complete &= first.is_complete();
            for region in first.regions {
                let second = Atlas::of(&after.view, &after.routing, [region.packets], work);
                found.is_complete &= second.is_complete();
                for other in second.regions {
                    let ends = [region.ending, other.ending];
                    found.any_captured |= ends.iter().any(|end| end.verdict.captures());
                    let ends = ends.map(group_end);
                    if ends[0] != ends[1] {
                        groups.push(PacketGroup::of(index, start, set, &other.packets, ends));
                    }
                }
            }
        }
        found.groups.extend(widened(&joined(groups, start), packets, start));
    }
    // Forwarded packets are omitted if packets to the pod's own address change alike.
    let groups = std::mem::take(&mut found.groups);
    let is_said = |group: &PacketGroup<_>| {
        let alike = |other: &PacketGroup<_>| {
            let mut local = group.with(Field::Destination(packets.family), None);
            local.start = other.start;
            packets.starts[other.start].is_local()
                && local == other.with(Field::Destination(packets.family), None)
        };
        packets.starts[group.start].is_forwarded() && groups.iter().any(alike)
    };
    found.groups = groups.iter().filter(|group| !is_said(group)).cloned().collect();
    found
}
